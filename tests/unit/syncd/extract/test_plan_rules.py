"""What the next batch is, decided without a server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.datatypes.columns import ColumnMapping, ParquetType, PhysicalType, TransferType
from syncd.datatypes.source_table import SourceColumn, SourceIndex, SourceTable
from syncd.extract.plan_body import (
    build_queries,
    make_order_fields,
    plan_chunk,
    plan_increment,
    plan_start,
    plan_whole_table,
)
from syncd.extract.plan_rules import (
    FEWEST_ROWS,
    ExtractRequest,
    PlanContext,
    PlanMode,
    WindowBounds,
    choose_plan_mode,
    extend_to_end,
    is_ahead_due,
    may_hold_rows,
    rows_left,
    split_rows,
    window_rows,
)
from syncd.mysql.query_plan import find_plan_problem
from syncd.ports.source import Horizon
from syncd.settings import Mode, StreamSettings
from syncd.tables.sort_order import resolve_order
from tests.builders import make_plan
from watermarks.batch import BatchKind, Plan, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.progress import ExtractProgress

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
WALL = NOON.replace(tzinfo=None)
ID = SourceColumn(name="id", data_type="bigint", column_type="bigint", nullable=False, extra="auto_increment")
STAMP = SourceColumn(name="update_at", data_type="datetime", column_type="datetime(3)", fraction=3, nullable=True)
PRIMARY = SourceIndex(name="PRIMARY", columns=("id",), unique=True, whole=True)
BY_TIME = SourceIndex(name="by_time", columns=("update_at",), unique=False, whole=True)


def table(*indexes: SourceIndex, **more: Any) -> SourceTable:
    told = {"kind": "BASE TABLE", "engine": "InnoDB", "columns": (ID, STAMP), **more}
    return SourceTable(database="shop", name="orders", indexes=indexes or (PRIMARY, BY_TIME), **told)


def settings(**more: Any) -> StreamSettings:
    return StreamSettings(source="shop", database="shop", table="orders", **more)


ORDER = resolve_order(table(), settings())
GROUND = PlanContext(
    mark=START_CURSOR,
    identity="server-1",
    fingerprint="s1",
    created=NOON,
    horizon=Horizon(bound=NOON, proven=True, t0=NOON, identity="server-1", reason="held by transaction 7"),
)


def at(seconds: int, key: int | None = None) -> Cursor:
    wall = CursorValue(ValueKind.WALL, WALL + timedelta(seconds=seconds))
    return Cursor.from_values(wall) if key is None else Cursor.from_values(wall, key)


def passage(name: str, select: str) -> ColumnMapping:
    return ColumnMapping(
        column=name,
        name=name,
        select=select,
        travel=TransferType.TEXT,
        parquet=ParquetType(physical=PhysicalType.BYTE_ARRAY),
        redshift="VARCHAR",
    )


@given(st.integers(1, 3_000_000), st.integers(1, 16))
def test_windows_hold_the_batch_and_none_but_the_last_is_small(rows: int, windows: int) -> None:
    each = window_rows(rows, windows)

    sizes = split_rows(rows, window_size=each)

    assert sum(sizes) == rows
    assert len(sizes) <= windows
    assert all(size == each >= FEWEST_ROWS for size in sizes[:-1])


@pytest.mark.parametrize(
    ("chain", "cursor", "way"),
    [
        (ExtractProgress(), "update_at", PlanMode.BEGIN),
        (ExtractProgress(), "none", PlanMode.WHOLE),
        (ExtractProgress(cursor=at(0)), "update_at", PlanMode.FOLLOW),
        (
            ExtractProgress(snapshot=SnapshotProgress(horizon=at(0), reached_key=START_CURSOR, done=False)),
            "update_at",
            PlanMode.CHUNKS,
        ),
        (
            ExtractProgress(
                snapshot=SnapshotProgress(horizon=at(0), reached_key=START_CURSOR, done=True), cursor=at(0)
            ),
            "update_at",
            PlanMode.FOLLOW,
        ),
    ],
)
def test_a_stream_goes_on_from_where_its_chain_stands(chain: ExtractProgress, cursor: str, way: PlanMode) -> None:
    assert choose_plan_mode(chain, settings(cursor=cursor)) is way


def test_a_limit_counts_what_the_run_has_read() -> None:
    wanted = settings(batch_rows=100)

    assert [rows_left(wanted, ExtractRequest(limit=250), done=done) for done in (0, 100, 200, 250)] == [100, 100, 50, 0]


@pytest.mark.parametrize(
    ("held", "mode", "looked", "due"),
    [
        (31, Mode.UPSERT, None, True),
        (30, Mode.UPSERT, None, False),
        (31, Mode.APPEND, None, False),
        (90, Mode.UPSERT, NOON - timedelta(seconds=29), False),
        (90, Mode.UPSERT, NOON - timedelta(seconds=30), True),
    ],
)
def test_rows_come_ahead_when_the_horizon_is_held_too_long(
    held: int, mode: Mode, looked: datetime | None, *, due: bool
) -> None:
    horizon = Horizon(bound=NOON - timedelta(seconds=held), proven=True, t0=NOON, identity="server-1")

    assert is_ahead_due(horizon, settings(mode=mode), checked_at=looked) is due


def test_only_the_database_rules_out_rows_between_two_texts() -> None:
    assert may_hold_rows(Cursor.from_values("A"), Cursor.from_values("b"))
    assert not may_hold_rows(Cursor.from_values("A"), Cursor.from_values("A"))
    assert not may_hold_rows(at(1), at(1, 7))
    assert may_hold_rows(at(1, 7), at(1))


def sealed(plan: Plan) -> Plan:
    """The plan as another process finds it."""
    return Plan.from_bytes(plan.to_bytes(), location="plan", stream=plan.stream, batch=plan.id)


def test_a_sealed_plan_alone_says_what_to_read() -> None:
    draft = plan_increment(GROUND, ORDER, WindowBounds(low=START_CURSOR, ends=(at(1, 5), at(9, 2)), rows=10))
    passages = (passage("id", "`id`"), passage("update_at", "CAST(`update_at` AS BINARY)"))

    plan = sealed(make_plan(draft=draft))

    first, second = build_queries(plan, passages)
    assert first.window
    assert second.window
    assert first.window.abuts(second.window)
    assert first.sql == (
        "SELECT `id` AS `id`, CAST(`update_at` AS BINARY) AS `update_at`, CAST(`id` AS SIGNED) AS `_syncd_order_1`"
        " FROM `shop`.`orders` FORCE INDEX (`by_time`)"
        " WHERE ((`update_at` < TIMESTAMP'2026-01-31 12:00:01.000')"
        " OR (`update_at` = TIMESTAMP'2026-01-31 12:00:01.000' AND `id` <= 5))"
    )
    assert [(place.name, place.kind) for place in make_order_fields(plan, passages)] == [
        ("update_at", ValueKind.WALL),
        ("_syncd_order_1", ValueKind.INT),
    ]
    assert plan.draft.proven
    assert plan.draft.body["horizon"]["reason"] == "held by transaction 7"
    assert plan.draft.body["index"] == "by_time"


@pytest.mark.parametrize(
    ("found", "ends"),
    [
        (WindowBounds(low=at(1)), (at(9),)),
        (WindowBounds(low=at(1), ends=(at(2, 5), at(8, 2))), (at(2, 5), at(9))),
        (WindowBounds(low=at(1), ends=(at(8, 2),), has_more=True), (at(8, 2),)),
        (WindowBounds(low=at(9)), ()),
    ],
    ids=["no row", "the last row", "more rows", "all read"],
)
def test_a_range_is_read_up_to_its_end_where_no_row_follows(found: WindowBounds, ends: tuple[Cursor, ...]) -> None:
    assert extend_to_end(found, at(9)).ends == ends


def test_a_chunk_of_the_first_pass_reads_below_its_horizon_and_where_there_is_no_stamp() -> None:
    bounds = WindowBounds(low=Cursor.from_values(5), ends=(Cursor.from_values(9),), rows=4, has_more=True)

    plan = sealed(make_plan(draft=plan_chunk(GROUND, ORDER, bounds, at(0), proven=True, include_nulls=True)))

    [query] = build_queries(plan, ())
    assert query.sql.endswith(
        " FROM `shop`.`orders` FORCE INDEX (`PRIMARY`) WHERE ((`id` > 5 AND `id` <= 9))"
        " AND (`update_at` < TIMESTAMP'2026-01-31 12:00:00.000' OR `update_at` IS NULL)"
    )
    assert plan.draft.high == START_CURSOR
    assert plan.draft.snapshot == SnapshotProgress(horizon=at(0), reached_key=Cursor.from_values(9), done=False)


def test_the_last_chunk_moves_the_mark_to_the_horizon() -> None:
    draft = plan_chunk(GROUND, ORDER, WindowBounds(low=Cursor.from_values(5)), at(0), proven=True, include_nulls=False)

    assert (draft.high, draft.windows) == (at(0), ())
    assert build_queries(make_plan(draft=draft), ()) == ()


def test_a_start_promises_nothing_of_what_lies_before() -> None:
    draft = plan_start(GROUND, ORDER, at(0))

    assert (draft.high, draft.proven, draft.windows) == (at(0), False, ())


def test_a_whole_table_is_one_statement_without_a_window() -> None:
    plan = sealed(make_plan(draft=plan_whole_table(GROUND, "shop", "orders", proven=True)))

    [query] = build_queries(plan, (passage("id", "`id`"),))

    assert (query.window, query.sql) == (None, "SELECT `id` AS `id` FROM `shop`.`orders` WHERE TRUE")
    assert make_order_fields(plan, ()) == ()
    assert plan.draft.kind is BatchKind.SNAPSHOT


def test_a_key_that_holds_the_order_column_is_not_compared_twice() -> None:
    primary = SourceIndex(name="PRIMARY", columns=("update_at", "id"), unique=True, whole=True)

    order = resolve_order(table(primary), settings())

    assert [column.name for column in order.columns] == ["update_at", "id"]
    assert [column.name for column in order.key] == ["update_at", "id"]
    assert (order.index, order.key_index) == ("PRIMARY", "PRIMARY")


def test_the_shortest_index_serves_but_across_partitions_the_one_that_names_the_key() -> None:
    long = SourceIndex(name="a_long", columns=("update_at", "id"), unique=False, whole=True)

    assert resolve_order(table(PRIMARY, long, BY_TIME), settings()).index == "by_time"
    assert resolve_order(table(PRIMARY, long, BY_TIME, partitioned=True), settings()).index == "a_long"


MARIADB_LINE = (1, "SIMPLE", "t", "range", "k", "k", "5", None, 10, "Using where; Using index")
MYSQL_LINE = (1, "SIMPLE", "t", None, "range", "k", "k", "5", None, 10, 100.0, "Using where")


@pytest.mark.parametrize(
    ("line", "mariadb", "index", "trouble"),
    [
        (MARIADB_LINE, True, "k", None),
        (MYSQL_LINE, False, "k", None),
        (MYSQL_LINE, False, "other", "by index k"),
        ((*MYSQL_LINE[:6], None, *MYSQL_LINE[7:]), False, "k", "scan the whole table"),
        ((*MYSQL_LINE[:-1], "Using where; Using filesort"), False, "k", "sort"),
        ((1, "SIMPLE", *[None] * 9, "Impossible WHERE"), False, "k", None),
    ],
)
def test_explain_tells_a_costly_probe(
    line: tuple[object, ...], index: str, trouble: str | None, *, mariadb: bool
) -> None:
    said = find_plan_problem([line], index=index, mariadb=mariadb)

    assert said is None if trouble is None else trouble in str(said)
