"""Windows: rows after one cursor, up to and including another."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from watermarks.cursor import Cursor, OrderedByDatabase
from watermarks.errors import Misuse


class BadWindow(Misuse):
    """Bounds that form no window, or windows that do not fit together."""


def _is_after(low: Cursor, high: Cursor) -> bool:
    """Return True if low is known to come after high; bounds that only the database can order are accepted."""
    try:
        return high < low
    except OrderedByDatabase:
        return False


@dataclass(frozen=True, slots=True)
class Window:
    """Half-open range `(low, high]`; empty if both are the same position."""

    low: Cursor
    high: Cursor

    def __post_init__(self) -> None:
        if _is_after(self.low, self.high):
            raise BadWindow(f"a window cannot begin at {self.low} and end before it, at {self.high}")

    def __str__(self) -> str:
        return f"({self.low}, {self.high}]"

    @property
    def is_empty(self) -> bool:
        return self.low == self.high

    def __contains__(self, cursor: Cursor) -> bool:
        """Return True if a row at this position belongs to the window.

        Raises:
            OrderedByDatabase: only SQL can decide.
        """
        return self.low < cursor <= self.high

    def abuts(self, other: "Window") -> bool:
        """Return True if the other begins exactly where this one ends: no row is between them or in both."""
        return self.high == other.low

    def split(self, points: Sequence[Cursor]) -> tuple["Window", ...]:
        """Cut this window at the points; return the abutting windows in order.

        Raises:
            BadWindow: the points are out of order, or outside.
        """
        bounds = (self.low, *points, self.high)
        return tuple(Window(low, high) for low, high in pairwise(bounds))

    @classmethod
    def join(cls, windows: Sequence["Window"]) -> Self:
        """Return the window that abutting windows cover.

        Raises:
            BadWindow: there are none, or two neighbours do not abut.
        """
        if not windows:
            raise BadWindow("no windows to join")
        for left, right in pairwise(windows):
            if not left.abuts(right):
                raise BadWindow(f"window {right} does not begin where {left} ends")
        return cls(windows[0].low, windows[-1].high)

    def to_texts(self) -> list[list[str]]:
        return [self.low.to_texts(), self.high.to_texts()]

    @classmethod
    def from_texts(cls, bounds: Any) -> Self:  # noqa: ANN401  # any JSON value
        match bounds:
            case [low, high]:
                return cls(Cursor.from_texts(low), Cursor.from_texts(high))
            case _:
                raise BadWindow(f"a window is two cursors, not {str(bounds)[:80]!r}")
