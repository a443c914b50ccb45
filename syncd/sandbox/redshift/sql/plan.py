"""Plan of a statement, which PostgreSQL runs rewritten or the stand-in runs itself, and the context for running it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

from syncd.sandbox.redshift.backend import PostgresConnection, quote_literal
from syncd.sandbox.redshift.copy.load_log import CopyLog
from syncd.sandbox.redshift.copy.s3_files import CopyStorage
from syncd.sandbox.redshift.refusal import Refusal
from syncd.sandbox.redshift.sql.tokens import LongNames

LATE_MARK: Final = "\x01"


@dataclass(slots=True)
class LastCopyInfo:
    """Values of pg_last_copy_count() and pg_last_copy_id() in this session."""

    count: int = 0
    id: int = 0


@dataclass(slots=True, kw_only=True)
class StatementContext:
    """One client's session, as statements that the stand-in runs itself see it."""

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
        """Return the value that a query reads; it must exist."""
        value = self.backend.fetch_value(sql)
        if value is None:
            raise Refusal("XX000", f"the stand-in found nothing where there must be something: {sql}")
        return value

    def acquire_locks(self, *, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> None:
        """Take the snapshot if there is none, then the write locks in this order."""
        self.backend.run(acquire_locks_sql(reads, writes))


def acquire_locks_sql(reads: Sequence[str], writes: Sequence[str]) -> str:
    return f"SELECT pg_catalog.redshift_enter({_relation_array(reads)}, {_relation_array(writes)})"


def _relation_array(names: Sequence[str]) -> str:
    return "ARRAY[" + ", ".join(f"to_regclass({quote_literal(name)})" for name in names) + "]::regclass[]"


Program: TypeAlias = Callable[[StatementContext], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPlan:
    """Plan of one statement.

    PostgreSQL runs `sql`; otherwise `program` runs and returns the command's tag. With `has_late_values`, the text
    holds marks for values that are known only at execution. A `no_transaction` program begins no transaction.
    `strict_sql` is an UPDATE that refuses several matches of one row, for sessions that ask for that.
    """

    sql: str = ""
    strict_sql: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    has_late_values: bool = False
    program: Program | None = None
    no_transaction: bool = False
    tag: str = ""
    ends_with_nul: bool = False
    outside_block: str = ""

    @property
    def waits_for_execution(self) -> bool:
        """True for a writer: parsing it would already take its table's lock."""
        return bool(self.writes)

    def with_strict_sql(self) -> Self:
        """Return the plan that refuses several matches of one row instead of taking one of them."""
        return replace(self, sql=self.strict_sql)

    def render_sql(self, values: Mapping[str, int]) -> str:
        sql = self.sql
        for name, value in values.items():
            sql = sql.replace(f"{LATE_MARK}{name}{LATE_MARK}", f"{name.lower()}({value}::bigint)")
        return sql
