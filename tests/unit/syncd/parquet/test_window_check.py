import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import RowOutsideWindow
from syncd.lake.read_requests import OrderField
from syncd.parquet.column_values import SOURCE_ARROW_TYPES
from syncd.parquet.window_check import PositionSpan, WindowCheck
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.window import Window

MOMENT = datetime(2024, 1, 1, 12, 0, 0)  # noqa: DTZ001  # a wall clock's reading


def way(name: str, column_type: str, **more: Any) -> ColumnMapping:
    only = SourceColumn(name=name, data_type=column_type.partition("(")[0].split()[0], column_type=column_type, **more)
    table = SourceTable(database="shop", name="t", kind="BASE TABLE", engine="InnoDB", columns=(only,), indexes=())
    return map_columns(table, StreamSettings(source="main", database="shop", table="t"))[0]


def fields(**kinds: ValueKind) -> tuple[OrderField, ...]:
    return tuple(OrderField(name=name, kind=kind) for name, kind in kinds.items())


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def of(kind: ValueKind, plain: Any) -> CursorValue:
    return CursorValue(kind, plain)


STAMPED = fields(at=ValueKind.WALL, id=ValueKind.INT)


def stamped(*rows: tuple[str | None, int]) -> pa.RecordBatch:
    return batch(at=pa.array([row[0] for row in rows], pa.string()), id=pa.array([row[1] for row in rows], pa.int64()))


def window(low: Cursor, high: Cursor) -> Window:
    return Window(low, high)


def at(seconds: float, *key: int) -> Cursor:
    return Cursor.from_values(MOMENT + timedelta(seconds=seconds), *key)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6),
    bounds=st.lists(
        st.one_of(
            st.just(START_CURSOR),
            st.integers(0, 3).map(at),
            st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: at(*pair)),
        ),
        min_size=2,
        max_size=2,
    ),
)
def test_check_agrees_with_the_window_itself(rows: list[tuple[int, int]], bounds: list[Cursor]) -> None:
    low, high = sorted(bounds)
    whole = window(low, high)
    cursors = [at(*row) for row in rows]
    told = stamped(*((f"{MOMENT + timedelta(seconds=s)}", k) for s, k in rows))
    check = WindowCheck(whole, STAMPED)

    if all(cursor in whole for cursor in cursors):
        assert check.check(told) == PositionSpan(min(cursors), max(cursors))
    else:
        with pytest.raises(RowOutsideWindow):
            check.check(told)


def test_moments_that_travel_as_bytes_are_told_as_text() -> None:
    check = WindowCheck(window(at(0, 5), at(0, 7)), STAMPED)
    rows = batch(at=pa.array([f"{MOMENT}".encode()] * 2), id=pa.array([6, 8]))

    with pytest.raises(RowOutsideWindow, match="the first at at=2024-"):
        check.check(rows)
    assert check.check(rows.slice(0, 1)) == PositionSpan(at(0, 6), at(0, 6))


@pytest.mark.parametrize("digits", range(7))
def test_moment_of_any_precision_is_compared_as_a_moment(digits: int) -> None:
    fraction = "." + "0" * digits if digits else ""
    whole = window(at(0, 5), at(0, 7))

    check = WindowCheck(whole, STAMPED)

    assert check.check(stamped((f"{MOMENT}{fraction}", 6))) == PositionSpan(at(0, 6), at(0, 6))
    with pytest.raises(RowOutsideWindow, match="the first at at=2024"):
        check.check(stamped((f"{MOMENT}{fraction}", 6), (f"{MOMENT}{fraction}", 8)))


def test_bound_finer_than_the_column_cuts_between_its_values() -> None:
    check = WindowCheck(window(at(0.5), at(1.5)), STAMPED)

    assert check.check(stamped((f"{MOMENT + timedelta(seconds=1)}", 1))) is not None
    with pytest.raises(RowOutsideWindow):
        check.check(stamped((f"{MOMENT}", 1)))


@pytest.mark.parametrize("known", [(), (way("id", "bigint(20)"),)])
def test_narrow_integers_of_a_driver_stand_against_wide_bounds(known: tuple[ColumnMapping, ...]) -> None:
    check = WindowCheck(
        window(Cursor.from_values(-(2**40)), Cursor.from_values(2**40)), fields(id=ValueKind.INT), known
    )

    assert check.check(batch(id=pa.array([7], pa.int32()))) == PositionSpan(
        Cursor.from_values(7), Cursor.from_values(7)
    )


def test_null_in_the_order_lies_in_no_window() -> None:
    check = WindowCheck(window(START_CURSOR, at(9)), STAMPED)

    with pytest.raises(RowOutsideWindow):
        check.check(stamped((None, 1)))


def test_zero_date_comes_first_and_no_cursor_can_say_it() -> None:
    check = WindowCheck(window(START_CURSOR, at(9)), STAMPED)

    assert check.check(stamped(("0000-00-00 00:00:00", 1), (f"{MOMENT}", 2))) == PositionSpan(START_CURSOR, at(0, 2))


CASES: list[tuple[ValueKind, ColumnMapping, Sequence[Any], Any, Any]] = [
    (ValueKind.INT, way("c", "bigint(20) unsigned"), [-1, 2**63 - 1], 2**63 - 2, 2**64 - 1),
    (ValueKind.INT, way("c", "bigint(20)"), [-5, 5], -6, 5),
    (ValueKind.INT, way("c", "bit(64)", precision=64), [-1, 7], 6, 2**64 - 1),
    (
        ValueKind.DECIMAL,
        way("c", "decimal(18,4)", precision=18, scale=4),
        ["1.0000", "2.5000"],
        Decimal("0.5"),
        Decimal("2.5"),
    ),
    (ValueKind.DECIMAL, way("c", "decimal(18,0)", precision=18, scale=0), [-7, 25], Decimal(-8), Decimal(25)),
    (ValueKind.DECIMAL, way("c", "decimal(38,2)", precision=38, scale=2), ["-9.50", "3.00"], Decimal(-10), Decimal(3)),
    (
        ValueKind.DECIMAL,
        way("c", "decimal(65,0)", precision=65, scale=0),
        ["9" * 65, "3"],
        Decimal(2),
        Decimal("9" * 65),
    ),
    (ValueKind.DECIMAL, way("c", "decimal(65,30)", precision=65, scale=30), ["9." + "1" * 30, "10." + "0" * 30], 1, 10),
    (ValueKind.DOUBLE, way("c", "double"), [-0.5, 2.5], -1.0, 2.5),
    (ValueKind.DATE, way("c", "date"), ["2024-01-01", "2024-12-31"], date(2023, 12, 31), date(2024, 12, 31)),
    (
        ValueKind.TIME,
        way("c", "time(3)"),
        ["-00:00:01.000", "100:00:00.500"],
        timedelta(seconds=-2),
        timedelta(hours=101),
    ),
    (ValueKind.BYTES, way("c", "varbinary(9)", length=9), [b"\x00", b"\xff"], b"", b"\xff"),
    (ValueKind.TEXT, way("c", "varchar(9)", length=9, charset="utf8mb4"), ["é".encode(), "😀".encode()], "z", "😀"),
    (
        ValueKind.INSTANT,
        way("c", "timestamp(6)"),
        ["2024-01-01 00:00:00.000001"],
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 2, tzinfo=UTC),
    ),
]


@pytest.mark.parametrize(("kind", "passage", "values", "low", "high"), CASES, ids=lambda value: str(value)[:30])
def test_key_of_every_kind_is_judged(
    kind: ValueKind, passage: ColumnMapping, values: Sequence[Any], low: Any, high: Any
) -> None:
    plain = (Decimal(low), Decimal(high)) if kind is ValueKind.DECIMAL else (low, high)
    bounds = [Cursor((of(kind, value),)) for value in plain]
    rows = batch(c=pa.array(values, SOURCE_ARROW_TYPES[passage.travel]))

    span = WindowCheck(window(*bounds), fields(c=kind), (passage,)).check(rows)

    assert span is not None
    assert bounds[0] < span.low <= span.high <= bounds[1]
    with pytest.raises(RowOutsideWindow):
        WindowCheck(window(bounds[0], span.low), fields(c=kind), (passage,)).check(
            rows if len(values) > 1 else batch(c=pa.array(["2025-01-01 00:00:00.000000"]))
        )


def test_before_a_collated_field_all_is_judged_and_after_it_nothing() -> None:
    order = fields(at=ValueKind.WALL, name=ValueKind.COLLATED, id=ValueKind.INT)
    low = Cursor((*at(0).values, of(ValueKind.COLLATED, "m"), of(ValueKind.INT, 1)))
    high = Cursor((*at(2).values, of(ValueKind.COLLATED, "m"), of(ValueKind.INT, 1)))
    check = WindowCheck(window(low, high), order)

    def row(seconds: int) -> pa.RecordBatch:
        moment = f"{MOMENT + timedelta(seconds=seconds)}"
        return batch(at=pa.array([moment]), name=pa.array([b"a"]), id=pa.array([0]))

    assert [check.check(row(seconds)) for seconds in (0, 1, 2)] == [PositionSpan(START_CURSOR, START_CURSOR)] * 3
    for seconds in (-1, 3):
        with pytest.raises(RowOutsideWindow):
            check.check(row(seconds))


def test_statement_without_a_window_checks_nothing() -> None:
    assert WindowCheck(None, ()).check(batch(c=pa.array([1]))) == PositionSpan(START_CURSOR, START_CURSOR)


def test_empty_batch_has_no_span() -> None:
    assert WindowCheck(window(START_CURSOR, at(1)), STAMPED).check(stamped()) is None


def test_spans_join_to_the_outermost() -> None:
    assert PositionSpan(at(2), at(3)).join(PositionSpan(at(1), at(2))) == PositionSpan(at(1), at(3))
    assert PositionSpan(START_CURSOR, at(3)).join(PositionSpan(at(1), at(2))) == PositionSpan(START_CURSOR, at(3))


def test_check_reaches_a_task() -> None:
    check = WindowCheck(window(START_CURSOR, at(1)), STAMPED, (way("id", "bigint(20)"),))

    assert pickle.loads(pickle.dumps(check)) == check
