"""What a target must hold after the batches of a stream landed, told from their rows alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from syncd.settings import Deletes, Mode
from tests.services.prepared import Prepared, Row
from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR, Cursor

Content = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Gone:
    """Keys whose rows are gone, up to a stamp."""

    keys: Sequence[Any]
    upto: datetime


Read = tuple[BatchLink, Sequence[Row] | Gone]


@dataclass
class Batches:
    """The rows of each batch of a stream, as they were extracted."""

    prepared: Prepared
    read: list[Read] = field(default_factory=list)

    def add(self, *rows: Row, parts: int = 1) -> BatchLink:
        """Extract one more batch, of the kind that the mode is made of."""
        if self.prepared.mode is Mode.REPLACE:
            link = self.prepared.chunk(*rows, horizon=START_CURSOR, done=True, parts=parts)
        else:
            link = self.prepared.increment(*rows, parts=parts)
        self.read.append((link, rows))
        return link

    def bury(self, *keys: Any, upto: datetime) -> None:
        """One more batch, of keys whose rows are gone; a table that is read whole needs none."""
        if self.prepared.mode is not Mode.REPLACE:
            link = self.prepared.bury(*keys, upto=Cursor.from_values(upto))
            self.read.append((link, Gone(keys, upto)))

    @property
    def ledger(self) -> list[int]:
        """Every batch once."""
        return [link.id.generation * 10**12 + link.id.seq for link, _ in self.read]

    @property
    def deletes(self) -> Deletes:
        target = self.prepared.settings.target
        assert target
        return target.deletes

    @property
    def columns(self) -> str:
        """The columns that the content is of."""
        return columns(self.prepared.mode, self.deletes)

    @property
    def content(self) -> Content:
        return content(self.prepared.mode, self.read, self.deletes)


@dataclass
class _Version:
    """One row of the target."""

    row: Row
    rank: BatchId
    end: datetime | None = None
    gone: bool = False

    @property
    def at(self) -> datetime:
        found: datetime = self.row["update_at"].replace(tzinfo=None)
        return found


def columns(mode: Mode, deletes: Deletes = Deletes.IGNORE) -> str:
    found = "id, update_at, name" + (", _syncd_valid_to" if mode is Mode.HISTORY else "")
    return found + (", _syncd_deleted_at is not null" if _marks(mode, deletes) else "")


def _marks(mode: Mode, deletes: Deletes) -> bool:
    buries = deletes is not Deletes.IGNORE and mode is not Mode.REPLACE
    return buries and (deletes is Deletes.SOFT or mode is Mode.HISTORY)


def content(mode: Mode, read: Iterable[Read], deletes: Deletes = Deletes.IGNORE) -> Content:
    """Key, cursor and name of every row of the target; of versions where each one ends; and which are marked gone."""
    ranked = sorted(read, key=lambda one: one[0].rank)
    if mode is Mode.REPLACE:
        ranked = ranked[-1:]
    held: dict[Any, _Version] = {}
    for link, batch in ranked:
        if isinstance(batch, Gone):
            held = _buried(mode, held, batch, link.rank, deletes)
            continue
        for found in sorted(batch, key=lambda one: one["update_at"]):
            held[found["id"], None if mode is Mode.UPSERT else found["update_at"]] = _Version(found, link.rank)
    versions = sorted(held.values(), key=lambda one: (one.row["id"], one.at))
    if mode is Mode.HISTORY:
        _end(versions)
    return [_told(one, mode, marks=_marks(mode, deletes)) for one in versions]


def _buried(mode: Mode, held: dict[Any, _Version], gone: Gone, rank: BatchId, deletes: Deletes) -> dict[Any, _Version]:
    kept: dict[Any, _Version] = {}
    for key, one in held.items():
        newest = max(other.at for other in held.values() if other.row["id"] == one.row["id"])
        meant = one.row["id"] in gone.keys and one.at <= gone.upto and not one.gone and one.rank < rank
        if not meant or deletes is Deletes.IGNORE or (mode is Mode.HISTORY and one.at < newest):
            kept[key] = one
        elif _marks(mode, deletes):
            kept[key] = _Version(one.row, rank, end=gone.upto, gone=True)
    return kept


def _end(versions: Sequence[_Version]) -> None:
    """Each version ends where the next one of its key begins, or where its row was gone."""
    for one, after in pairwise(versions):
        if one.row["id"] == after.row["id"] and (one.end is None or after.at < one.end):
            one.end = after.at


def _told(one: _Version, mode: Mode, *, marks: bool) -> tuple[Any, ...]:
    end = (one.end,) if mode is Mode.HISTORY else ()
    return (one.row["id"], one.at, one.row["name"], *end, *((one.gone,) if marks else ()))
