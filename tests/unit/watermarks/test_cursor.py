import json
import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from itertools import combinations
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cursors import DECIDABLE, LONGEST_TIME, cursors, few_cursors, plain_of, values
from watermarks.cursor import (
    START_CURSOR,
    BadCursor,
    Cursor,
    CursorValue,
    NotComparable,
    OrderedByDatabase,
    ValueKind,
    format_instant,
    parse_instant,
)
from watermarks.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from watermarks.cursor import PythonValue

NOON = datetime(2024, 5, 17, 12, 0, tzinfo=UTC)
LARGEST_DECIMAL = Decimal("9" * 35 + "." + "9" * 30)
WRITTEN: list[tuple[ValueKind, "PythonValue", str]] = [
    (ValueKind.INSTANT, NOON, "instant:2024-05-17T12:00:00.000000Z"),
    (ValueKind.INSTANT, NOON.replace(microsecond=1), "instant:2024-05-17T12:00:00.000001Z"),
    (ValueKind.INSTANT, datetime.min.replace(tzinfo=UTC), "instant:0001-01-01T00:00:00.000000Z"),
    (ValueKind.INSTANT, datetime.max.replace(tzinfo=UTC), "instant:9999-12-31T23:59:59.999999Z"),
    (ValueKind.WALL, datetime(2024, 10, 27, 2, 30), "wall:2024-10-27T02:30:00.000000"),  # noqa: DTZ001 - a wall clock
    (ValueKind.WALL, datetime.min, "wall:0001-01-01T00:00:00.000000"),  # noqa: DTZ901 - a wall clock
    (ValueKind.WALL, datetime.max, "wall:9999-12-31T23:59:59.999999"),  # noqa: DTZ901 - a wall clock
    (ValueKind.INT, 0, "int:0"),
    (ValueKind.INT, -(2**63), "int:-9223372036854775808"),
    (ValueKind.INT, 2**64 - 1, "int:18446744073709551615"),
    (ValueKind.INT, 10**3000, "int:1" + "0" * 3000),
    (ValueKind.DECIMAL, Decimal("1.10"), "decimal:1.10"),
    (ValueKind.DECIMAL, Decimal("-0.000001"), "decimal:-0.000001"),
    (ValueKind.DECIMAL, LARGEST_DECIMAL, f"decimal:{'9' * 35}.{'9' * 30}"),
    (ValueKind.DECIMAL, Decimal("9" * 65), "decimal:" + "9" * 65),
    (ValueKind.DECIMAL, Decimal("1E+30"), "decimal:1E+30"),
    (ValueKind.DOUBLE, 0.1, "double:0.1"),
    (ValueKind.DOUBLE, 1e16, "double:1e+16"),
    (ValueKind.DOUBLE, 2.0**53, "double:9007199254740992.0"),
    (ValueKind.DOUBLE, 5e-324, "double:5e-324"),
    (ValueKind.DOUBLE, -1.7976931348623157e308, "double:-1.7976931348623157e+308"),
    (ValueKind.DATE, date(2024, 2, 29), "date:2024-02-29"),
    (ValueKind.DATE, date.min, "date:0001-01-01"),
    (ValueKind.DATE, date.max, "date:9999-12-31"),
    (ValueKind.TIME, timedelta(), "time:0"),
    (ValueKind.TIME, LONGEST_TIME, "time:3020399999999"),
    (ValueKind.TIME, -LONGEST_TIME, "time:-3020399999999"),
    (ValueKind.TIME, timedelta(microseconds=-1), "time:-1"),
    (ValueKind.BYTES, b"", "bytes:"),
    (ValueKind.BYTES, b"\x00\xff", "bytes:00ff"),
    (ValueKind.TEXT, "", "text:"),
    (ValueKind.TEXT, "a:b\n\x00", "text:a:b\n\x00"),
    (ValueKind.TEXT, "\u6ce8\u6587 \U0001f511 ", "text:\u6ce8\u6587 \U0001f511 "),
    (ValueKind.COLLATED, "\u00c4rger", "collated:\u00c4rger"),
]
NO_TEXT_OF_A_VALUE = [
    *("", "int", "42", ":42", "integer:42", "INT:42", " int:42", "null:", "instant"),
    *("int:", "int:+1", "int:01", "int:-0", "int: 1", "int:1 ", "int:1_0", "int:1.0", "int:\u0661", "int:0x1"),
    *("int:1" + "0" * 4001, "int:1" + "0" * 3800),
    *("decimal:", "decimal:1e5", "decimal: 1", "decimal:1_0", "decimal:+1", "decimal:\u0661", "decimal:1,5"),
    *("decimal:NaN", "decimal:sNaN", "decimal:Infinity", "decimal:-Infinity", "decimal:1E+99999999999999999999"),
    *("double:", "double:1", "double:1e5", "double:.5", "double:0.10", "double:1_0.0", "double:0x1p0"),
    *("double:nan", "double:inf", "double:-inf", "double:1e999"),
    *("date:", "date:20240229", "date:2024-W09-4", "date:2024-2-29", "date:2023-02-29", "date:0000-00-00"),
    *("date:2024-02-29T00:00:00", "date:10000-01-01"),
    *("time:", "time:3020400000000", "time:-3020400000000", "time:01:00:00", "time:-0", "time:1.5"),
    "time:" + "9" * 30,
    *("bytes:0", "bytes:0g", "bytes:FF", "bytes:00 ff", "bytes: 00"),
    *("text:\ud800", "collated:a\udfff"),
    *("wall:", "wall:2024-05-17", "wall:2024-05-17T12:00:00", "wall:2024-05-17 12:00:00.000000"),
    *("wall:2024-05-17T12:00:00.000000Z", "wall:2024-05-17T12:00:00.0000001", "wall:0000-00-00T00:00:00.000000"),
    *("wall:2024-02-30T00:00:00.000000", "wall:2024-05-17T24:00:00.000000", "wall:2024-05-17T23:59:60.000000"),
    *("instant:", "instant:2024-05-17T12:00:00Z", "instant:2024-05-17T12:00:00.000000"),
    *("instant:2024-05-17T12:00:00.000000+00:00", "instant:2024-05-17T12:00:00.000000z", "instant:now"),
    *("instant:2024-13-17T12:00:00.000000Z", "instant:0000-01-01T00:00:00.000000Z"),
]


class Nowhere(tzinfo):
    """A zone that does not know its offset: such a moment is as naive as one without a zone."""

    def utcoffset(self, dt: datetime | None) -> None:
        return None

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


def text_id(text: str) -> str:
    return ascii(text[:40])


def instants(*microseconds: int) -> list[datetime]:
    return [NOON.replace(microsecond=each) for each in microseconds]


def comparisons(left: Cursor, right: Cursor) -> "list[Callable[[], bool]]":
    return [lambda: left < right, lambda: right <= left, lambda: left > right, lambda: right >= left]


@pytest.mark.parametrize(("kind", "plain", "text"), WRITTEN, ids=[text_id(text) for _, _, text in WRITTEN])
def test_a_value_has_one_text_and_comes_back_from_it(kind: ValueKind, plain: "PythonValue", text: str) -> None:
    value = CursorValue(kind, plain)

    assert str(value) == text
    assert CursorValue.from_text(text) == value
    assert type(CursorValue.from_text(text).raw) is type(plain)


def test_every_kind_has_an_example_above() -> None:
    assert {kind for kind, _, _ in WRITTEN} == set(ValueKind)


@given(values())
def test_any_value_comes_back_exactly(value: CursorValue) -> None:
    again = CursorValue.from_text(str(value))

    assert again == value
    assert repr(again.raw) == repr(value.raw)


@pytest.mark.parametrize("text", NO_TEXT_OF_A_VALUE, ids=map(text_id, NO_TEXT_OF_A_VALUE))
def test_a_text_that_no_value_is_written_as_is_refused(text: str) -> None:
    """Also where it could be understood: two texts of one position would have two digests."""
    with pytest.raises(BadCursor):
        CursorValue.from_text(text)


def test_a_refused_kind_is_answered_with_all_kinds() -> None:
    with pytest.raises(BadCursor, match="has no kind") as caught:
        CursorValue.from_text("timestamp:0")

    assert all(kind in caught.value.hint for kind in ValueKind)


def test_an_inexact_text_is_answered_with_the_exact_one() -> None:
    with pytest.raises(BadCursor, match=r"'decimal:1e5' is not the exact form of decimal:1E\+5"):
        CursorValue.from_text("decimal:1e5")


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (ValueKind.INSTANT, datetime(2024, 5, 17)),  # noqa: DTZ001 - the fault to refuse
        (ValueKind.INSTANT, datetime(2024, 5, 17, tzinfo=timezone(timedelta(hours=2)))),
        (ValueKind.INSTANT, date(2024, 5, 17)),
        (ValueKind.WALL, NOON),
        (ValueKind.WALL, "2024-05-17"),
        (ValueKind.DATE, NOON),
        (ValueKind.INT, True),
        (ValueKind.INT, 1.0),
        (ValueKind.INT, Decimal(1)),
        (ValueKind.INT, 1 << 12_000),
        (ValueKind.DECIMAL, 1),
        (ValueKind.DECIMAL, 1.0),
        (ValueKind.DECIMAL, Decimal("NaN")),
        (ValueKind.DECIMAL, Decimal("sNaN")),
        (ValueKind.DECIMAL, Decimal("-Infinity")),
        (ValueKind.DOUBLE, 1),
        (ValueKind.DOUBLE, math.nan),
        (ValueKind.DOUBLE, math.inf),
        (ValueKind.TIME, LONGEST_TIME + timedelta(microseconds=1)),
        (ValueKind.TIME, -LONGEST_TIME - timedelta(microseconds=1)),
        (ValueKind.TIME, 0),
        (ValueKind.BYTES, "00"),
        (ValueKind.BYTES, bytearray(b"x")),
        (ValueKind.TEXT, b"x"),
        (ValueKind.TEXT, "\ud800"),
        (ValueKind.COLLATED, "a\udfffb"),
        (ValueKind.COLLATED, None),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_value_of_another_kind_is_refused(kind: ValueKind, plain: "PythonValue") -> None:
    with pytest.raises(BadCursor, match=f"is not of kind {kind}"):
        CursorValue(kind, plain)


def test_an_integer_beyond_all_counting_is_refused_by_name() -> None:
    """Python does not even write it: the refusal must not fail on that."""
    for endless in (10**5000, -(10**5000)):
        with pytest.raises(BadCursor, match="a huge integer is not of kind int"):
            Cursor.from_values(endless)


@pytest.mark.parametrize(
    ("plain", "kind"),
    [
        (NOON, ValueKind.INSTANT),
        (NOON.replace(tzinfo=None), ValueKind.WALL),
        (date(2024, 5, 17), ValueKind.DATE),
        (42, ValueKind.INT),
        (Decimal("4.2"), ValueKind.DECIMAL),
        (4.2, ValueKind.DOUBLE),
        (timedelta(hours=30), ValueKind.TIME),
        (b"\x42", ValueKind.BYTES),
        ("forty-two", ValueKind.COLLATED),
    ],
    ids=str,
)
def test_a_python_value_has_its_kind(plain: "PythonValue", kind: ValueKind) -> None:
    assert Cursor.from_values(plain) == Cursor((CursorValue(kind, plain),))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "UTC"])
def test_an_instant_of_any_zone_is_one_position(zone: str) -> None:
    """Two of one zone compare by their wall clocks, and so the hour that repeats would stand in the wrong order."""
    cursor = Cursor.from_values(NOON.astimezone(ZoneInfo(zone)), 42)

    assert cursor == Cursor.from_values(NOON, 42)
    assert cursor.to_texts() == ["instant:2024-05-17T12:00:00.000000Z", "int:42"]


def test_the_hour_that_repeats_has_two_positions() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, again = (Cursor.from_values(datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=berlin)) for fold in (0, 1))

    assert first < again
    assert again.instant == datetime(2024, 10, 27, 1, 30, tzinfo=UTC)


def test_a_moment_whose_zone_knows_no_offset_makes_no_cursor() -> None:
    with pytest.raises(BadCursor, match="has no time zone"):
        Cursor.from_values(datetime(2024, 5, 17, 12, 0, tzinfo=Nowhere()))


def test_text_is_collated_unless_it_is_said_to_be_binary() -> None:
    """The default collations of MySQL are not binary: to order their text here would be to guess."""
    cursor = Cursor.from_values("a", CursorValue(ValueKind.TEXT, "a"))

    assert cursor.to_texts() == ["collated:a", "text:a"]


@pytest.mark.parametrize("nothing", [None, True, [], object(), 1j, bytearray(b"x"), math.nan, math.inf, Decimal("NaN")])
def test_what_has_no_place_in_an_order_makes_no_cursor(nothing: "PythonValue") -> None:
    with pytest.raises(BadCursor):
        Cursor.from_values(nothing)


@given(cursors(*ValueKind))
def test_any_cursor_comes_back_from_its_text(cursor: Cursor) -> None:
    assert Cursor.from_text(str(cursor)) == cursor
    assert Cursor.from_texts(cursor.to_texts()) == cursor


@given(cursors(*ValueKind))
def test_equal_cursors_are_found_in_a_set(cursor: Cursor) -> None:
    assert {cursor: True}[Cursor.from_text(str(cursor))]


def test_a_cursor_reads_as_json() -> None:
    cursor = Cursor.from_values(NOON, 42, '\u00e9"')

    assert str(cursor) == '["instant:2024-05-17T12:00:00.000000Z", "int:42", "collated:\u00e9\\""]'
    assert json.loads(str(cursor)) == cursor.to_texts()


def test_the_start_is_written_as_nothing() -> None:
    assert str(START_CURSOR) == "[]"
    assert Cursor.from_text("[]") == START_CURSOR


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "{}", "42", '"int:42"', "[42]", "[null]", '[["int:42"]]', '{"int:42": 1}', "[true]", "[1e999]"),
        *("int:42", '["int:42"', "['int:42']", '["int:42",]', '["42"]', '["int:042"]', '["text:\\ud800"]', "\ufeff[]"),
        *("[" * 100_000, "[" * 900 + "]" * 900, "[1" + "0" * 5000 + "]"),
    ],
    ids=text_id,
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        Cursor.from_text(text)


@pytest.mark.parametrize("parts", [None, "int:42", ("int:42",), {"int:42"}, {"0": "int:42"}, 42], ids=str)
def test_a_cursor_is_a_list_of_values(parts: object) -> None:
    with pytest.raises(BadCursor, match="is a list of values"):
        Cursor.from_texts(parts)


@pytest.mark.parametrize(
    ("kind", "in_order"),
    [
        (ValueKind.INSTANT, instants(0, 1, 999_999)),
        (ValueKind.INT, [-(2**64), -1, 0, 9, 10, 2**63, 2**64 - 1]),
        (
            ValueKind.DECIMAL,
            [Decimal(-2), Decimal("0.1"), Decimal("0.10000000000000000000000000000000000001"), Decimal(9)],
        ),
        (ValueKind.DOUBLE, [-1e300, -5e-324, 0.0, 0.1, 0.30000000000000004, 1e16]),
        (ValueKind.TIME, [-LONGEST_TIME, timedelta(microseconds=-1), timedelta(), timedelta(hours=25), LONGEST_TIME]),
        (ValueKind.BYTES, [b"", b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]),
        (ValueKind.TEXT, ["", " ", "A", "B", "a", "a ", "aa", "\u00e9", "\ufb01", "\U0001f511"]),
    ],
)
def test_values_have_the_order_of_their_database(kind: ValueKind, in_order: "list[PythonValue]") -> None:
    row = [Cursor((CursorValue(kind, plain),)) for plain in in_order]

    assert all(low < high and not high < low for low, high in combinations(row, 2))


@given(st.data())
def test_the_order_of_cursors_is_that_of_tuples(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(DECIDABLE), min_size=1, max_size=4))
    left, right = data.draw(cursors(*kinds)), data.draw(cursors(*kinds))
    mine, its = (tuple(value.raw for value in cursor.values) for cursor in (left, right))

    assert (left < right, left <= right, left > right, left >= right, left == right) == (
        mine < its,
        mine <= its,
        mine > its,
        mine >= its,
        mine == its,
    )


@given(few_cursors(), few_cursors(), few_cursors())
def test_the_order_is_total(a: Cursor, b: Cursor, c: Cursor) -> None:
    assert (a < b) + (b < a) + (a == b) == 1
    assert not a < b < c or a < c


@given(cursors(ValueKind.INSTANT, ValueKind.INT, ValueKind.TEXT))
def test_a_cursor_stands_before_every_longer_one_that_begins_with_it(cursor: Cursor) -> None:
    for length in range(len(cursor)):
        assert Cursor(cursor.values[:length]) < cursor


def test_an_instant_alone_stands_before_all_rows_of_that_instant() -> None:
    """A mark set by hand at an instant reads its rows: under `>` alone they would be lost."""
    mark = Cursor.from_values(NOON)

    assert Cursor.from_values(NOON - timedelta(microseconds=1), 2**64 - 1) < mark
    assert mark < Cursor.from_values(NOON, -(2**63))
    assert mark < Cursor.from_values(NOON, CursorValue(ValueKind.TEXT, ""))
    assert mark < Cursor.from_values(NOON, "any text, in whatever collation")


def test_the_start_stands_before_everything() -> None:
    first = Cursor.from_values(datetime.min.replace(tzinfo=UTC))

    assert first > START_CURSOR
    assert not first < START_CURSOR
    assert Cursor() <= START_CURSOR
    assert not Cursor() < START_CURSOR
    assert not START_CURSOR
    assert first


def test_ties_of_the_order_column_are_told_apart_by_the_key() -> None:
    tied = [Cursor.from_values(NOON, key) for key in (11, 9, 10)]

    assert [cursor.to_texts()[1] for cursor in sorted(tied)] == ["int:9", "int:10", "int:11"]


@pytest.mark.parametrize("other", ["b", "A", "a ", "\u00e4", ""])
def test_only_the_database_orders_collated_text(other: str) -> None:
    """`a`, `A`, `a ` and `ä` are one value in some collations."""
    mine, its = Cursor.from_values(1, "a"), Cursor.from_values(1, other)

    for compare in comparisons(mine, its):
        with pytest.raises(OrderedByDatabase, match="only the database can order collated:") as caught:
            compare()
        assert "SQL" in caught.value.hint


def test_an_earlier_value_decides_for_collated_text() -> None:
    assert Cursor.from_values(1, "z") < Cursor.from_values(2, "a")
    assert not Cursor.from_values(2, "a") < Cursor.from_values(1, "z")


def test_the_same_collated_text_leaves_the_decision_to_the_next_value() -> None:
    assert Cursor.from_values("a", 1) < Cursor.from_values("a", 2)
    assert Cursor.from_values("a") < Cursor.from_values("a", 1)
    assert Cursor.from_values("a") <= Cursor.from_values("a")


def test_collated_text_has_no_order_even_with_itself() -> None:
    value = CursorValue(ValueKind.COLLATED, "a")

    with pytest.raises(OrderedByDatabase):
        value.precedes(value)


@pytest.mark.parametrize(
    ("mine", "its"),
    [
        (CursorValue(ValueKind.INT, 1), CursorValue(ValueKind.DOUBLE, 1.0)),
        (CursorValue(ValueKind.INT, 1), CursorValue(ValueKind.DECIMAL, Decimal(1))),
        (CursorValue(ValueKind.INSTANT, NOON), CursorValue(ValueKind.WALL, NOON.replace(tzinfo=None))),
        (CursorValue(ValueKind.DATE, date(2024, 5, 17)), CursorValue(ValueKind.WALL, NOON.replace(tzinfo=None))),
        (CursorValue(ValueKind.TEXT, "a"), CursorValue(ValueKind.COLLATED, "a")),
        (CursorValue(ValueKind.TEXT, "a"), CursorValue(ValueKind.BYTES, b"a")),
        (CursorValue(ValueKind.INT, 1), CursorValue(ValueKind.INSTANT, NOON)),
    ],
    ids=str,
)
def test_positions_of_different_orders_are_not_compared(mine: CursorValue, its: CursorValue) -> None:
    """Not even where Python finds them equal: the cursor column or the key has changed its type."""
    left, right = Cursor((mine,)), Cursor((its,))

    assert left != right
    for compare in comparisons(left, right):
        with pytest.raises(NotComparable, match="they are of different kinds") as caught:
            compare()
        assert "or `key` changed" in caught.value.hint


def test_a_difference_before_the_change_of_kind_decides() -> None:
    assert Cursor.from_values(1, 1) < Cursor.from_values(2, Decimal(0))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati", "UTC"])
def test_an_instant_is_written_in_utc_whatever_its_zone(zone: str) -> None:
    local = NOON.astimezone(ZoneInfo(zone))

    assert format_instant(local) == "2024-05-17T12:00:00.000000Z"
    assert parse_instant(format_instant(local)) == NOON


def test_the_hour_that_repeats_in_autumn_is_two_hours() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, again = (datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=berlin) for fold in (0, 1))

    assert format_instant(first) == "2024-10-27T00:30:00.000000Z"
    assert format_instant(again) == "2024-10-27T01:30:00.000000Z"


@given(plain_of[ValueKind.INSTANT])
def test_an_instant_keeps_its_microseconds(moment: datetime) -> None:
    assert parse_instant(format_instant(moment)) == moment
    assert parse_instant(format_instant(moment)).tzinfo is UTC


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=2))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))),
    ],
)
def test_an_instant_outside_the_calendar_of_utc_is_refused_by_name(moment: datetime) -> None:
    with pytest.raises(BadCursor, match="cannot be written in UTC"):
        format_instant(moment)


@pytest.mark.parametrize("zone", [None, Nowhere()], ids=["no zone", "a zone without an offset"])
def test_a_moment_without_a_zone_is_no_instant(zone: tzinfo | None) -> None:
    """Read in the zone of the machine, it would be another instant on each."""
    with pytest.raises(BadCursor, match="has no time zone"):
        format_instant(datetime(2024, 5, 17, 12, 0, tzinfo=zone))


@pytest.mark.parametrize(
    "text",
    [
        *("", "2024-05-17", "2024-05-17T12:00:00Z", "2024-05-17 12:00:00.000000Z", "2024-05-17T12:00:00.000000"),
        *("2024-05-17T12:00:00.000000+00:00", "2024-05-17T12:00:00.000Z", "2024-05-17T12:00:00.0000001Z"),
        *("2024-02-30T12:00:00.000000Z", "2024-05-17T12:00:60.000000Z", " 2024-05-17T12:00:00.000000Z"),
        *("2024-05-17T12:00:00.000000Z\n", "2024-05-17T12:00:00.00000\u0661Z", "+2024-05-17T12:00:00.000000Z"),
    ],
)
def test_an_instant_is_read_in_one_form_alone(text: str) -> None:
    with pytest.raises(BadCursor):
        parse_instant(text)


def test_a_cursor_tells_the_instant_that_it_begins_with() -> None:
    assert Cursor.from_values(NOON, 42).instant == NOON


@pytest.mark.parametrize(
    "cursor",
    [START_CURSOR, Cursor.from_values(42), Cursor.from_values(NOON.replace(tzinfo=None)), Cursor.from_values(1, NOON)],
)
def test_a_cursor_that_begins_with_no_instant_tells_none(cursor: Cursor) -> None:
    assert cursor.instant is None


@pytest.mark.parametrize("error", [BadCursor, NotComparable, OrderedByDatabase])
def test_a_bad_position_is_the_callers_to_mend(error: type[Exception]) -> None:
    assert issubclass(error, Misuse)
