"""Ranges of a key, on both servers: which rows they hold, and into which of several a row falls."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from syncd.mysql.sql import Place, after, upto, within
from syncd.redshift.quoting import literal, quoted
from watermarks.cursor import START, Cursor, Kind, Value
from watermarks.window import Window

HEX_DIGIT: Final = "0123456789abcdef"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The rows whose key lies after one position up to another, and whose key's digest begins with some digits."""

    low: Cursor = START
    high: Cursor | None = None
    """None: to the end."""
    digits: str = ""
    """Where positions of the key mean nothing to the warehouse, or many rows share one."""

    def divided(self, ends: Sequence[Cursor]) -> "tuple[Range, ...]":
        """The ranges that these positions make of it."""
        lows, highs = (self.low, *ends), (*ends, self.high)
        return tuple(replace(self, low=low, high=high) for low, high in zip(lows, highs, strict=True))

    def with_digits(self, digits: str) -> "Range":
        return replace(self, digits=digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThereColumn:
    """A column of the key in the warehouse, as far as positions in it go."""

    name: str
    kind: Kind

    @property
    def sql(self) -> str:
        return quoted(self.name)

    def literal(self, value: Value) -> str:
        return literal(value)


def condition(columns: Sequence[Place], one: Range) -> str:
    """The condition of lying between the positions of a range."""
    if one.high is not None:
        return within(columns, Window(one.low, one.high))
    return after(columns, one.low) if one.low else "TRUE"


def place_among(columns: Sequence[Place], ends: Sequence[Cursor]) -> str:
    """The number of the first of these positions, in order, that a row does not lie behind; else how many there are.

    Halved again and again: of a hundred ranges a row is compared with seven ends.
    """
    return _halved(columns, ends, 0, len(ends))


def _halved(columns: Sequence[Place], ends: Sequence[Cursor], first: int, last: int) -> str:
    if first == last:
        return str(first)
    middle = (first + last) // 2
    lower = _halved(columns, ends, first, middle)
    upper = _halved(columns, ends, middle + 1, last)
    return f"CASE WHEN {upto(columns, ends[middle])} THEN {lower} ELSE {upper} END"
