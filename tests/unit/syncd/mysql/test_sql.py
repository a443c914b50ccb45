"""Windows as SQL: which rows a condition means, judged by an evaluator of its own."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.datatypes.columns import TransferType
from syncd.errors import ConfigError
from syncd.mysql.sql import (
    after_condition,
    custom_query_source,
    has_row_limit,
    is_read_only_setting,
    select_rows_sql,
    window_condition,
)
from syncd.tables.order_column import OrderColumn
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.window import Window

NAMES = "abc"


def columns(*kinds: ValueKind) -> tuple[OrderColumn, ...]:
    return tuple(
        OrderColumn(name=name, kind=kind, travel=TransferType.INTEGER, select=f"`{name}`")
        for name, kind in zip(NAMES, kinds, strict=False)
    )


INTS = columns(ValueKind.INT, ValueKind.INT, ValueKind.INT)


def holds(condition: str, row: tuple[int, ...]) -> bool:
    """Whether a row fulfils a condition of integers; Python's words for it are nearly SQL's."""
    python = re.sub(r"`(\w)`", r"\1", condition).replace(" = ", " == ")
    python = python.replace("AND", "and").replace("OR", "or").replace("TRUE", "True").replace("FALSE", "False")
    return bool(eval(python, {}, dict(zip(NAMES, row, strict=True))))


def cursor(*values: int) -> Cursor:
    return Cursor.from_values(*values)


few = st.lists(st.integers(0, 3), max_size=3).map(lambda numbers: Cursor.from_values(*numbers))
rows = st.tuples(*[st.integers(0, 3)] * 3)


@given(few, few, rows)
def test_a_condition_means_the_rows_of_its_window(one: Cursor, other: Cursor, row: tuple[int, ...]) -> None:
    low, high = sorted([one, other])
    window = Window(low, high)

    assert holds(window_condition(INTS, window), row) is (Cursor.from_values(*row) in window)


@given(few, rows)
def test_what_stands_behind_a_cursor_is_every_later_row(low: Cursor, row: tuple[int, ...]) -> None:
    assert holds(after_condition(INTS, low), row) is (low < Cursor.from_values(*row))


@given(st.lists(few, min_size=2, max_size=6), rows)
def test_abutting_windows_hold_each_row_once(points: list[Cursor], row: tuple[int, ...]) -> None:
    bounds = sorted(points)
    conditions = [window_condition(INTS, Window(low, high)) for low, high in pairwise(bounds)]

    assert sum(holds(condition, row) for condition in conditions) == (
        Cursor.from_values(*row) in Window(bounds[0], bounds[-1])
    )


@given(few, few, rows)
def test_ranges_never_overlap(one: Cursor, other: Cursor, row: tuple[int, ...]) -> None:
    """An index would read a row of two ranges twice."""
    low, high = sorted([one, other])

    ranges = re.findall(r"\(([^()]+)\)", window_condition(INTS, Window(low, high)))

    assert sum(holds(term, row) for term in ranges) <= 1


def test_a_window_is_ranges_that_are_equal_on_the_first_columns() -> None:
    assert window_condition(INTS, Window(cursor(1, 2, 3), cursor(5, 6, 7))) == (
        "((`a` = 1 AND `b` = 2 AND `c` > 3) OR (`a` = 1 AND `b` > 2)"
        " OR (`a` > 1 AND `a` < 5)"
        " OR (`a` = 5 AND `b` < 6) OR (`a` = 5 AND `b` = 6 AND `c` <= 7))"
    )


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (START_CURSOR, cursor(5), "((`a` < 5))"),
        (cursor(1), cursor(5), "((`a` >= 1 AND `a` < 5))"),
        (cursor(1, 2), cursor(1, 2, 3), "((`a` = 1 AND `b` = 2 AND `c` <= 3))"),
        (cursor(1), cursor(1, 2), "((`a` = 1 AND `b` < 2))"),
        (cursor(1, 2), cursor(1, 2), "FALSE"),
        (START_CURSOR, START_CURSOR, "FALSE"),
    ],
)
def test_a_shorter_cursor_stands_before_all_that_begin_with_it(low: Cursor, high: Cursor, said: str) -> None:
    assert window_condition(INTS, Window(low, high)) == said


def test_texts_of_a_collation_are_bounded_at_both_ends_at_once() -> None:
    """To it both can be one text, and its ties would be read from the first to the last."""
    collated = columns(ValueKind.COLLATED, ValueKind.INT)
    low, high = Cursor.from_values("a", 5), Cursor.from_values("A", 9)

    said = window_condition(collated, Window(low, high))

    assert said == (
        "((`a` = _utf8mb4 X'61' AND `b` > 5 AND `a` < _utf8mb4 X'41')"
        " OR (`a` = _utf8mb4 X'61' AND `b` > 5 AND `a` = _utf8mb4 X'41' AND `b` <= 9)"
        " OR (`a` > _utf8mb4 X'61' AND `a` < _utf8mb4 X'41')"
        " OR (`a` > _utf8mb4 X'61' AND `a` = _utf8mb4 X'41' AND `b` <= 9))"
    )


def test_a_cursor_of_another_order_makes_no_sql() -> None:
    with pytest.raises(Exception, match="cannot be a position in column a"):
        after_condition(INTS, Cursor((CursorValue(ValueKind.TEXT, "1 OR 1=1"),)))


def test_own_sql_needs_a_place_for_the_window() -> None:
    with pytest.raises(ConfigError, match=r"no \$\{window\}"):
        custom_query_source("SELECT * FROM orders", "TRUE")


def test_own_sql_is_read_as_a_table() -> None:
    own = custom_query_source("SELECT id FROM orders WHERE ${window}; ", "(`id` > 1)")

    assert select_rows_sql([("`id`", "id")], own, "TRUE") == (
        "SELECT `id` AS `id` FROM (SELECT id FROM orders WHERE (`id` > 1)\n) AS own WHERE TRUE"
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t WHERE ${window} LIMIT 5",
        "SELECT * FROM t WHERE ${window} ORDER BY id limit 5, 10;",
        "(SELECT * FROM t WHERE (${window}) LIMIT 5)",
        "SELECT * FROM t WHERE id IN (SELECT id FROM t WHERE ${window} LIMIT 5)",
        "SELECT * FROM t WHERE ${window} OFFSET 3 ROWS FETCH NEXT 5 ROWS ONLY",
    ],
)
def test_own_sql_that_leaves_rows_of_a_window_out_is_seen(query: str) -> None:
    assert has_row_limit(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t WHERE ${window}",
        "SELECT id, (SELECT MAX(x) FROM (SELECT x FROM u LIMIT 1) AS v) AS x FROM t WHERE ${window}",
        "SELECT `limit`, 'a '' LIMIT 1', \"\\\" LIMIT\", limits FROM t WHERE ${window} -- LIMIT 5",
        "SELECT * FROM t /* LIMIT 5 */ WHERE ${window} # LIMIT 5",
    ],
)
def test_own_sql_that_gives_every_row_of_a_window_is_let_pass(query: str) -> None:
    assert not has_row_limit(query)


@pytest.mark.parametrize("value", [0, "0", "OFF"])
def test_a_server_that_takes_rows_says_so_in_numbers_or_words(value: object) -> None:
    assert not is_read_only_setting(value)


@pytest.mark.parametrize("value", [1, "1", "ON", "NO_LOCK", "NO_LOCK_NO_ADMIN"])
def test_a_server_that_bars_writing_says_so_in_numbers_or_words(value: object) -> None:
    assert is_read_only_setting(value)
