"""What a statement that the stand-in carries out itself has at hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from syncd.sandbox.redshift.backend import PostgresConnection, quote_literal
from syncd.sandbox.redshift.copy.load_log import CopyLog
from syncd.sandbox.redshift.copy.s3_files import CopyStorage
from syncd.sandbox.redshift.refusal import Refusal
from syncd.sandbox.redshift.sql.identifiers import LongNames


@dataclass(slots=True)
class LastCopyInfo:
    """What pg_last_copy_count() and pg_last_copy_id() tell this session."""

    count: int = 0
    id: int = 0


@dataclass(slots=True, kw_only=True)
class StatementContext:
    """One client's session, as a program sees it."""

    backend: PostgresConnection
    names: LongNames
    user: str
    database: str
    pid: int
    lake: CopyStorage
    log: CopyLog
    last_copy: LastCopyInfo = field(default_factory=LastCopyInfo)
    notices: list[str] = field(default_factory=list)
    in_block: bool = False

    def run(self, sql: str) -> list[list[str | None]]:
        return self.backend.run(sql)

    def fetch_value(self, sql: str) -> str | None:
        return self.backend.fetch_value(sql)

    def require_value(self, sql: str) -> str:
        """A value that is there."""
        value = self.backend.fetch_value(sql)
        if value is None:
            raise Refusal("XX000", f"the stand-in found nothing where there must be something: {sql}")
        return value

    def acquire_locks(self, *, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> None:
        """Take the snapshot if there is none, then the write locks, in this order."""
        self.backend.run(acquire_locks_sql(reads, writes))


def acquire_locks_sql(reads: Sequence[str], writes: Sequence[str]) -> str:
    return f"SELECT pg_catalog.redshift_enter({_relation_array(reads)}, {_relation_array(writes)})"


def _relation_array(names: Sequence[str]) -> str:
    return "ARRAY[" + ", ".join(f"to_regclass({quote_literal(name)})" for name in names) + "]::regclass[]"
