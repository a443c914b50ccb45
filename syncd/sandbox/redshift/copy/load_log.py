"""What COPY did, kept past the client's rollback: the rows of SYS_LOAD_HISTORY and SYS_LOAD_ERROR_DETAIL."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from syncd.sandbox.redshift.backend import Backend, literal
from syncd.sandbox.redshift.copy.scan_errors import LoadRefused


@dataclass(slots=True, kw_only=True)
class LoadEntry:
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


class LoadLog:
    """Writes about loads through a connection of its own; used by every session."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._last = int(backend.value("SELECT coalesce(max(query_id), 0) FROM pg_catalog.redshift_loads") or 0)

    def next_id(self) -> int:
        with self._lock:
            self._last += 1
            return self._last

    def finished(self, entry: LoadEntry, status: str, problem: str = "") -> None:
        words = [
            literal(entry.user),
            str(entry.query),
            str(entry.session),
            literal(entry.database),
            literal(entry.table),
            literal(entry.began.replace(tzinfo=None).isoformat()),
            literal(datetime.now(UTC).replace(tzinfo=None).isoformat()),
            literal(entry.location),
            str(entry.rows),
            str(entry.size),
            str(entry.files),
            literal(status),
            literal(problem),
        ]
        self._write(f"INSERT INTO pg_catalog.redshift_loads VALUES ({', '.join(words)})")

    def refused(self, entry: LoadEntry, why: LoadRefused) -> None:
        words = [
            literal(entry.user),
            str(entry.query),
            str(entry.session),
            literal(entry.database),
            entry.table_id,
            literal(entry.began.replace(tzinfo=None).isoformat()),
            literal(why.file),
            "0",
            literal(why.column),
            literal(why.column_type),
            literal(why.column_length),
            str(why.number),
            literal(why.sentence),
        ]
        self._write(f"INSERT INTO pg_catalog.redshift_load_errors VALUES ({', '.join(words)})")

    def remember_name(self, short: str, long: str) -> None:
        self._write(
            f"INSERT INTO pg_catalog.redshift_names VALUES ({literal(short)}, {literal(long)}) ON CONFLICT DO NOTHING"
        )

    def _write(self, sql: str) -> None:
        with self._lock:
            self._backend.run(sql)
