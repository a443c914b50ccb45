"""Which rows of a target lie in a range that was read again, and which batches may not land with those before them."""

import sqlite3
from collections.abc import Sequence
from datetime import date
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from syncd.redshift.column_types import TargetType
from syncd.redshift.order_ranges import EarlierRowRanges, OrderRange, are_disjoint, order_range_condition
from syncd.redshift.target_table import ExistingColumn, ExistingTable
from syncd.tables.sort_order import RowIdentity
from tests.builders import make_link
from watermarks.batch import BatchId, BatchKind, BatchLink, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.window import Window

NUMBERS = range(4)
ROWS = list(product(NUMBERS, repeat=3))
IDENTITY = RowIdentity(key=("b", "c"), cursor="a")
COLUMNS = {"a": "bigint", "b": "integer", "c": "decimal(10,0)"}

cursors = st.lists(st.integers(-1, 4), max_size=3).map(lambda values: Cursor.from_values(*values))
windows = st.tuples(cursors, cursors).filter(lambda two: two[0] != two[1]).map(lambda two: Window(*sorted(two)))


def found(**columns: str) -> ExistingTable:
    types = {**COLUMNS, **columns}
    return ExistingTable(
        columns={name: ExistingColumn(type=TargetType.from_text(text)) for name, text in types.items()}
    )


def of(window: Window, *seams: Cursor) -> OrderRange:
    return OrderRange(window=window, first_batch=BatchId(1, 1), last_batch=BatchId(1, 1 + len(seams)), boundaries=seams)


def told(one: OrderRange, target: ExistingTable, identity: RowIdentity = IDENTITY) -> set[tuple[int, ...]]:
    condition = order_range_condition(one, identity, target)
    if not condition:
        return set()
    rows = sqlite3.connect(":memory:")
    rows.execute("CREATE TABLE t (a, b, c)")
    rows.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    return set(rows.execute(f"SELECT * FROM t WHERE {condition}"))


@given(windows)
def test_the_condition_of_a_range_is_true_of_its_rows_and_of_no_other(window: Window) -> None:
    assert told(of(window), found()) == {
        row for row in ROWS if window.high.values and Cursor.from_values(*row) in window
    }


@given(windows, cursors)
@example(Window(Cursor.from_values(0, -1, 0), Cursor.from_values(1)), Cursor.from_values(0, 0))
def test_ranges_joined_hold_what_they_hold_apart_also_where_a_key_is_not_told(window: Window, seam: Cursor) -> None:
    if not window.low < seam < window.high:
        return
    for target in (found(), found(c="varchar(10)"), found(b="boolean"), found(a="varchar(10)")):
        apart = [told(of(part), target) for part in window.split([seam])]

        assert told(of(window, seam), target) == apart[0] | apart[1]


@given(windows, cursors)
@pytest.mark.parametrize("column", ["b", "c"])
def test_of_a_key_that_is_not_told_no_row_is_taken_for_one_of_the_range(
    column: str, window: Window, seam: Cursor
) -> None:
    seams = [seam] if window.low < seam < window.high else []

    assert told(of(window, *seams), found(**{column: "boolean"})) <= {
        row for row in ROWS if Cursor.from_values(*row) in window
    }


@pytest.mark.parametrize("kind", ["varchar(20)", "boolean", "timestamp", "super"])
def test_a_column_that_does_not_compare_tells_of_no_row(kind: str) -> None:
    assert (
        order_range_condition(of(Window(Cursor.from_values(1), Cursor.from_values(2))), IDENTITY, found(a=kind)) == ""
    )


@pytest.mark.parametrize("end", [Cursor.from_values("x"), Cursor.from_values(1.5)], ids=["text", "double"])
def test_a_bound_that_does_not_compare_leaves_no_range_open(end: Cursor) -> None:
    assert order_range_condition(of(Window(end, Cursor.from_values(*end.values, 1))), IDENTITY, found()) == ""


@given(windows, windows)
def test_what_is_called_disjoint_has_no_row_in_common(one: Window, other: Window) -> None:
    if are_disjoint(one, other):
        assert not [row for row in ROWS if Cursor.from_values(*row) in one and Cursor.from_values(*row) in other]


def reading(low: Cursor, high: Cursor, *, rows: int = 1) -> BatchLink:
    window = Window(low, high)
    return make_link(low=low, high=high, rows=rows, body={"windows": [window.to_texts()]})


def by_key(*, horizon: Cursor) -> BatchLink:
    snapshot = SnapshotProgress(horizon=horizon, reached_key=START_CURSOR, done=False)
    return make_link(kind=BatchKind.SNAPSHOT, snapshot=snapshot, body={"windows": []})


ONE_TO_THREE = reading(Cursor.from_values(1), Cursor.from_values(3))
TEXTS = [Cursor.from_values(text) for text in ("a", "b", "c", "d")]


@pytest.mark.parametrize(
    ("before", "link", "again"),
    [
        ([], ONE_TO_THREE, False),
        ([ONE_TO_THREE], reading(Cursor.from_values(3), Cursor.from_values(4)), False),
        ([ONE_TO_THREE], reading(Cursor.from_values(0), Cursor.from_values(1)), False),
        ([ONE_TO_THREE], reading(Cursor.from_values(2), Cursor.from_values(4)), True),
        ([ONE_TO_THREE], reading(Cursor.from_values(2), Cursor.from_values(4), rows=0), True),
        (
            [reading(Cursor.from_values(1), Cursor.from_values(3), rows=0)],
            reading(Cursor.from_values(2), Cursor.from_values(4)),
            False,
        ),
        (
            [ONE_TO_THREE, reading(Cursor.from_values(3), Cursor.from_values(5))],
            reading(Cursor.from_values(2), Cursor.from_values(3)),
            True,
        ),
        ([reading(TEXTS[0], TEXTS[1])], reading(TEXTS[1], TEXTS[2]), False),
        ([reading(TEXTS[0], TEXTS[1])], reading(TEXTS[2], TEXTS[3]), True),
        ([ONE_TO_THREE], reading(Cursor.from_values(date(2026, 1, 1)), Cursor.from_values(date(2026, 1, 2))), True),
        ([make_link(body={"windows": []})], ONE_TO_THREE, True),
        ([make_link(body={"windows": [], "tombstones": {"upto": []}})], ONE_TO_THREE, False),
        ([by_key(horizon=Cursor.from_values(1))], ONE_TO_THREE, False),
        ([by_key(horizon=Cursor.from_values(2))], ONE_TO_THREE, True),
        ([ONE_TO_THREE], make_link(body={"windows": []}), False),
        ([ONE_TO_THREE], make_link(kind=BatchKind.ABANDONED, rows=0, files=(), body={"why": "a test"}), False),
    ],
)
def test_a_range_is_read_again_where_a_row_of_it_may_have_come_before(
    before: Sequence[BatchLink], link: BatchLink, *, again: bool
) -> None:
    rows = EarlierRowRanges()
    for each in before:
        rows.add(each)

    assert rows.are_reread_by(link) is again


def test_windows_of_one_batch_that_follow_those_before_are_read_for_the_first_time() -> None:
    """Of texts nobody here knows the order: that they abut is all there is to go by."""
    rows = EarlierRowRanges()
    rows.add(reading(TEXTS[0], TEXTS[1]))
    several = [Window(TEXTS[1], TEXTS[2]), Window(TEXTS[2], TEXTS[3])]
    link = make_link(low=TEXTS[1], high=TEXTS[3], body={"windows": [window.to_texts() for window in several]})

    assert not rows.are_reread_by(link)


def test_what_is_read_again_unasked_empties_nothing_and_brings_rows() -> None:
    rows = EarlierRowRanges()
    rows.add(ONE_TO_THREE)
    window = Window(START_CURSOR, Cursor.from_values(9))
    unasked = make_link(
        low=START_CURSOR, high=Cursor.from_values(9), body={"windows": [window.to_texts()], "plan": {"again": {}}}
    )

    assert not rows.are_reread_by(unasked)
    rows.add(unasked)
    assert rows.are_reread_by(reading(Cursor.from_values(7), Cursor.from_values(8)))
