"""What the stand-in will do for a statement: hand it to PostgreSQL, rewritten, or carry it out by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.sandbox.redshift.statement_context import Desk

    Program = Callable[[Desk], str]

LATE_MARK: Final = "\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One statement, understood.

    `sql` goes to PostgreSQL; a `program` is carried out instead, and returns the command's tag. `late` says that
    the text holds marks for values known only when it is carried out. `alone` programs begin no transaction.
    `of_one_match` is an UPDATE written so that several matches of one row are refused, for sessions that want that.
    """

    sql: str = ""
    of_one_match: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    late: bool = False
    program: "Program | None" = None
    alone: bool = False
    tag: str = ""
    ends_with_nul: bool = False
    outside_block: str = field(default="")

    @property
    def waits_for_execution(self) -> bool:
        """A writer is parsed when it is carried out: parsing would already take its table's lock."""
        return bool(self.writes)

    def strictly(self) -> Self:
        """Itself, but several matches of one row are refused, and not one of them taken."""
        return replace(self, sql=self.of_one_match)

    def with_values(self, values: Mapping[str, int]) -> str:
        sql = self.sql
        for name, value in values.items():
            sql = sql.replace(f"{LATE_MARK}{name}{LATE_MARK}", f"{name.lower()}({value}::bigint)")
        return sql
