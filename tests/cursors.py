"""Hypothesis strategies for cursors: every kind at the edges that databases really have."""

from datetime import UTC, timedelta
from typing import Final

from hypothesis import strategies as st

from watermarks.cursor import Cursor, CursorValue, ValueKind

LONGEST_TIME: Final = timedelta(hours=838, minutes=59, seconds=59, microseconds=999_999)

wall_clocks = st.datetimes().map(lambda wall: wall.replace(fold=0))
plain_of: Final[dict[ValueKind, st.SearchStrategy[object]]] = {
    ValueKind.INSTANT: wall_clocks.map(lambda wall: wall.replace(tzinfo=UTC)),
    ValueKind.WALL: wall_clocks,
    ValueKind.INT: st.integers(-(2**70), 2**70),
    ValueKind.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False),
    ValueKind.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    ValueKind.DATE: st.dates(),
    ValueKind.TIME: st.timedeltas(-LONGEST_TIME, LONGEST_TIME),
    ValueKind.BYTES: st.binary(max_size=20),
    ValueKind.TEXT: st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    ValueKind.COLLATED: st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
}
DECIDABLE: Final = tuple(kind for kind in ValueKind if kind is not ValueKind.COLLATED)
"""Kinds that Python orders as the database does."""


def values(*kinds: ValueKind) -> st.SearchStrategy[CursorValue]:
    """Values of these kinds, or of any."""
    return st.sampled_from(kinds or tuple(ValueKind)).flatmap(
        lambda kind: plain_of[kind].map(lambda plain: CursorValue(kind, plain))  # type: ignore[arg-type]  # of that kind
    )


def cursors(*kinds: ValueKind) -> st.SearchStrategy[Cursor]:
    """Cursors whose values are of these kinds in turn, cut short at random."""
    whole = st.tuples(*(values(kind) for kind in kinds))
    return st.builds(lambda all_of, length: Cursor(all_of[:length]), whole, st.integers(0, len(kinds)))


def few_cursors(length: int = 3) -> st.SearchStrategy[Cursor]:
    """Cursors out of a small world, so that two of them often meet."""
    return st.lists(st.integers(0, 3), max_size=length).map(lambda numbers: Cursor.from_values(*numbers))
