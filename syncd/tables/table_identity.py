"""Whether a table is still the one whose rows were read, or another one has taken its name.

Rows that stand in another table with stamps at or below the mark are read by no later batch. Two marks of a table tell
of that, on both servers: when it was made, and the numbers that InnoDB gives to it or to each of its partitions. What
alters a table in place changes the time alone; TRUNCATE, IMPORT TABLESPACE and EXCHANGE PARTITION change a number
alone; RENAME, and whatever writes a table anew, change both; rows change neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from watermarks.batch import BatchId, Plan
from watermarks.cursor import format_instant, parse_instant

TABLE_IDS_CHECK_INTERVAL: Final = timedelta(minutes=10)
"""For so long what its time of making does not show is not looked for: the numbers cost a question of their own."""
MAX_PARTITIONS: Final = 1_000
"""The numbers of more are not kept: they stand in every plan."""
_PLAN_FIELD: Final = "made"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIncarnation:
    """Which table a plan was made for."""

    identity: str
    """Of the server: each one numbers tables by itself."""
    created_at: str | None
    innodb_ids: frozenset[str] | None = None
    """None where they are not told."""
    checked_at: datetime | None = None
    """When these were asked for, by the server's clock."""
    replaced_in: BatchId | None = None
    """The last batch of this generation that met another table than the one before it."""

    def with_checked_at(self, now: datetime) -> Self:
        return replace(self, checked_at=now)

    def has_current_ids(self, seen: Self, *, now: datetime) -> bool:
        """Whether the numbers are those that were asked for, as far as a table as it is seen `now` shows."""
        same = (self.identity, self.created_at) == (seen.identity, seen.created_at)
        return same and self.checked_at is not None and abs(now - self.checked_at) < TABLE_IDS_CHECK_INTERVAL

    def new_innodb_ids(self, before: Self) -> frozenset[str] | None:
        """The numbers of what was not part of the table before; None where all of it may be another one."""
        if self.identity != before.identity:
            return frozenset()
        if self.innodb_ids is None or before.innodb_ids is None:
            return frozenset() if self.created_at == before.created_at else None
        return self.innodb_ids - before.innodb_ids

    def to_fields(self) -> dict[str, Any]:
        """What a plan says beside its server and the table's time of making."""
        return {
            _PLAN_FIELD: {
                "numbers": None if self.innodb_ids is None else sorted(self.innodb_ids, key=int),
                "looked": format_instant(self.checked_at) if self.checked_at else None,
                "remade": str(self.replaced_in) if self.replaced_in else None,
            }
        }

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        """What a plan says; one of before this was written down knows the table's time of making alone."""
        body = plan.draft.body
        told: Mapping[str, Any] = body.get(_PLAN_FIELD) or {}
        numbers = told.get("numbers")
        looked = told.get("looked")
        return cls(
            identity=plan.draft.basis.source_identity,
            created_at=body.get("created"),
            innodb_ids=None if numbers is None else frozenset(numbers),
            checked_at=parse_instant(looked) if looked else None,
            replaced_in=find_replacing_batch(body),
        )


def find_replacing_batch(body: Mapping[str, Any]) -> BatchId | None:
    """The batch by which the body of a plan says that the table was another one than before."""
    told: Mapping[str, Any] = body.get(_PLAN_FIELD) or {}
    remade = told.get("remade")
    return BatchId.from_text(remade) if remade else None
