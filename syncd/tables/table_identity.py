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
from watermarks.cursor import instant_of, instant_text

LOOKED_EVERY: Final = timedelta(minutes=10)
"""For so long what its time of making does not show is not looked for: the numbers cost a question of their own."""
MOST_PARTITIONS: Final = 1_000
"""The numbers of more are not kept: they stand in every plan."""
_MADE: Final = "made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Which table a plan was made for."""

    identity: str
    """Of the server: each one numbers tables by itself."""
    created: str | None
    numbers: frozenset[str] | None = None
    """None where they are not told."""
    looked: datetime | None = None
    """When these were asked for, by the server's clock."""
    remade: BatchId | None = None
    """The last batch of this generation that met another table than the one before it."""

    def at(self, now: datetime) -> Self:
        return replace(self, looked=now)

    def is_known(self, seen: Self, *, now: datetime) -> bool:
        """Whether the numbers are those that were asked for, as far as a table as it is seen `now` shows."""
        same = (self.identity, self.created) == (seen.identity, seen.created)
        return same and self.looked is not None and abs(now - self.looked) < LOOKED_EVERY

    def others(self, before: Self) -> frozenset[str] | None:
        """The numbers of what was not part of the table before; None where all of it may be another one."""
        if self.identity != before.identity:
            return frozenset()
        if self.numbers is None or before.numbers is None:
            return frozenset() if self.created == before.created else None
        return self.numbers - before.numbers

    def fields(self) -> dict[str, Any]:
        """What a plan says beside its server and the table's time of making."""
        return {
            _MADE: {
                "numbers": None if self.numbers is None else sorted(self.numbers, key=int),
                "looked": instant_text(self.looked) if self.looked else None,
                "remade": str(self.remade) if self.remade else None,
            }
        }

    @classmethod
    def of_plan(cls, plan: Plan) -> Self:
        """What a plan says; one of before this was written down knows the table's time of making alone."""
        body = plan.draft.body
        told: Mapping[str, Any] = body.get(_MADE) or {}
        numbers = told.get("numbers")
        looked = told.get("looked")
        return cls(
            identity=plan.draft.world.source_identity,
            created=body.get("created"),
            numbers=None if numbers is None else frozenset(numbers),
            looked=instant_of(looked) if looked else None,
            remade=remade_in(body),
        )


def remade_in(body: Mapping[str, Any]) -> BatchId | None:
    """The batch by which the body of a plan says that the table was another one than before."""
    told: Mapping[str, Any] = body.get(_MADE) or {}
    remade = told.get("remade")
    return BatchId.of_text(remade) if remade else None
