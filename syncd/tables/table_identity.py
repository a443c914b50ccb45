"""Detection of a table that was replaced under its name.

Rows of another table with stamps at or below the mark are read by no later batch. Two facts of a table reveal a
replacement, on both servers: its creation time, and the ids that InnoDB gives to it or to each of its partitions. An
ALTER in place changes the time alone. TRUNCATE, IMPORT TABLESPACE and EXCHANGE PARTITION change an id alone. RENAME,
and any rebuild of the table, change both. Rows change neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from watermarks.batch import BatchId, Plan
from watermarks.cursor import format_instant, parse_instant

TABLE_IDS_CHECK_INTERVAL: Final = timedelta(minutes=10)
"""Ids cost a query of their own, so an unchanged creation time is trusted for this long."""
MAX_PARTITIONS: Final = 1_000
"""The ids of more partitions are not stored, because every plan holds them."""
_PLAN_FIELD: Final = "made"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIncarnation:
    """The table for which a plan was made."""

    identity: str
    """The server: each one numbers tables by itself."""
    created_at: str | None
    innodb_ids: frozenset[str] | None = None
    """None if unknown."""
    checked_at: datetime | None = None
    """Time of the query for these ids, by the server's clock."""
    replaced_in: BatchId | None = None
    """The last batch of this generation that met another table than the batch before it."""

    def with_checked_at(self, now: datetime) -> Self:
        return replace(self, checked_at=now)

    def has_current_ids(self, seen: Self, *, now: datetime) -> bool:
        """Return whether the ids are still valid for a table as it is seen `now`, without a query for them."""
        same = (self.identity, self.created_at) == (seen.identity, seen.created_at)
        return same and self.checked_at is not None and abs(now - self.checked_at) < TABLE_IDS_CHECK_INTERVAL

    def new_innodb_ids(self, before: Self) -> frozenset[str] | None:
        """Return the ids that were not part of the table before; None if all of it may be another table."""
        if self.identity != before.identity:
            return frozenset()
        if self.innodb_ids is None or before.innodb_ids is None:
            return frozenset() if self.created_at == before.created_at else None
        return self.innodb_ids - before.innodb_ids

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a plan beside its server and the table's creation time."""
        return {
            _PLAN_FIELD: {
                "numbers": None if self.innodb_ids is None else sorted(self.innodb_ids, key=int),
                "looked": format_instant(self.checked_at) if self.checked_at else None,
                "remade": str(self.replaced_in) if self.replaced_in else None,
            }
        }

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        """Return the table of a plan; an older plan holds only the table's creation time."""
        body = plan.draft.body
        fields: Mapping[str, Any] = body.get(_PLAN_FIELD) or {}
        numbers = fields.get("numbers")
        checked_at = fields.get("looked")
        return cls(
            identity=plan.draft.basis.source_identity,
            created_at=body.get("created"),
            innodb_ids=None if numbers is None else frozenset(numbers),
            checked_at=parse_instant(checked_at) if checked_at else None,
            replaced_in=find_replacing_batch(body),
        )


def find_replacing_batch(body: Mapping[str, Any]) -> BatchId | None:
    """Return the batch that first met another table than before, from the body of a plan."""
    fields: Mapping[str, Any] = body.get(_PLAN_FIELD) or {}
    batch: str | None = fields.get("remade")
    return BatchId.from_text(batch) if batch else None
