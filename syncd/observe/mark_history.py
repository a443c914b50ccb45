"""History of one stream's marks, read from the lake: who moved which mark, when and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Self

from watermarks.cursor import format_instant
from watermarks.document import Watermark
from watermarks.history import HistoryEntry, Journal
from watermarks.names import StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkHistoryEntry:
    """One entry of a stream's history."""

    revision: int
    changed_at: datetime
    change: str
    author: str
    reason: str
    stage: str | None
    epoch: int
    after: Mapping[str, Any]
    """The document after the change."""

    @classmethod
    def from_entry(cls, entry: HistoryEntry) -> Self:
        note = entry.note
        return cls(
            revision=entry.revision,
            changed_at=entry.recorded_at,
            change=note.change,
            author=note.author,
            reason=note.reason,
            stage=note.stage,
            epoch=note.epoch,
            after=entry.after,
        )

    @property
    def last_extracted(self) -> str | None:
        """Last batch that was extracted by then."""
        after = self.after
        return f"{after['generation']}-{after['extracted_seq']}" if "generation" in after else None

    @property
    def last_loaded(self) -> str | None:
        """Last batch that was loaded by then."""
        after = self.after
        return f"{after['loaded_generation']}-{after['loaded_seq']}" if "loaded_seq" in after else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `syncd watermark history --json`."""
        return {
            "revision": self.revision,
            "at": format_instant(self.changed_at),
            "change": self.change,
            "author": self.author,
            "reason": self.reason,
            "stage": self.stage,
            "epoch": self.epoch,
            "extracted": self.last_extracted,
            "last_mysql_data_timestamp": self.after.get("last_mysql_data_timestamp"),
            "last_mysql_key": self.after.get("last_mysql_key"),
            "load_generation": self.after.get("load_generation"),
            "loaded": self.last_loaded,
        }


def read_mark_history(
    journal: Journal[Watermark], stream: StreamName, *, limit: int, before: int | None
) -> Sequence[MarkHistoryEntry]:
    """Return the entries before a revision, newest first; each costs a request to the lake.

    Raises:
        StateUnreadable: an entry is damaged or missing.
        Transient: the lake does not answer.
    """
    if before is None:
        newest = journal.read_newest(stream.stem)
        before = newest.revision + 1 if newest else 1
    entries = journal.read_entries(stream.stem, newest_revision=before - 1)
    return [MarkHistoryEntry.from_entry(entry) for entry in islice(entries, limit)]
