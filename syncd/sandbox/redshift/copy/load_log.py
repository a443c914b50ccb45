"""Log of COPY, kept past the client's rollback: the rows of SYS_LOAD_HISTORY and SYS_LOAD_ERROR_DETAIL."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from syncd.sandbox.redshift.backend import PostgresConnection, quote_literal
from syncd.sandbox.redshift.refusal import CopyRefused


@dataclass(slots=True, kw_only=True)
class CopyLogEntry:
    """A running COPY."""

    query: int
    user: str
    session: int
    database: str
    table: str
    table_id: str
    location: str
    began: datetime
    rows: int = 0
    size: int = 0
    files: int = 0


class CopyLog:
    """Writer of the log, over a connection of its own that all sessions share."""

    def __init__(self, backend: PostgresConnection) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._last = int(backend.fetch_value("SELECT coalesce(max(query_id), 0) FROM pg_catalog.redshift_loads") or 0)

    def next_id(self) -> int:
        with self._lock:
            self._last += 1
            return self._last

    def record_end(self, entry: CopyLogEntry, status: str, problem: str = "") -> None:
        self._insert(
            "redshift_loads",
            (entry.user, entry.query, entry.session, entry.database, entry.table),
            (_timestamp(entry.began), _timestamp(datetime.now(UTC)), entry.location),
            (entry.rows, entry.size, entry.files, status, problem),
        )

    def record_error(self, entry: CopyLogEntry, error: CopyRefused) -> None:
        self._insert(
            "redshift_load_errors",
            (entry.user, entry.query, entry.session, entry.database, int(entry.table_id)),
            (_timestamp(entry.began), error.file, 0),
            (error.column, error.column_type, error.column_length, error.number, error.sentence),
        )

    def remember_name(self, short: str, long: str) -> None:
        self._insert("redshift_names", (short, long), suffix=" ON CONFLICT DO NOTHING")

    def _insert(self, table: str, *values: tuple[str | int, ...], suffix: str = "") -> None:
        literals = ", ".join(str(v) if isinstance(v, int) else quote_literal(v) for group in values for v in group)
        with self._lock:
            self._backend.run(f"INSERT INTO pg_catalog.{table} VALUES ({literals}){suffix}")


def _timestamp(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat()
