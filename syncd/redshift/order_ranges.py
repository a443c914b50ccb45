"""Ranges of the order that were read: which batches read one again, and which rows of a target lie in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, Self

from syncd.lake.manifest import Manifest, is_burial, is_unasked, windows_in
from syncd.redshift.quoting import comparable, literal, quoted
from syncd.redshift.target_table import Found
from syncd.tables.row_identity import Identity
from watermarks.batch import BatchId, Link
from watermarks.cursor import START, Cursor, Kind, NotComparable, OrderedByDatabase, Value
from watermarks.window import Window

_NUMBERS: Final = frozenset({"smallint", "integer", "bigint", "numeric"})
_MOMENTS: Final = frozenset({"timestamp without time zone", "timestamp with time zone"})
_HELD_BY: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.INT: _NUMBERS,
    Kind.DECIMAL: _NUMBERS,
    Kind.INSTANT: _MOMENTS,
    Kind.WALL: _MOMENTS,
    Kind.DATE: frozenset({"date"}),
}
"""In which columns of a target a value is compared as it is at the source."""


def emptied_by(link: Link) -> tuple[Window, ...]:
    """The ranges of which only that stays which a batch found there.

    What is read again and nobody asked for takes nothing out: a server may keep less than its target.
    """
    return () if is_unasked(link) else windows_in(link)


def disjoint(one: Window, other: Window) -> bool:
    """Whether it is certain that no row lies in both."""
    if one.empty or other.empty or one.abuts(other) or other.abuts(one):
        return True
    try:
        return one.high <= other.low or other.high <= one.low
    except (OrderedByDatabase, NotComparable):
        return False


class RowsBefore:
    """Where the rows may lie that the batches of one landing bring to a table that appends."""

    def __init__(self) -> None:
        self._windows: list[Window] = []
        self._anywhere = False

    def are_read_again_by(self, link: Link) -> bool:
        """Whether a batch reads a range in which they may lie: what it did not find there is to go."""
        windows = _abutting(emptied_by(link))
        return bool(windows) and (
            self._anywhere or not all(disjoint(mine, its) for mine in self._windows for its in windows)
        )

    def add(self, link: Link) -> None:
        if not link.rows or is_burial(link):
            return
        windows = windows_in(link)
        if not windows and link.snapshot and link.snapshot.horizon != START:
            windows = (Window(START, link.snapshot.horizon),)  # the first pass reads what lies below it, by key
        self._anywhere = self._anywhere or not windows
        if not set(windows) <= set(self._windows[-1:]):  # each chunk of a first pass says the same one
            self._windows = _abutting((*self._windows, *windows))


def _abutting(windows: Iterable[Window]) -> list[Window]:
    """Windows, joined where one begins at the end of another: of what lies between, no order has to be known."""
    found: list[Window] = []
    for window in windows:
        if found and found[-1].abuts(window):
            found[-1] = Window(found[-1].low, window.high)
        else:
            found.append(window)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What one batch read, or several that follow one another."""

    window: Window
    first: BatchId
    """Rows that this batch or a later one read stay, where it lands again."""
    last: BatchId
    seams: tuple[Cursor, ...] = ()
    """Where one batch ended and the next one began."""

    def joined(self, other: Self) -> Self:
        window = Window(self.window.low, other.window.high)
        seams = self.seams if self.last == other.first else (*self.seams, other.window.low)
        return replace(self, window=window, last=other.last, seams=seams)


def ranges_of(read: Iterable[tuple[Link, Manifest]], *, anew: bool) -> tuple[Range, ...]:
    """The windows of batches in the order of reading, joined where one begins at the end of another.

    `anew`: the target may hold what they, and batches after them, brought before. What a batch brought that was read
    between two of these is newer than the one and older than the other, so only neighbours of a chain are joined.
    """
    found: list[Range] = []
    for one in _each(read):
        before = found[-1] if found else None
        near = before and (not anew or one.first in {before.last, before.last.next})
        if before and near and before.window.abuts(one.window):
            found[-1] = before.joined(one)
        else:
            found.append(one)
    return tuple(found)


def _each(read: Iterable[tuple[Link, Manifest]]) -> Iterator[Range]:
    for link, _ in read:
        for window in emptied_by(link):
            if not window.empty:
                yield Range(window=window, first=link.id, last=link.id)


def inside(one: Range, identity: Identity, found: Found) -> str:
    """The condition under which a row of the target is known to lie in a range; empty where of none it is known.

    Of a bound that the warehouse cannot compare whole, as of a key of texts, the values before the first such one tell:
    what begins with these is then not known to lie on either side, as if the batches that meet there had landed apart.
    """
    order = list(dict.fromkeys(name for name in (identity.cursor, *identity.key) if name))
    window = one.window
    ends = [end for end in (window.low, *one.seams, window.high) if end.values]
    if not window.high.values or not all(_told(end, order, found) for end in ends):
        return ""
    bounds = [_beyond(window.low, order, found, ">"), _beyond(window.high, order, found, "<")]
    unsure = [_told(seam, order, found) for seam in one.seams if not _known(seam, order, found)]
    apart = dict.fromkeys(_elsewhere(dict(zip(order, values, strict=False))) for values in unsure)
    return " AND ".join(filter(None, (*bounds, *apart)))


def _told(end: Cursor, order: Sequence[str], found: Found) -> tuple[Value, ...]:
    """The first values of a position that the target's columns hold so that they compare."""

    def holds(each: tuple[str, Value]) -> bool:
        name, value = each
        return comparable(value) and name in found and found.columns[name].type.name in _HELD_BY[value.kind]

    return tuple(value for _, value in takewhile(holds, zip(order, end.values, strict=False)))


def _known(end: Cursor, order: Sequence[str], found: Found) -> bool:
    return len(_told(end, order, found)) == len(end)


def _elsewhere(values: Mapping[str, Value]) -> str:
    """The condition of not beginning with these values."""
    return f"NOT ({' AND '.join(f'{quoted(name)} = {literal(value)}' for name, value in values.items())})"


def _beyond(end: Cursor, order: Sequence[str], found: Found, sign: str) -> str:
    """The condition of lying behind a lower bound (`>`), or before an upper one (`<`) or at it."""
    if not end.values:
        return ""
    terms = [(quoted(name), literal(value)) for name, value in zip(order, _told(end, order, found), strict=False)]
    # A bound of fewer values than rows have stands before all rows that begin with them.
    at_end = _known(end, order, found) and (len(end) < len(order)) == (sign == ">")
    *outer, (name, value) = terms
    condition = f"{name} {sign}{'=' if at_end else ''} {value}"
    for name, value in reversed(outer):
        # The first of the two is what lets whole blocks be left out.
        condition = f"({name} {sign}= {value} AND ({name} {sign} {value} OR {condition}))"
    return condition
