"""No cut loses a row or reads it twice, whatever the rows and wherever the cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.cursors import cursors, few_cursors
from watermarks.cursor import Cursor, ValueKind
from watermarks.window import BadWindow, Window

positions = cursors(ValueKind.INSTANT, ValueKind.INT) | cursors(ValueKind.INSTANT, ValueKind.TEXT).filter(
    lambda cursor: len(cursor) < 2
)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    low, high = sorted([draw(few_cursors()), draw(few_cursors())])
    return Window(low, high)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Window, list[Cursor]]:
    """A window, and points in order inside it."""
    low, *points, high = sorted(draw(st.lists(few_cursors(), min_size=2, max_size=8)))
    return Window(low, high), points


@given(windows(), few_cursors())
def test_a_window_holds_what_stands_after_its_beginning_up_to_its_end(window: Window, row: Cursor) -> None:
    assert (row in window) is (window.low < row and row <= window.high)  # noqa: PLR1716 - word by word


@given(windows(), few_cursors())
def test_an_empty_window_holds_nothing(window: Window, row: Cursor) -> None:
    assert not (window.is_empty and row in window)
    assert window.is_empty or window.high in window


@given(few_cursors(), few_cursors())
def test_a_window_exists_exactly_when_it_does_not_reach_back(low: Cursor, high: Cursor) -> None:
    try:
        Window(low, high)
    except BadWindow:
        assert high < low
    else:
        assert low <= high


@given(cuts(), st.lists(few_cursors()))
def test_split_covers_every_row_once(cut: tuple[Window, list[Cursor]], rows: list[Cursor]) -> None:
    window, points = cut

    parts = window.split(points)

    for row in rows:
        assert sum(row in part for part in parts) == (row in window)


@given(cuts())
def test_join_inverts_split(cut: tuple[Window, list[Cursor]]) -> None:
    window, points = cut

    parts = window.split(points)

    assert Window.join(parts) == window
    assert [part.high for part in parts[:-1]] == points


@given(st.lists(few_cursors(length=2), min_size=1), st.integers(1, 5))
def test_batches_of_n_rows_read_every_row_once(rows: list[Cursor], n: int) -> None:
    """`ORDER BY update_at, key LIMIT n`: each batch ends at a real row, in the midst of ties or not."""
    table = sorted(set(rows) - {Cursor()})
    mark, read = Cursor(), list[list[Cursor]]()

    while due := [row for row in table if mark < row][:n]:
        window = Window(mark, due[-1])
        read.append([row for row in table if row in window])
        mark = window.high

    assert [row for batch in read for row in batch] == table
    assert all(len(batch) == n for batch in read[:-1])


@given(st.lists(positions, min_size=2, max_size=2, unique=True).map(sorted), positions)
def test_neighbours_never_share_a_row(bounds: list[Cursor], row: Cursor) -> None:
    low, high = bounds
    before, after = Window(Cursor(), low), Window(low, high)

    assert before.abuts(after)
    assert not (row in before and row in after)
    assert (row in before or row in after) is (row in Window(Cursor(), high))


@given(windows())
def test_any_window_comes_back_from_its_texts(window: Window) -> None:
    assert Window.from_texts(window.to_texts()) == window


@given(st.lists(windows(), min_size=1, max_size=4))
def test_only_abutting_windows_are_joined(parts: list[Window]) -> None:
    abut = all(left.abuts(right) for left, right in pairwise(parts))

    try:
        whole = Window.join(parts)
    except BadWindow:
        assert not abut
    else:
        assert abut
        assert (whole.low, whole.high) == (parts[0].low, parts[-1].high)
