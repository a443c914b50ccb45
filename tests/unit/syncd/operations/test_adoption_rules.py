"""Where a mark can stand: what a document says, the lowest of what bounds it, and what is said of differences."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from syncd.datatypes.columns import Travel
from syncd.errors import ConfigError
from syncd.operations.adoption_rules import (
    By,
    Closed,
    Differs,
    Found,
    Inherited,
    Limit,
    behind,
    can_stand_lower,
    lowest,
    require_adoptable,
    require_equal,
    said_by,
)
from syncd.settings import Mode, StreamSettings, TargetSettings
from syncd.tables.order_clock import Clock
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import Order
from syncd.verify.result import Difference, Kind, Verdict
from watermarks.cursor import Cursor
from watermarks.cursor import Kind as ValueKind
from watermarks.errors import Misuse
from watermarks.legacy import read_legacy, read_legacy_text

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))
ORDERS = StreamSettings(
    source="shop",
    database="shop",
    table="orders",
    target=TargetSettings(warehouse="dw", schema="public", table="orders"),
)
ID = OrderColumn(name="id", kind=ValueKind.INT, travel=Travel.INTEGER, select="id")
STAMP = OrderColumn(name="update_at", kind=ValueKind.WALL, travel=Travel.TEXT, select="update_at")


def order(clock: Clock | None) -> Order:
    columns = (ID,) if clock is None else (replace(STAMP, kind=clock.kind), ID)
    return Order(
        database="shop", table="orders", key=(ID,), key_index="PRIMARY", columns=columns, index="i", clock=clock
    )


def wall(per_second: int = 1) -> Clock:
    """Of writers in another zone than the document's, which kept what the column showed."""
    return Clock(kind=ValueKind.WALL, per_second=per_second, zone=BERLIN)


def told(text: str) -> Inherited:
    return Inherited(at="old", legacy=read_legacy_text(text.encode(), at="old"))


def by_key(key: int | None) -> Inherited:
    body = (
        b'{"version": "2.0", "table_name": "shop.orders", "mysql_state": {"last_id": %s}, "redshift_state": {}}'
        % str(key or "null").encode()
    )
    return Inherited(at="old", legacy=read_legacy(body, at="old"))


@pytest.mark.parametrize(
    ("text", "clock", "mark"),
    [
        ("2026-01-31 12:00:00", wall(), ["wall:2026-01-31T12:00:01.000000"]),
        ("2026-01-31 12:00:00.5Z", wall(), ["wall:2026-01-31T12:00:01.000000"]),
        ("2026-01-31 12:00:00.123456", wall(1_000_000), ["wall:2026-01-31T12:00:00.123457"]),
        (
            "2026-01-31 12:00:00",
            Clock(kind=ValueKind.INSTANT, per_second=1_000),
            ["instant:2026-01-31T12:00:00.001000Z"],
        ),
        ("2026-01-31 12:00:00", Clock(kind=ValueKind.INT, per_second=1), ["int:1769860801"]),
    ],
)
def test_a_documents_time_stands_for_all_rows_of_its_instant_as_the_column_shows_it(
    text: str, clock: Clock, mark: list[str]
) -> None:
    assert said_by(order(clock), told(text)).cursor.texts() == mark


def test_a_documents_key_stands_for_itself_where_the_table_is_read_by_it() -> None:
    assert said_by(order(None), by_key(7)) == Limit(cursor=Cursor.of(7), by=By.DOCUMENT)


@pytest.mark.parametrize(
    ("clock", "document"), [(None, told("2026-01-31 12:00:00")), (wall(), by_key(7)), (None, by_key(None))]
)
def test_a_document_that_says_nothing_of_the_order_is_refused(clock: Clock | None, document: Inherited) -> None:
    with pytest.raises(Misuse, match="old says no"):
        said_by(order(clock), document)


def test_the_lowest_bound_decides() -> None:
    limits = [Limit(cursor=Cursor.of(9), by=By.HORIZON), Limit(cursor=Cursor.of(7), by=By.DOCUMENT)]

    assert lowest(limits).by is By.DOCUMENT
    assert lowest(limits[:1]).by is By.HORIZON


@pytest.mark.parametrize(
    ("clock", "last", "mark"),
    [
        (wall(), Cursor.of(NOON.replace(tzinfo=None), 7), ["wall:2026-01-31T12:00:00.000000", "int:7"]),
        (wall(), Cursor.of(NOON.replace(tzinfo=None)), ["wall:2026-01-31T12:00:01.000000"]),
        (wall(1_000), Cursor.of(NOON.replace(tzinfo=None)), ["wall:2026-01-31T12:00:00.001000"]),
        (Clock(kind=ValueKind.INT, per_second=1), Cursor.of(7), ["int:8"]),
    ],
)
def test_a_mark_stands_at_the_last_row_or_behind_all_of_its_instant(
    clock: Clock, last: Cursor, mark: list[str]
) -> None:
    assert behind(order(clock), last).texts() == mark


def found(*differences: Difference, kept: bool = True, proven: bool = True, since: Cursor | None = None) -> Found:
    counts = Counter(one.kind for one in differences)
    verdict = Verdict(rows=300, counts=counts, differences=differences if kept else ())
    closed = Closed(cursor=Cursor.of(NOON), proven=proven, reason="", source_identity="server-1")
    return Found(
        run="import-1",
        at=NOON,
        target="public.orders",
        mark=Cursor.of(NOON, 7),
        by=By.TARGET,
        since=since,
        closed=closed,
        verdict=verdict,
        lowest=NOON if can_stand_lower(verdict) else None,
    )


LOST = Difference(kind=Kind.LOST, key={"id": 1}, position=Cursor.of(1))
GHOST = Difference(kind=Kind.GHOST, key={"id": 2})


def test_what_is_equal_is_proven_where_its_horizon_is_and_nothing_was_left_out() -> None:
    assert found().proven
    assert not found(proven=False).proven
    assert not found(LOST).proven
    assert not found(since=Cursor.of(NOON)).proven


def test_rows_that_a_run_would_read_again_may_be_left_to_a_lower_mark() -> None:
    with pytest.raises(
        Differs, match=r"public.orders is not what shop.orders is at the source: 1 lost, among 300"
    ) as e:
        require_equal(found(LOST), ORDERS)

    assert "--timestamp '2026-01-31 12:00:00'" in e.value.hint
    assert "--with-differences, then syncd verify -t shop.orders --repair --yes" in e.value.hint


@pytest.mark.parametrize("differs", [found(LOST, GHOST), found(LOST, kept=False)], ids=["a ghost", "not all known"])
def test_rows_that_no_lower_mark_would_mend_are_for_a_repair_alone(differs: Found) -> None:
    with pytest.raises(Differs) as e:
        require_equal(differs, ORDERS)

    assert "--timestamp" not in e.value.hint


def test_the_proof_tells_what_was_compared_up_to_where_by_which_run() -> None:
    proof = found(LOST).proof

    assert (proof["run"], proof["rows"], proof["mark"]) == ("import-1", 300, Cursor.of(NOON, 7).texts())
    assert (proof["differences"], proof["closed_is_proven"]) == ({"lost": 1}, True)


@pytest.mark.parametrize(
    "settings",
    [
        replace(ORDERS, target=None),
        replace(ORDERS, cursor="none", mode=Mode.REPLACE),
        replace(ORDERS, mode=Mode.HISTORY),
    ],
    ids=["no warehouse", "read whole", "history"],
)
def test_what_has_no_mark_or_no_versions_of_its_own_is_not_taken_over(settings: StreamSettings) -> None:
    require_adoptable(ORDERS)

    with pytest.raises(ConfigError):
        require_adoptable(settings)
