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
    START,
    BadCursor,
    Cursor,
    Kind,
    NotComparable,
    OrderedByDatabase,
    Value,
    instant_of,
    instant_text,
)
from watermarks.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from watermarks.cursor import Plain

NOON = datetime(2024, 5, 17, 12, 0, tzinfo=UTC)
LARGEST_DECIMAL = Decimal("9" * 35 + "." + "9" * 30)
WRITTEN: list[tuple[Kind, "Plain", str]] = [
    (Kind.INSTANT, NOON, "instant:2024-05-17T12:00:00.000000Z"),
    (Kind.INSTANT, NOON.replace(microsecond=1), "instant:2024-05-17T12:00:00.000001Z"),
    (Kind.INSTANT, datetime.min.replace(tzinfo=UTC), "instant:0001-01-01T00:00:00.000000Z"),
    (Kind.INSTANT, datetime.max.replace(tzinfo=UTC), "instant:9999-12-31T23:59:59.999999Z"),
    (Kind.WALL, datetime(2024, 10, 27, 2, 30), "wall:2024-10-27T02:30:00.000000"),  # noqa: DTZ001 - a wall clock
    (Kind.WALL, datetime.min, "wall:0001-01-01T00:00:00.000000"),  # noqa: DTZ901 - a wall clock
    (Kind.WALL, datetime.max, "wall:9999-12-31T23:59:59.999999"),  # noqa: DTZ901 - a wall clock
    (Kind.INT, 0, "int:0"),
    (Kind.INT, -(2**63), "int:-9223372036854775808"),
    (Kind.INT, 2**64 - 1, "int:18446744073709551615"),
    (Kind.INT, 10**3000, "int:1" + "0" * 3000),
    (Kind.DECIMAL, Decimal("1.10"), "decimal:1.10"),
    (Kind.DECIMAL, Decimal("-0.000001"), "decimal:-0.000001"),
    (Kind.DECIMAL, LARGEST_DECIMAL, f"decimal:{'9' * 35}.{'9' * 30}"),
    (Kind.DECIMAL, Decimal("9" * 65), "decimal:" + "9" * 65),
    (Kind.DECIMAL, Decimal("1E+30"), "decimal:1E+30"),
    (Kind.DOUBLE, 0.1, "double:0.1"),
    (Kind.DOUBLE, 1e16, "double:1e+16"),
    (Kind.DOUBLE, 2.0**53, "double:9007199254740992.0"),
    (Kind.DOUBLE, 5e-324, "double:5e-324"),
    (Kind.DOUBLE, -1.7976931348623157e308, "double:-1.7976931348623157e+308"),
    (Kind.DATE, date(2024, 2, 29), "date:2024-02-29"),
    (Kind.DATE, date.min, "date:0001-01-01"),
    (Kind.DATE, date.max, "date:9999-12-31"),
    (Kind.TIME, timedelta(), "time:0"),
    (Kind.TIME, LONGEST_TIME, "time:3020399999999"),
    (Kind.TIME, -LONGEST_TIME, "time:-3020399999999"),
    (Kind.TIME, timedelta(microseconds=-1), "time:-1"),
    (Kind.BYTES, b"", "bytes:"),
    (Kind.BYTES, b"\x00\xff", "bytes:00ff"),
    (Kind.TEXT, "", "text:"),
    (Kind.TEXT, "a:b\n\x00", "text:a:b\n\x00"),
    (Kind.TEXT, "\u6ce8\u6587 \U0001f511 ", "text:\u6ce8\u6587 \U0001f511 "),
    (Kind.COLLATED, "\u00c4rger", "collated:\u00c4rger"),
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
def test_a_value_has_one_text_and_comes_back_from_it(kind: Kind, plain: "Plain", text: str) -> None:
    value = Value(kind, plain)

    assert str(value) == text
    assert Value.of_text(text) == value
    assert type(Value.of_text(text).plain) is type(plain)


def test_every_kind_has_an_example_above() -> None:
    assert {kind for kind, _, _ in WRITTEN} == set(Kind)


@given(values())
def test_any_value_comes_back_exactly(value: Value) -> None:
    again = Value.of_text(str(value))

    assert again == value
    assert repr(again.plain) == repr(value.plain)


@pytest.mark.parametrize("text", NO_TEXT_OF_A_VALUE, ids=map(text_id, NO_TEXT_OF_A_VALUE))
def test_a_text_that_no_value_is_written_as_is_refused(text: str) -> None:
    """Also where it could be understood: two texts of one position would have two digests."""
    with pytest.raises(BadCursor):
        Value.of_text(text)


def test_a_refused_kind_is_answered_with_all_kinds() -> None:
    with pytest.raises(BadCursor, match="has no kind") as caught:
        Value.of_text("timestamp:0")

    assert all(kind in caught.value.hint for kind in Kind)


def test_an_inexact_text_is_answered_with_the_exact_one() -> None:
    with pytest.raises(BadCursor, match=r"'decimal:1e5' is not the exact form of decimal:1E\+5"):
        Value.of_text("decimal:1e5")


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (Kind.INSTANT, datetime(2024, 5, 17)),  # noqa: DTZ001 - the fault to refuse
        (Kind.INSTANT, datetime(2024, 5, 17, tzinfo=timezone(timedelta(hours=2)))),
        (Kind.INSTANT, date(2024, 5, 17)),
        (Kind.WALL, NOON),
        (Kind.WALL, "2024-05-17"),
        (Kind.DATE, NOON),
        (Kind.INT, True),
        (Kind.INT, 1.0),
        (Kind.INT, Decimal(1)),
        (Kind.INT, 1 << 12_000),
        (Kind.DECIMAL, 1),
        (Kind.DECIMAL, 1.0),
        (Kind.DECIMAL, Decimal("NaN")),
        (Kind.DECIMAL, Decimal("sNaN")),
        (Kind.DECIMAL, Decimal("-Infinity")),
        (Kind.DOUBLE, 1),
        (Kind.DOUBLE, math.nan),
        (Kind.DOUBLE, math.inf),
        (Kind.TIME, LONGEST_TIME + timedelta(microseconds=1)),
        (Kind.TIME, -LONGEST_TIME - timedelta(microseconds=1)),
        (Kind.TIME, 0),
        (Kind.BYTES, "00"),
        (Kind.BYTES, bytearray(b"x")),
        (Kind.TEXT, b"x"),
        (Kind.TEXT, "\ud800"),
        (Kind.COLLATED, "a\udfffb"),
        (Kind.COLLATED, None),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_value_of_another_kind_is_refused(kind: Kind, plain: "Plain") -> None:
    with pytest.raises(BadCursor, match=f"is not of kind {kind}"):
        Value(kind, plain)


def test_an_integer_beyond_all_counting_is_refused_by_name() -> None:
    """Python does not even write it: the refusal must not fail on that."""
    for endless in (10**5000, -(10**5000)):
        with pytest.raises(BadCursor, match="an endless integer is not of kind int"):
            Cursor.of(endless)


@pytest.mark.parametrize(
    ("plain", "kind"),
    [
        (NOON, Kind.INSTANT),
        (NOON.replace(tzinfo=None), Kind.WALL),
        (date(2024, 5, 17), Kind.DATE),
        (42, Kind.INT),
        (Decimal("4.2"), Kind.DECIMAL),
        (4.2, Kind.DOUBLE),
        (timedelta(hours=30), Kind.TIME),
        (b"\x42", Kind.BYTES),
        ("forty-two", Kind.COLLATED),
    ],
    ids=str,
)
def test_a_python_value_has_its_kind(plain: "Plain", kind: Kind) -> None:
    assert Cursor.of(plain) == Cursor((Value(kind, plain),))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "UTC"])
def test_an_instant_of_any_zone_is_one_position(zone: str) -> None:
    """Two of one zone compare by their wall clocks, and so the hour that repeats would stand in the wrong order."""
    cursor = Cursor.of(NOON.astimezone(ZoneInfo(zone)), 42)

    assert cursor == Cursor.of(NOON, 42)
    assert cursor.texts() == ["instant:2024-05-17T12:00:00.000000Z", "int:42"]


def test_the_hour_that_repeats_has_two_positions() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, again = (Cursor.of(datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=berlin)) for fold in (0, 1))

    assert first < again
    assert again.instant == datetime(2024, 10, 27, 1, 30, tzinfo=UTC)


def test_a_moment_whose_zone_knows_no_offset_makes_no_cursor() -> None:
    with pytest.raises(BadCursor, match="has no time zone"):
        Cursor.of(datetime(2024, 5, 17, 12, 0, tzinfo=Nowhere()))


def test_text_is_collated_unless_it_is_said_to_be_binary() -> None:
    """The default collations of MySQL are not binary: to order their text here would be to guess."""
    cursor = Cursor.of("a", Value(Kind.TEXT, "a"))

    assert cursor.texts() == ["collated:a", "text:a"]


@pytest.mark.parametrize("nothing", [None, True, [], object(), 1j, bytearray(b"x"), math.nan, math.inf, Decimal("NaN")])
def test_what_has_no_place_in_an_order_makes_no_cursor(nothing: "Plain") -> None:
    with pytest.raises(BadCursor):
        Cursor.of(nothing)


@given(cursors(*Kind))
def test_any_cursor_comes_back_from_its_text(cursor: Cursor) -> None:
    assert Cursor.of_text(str(cursor)) == cursor
    assert Cursor.of_texts(cursor.texts()) == cursor


@given(cursors(*Kind))
def test_equal_cursors_are_found_in_a_set(cursor: Cursor) -> None:
    assert {cursor: True}[Cursor.of_text(str(cursor))]


def test_a_cursor_reads_as_json() -> None:
    cursor = Cursor.of(NOON, 42, '\u00e9"')

    assert str(cursor) == '["instant:2024-05-17T12:00:00.000000Z", "int:42", "collated:\u00e9\\""]'
    assert json.loads(str(cursor)) == cursor.texts()


def test_the_start_is_written_as_nothing() -> None:
    assert str(START) == "[]"
    assert Cursor.of_text("[]") == START


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
        Cursor.of_text(text)


@pytest.mark.parametrize("parts", [None, "int:42", ("int:42",), {"int:42"}, {"0": "int:42"}, 42], ids=str)
def test_a_cursor_is_a_list_of_values(parts: object) -> None:
    with pytest.raises(BadCursor, match="is a list of values"):
        Cursor.of_texts(parts)


@pytest.mark.parametrize(
    ("kind", "in_order"),
    [
        (Kind.INSTANT, instants(0, 1, 999_999)),
        (Kind.INT, [-(2**64), -1, 0, 9, 10, 2**63, 2**64 - 1]),
        (Kind.DECIMAL, [Decimal(-2), Decimal("0.1"), Decimal("0.10000000000000000000000000000000000001"), Decimal(9)]),
        (Kind.DOUBLE, [-1e300, -5e-324, 0.0, 0.1, 0.30000000000000004, 1e16]),
        (Kind.TIME, [-LONGEST_TIME, timedelta(microseconds=-1), timedelta(), timedelta(hours=25), LONGEST_TIME]),
        (Kind.BYTES, [b"", b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]),
        (Kind.TEXT, ["", " ", "A", "B", "a", "a ", "aa", "\u00e9", "\ufb01", "\U0001f511"]),
    ],
)
def test_values_have_the_order_of_their_database(kind: Kind, in_order: "list[Plain]") -> None:
    row = [Cursor((Value(kind, plain),)) for plain in in_order]

    assert all(low < high and not high < low for low, high in combinations(row, 2))


@given(st.data())
def test_the_order_of_cursors_is_that_of_tuples(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(DECIDABLE), min_size=1, max_size=4))
    left, right = data.draw(cursors(*kinds)), data.draw(cursors(*kinds))
    mine, its = (tuple(value.plain for value in cursor.values) for cursor in (left, right))

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


@given(cursors(Kind.INSTANT, Kind.INT, Kind.TEXT))
def test_a_cursor_stands_before_every_longer_one_that_begins_with_it(cursor: Cursor) -> None:
    for length in range(len(cursor)):
        assert Cursor(cursor.values[:length]) < cursor


def test_an_instant_alone_stands_before_all_rows_of_that_instant() -> None:
    """A mark set by hand at an instant reads its rows: under `>` alone they would be lost."""
    mark = Cursor.of(NOON)

    assert Cursor.of(NOON - timedelta(microseconds=1), 2**64 - 1) < mark
    assert mark < Cursor.of(NOON, -(2**63))
    assert mark < Cursor.of(NOON, Value(Kind.TEXT, ""))
    assert mark < Cursor.of(NOON, "any text, in whatever collation")


def test_the_start_stands_before_everything() -> None:
    first = Cursor.of(datetime.min.replace(tzinfo=UTC))

    assert first > START
    assert not first < START
    assert Cursor() <= START
    assert not Cursor() < START
    assert not START
    assert first


def test_ties_of_the_order_column_are_told_apart_by_the_key() -> None:
    tied = [Cursor.of(NOON, key) for key in (11, 9, 10)]

    assert [cursor.texts()[1] for cursor in sorted(tied)] == ["int:9", "int:10", "int:11"]


@pytest.mark.parametrize("other", ["b", "A", "a ", "\u00e4", ""])
def test_only_the_database_orders_collated_text(other: str) -> None:
    """`a`, `A`, `a ` and `ä` are one value in some collations."""
    mine, its = Cursor.of(1, "a"), Cursor.of(1, other)

    for compare in comparisons(mine, its):
        with pytest.raises(OrderedByDatabase, match="only the database orders collated:") as caught:
            compare()
        assert "SQL" in caught.value.hint


def test_an_earlier_value_decides_for_collated_text() -> None:
    assert Cursor.of(1, "z") < Cursor.of(2, "a")
    assert not Cursor.of(2, "a") < Cursor.of(1, "z")


def test_the_same_collated_text_leaves_the_decision_to_the_next_value() -> None:
    assert Cursor.of("a", 1) < Cursor.of("a", 2)
    assert Cursor.of("a") < Cursor.of("a", 1)
    assert Cursor.of("a") <= Cursor.of("a")


def test_collated_text_has_no_order_even_with_itself() -> None:
    value = Value(Kind.COLLATED, "a")

    with pytest.raises(OrderedByDatabase):
        value.precedes(value)


@pytest.mark.parametrize(
    ("mine", "its"),
    [
        (Value(Kind.INT, 1), Value(Kind.DOUBLE, 1.0)),
        (Value(Kind.INT, 1), Value(Kind.DECIMAL, Decimal(1))),
        (Value(Kind.INSTANT, NOON), Value(Kind.WALL, NOON.replace(tzinfo=None))),
        (Value(Kind.DATE, date(2024, 5, 17)), Value(Kind.WALL, NOON.replace(tzinfo=None))),
        (Value(Kind.TEXT, "a"), Value(Kind.COLLATED, "a")),
        (Value(Kind.TEXT, "a"), Value(Kind.BYTES, b"a")),
        (Value(Kind.INT, 1), Value(Kind.INSTANT, NOON)),
    ],
    ids=str,
)
def test_positions_of_different_orders_are_not_compared(mine: Value, its: Value) -> None:
    """Not even where Python finds them equal: the cursor column or the key has changed its type."""
    left, right = Cursor((mine,)), Cursor((its,))

    assert left != right
    for compare in comparisons(left, right):
        with pytest.raises(NotComparable, match="are of different kinds") as caught:
            compare()
        assert "key change" in caught.value.hint


def test_a_difference_before_the_change_of_kind_decides() -> None:
    assert Cursor.of(1, 1) < Cursor.of(2, Decimal(0))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati", "UTC"])
def test_an_instant_is_written_in_utc_whatever_its_zone(zone: str) -> None:
    local = NOON.astimezone(ZoneInfo(zone))

    assert instant_text(local) == "2024-05-17T12:00:00.000000Z"
    assert instant_of(instant_text(local)) == NOON


def test_the_hour_that_repeats_in_autumn_is_two_hours() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, again = (datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=berlin) for fold in (0, 1))

    assert instant_text(first) == "2024-10-27T00:30:00.000000Z"
    assert instant_text(again) == "2024-10-27T01:30:00.000000Z"


@given(plain_of[Kind.INSTANT])
def test_an_instant_keeps_its_microseconds(moment: datetime) -> None:
    assert instant_of(instant_text(moment)) == moment
    assert instant_of(instant_text(moment)).tzinfo is UTC


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=2))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))),
    ],
)
def test_an_instant_outside_the_calendar_of_utc_is_refused_by_name(moment: datetime) -> None:
    with pytest.raises(BadCursor, match="has no moment in UTC"):
        instant_text(moment)


@pytest.mark.parametrize("zone", [None, Nowhere()], ids=["no zone", "a zone without an offset"])
def test_a_moment_without_a_zone_is_no_instant(zone: tzinfo | None) -> None:
    """Read in the zone of the machine, it would be another instant on each."""
    with pytest.raises(BadCursor, match="has no time zone"):
        instant_text(datetime(2024, 5, 17, 12, 0, tzinfo=zone))


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
        instant_of(text)


def test_a_cursor_tells_the_instant_that_it_begins_with() -> None:
    assert Cursor.of(NOON, 42).instant == NOON


@pytest.mark.parametrize("cursor", [START, Cursor.of(42), Cursor.of(NOON.replace(tzinfo=None)), Cursor.of(1, NOON)])
def test_a_cursor_that_begins_with_no_instant_tells_none(cursor: Cursor) -> None:
    assert cursor.instant is None


@pytest.mark.parametrize("error", [BadCursor, NotComparable, OrderedByDatabase])
def test_a_bad_position_is_the_callers_to_mend(error: type[Exception]) -> None:
    assert issubclass(error, Misuse)
