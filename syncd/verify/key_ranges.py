"""Ranges of a key as conditions on both servers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from syncd.mysql.sql import PositionColumn, after_condition, upto_condition, window_condition
from syncd.redshift.quoting import quote_name, value_literal
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Rows with a key after one position up to another, and with a key digest that starts with some digits."""

    low: Cursor = START_CURSOR
    high: Cursor | None = None
    """None: no upper end."""
    digest_prefix: str = ""
    """For keys whose positions the warehouse orders differently, or that many rows share in part."""

    def split(self, ends: Sequence[Cursor]) -> "tuple[KeyRange, ...]":
        """Divide the range at these positions."""
        lows, highs = (self.low, *ends), (*ends, self.high)
        return tuple(replace(self, low=low, high=high) for low, high in zip(lows, highs, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKeyColumn:
    """Column of the key in the warehouse whose values are ordered as at the source."""

    name: str
    kind: ValueKind

    @property
    def sql(self) -> str:
        return quote_name(self.name)

    def literal(self, value: CursorValue) -> str:
        return value_literal(value)


def key_range_condition(columns: Sequence[PositionColumn], key_range: KeyRange) -> str:
    """Return the condition for a row between the positions of a range."""
    if key_range.high is not None:
        return window_condition(columns, Window(key_range.low, key_range.high))
    return after_condition(columns, key_range.low) if key_range.low else "TRUE"


def range_number_sql(columns: Sequence[PositionColumn], ends: Sequence[Cursor]) -> str:
    """Return the number of the range that a row lies in, where these positions divide a range.

    It is a binary search: for a hundred ranges, a row is compared with seven positions.
    """
    return _bisect_ends(columns, ends, 0, len(ends))


def _bisect_ends(columns: Sequence[PositionColumn], ends: Sequence[Cursor], first: int, last: int) -> str:
    if first == last:
        return str(first)
    middle = (first + last) // 2
    lower = _bisect_ends(columns, ends, first, middle)
    upper = _bisect_ends(columns, ends, middle + 1, last)
    return f"CASE WHEN {upto_condition(columns, ends[middle])} THEN {lower} ELSE {upper} END"
