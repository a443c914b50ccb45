"""Ranges of the order that were read: which batches read one again, and which rows of a target lie in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, Self

from syncd.lake.manifest import Manifest, is_automatic_reread, is_tombstone_batch, windows_from_link
from syncd.redshift.quoting import is_comparable, quote_name, value_literal
from syncd.redshift.target_table import ExistingTable
from syncd.tables.row_identity import RowIdentity
from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, NotComparable, OrderedByDatabase, ValueKind
from watermarks.window import Window

_NUMBER_TYPES: Final = frozenset({"smallint", "integer", "bigint", "numeric"})
_TIMESTAMP_TYPES: Final = frozenset({"timestamp without time zone", "timestamp with time zone"})
_COMPARABLE_TYPES: Final[Mapping[ValueKind, frozenset[str]]] = {
    ValueKind.INT: _NUMBER_TYPES,
    ValueKind.DECIMAL: _NUMBER_TYPES,
    ValueKind.INSTANT: _TIMESTAMP_TYPES,
    ValueKind.WALL: _TIMESTAMP_TYPES,
    ValueKind.DATE: frozenset({"date"}),
}
"""In which columns of a target a value is compared as it is at the source."""


def emptied_windows(link: BatchLink) -> tuple[Window, ...]:
    """The ranges of which only that stays which a batch found there.

    What is read again and nobody asked for takes nothing out: a server may keep less than its target.
    """
    return () if is_automatic_reread(link) else windows_from_link(link)


def are_disjoint(one: Window, other: Window) -> bool:
    """Whether it is certain that no row lies in both."""
    if one.is_empty or other.is_empty or one.abuts(other) or other.abuts(one):
        return True
    try:
        return one.high <= other.low or other.high <= one.low
    except (OrderedByDatabase, NotComparable):
        return False


class EarlierRowRanges:
    """Where the rows may lie that the batches of one landing bring to a table that appends."""

    def __init__(self) -> None:
        self._windows: list[Window] = []
        self._anywhere = False

    def are_reread_by(self, link: BatchLink) -> bool:
        """Whether a batch reads a range in which they may lie: what it did not find there is to go."""
        windows = _join_windows(emptied_windows(link))
        return bool(windows) and (
            self._anywhere or not all(are_disjoint(mine, its) for mine in self._windows for its in windows)
        )

    def add(self, link: BatchLink) -> None:
        if not link.rows or is_tombstone_batch(link):
            return
        windows = windows_from_link(link)
        if not windows and link.snapshot and link.snapshot.horizon != START_CURSOR:
            windows = (Window(START_CURSOR, link.snapshot.horizon),)  # the first pass reads what lies below it, by key
        self._anywhere = self._anywhere or not windows
        if not set(windows) <= set(self._windows[-1:]):  # each chunk of a first pass says the same one
            self._windows = _join_windows((*self._windows, *windows))


def _join_windows(windows: Iterable[Window]) -> list[Window]:
    """Windows, joined where one begins at the end of another: of what lies between, no order has to be known."""
    found: list[Window] = []
    for window in windows:
        if found and found[-1].abuts(window):
            found[-1] = Window(found[-1].low, window.high)
        else:
            found.append(window)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRange:
    """What one batch read, or several that follow one another."""

    window: Window
    first_batch: BatchId
    """Rows that this batch or a later one read stay, where it lands again."""
    last_batch: BatchId
    boundaries: tuple[Cursor, ...] = ()
    """Where one batch ended and the next one began."""

    def join(self, other: Self) -> Self:
        window = Window(self.window.low, other.window.high)
        seams = self.boundaries if self.last_batch == other.first_batch else (*self.boundaries, other.window.low)
        return replace(self, window=window, last_batch=other.last_batch, boundaries=seams)


def join_ranges(batches: Iterable[tuple[BatchLink, Manifest]], *, reloading: bool) -> tuple[OrderRange, ...]:
    """The windows of batches in the order of reading, joined where one begins at the end of another.

    `anew`: the target may hold what they, and batches after them, brought before. What a batch brought that was read
    between two of these is newer than the one and older than the other, so only neighbours of a chain are joined.
    """
    found: list[OrderRange] = []
    for one in _ranges_of_batches(batches):
        before = found[-1] if found else None
        near = before and (not reloading or one.first_batch in {before.last_batch, before.last_batch.next})
        if before and near and before.window.abuts(one.window):
            found[-1] = before.join(one)
        else:
            found.append(one)
    return tuple(found)


def _ranges_of_batches(batches: Iterable[tuple[BatchLink, Manifest]]) -> Iterator[OrderRange]:
    for link, _ in batches:
        for window in emptied_windows(link):
            if not window.is_empty:
                yield OrderRange(window=window, first_batch=link.id, last_batch=link.id)


def order_range_condition(order_range: OrderRange, identity: RowIdentity, existing: ExistingTable) -> str:
    """The condition under which a row of the target is known to lie in a range; empty where of none it is known.

    Of a bound that the warehouse cannot compare whole, as of a key of texts, the values before the first such one tell:
    what begins with these is then not known to lie on either side, as if the batches that meet there had landed apart.
    """
    order = list(dict.fromkeys(name for name in (identity.cursor, *identity.key) if name))
    window = order_range.window
    ends = [end for end in (window.low, *order_range.boundaries, window.high) if end.values]
    if not window.high.values or not all(_comparable_values(end, order, existing) for end in ends):
        return ""
    bounds = [_bound_condition(window.low, order, existing, ">"), _bound_condition(window.high, order, existing, "<")]
    unsure = [
        _comparable_values(seam, order, existing)
        for seam in order_range.boundaries
        if not _is_fully_comparable(seam, order, existing)
    ]
    apart = dict.fromkeys(_not_starting_with(dict(zip(order, values, strict=False))) for values in unsure)
    return " AND ".join(filter(None, (*bounds, *apart)))


def _comparable_values(end: Cursor, order: Sequence[str], existing: ExistingTable) -> tuple[CursorValue, ...]:
    """The first values of a position that the target's columns hold so that they compare."""

    def holds(each: tuple[str, CursorValue]) -> bool:
        name, value = each
        return (
            is_comparable(value)
            and name in existing
            and existing.columns[name].type.name in _COMPARABLE_TYPES[value.kind]
        )

    return tuple(value for _, value in takewhile(holds, zip(order, end.values, strict=False)))


def _is_fully_comparable(end: Cursor, order: Sequence[str], existing: ExistingTable) -> bool:
    return len(_comparable_values(end, order, existing)) == len(end)


def _not_starting_with(values: Mapping[str, CursorValue]) -> str:
    """The condition of not beginning with these values."""
    return f"NOT ({' AND '.join(f'{quote_name(name)} = {value_literal(value)}' for name, value in values.items())})"


def _bound_condition(end: Cursor, order: Sequence[str], existing: ExistingTable, sign: str) -> str:
    """The condition of lying behind a lower bound (`>`), or before an upper one (`<`) or at it."""
    if not end.values:
        return ""
    terms = [
        (quote_name(name), value_literal(value))
        for name, value in zip(order, _comparable_values(end, order, existing), strict=False)
    ]
    # A bound of fewer values than rows have stands before all rows that begin with them.
    at_end = _is_fully_comparable(end, order, existing) and (len(end) < len(order)) == (sign == ">")
    *outer, (name, value) = terms
    condition = f"{name} {sign}{'=' if at_end else ''} {value}"
    for name, value in reversed(outer):
        # The first of the two is what lets whole blocks be left out.
        condition = f"({name} {sign}= {value} AND ({name} {sign} {value} OR {condition}))"
    return condition
