"""Where a mark can stand: what a document says, the lowest of what bounds it, and what is said of differences."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from syncd.datatypes.columns import TransferType
from syncd.errors import ConfigError
from syncd.operations.adoption_rules import (
    ImportCheck,
    LegacyDocument,
    MarkBasis,
    MarkLimit,
    TargetDiffers,
    can_lower_mark,
    limit_from_document,
    lowest_limit,
    mark_after,
    require_equal,
    require_importable,
)
from syncd.ports.source import SourceBound
from syncd.settings import Mode, StreamSettings, TargetSettings
from syncd.tables.order_clock import OrderClock
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import StreamOrder
from syncd.verify.result import ComparisonResult, Difference, DifferenceKind
from watermarks.cursor import Cursor, ValueKind
from watermarks.errors import Misuse
from watermarks.legacy import read_legacy_system_watermark, read_legacy_watermark

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))
ORDERS = StreamSettings(
    source="shop",
    database="shop",
    table="orders",
    target=TargetSettings(warehouse="dw", schema="public", table="orders"),
)
ID = OrderColumn(name="id", kind=ValueKind.INT, travel=TransferType.INTEGER, select="id")
STAMP = OrderColumn(name="update_at", kind=ValueKind.WALL, travel=TransferType.TEXT, select="update_at")


def order(clock: OrderClock | None) -> StreamOrder:
    columns = (ID,) if clock is None else (replace(STAMP, kind=clock.kind), ID)
    return StreamOrder(
        database="shop", table="orders", key=(ID,), key_index="PRIMARY", columns=columns, index="i", clock=clock
    )


def wall(per_second: int = 1) -> OrderClock:
    """Of writers in another zone than the document's, which kept what the column showed."""
    return OrderClock(kind=ValueKind.WALL, steps_per_second=per_second, zone=BERLIN)


def told(text: str) -> LegacyDocument:
    return LegacyDocument(location="old", legacy=read_legacy_system_watermark(text.encode(), location="old"))


def by_key(key: int | None) -> LegacyDocument:
    body = (
        b'{"version": "2.0", "table_name": "shop.orders", "mysql_state": {"last_id": %s}, "redshift_state": {}}'
        % str(key or "null").encode()
    )
    return LegacyDocument(location="old", legacy=read_legacy_watermark(body, location="old"))


@pytest.mark.parametrize(
    ("text", "clock", "mark"),
    [
        ("2026-01-31 12:00:00", wall(), ["wall:2026-01-31T12:00:01.000000"]),
        ("2026-01-31 12:00:00.5Z", wall(), ["wall:2026-01-31T12:00:01.000000"]),
        ("2026-01-31 12:00:00.123456", wall(1_000_000), ["wall:2026-01-31T12:00:00.123457"]),
        (
            "2026-01-31 12:00:00",
            OrderClock(kind=ValueKind.INSTANT, steps_per_second=1_000),
            ["instant:2026-01-31T12:00:00.001000Z"],
        ),
        ("2026-01-31 12:00:00", OrderClock(kind=ValueKind.INT, steps_per_second=1), ["int:1769860801"]),
    ],
)
def test_a_documents_time_stands_for_all_rows_of_its_instant_as_the_column_shows_it(
    text: str, clock: OrderClock, mark: list[str]
) -> None:
    assert limit_from_document(order(clock), told(text)).cursor.to_texts() == mark


def test_a_documents_key_stands_for_itself_where_the_table_is_read_by_it() -> None:
    assert limit_from_document(order(None), by_key(7)) == MarkLimit(
        cursor=Cursor.from_values(7), basis=MarkBasis.DOCUMENT
    )


@pytest.mark.parametrize(
    ("clock", "document"), [(None, told("2026-01-31 12:00:00")), (wall(), by_key(7)), (None, by_key(None))]
)
def test_a_document_that_says_nothing_of_the_order_is_refused(
    clock: OrderClock | None, document: LegacyDocument
) -> None:
    with pytest.raises(Misuse, match="old contains no"):
        limit_from_document(order(clock), document)


def test_the_lowest_bound_decides() -> None:
    limits = [
        MarkLimit(cursor=Cursor.from_values(9), basis=MarkBasis.HORIZON),
        MarkLimit(cursor=Cursor.from_values(7), basis=MarkBasis.DOCUMENT),
    ]

    assert lowest_limit(limits).basis is MarkBasis.DOCUMENT
    assert lowest_limit(limits[:1]).basis is MarkBasis.HORIZON


@pytest.mark.parametrize(
    ("clock", "last", "mark"),
    [
        (wall(), Cursor.from_values(NOON.replace(tzinfo=None), 7), ["wall:2026-01-31T12:00:00.000000", "int:7"]),
        (wall(), Cursor.from_values(NOON.replace(tzinfo=None)), ["wall:2026-01-31T12:00:01.000000"]),
        (wall(1_000), Cursor.from_values(NOON.replace(tzinfo=None)), ["wall:2026-01-31T12:00:00.001000"]),
        (OrderClock(kind=ValueKind.INT, steps_per_second=1), Cursor.from_values(7), ["int:8"]),
    ],
)
def test_a_mark_stands_at_the_last_row_or_behind_all_of_its_instant(
    clock: OrderClock, last: Cursor, mark: list[str]
) -> None:
    assert mark_after(order(clock), last).to_texts() == mark


def found(*differences: Difference, kept: bool = True, proven: bool = True, since: Cursor | None = None) -> ImportCheck:
    counts = Counter(one.kind for one in differences)
    verdict = ComparisonResult(rows=300, counts=counts, differences=differences if kept else ())
    closed = SourceBound(cursor=Cursor.from_values(NOON), proven=proven, reason="", source_identity="server-1")
    return ImportCheck(
        run="import-1",
        checked_at=NOON,
        target="public.orders",
        mark=Cursor.from_values(NOON, 7),
        basis=MarkBasis.TARGET,
        since=since,
        source_bound=closed,
        comparison=verdict,
        earliest_difference=NOON if can_lower_mark(verdict) else None,
    )


LOST = Difference(kind=DifferenceKind.LOST, key={"id": 1}, position=Cursor.from_values(1))
GHOST = Difference(kind=DifferenceKind.GHOST, key={"id": 2})


def test_what_is_equal_is_proven_where_its_horizon_is_and_nothing_was_left_out() -> None:
    assert found().proven
    assert not found(proven=False).proven
    assert not found(LOST).proven
    assert not found(since=Cursor.from_values(NOON)).proven


def test_rows_that_a_run_would_read_again_may_be_left_to_a_lower_mark() -> None:
    with pytest.raises(
        TargetDiffers, match=r"public.orders differs from shop.orders at the source: 1 lost, among 300"
    ) as e:
        require_equal(found(LOST), ORDERS)

    assert "--timestamp '2026-01-31 12:00:00'" in e.value.hint
    assert "--with-differences, then syncd verify -t shop.orders --repair --yes" in e.value.hint


@pytest.mark.parametrize("differs", [found(LOST, GHOST), found(LOST, kept=False)], ids=["a ghost", "not all known"])
def test_rows_that_no_lower_mark_would_mend_are_for_a_repair_alone(differs: ImportCheck) -> None:
    with pytest.raises(TargetDiffers) as e:
        require_equal(differs, ORDERS)

    assert "--timestamp" not in e.value.hint


def test_the_proof_tells_what_was_compared_up_to_where_by_which_run() -> None:
    proof = found(LOST).proof_fields

    assert (proof["run"], proof["rows"], proof["mark"]) == ("import-1", 300, Cursor.from_values(NOON, 7).to_texts())
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
    require_importable(ORDERS)

    with pytest.raises(ConfigError):
        require_importable(settings)
