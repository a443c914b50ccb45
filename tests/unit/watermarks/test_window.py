from datetime import UTC, datetime, timedelta

import pytest

from watermarks.cursor import START_CURSOR, BadCursor, Cursor, NotComparable, OrderedByDatabase
from watermarks.errors import Misuse
from watermarks.window import BadWindow, Window

NOON = datetime(2024, 5, 17, 12, 0, tzinfo=UTC)
LATER = NOON + timedelta(microseconds=1)


def at(*plain: int) -> Cursor:
    return Cursor.from_values(*plain)


def test_a_window_holds_its_end_and_not_its_beginning() -> None:
    window = Window(at(1), at(3))

    assert [number for number in range(5) if at(number) in window] == [2, 3]


def test_ties_at_the_limit_belong_to_one_window_each() -> None:
    """Under `update_at > w` alone, the rows of the same instant behind the limit were lost."""
    tied = [Cursor.from_values(NOON, key) for key in range(1, 6)]
    first, second = Window(START_CURSOR, tied[2]), Window(tied[2], Cursor.from_values(LATER, 1))

    assert [row in first for row in tied] == [True, True, True, False, False]
    assert [row in second for row in tied] == [False, False, False, True, True]


def test_a_window_after_an_instant_alone_holds_all_rows_of_that_instant() -> None:
    window = Window(Cursor.from_values(NOON), Cursor.from_values(LATER))

    assert Cursor.from_values(NOON, -(2**63)) in window
    assert Cursor.from_values(NOON, 2**64 - 1) in window
    assert Cursor.from_values(LATER, -(2**63)) not in window


def test_a_window_of_one_position_is_empty() -> None:
    window = Window(at(2), at(2))

    assert window.is_empty
    assert [number for number in range(5) if at(number) in window] == []
    assert not Window(at(2), at(2, 0)).is_empty


@pytest.mark.parametrize(
    ("low", "high"),
    [(at(2), at(1)), (at(2), START_CURSOR), (at(1, 2), at(1, 1)), (at(1, 1), at(1)), (at(2, 0), at(1, 9))],
)
def test_a_window_never_reaches_back(low: Cursor, high: Cursor) -> None:
    with pytest.raises(BadWindow, match="a window cannot begin at"):
        Window(low, high)


def test_bounds_of_different_orders_make_no_window() -> None:
    with pytest.raises(NotComparable):
        Window(Cursor.from_values(NOON, 1), Cursor.from_values(1, 1))


def test_bounds_that_only_the_database_orders_are_believed() -> None:
    """SQL gave them in order; Python would have to guess at the collation."""
    window = Window(Cursor.from_values(NOON, "b"), Cursor.from_values(NOON, "A"))

    with pytest.raises(OrderedByDatabase):
        assert Cursor.from_values(NOON, "a") in window


def test_a_row_is_judged_by_its_instant_where_that_is_enough() -> None:
    window = Window(Cursor.from_values(NOON, "b"), Cursor.from_values(LATER, "A"))

    assert Cursor.from_values(NOON - timedelta(seconds=1), "z") not in window
    assert Cursor.from_values(LATER + timedelta(seconds=1), "a") not in window
    assert Cursor.from_values(LATER, "A") in window
    assert Cursor.from_values(NOON, "b") not in Window(Cursor.from_values(NOON, "b"), Cursor.from_values(NOON, "b"))


def test_collated_bounds_that_an_instant_decides_never_reach_back() -> None:
    with pytest.raises(BadWindow):
        Window(Cursor.from_values(LATER, "a"), Cursor.from_values(NOON, "b"))


def test_windows_abut_only_where_one_ends_and_the_other_begins() -> None:
    window = Window(at(1), at(2))

    assert window.abuts(Window(at(2), at(3)))
    assert window.abuts(Window(at(2), at(2)))
    assert not window.abuts(Window(at(2, 0), at(3)))
    assert not window.abuts(Window(at(1), at(3)))
    assert not Window(at(2), at(3)).abuts(window)


def test_a_window_without_points_stays_whole() -> None:
    assert Window(at(1), at(5)).split([]) == (Window(at(1), at(5)),)


def test_a_window_is_cut_at_each_point() -> None:
    assert Window(START_CURSOR, at(5)).split([at(2), at(3)]) == (
        Window(START_CURSOR, at(2)),
        Window(at(2), at(3)),
        Window(at(3), at(5)),
    )


def test_a_point_twice_makes_an_empty_window() -> None:
    assert [window.is_empty for window in Window(at(1), at(5)).split([at(1), at(2), at(2), at(5)])] == [
        *(True, False, True, False, True)
    ]


@pytest.mark.parametrize("points", [[at(3), at(2)], [at(0)], [at(6)], [at(5, 0)], [at(2), at(2, 1), at(2, 0)]])
def test_points_out_of_order_or_outside_cut_nothing(points: list[Cursor]) -> None:
    with pytest.raises(BadWindow):
        Window(at(1), at(5)).split(points)


def test_one_window_joins_to_itself() -> None:
    window = Window(at(1), at(2))

    assert Window.join([window]) == window


def test_no_windows_make_none() -> None:
    with pytest.raises(BadWindow, match="no windows to join"):
        Window.join([])


@pytest.mark.parametrize("second", [Window(at(3), at(4)), Window(at(1), at(4)), Window(START_CURSOR, at(1))])
def test_windows_with_a_gap_or_an_overlap_are_not_joined(second: Window) -> None:
    """A gap loses rows, an overlap reads them twice: partitions that opened at different moments had both."""
    with pytest.raises(BadWindow, match="does not begin where"):
        Window.join([Window(START_CURSOR, at(2)), second])


def test_windows_in_the_wrong_order_are_not_joined() -> None:
    with pytest.raises(BadWindow, match="does not begin where"):
        Window.join([Window(at(2), at(3)), Window(at(1), at(2))])


def test_a_window_reads_like_a_range() -> None:
    assert str(Window(START_CURSOR, at(1, 2))) == '([], ["int:1", "int:2"]]'


def test_a_window_has_the_texts_of_its_bounds() -> None:
    window = Window(at(1), at(2, 3))

    assert window.to_texts() == [["int:1"], ["int:2", "int:3"]]
    assert Window.from_texts(window.to_texts()) == window


@pytest.mark.parametrize("bounds", [None, "ab", {}, [], [["int:1"]], [[], [], []], {"low": [], "high": []}, 2], ids=str)
def test_what_is_not_two_cursors_is_no_window(bounds: object) -> None:
    with pytest.raises(BadWindow, match="a window is two cursors"):
        Window.from_texts(bounds)


@pytest.mark.parametrize("bounds", [["int:1", "int:2"], [[], None], [[], ["1"]], [[1], [2]]], ids=str)
def test_bounds_that_are_no_cursors_are_refused(bounds: object) -> None:
    with pytest.raises(BadCursor):
        Window.from_texts(bounds)


def test_a_read_window_never_reaches_back_either() -> None:
    with pytest.raises(BadWindow):
        Window.from_texts([["int:2"], ["int:1"]])


def test_a_bad_window_is_the_callers_to_mend() -> None:
    assert issubclass(BadWindow, Misuse)
