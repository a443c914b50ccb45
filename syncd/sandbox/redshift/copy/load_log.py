"""What COPY did, kept past the client's rollback: the rows of SYS_LOAD_HISTORY and SYS_LOAD_ERROR_DETAIL."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from syncd.sandbox.redshift.backend import PostgresConnection, quote_literal
from syncd.sandbox.redshift.copy.scan_errors import CopyRefused


@dataclass(slots=True, kw_only=True)
class CopyLogEntry:
    """One COPY under way."""

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
    """Writes about loads through a connection of its own; used by every session."""

    def __init__(self, backend: PostgresConnection) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._last = int(backend.fetch_value("SELECT coalesce(max(query_id), 0) FROM pg_catalog.redshift_loads") or 0)

    def next_id(self) -> int:
        with self._lock:
            self._last += 1
            return self._last

    def record_end(self, entry: CopyLogEntry, status: str, problem: str = "") -> None:
        words = [
            quote_literal(entry.user),
            str(entry.query),
            str(entry.session),
            quote_literal(entry.database),
            quote_literal(entry.table),
            quote_literal(entry.began.replace(tzinfo=None).isoformat()),
            quote_literal(datetime.now(UTC).replace(tzinfo=None).isoformat()),
            quote_literal(entry.location),
            str(entry.rows),
            str(entry.size),
            str(entry.files),
            quote_literal(status),
            quote_literal(problem),
        ]
        self._write(f"INSERT INTO pg_catalog.redshift_loads VALUES ({', '.join(words)})")

    def record_error(self, entry: CopyLogEntry, error: CopyRefused) -> None:
        words = [
            quote_literal(entry.user),
            str(entry.query),
            str(entry.session),
            quote_literal(entry.database),
            entry.table_id,
            quote_literal(entry.began.replace(tzinfo=None).isoformat()),
            quote_literal(error.file),
            "0",
            quote_literal(error.column),
            quote_literal(error.column_type),
            quote_literal(error.column_length),
            str(error.number),
            quote_literal(error.sentence),
        ]
        self._write(f"INSERT INTO pg_catalog.redshift_load_errors VALUES ({', '.join(words)})")

    def remember_name(self, short: str, long: str) -> None:
        self._write(
            f"INSERT INTO pg_catalog.redshift_names VALUES ({quote_literal(short)}, {quote_literal(long)})"
            " ON CONFLICT DO NOTHING"
        )

    def _write(self, sql: str) -> None:
        with self._lock:
            self._backend.run(sql)
