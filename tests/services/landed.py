"""What a target must hold after the batches of a stream landed, told from their rows alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncd.core.settings import Mode
from tests.services.prepared import Prepared, Row
from watermarks.batch import Link
from watermarks.cursor import START

Content = list[tuple[Any, ...]]
Read = tuple[Link, Sequence[Row]]


@dataclass
class Batches:
    """The rows of each batch of a stream, as they were extracted."""

    prepared: Prepared
    read: list[Read] = field(default_factory=list)

    def add(self, *rows: Row, parts: int = 1) -> Link:
        """Extract one more batch, of the kind that the mode is made of."""
        if self.prepared.mode is Mode.REPLACE:
            link = self.prepared.chunk(*rows, horizon=START, done=True, parts=parts)
        else:
            link = self.prepared.increment(*rows, parts=parts)
        self.read.append((link, rows))
        return link

    @property
    def ledger(self) -> list[int]:
        """Every batch once."""
        return [link.id.generation * 10**12 + link.id.seq for link, _ in self.read]

    @property
    def content(self) -> Content:
        return content(self.prepared.mode, self.read)


def content(mode: Mode, read: Iterable[Read]) -> Content:
    """Key, cursor and name of every row of the target; of versions also where each one ends."""
    ranked = sorted(read, key=lambda one: one[0].rank)
    if mode is Mode.REPLACE:
        return sorted(map(_told, ranked[-1][1]))
    rows: dict[Any, Row] = {}
    for _, batch in ranked:
        for found in sorted(batch, key=lambda one: one["update_at"]):
            rows[found["id"], None if mode is Mode.UPSERT else found["update_at"]] = found
    told = sorted(map(_told, rows.values()))
    return _with_ends(told) if mode is Mode.HISTORY else told


def _told(found: Row) -> tuple[Any, ...]:
    return (found["id"], found["update_at"].replace(tzinfo=None), found["name"])


def _with_ends(versions: Content) -> Content:
    """Each version ends where the next one of its key begins."""
    following = [*versions[1:], (None, None)]
    return [(*one, after[1] if after[0] == one[0] else None) for one, after in zip(versions, following, strict=True)]
