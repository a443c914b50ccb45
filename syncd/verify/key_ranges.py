"""Ranges of a key, on both servers: which rows they hold, and into which of several a row falls."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncd.mysql.sql import PositionColumn, after_condition, upto_condition, window_condition
from syncd.redshift.quoting import quote_name, value_literal
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.window import Window

HEX_DIGITS: Final = "0123456789abcdef"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The rows whose key lies after one position up to another, and whose key's digest begins with some digits."""

    low: Cursor = START_CURSOR
    high: Cursor | None = None
    """None: to the end."""
    digest_prefix: str = ""
    """Where positions of the key mean nothing to the warehouse, or many rows share one."""

    def split(self, ends: Sequence[Cursor]) -> "tuple[KeyRange, ...]":
        """The ranges that these positions make of it."""
        lows, highs = (self.low, *ends), (*ends, self.high)
        return tuple(replace(self, low=low, high=high) for low, high in zip(lows, highs, strict=True))

    def with_digest_prefix(self, prefix: str) -> "KeyRange":
        return replace(self, digest_prefix=prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKeyColumn:
    """A column of the key in the warehouse, as far as positions in it go."""

    name: str
    kind: ValueKind

    @property
    def sql(self) -> str:
        return quote_name(self.name)

    def literal(self, value: CursorValue) -> str:
        return value_literal(value)


def key_range_condition(columns: Sequence[PositionColumn], key_range: KeyRange) -> str:
    """The condition of lying between the positions of a range."""
    if key_range.high is not None:
        return window_condition(columns, Window(key_range.low, key_range.high))
    return after_condition(columns, key_range.low) if key_range.low else "TRUE"


def range_number_sql(columns: Sequence[PositionColumn], ends: Sequence[Cursor]) -> str:
    """The number of the first of these positions, in order, that a row does not lie behind; else how many there are.

    Halved again and again: of a hundred ranges a row is compared with seven ends.
    """
    return _bisect_ends(columns, ends, 0, len(ends))


def _bisect_ends(columns: Sequence[PositionColumn], ends: Sequence[Cursor], first: int, last: int) -> str:
    if first == last:
        return str(first)
    middle = (first + last) // 2
    lower = _bisect_ends(columns, ends, first, middle)
    upper = _bisect_ends(columns, ends, middle + 1, last)
    return f"CASE WHEN {upto_condition(columns, ends[middle])} THEN {lower} ELSE {upper} END"
