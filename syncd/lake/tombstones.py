"""Tombstones: batches of keys whose rows are gone at the source, and which versions of them in a target that means."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from watermarks.batch import BatchId
from watermarks.cursor import Cursor, instant_of, instant_text
from watermarks.progress import ORIGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """What a batch of keys says: at the source there is no row with any of them.

    It holds for versions whose order column is at most that of `upto`, which were committed when it was looked: a row
    that was inserted again since has a later stamp, and stays.
    """

    upto: Cursor
    """Only its first value counts; where rows have no order column, none does."""
    seen: BatchId = ORIGIN
    """What this batch and those before it read, was read before it was looked: whatever its stamp, it is gone."""
    gone_at: datetime
    """When it was looked."""

    def fields(self) -> dict[str, Any]:
        return {"upto": self.upto.texts(), "seen": str(self.seen), "gone_at": instant_text(self.gone_at)}

    @classmethod
    def of_fields(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            upto=Cursor.of_texts(found["upto"]),
            seen=BatchId.of_text(found["seen"]) if "seen" in found else ORIGIN,
            gone_at=instant_of(found["gone_at"]),
        )
