"""Tombstones: batches of keys of deleted rows, and the versions in a target that they delete."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from watermarks.batch import BatchId
from watermarks.cursor import Cursor, format_instant, parse_instant
from watermarks.progress import BEFORE_FIRST_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """Statement of a batch of keys: the source has no row with any of them.

    It deletes versions whose order column is at most that of `upto`, which were committed before the source was
    checked: a row that was inserted again since has a later stamp, and stays.
    """

    upto: Cursor
    """Only its first value counts; if rows have no order column, none does."""
    last_read: BatchId = BEFORE_FIRST_BATCH
    """Versions of this batch and earlier ones were read before the check: they are deleted, whatever their stamp."""
    checked_at: datetime
    """When the source was checked."""

    def to_fields(self) -> dict[str, Any]:
        return {"upto": self.upto.to_texts(), "seen": str(self.last_read), "gone_at": format_instant(self.checked_at)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(
            upto=Cursor.from_texts(fields["upto"]),
            last_read=BatchId.from_text(fields["seen"]) if "seen" in fields else BEFORE_FIRST_BATCH,
            checked_at=parse_instant(fields["gone_at"]),
        )
