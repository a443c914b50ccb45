"""Ranges of the order that batches read, and the rows of a target inside them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, Self

from syncd.lake.manifest import Manifest, is_automatic_reread, is_tombstone_batch, windows_from_link
from syncd.redshift.quoting import is_comparable, quote_name, value_literal
from syncd.redshift.target_table import ExistingTable
from syncd.tables.sort_order import RowIdentity
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
"""Column types of a target that order values of each kind as the source does."""


def emptied_windows(link: BatchLink) -> tuple[Window, ...]:
    """Return the ranges in which only the rows of a batch stay.

    An automatic reread removes nothing, because a server may keep fewer rows than its target.
    """
    return () if is_automatic_reread(link) else windows_from_link(link)


def are_disjoint(one: Window, other: Window) -> bool:
    """Return whether certainly no row lies in both windows."""
    if one.is_empty or other.is_empty or one.abuts(other) or other.abuts(one):
        return True
    try:
        return one.high <= other.low or other.high <= one.low
    except (OrderedByDatabase, NotComparable):
        return False


class EarlierRowRanges:
    """Ranges that may hold rows of the earlier batches of one load, in a table that appends."""

    def __init__(self) -> None:
        self._windows: list[Window] = []
        self._anywhere = False

    def are_reread_by(self, link: BatchLink) -> bool:
        """Return whether a batch reads a range in which such rows may lie; those that it did not find must go."""
        windows = _join_windows(emptied_windows(link))
        if self._anywhere and windows:
            return True
        return not all(are_disjoint(earlier, window) for earlier in self._windows for window in windows)

    def add(self, link: BatchLink) -> None:
        if not link.rows or is_tombstone_batch(link):
            return
        windows = windows_from_link(link)
        if not windows and link.snapshot and link.snapshot.horizon != START_CURSOR:
            windows = (Window(START_CURSOR, link.snapshot.horizon),)  # the first pass reads all below it, by key
        self._anywhere = self._anywhere or not windows
        if not set(windows) <= set(self._windows[-1:]):  # all chunks of a first pass have the same
            self._windows = _join_windows((*self._windows, *windows))


def _join_windows(windows: Iterable[Window]) -> list[Window]:
    """Join windows where one begins at the end of another, so that no order is needed between them."""
    joined: list[Window] = []
    for window in windows:
        if joined and joined[-1].abuts(window):
            joined[-1] = Window(joined[-1].low, window.high)
        else:
            joined.append(window)
    return joined


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRange:
    """Range that one batch read, or several consecutive batches."""

    window: Window
    first_batch: BatchId
    """Rows that this batch or a later one read stay, where the batch is loaded again."""
    last_batch: BatchId
    boundaries: tuple[Cursor, ...] = ()
    """Positions between the batches."""

    def join(self, other: Self) -> Self:
        window = Window(self.window.low, other.window.high)
        between = () if self.last_batch == other.first_batch else (other.window.low,)
        return replace(self, window=window, last_batch=other.last_batch, boundaries=(*self.boundaries, *between))


def join_ranges(batches: Iterable[tuple[BatchLink, Manifest]], *, reloading: bool) -> tuple[OrderRange, ...]:
    """Return the ranges of batches in the order of reading, joined where one begins at the end of another.

    When `reloading`, the target may hold rows of these and later batches from before. Rows of a batch between two of
    these are newer than the one and older than the other, so only neighbours in the chain are joined.
    """
    joined: list[OrderRange] = []
    windows = ((link, window) for link, _ in batches for window in emptied_windows(link) if not window.is_empty)
    for link, window in windows:
        last = joined[-1] if joined else None
        is_near = last and (not reloading or link.id in {last.last_batch, last.last_batch.next})
        own = OrderRange(window=window, first_batch=link.id, last_batch=link.id)
        if last and is_near and last.window.abuts(window):
            joined[-1] = last.join(own)
        else:
            joined.append(own)
    return tuple(joined)


def order_range_condition(order_range: OrderRange, identity: RowIdentity, existing: ExistingTable) -> str:
    """Return the condition for a row of the target certainly lying in a range; empty where no row certainly does.

    Of a bound with values that the warehouse does not order like the source, such as texts, only the values before the
    first of these count. Rows that start with them are on no known side, as if the batches were loaded separately.
    """
    order = list(dict.fromkeys(name for name in (identity.cursor, *identity.key) if name))
    window = order_range.window
    ends = [end for end in (window.low, *order_range.boundaries, window.high) if end.values]
    if not window.high.values or not all(_comparable_values(end, order, existing) for end in ends):
        return ""
    bounds = [_bound_condition(window.low, order, existing, ">"), _bound_condition(window.high, order, existing, "<")]
    unclear = (
        _comparable_values(boundary, order, existing)
        for boundary in order_range.boundaries
        if not _is_fully_comparable(boundary, order, existing)
    )
    excluded = dict.fromkeys(_not_starting_with(dict(zip(order, values, strict=False))) for values in unclear)
    return " AND ".join(filter(None, (*bounds, *excluded)))


def _comparable_values(end: Cursor, order: Sequence[str], existing: ExistingTable) -> tuple[CursorValue, ...]:
    """Return the first values of a position that the columns of the target order like the source."""

    def compares(column: tuple[str, CursorValue]) -> bool:
        name, value = column
        return (
            is_comparable(value)
            and name in existing
            and existing.columns[name].type.name in _COMPARABLE_TYPES[value.kind]
        )

    return tuple(value for _, value in takewhile(compares, zip(order, end.values, strict=False)))


def _is_fully_comparable(end: Cursor, order: Sequence[str], existing: ExistingTable) -> bool:
    return len(_comparable_values(end, order, existing)) == len(end)


def _not_starting_with(values: Mapping[str, CursorValue]) -> str:
    return f"NOT ({' AND '.join(f'{quote_name(name)} = {value_literal(value)}' for name, value in values.items())})"


def _bound_condition(end: Cursor, order: Sequence[str], existing: ExistingTable, sign: str) -> str:
    """Return the condition for a row after a lower bound (`>`), or before or at an upper one (`<`)."""
    if not end.values:
        return ""
    terms = [
        (quote_name(name), value_literal(value))
        for name, value in zip(order, _comparable_values(end, order, existing), strict=False)
    ]
    # A bound with fewer values than a row comes before all rows that start with them.
    at_end = _is_fully_comparable(end, order, existing) and (len(end) < len(order)) == (sign == ">")
    *outer, (name, value) = terms
    condition = f"{name} {sign}{'=' if at_end else ''} {value}"
    for name, value in reversed(outer):
        # The first term lets Redshift skip whole blocks.
        condition = f"({name} {sign}= {value} AND ({name} {sign} {value} OR {condition}))"
    return condition
