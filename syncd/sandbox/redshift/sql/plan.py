"""What the stand-in will do for a statement: hand it to PostgreSQL, rewritten, or carry it out by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.sandbox.redshift.statement_context import StatementContext

    Program = Callable[[StatementContext], str]

LATE_MARK: Final = "\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPlan:
    """One statement, understood.

    `sql` goes to PostgreSQL; a `program` is carried out instead, and returns the command's tag. `late` says that
    the text holds marks for values known only when it is carried out. `alone` programs begin no transaction.
    `of_one_match` is an UPDATE written so that several matches of one row are refused, for sessions that want that.
    """

    sql: str = ""
    strict_sql: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    has_late_values: bool = False
    program: "Program | None" = None
    no_transaction: bool = False
    tag: str = ""
    ends_with_nul: bool = False
    outside_block: str = field(default="")

    @property
    def waits_for_execution(self) -> bool:
        """A writer is parsed when it is carried out: parsing would already take its table's lock."""
        return bool(self.writes)

    def with_strict_sql(self) -> Self:
        """Itself, but several matches of one row are refused, and not one of them taken."""
        return replace(self, sql=self.strict_sql)

    def render_sql(self, values: Mapping[str, int]) -> str:
        sql = self.sql
        for name, value in values.items():
            sql = sql.replace(f"{LATE_MARK}{name}{LATE_MARK}", f"{name.lower()}({value}::bigint)")
        return sql
