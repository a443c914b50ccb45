"""Whole streams against real servers: first pass, increments, ahead, ranges, and what must not be lost between."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from syncd.datatypes.columns import ColumnMapping, TransferType
from syncd.errors import ConfigError, SchemaDrift, SourceReplaced, SourceUnfit, ValueRefused
from syncd.extract.plan_rules import ExtractRequest
from syncd.mysql.connection import connect
from syncd.mysql.shared_horizon import ServerHorizons
from syncd.ports.source import ServerTimeBreak
from syncd.s3.horizon_note_store import StoredGrowthNotes, StoredHorizonNotes
from syncd.settings import EpochUnit, FirstRun, Mode, NullCursor, Schedule, StreamSettings
from tests.integration.planner.chains import Stream, Told, passage
from tests.integration.planner.servers import Server, rows_of
from watermarks.batch import BatchKind, Plan
from watermarks.batch_states import BatchState
from watermarks.cursor import START_CURSOR, Cursor, CursorValue, ValueKind
from watermarks.operator import Operator
from watermarks.stores.memory import MemoryStore
from watermarks.window import Window

pytestmark = pytest.mark.services

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
VERSION = (passage("id", travel=TransferType.INTEGER), passage("v", travel=TransferType.INTEGER))
NUMBERS = "(SELECT a.i + 10 * b.i + 100 * c.i + 1000 * d.i AS n FROM {d} a, {d} b, {d} c, {d} d) AS numbers".replace(
    "{d}", "(" + " UNION ALL ".join(f"SELECT {i} AS i" for i in range(10)) + ")"
)


def make(server: Server, columns: str, *statements: str, table: str = "t") -> None:
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(f"CREATE TABLE {table} ({columns}) ENGINE=InnoDB")
        for statement in statements:
            cursor.execute(statement)


def run_sql(server: Server, *statements: str) -> None:
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        for statement in statements:
            cursor.execute(statement)


def versioned(server: Server, kind: str = "DATETIME(3)", rows: int = 1000, *, per_tie: int = 40) -> None:
    now = "CURRENT_TIMESTAMP" + kind[kind.index("(") : kind.index(")") + 1] if "(" in kind else "CURRENT_TIMESTAMP"
    make(
        server,
        "id INT PRIMARY KEY, v INT NOT NULL DEFAULT 1,"
        f" update_at {kind} DEFAULT {now} ON UPDATE {now}, KEY (update_at)",
        f"INSERT INTO t SELECT n, 1, '2026-01-01' + INTERVAL n DIV {per_tie} SECOND FROM {NUMBERS} WHERE n < {rows}",
    )


def stream(
    server: Server, horizons: Told | None = None, *, passages: tuple[ColumnMapping, ...] = VERSION, **settings: Any
) -> Stream:
    wanted = {"source": "lab", "database": "lab", "table": "t", "batch_rows": 150, "settle": timedelta(0), **settings}
    return Stream(
        server, StreamSettings(**wanted), passages, horizons or Told(server, bound=NEW_YEAR + timedelta(days=1))
    )


def bump(server: Server, stamp: str, where: str) -> None:
    run_sql(server, f"UPDATE t SET v = v + 1, update_at = '{stamp}' WHERE {where}")


def pairs(rows: list[tuple[Any, ...]]) -> Counter[tuple[int, int]]:
    return Counter((row[0], row[1]) for row in rows)


@pytest.mark.parametrize("kind", ["DATETIME", "DATETIME(3)", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(6) NULL"])
def test_first_pass_and_increments_read_every_version_once(server: Server, kind: str) -> None:
    versioned(server, kind)
    run_sql(server, "INSERT INTO t VALUES (5000, 1, NULL), (5001, 1, '0000-00-00')")
    h0 = NEW_YEAR + timedelta(seconds=100, milliseconds=500)
    lab = stream(server, Told(server, bound=h0))
    first = lab.rows()
    chunks = []

    def move_rows(plan: Plan) -> None:
        """Rows change under the pass: some already read, some not yet, all stamped above its horizon."""
        chunks.append(plan)
        bump(server, "2026-01-01 00:01:50", f"id IN ({len(chunks) * 37}, {990 - len(chunks)})")

    first.before_reading = move_rows
    lab.run(first)
    lab.horizons.bound = NEW_YEAR + timedelta(days=1)
    second = lab.run()

    with server.admin() as connection:
        now = dict(rows_of(connection, "SELECT id, v FROM t"))
    read = pairs(first.rows + second.rows)
    assert set(read.values()) == {1}, "no version is read twice"
    assert len(chunks) == 7
    assert all(plan.draft.kind is BatchKind.SNAPSHOT for plan in chunks)
    assert {key for key, _ in read} == set(now), "no row is missing"
    assert all(read[item] == 1 for item in now.items()), "the newest version of each is there"
    assert lab.watermark.required_extract_progress.proven
    assert lab.horizons.marks[-1] == NEW_YEAR + timedelta(seconds=110), "a proven mark is told to the horizon"
    assert lab.watermark.required_extract_progress.snapshot
    assert lab.watermark.required_extract_progress.snapshot.done


@pytest.mark.parametrize(
    ("kind", "unit", "factor"),
    [
        ("INT UNSIGNED", EpochUnit.SECONDS, 1),
        ("BIGINT", EpochUnit.MILLISECONDS, 1000),
        ("BIGINT UNSIGNED", EpochUnit.MICROSECONDS, 1_000_000),
    ],
)
def test_an_epoch_orders_rows_like_a_time(server: Server, kind: str, unit: EpochUnit, factor: int) -> None:
    begin = int(NEW_YEAR.timestamp())
    make(
        server,
        f"id INT PRIMARY KEY, v INT NOT NULL DEFAULT 1, changed {kind} NOT NULL, KEY (changed)",
        f"INSERT INTO t SELECT n, 1, ({begin} + n DIV 40) * {factor} FROM {NUMBERS} WHERE n < 400",
    )
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=5)), cursor="changed", cursor_unit=unit)

    first = lab.run()
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=8)
    second = lab.run()

    assert (len(first.rows), len(second.rows)) == (200, 120)
    assert lab.horizons.marks[-1] is None, "a mark that nothing proves bounds no transaction"


def test_ties_deeper_than_a_batch_are_read_once(server: Server) -> None:
    versioned(server, per_tie=700)
    lab = stream(server, first_run=FirstRun.FROM, start=NEW_YEAR, batch_rows=90)

    rows = lab.run().rows

    assert sorted(row[0] for row in rows) == list(range(1000))
    assert lab.watermark.required_extract_progress.seq == 1 + -(-1000 // 90)


@pytest.mark.parametrize("told", [False, True])
def test_only_who_is_told_no_beginning_takes_the_system_wide_default(server: Server, *, told: bool) -> None:
    versioned(server, per_tie=1, rows=20)
    lab = stream(server, is_first_run_configured=told)
    asked = list[int]()

    def default() -> datetime:
        asked.append(1)
        return NEW_YEAR + timedelta(seconds=15)

    rows = lab.rows()
    rows.planner.default_start = default
    lab.run(rows)
    again = lab.rows()
    again.planner.default_start = default
    lab.run(again)

    assert len(rows.rows) == (20 if told else 5)
    assert len(asked) == (0 if told else 1), "once there is a mark nobody asks"


def test_the_horizon_cuts_to_the_columns_digits(server: Server) -> None:
    """A stamp of 10.7 s is written as 10 to a DATETIME: at a horizon of 10.7 that second is not complete."""
    versioned(server, "DATETIME", per_tie=1, rows=20)
    lab = stream(
        server, Told(server, bound=NEW_YEAR + timedelta(seconds=10.7)), first_run=FirstRun.FROM, start=NEW_YEAR
    )

    assert [row[0] for row in lab.run().rows] == list(range(10))


def test_a_start_between_two_digits_begins_at_the_next(server: Server) -> None:
    versioned(server, "DATETIME", per_tie=1, rows=20)
    lab = stream(server, first_run=FirstRun.FROM, start=NEW_YEAR + timedelta(seconds=10.2))

    assert [row[0] for row in lab.run().rows] == list(range(11, 20))
    assert not lab.watermark.required_extract_progress.proven, "what lies before the start is not promised"


def test_now_begins_at_the_horizon(server: Server) -> None:
    versioned(server, per_tie=1, rows=20)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=10)), first_run=FirstRun.NOW)

    lab.run()
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=15)

    assert [row[0] for row in lab.run().rows] == [10, 11, 12, 13, 14]


def test_an_empty_table_is_done_at_once_and_followed_from_its_horizon(server: Server) -> None:
    versioned(server, rows=0)
    lab = stream(server, Told(server, bound=NEW_YEAR))

    lab.run()

    assert [turn.state for turn in lab.turns] == [BatchState.NOOP, None]
    assert lab.watermark.required_extract_progress.cursor == Cursor.from_values(
        CursorValue(ValueKind.WALL, NEW_YEAR.replace(tzinfo=None))
    )


def test_a_limit_bounds_the_rows_of_a_run_and_the_next_goes_on(server: Server) -> None:
    versioned(server)
    lab = stream(server)

    sizes = [len(lab.run(lab.rows(ExtractRequest(limit=220))).rows) for _ in range(6)]

    assert sizes == [220, 220, 220, 220, 120, 0]


def test_until_bounds_increments(server: Server) -> None:
    versioned(server, per_tie=1, rows=20)
    lab = stream(server, first_run=FirstRun.FROM, start=NEW_YEAR)

    lab.run(lab.rows(ExtractRequest(until=NEW_YEAR + timedelta(seconds=7.5))))

    assert len(lab.run().rows) == 12


def test_a_range_is_read_again_and_moves_no_mark(server: Server) -> None:
    versioned(server)
    lab = stream(server)
    lab.run()
    mark = lab.watermark.required_extract_progress.cursor
    wanted = ExtractRequest(since=NEW_YEAR + timedelta(seconds=2), until=NEW_YEAR + timedelta(seconds=12))

    again = lab.run(lab.rows(wanted))

    assert sorted(row[0] for row in again.rows) == list(range(80, 480))
    assert [plan.draft.kind for plan, _ in again.batches] == [BatchKind.REPAIR] * 3
    assert lab.watermark.required_extract_progress.cursor == mark


BERLIN = "Europe/Berlin"
FOLD = datetime(2025, 10, 26, 1, tzinfo=UTC)
"""When Berlin turns its clocks back, from three to two."""


def stamped_around_the_fold(server: Server) -> dict[int, datetime]:
    """Rows that Berlin's wall clock stamped every ten minutes, from two hours before to two hours after; and when."""
    moments = {number: FOLD + timedelta(minutes=10 * (number - 12)) for number in range(24)}
    walls = {number: moment.astimezone(ZoneInfo(BERLIN)).replace(tzinfo=None) for number, moment in moments.items()}
    make(
        server,
        "id INT PRIMARY KEY, v INT NOT NULL DEFAULT 1, update_at DATETIME, KEY (update_at)",
        *(f"INSERT INTO t VALUES ({number}, 1, '{wall}')" for number, wall in walls.items()),
    )
    return moments


@pytest.mark.parametrize(("since", "until"), [(-30, 50), (-90, -20), (-90, 30), (10, 70), (-20, 0)])
def test_a_range_holds_all_of_its_time_also_where_an_hour_repeats(server: Server, since: int, until: int) -> None:
    moments = stamped_around_the_fold(server)
    begin, end = FOLD + timedelta(minutes=since), FOLD + timedelta(minutes=until)
    lab = stream(server)
    lab.zone = BERLIN
    lab.run()

    again = lab.run(lab.rows(ExtractRequest(since=begin, until=end)))

    assert {number for number, moment in moments.items() if begin <= moment < end} <= {row[0] for row in again.rows}


def test_a_stream_that_begins_in_an_hour_that_repeats_reads_its_second_pass(server: Server) -> None:
    moments = stamped_around_the_fold(server)
    start = FOLD - timedelta(minutes=15)
    lab = stream(server, first_run=FirstRun.FROM, start=start)
    lab.zone = BERLIN

    read = {row[0] for row in lab.run().rows}

    assert {number for number, moment in moments.items() if moment >= start} <= read


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP NULL", "TIMESTAMP(6) NULL"])
@pytest.mark.parametrize("start", ["1900-01-01", "1970-01-01", "1970-01-01 00:00:01"])
def test_a_beginning_before_all_time_leaves_no_row_out(server: Server, kind: str, start: str) -> None:
    versioned(server, kind, rows=20)
    run_sql(server, "UPDATE t SET update_at = '1970-01-01 00:00:01' WHERE id < 3")
    lab = stream(server, first_run=FirstRun.FROM, start=datetime.fromisoformat(start).replace(tzinfo=UTC))

    assert sorted(row[0] for row in lab.run().rows) == list(range(20))


def test_a_range_that_reaches_above_the_horizon_says_how_far_it_was_read(server: Server) -> None:
    versioned(server, per_tie=1, rows=100)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=50)))
    lab.run()
    wanted = ExtractRequest(since=NEW_YEAR, until=NEW_YEAR + timedelta(seconds=80))

    cut = lab.run(lab.rows(wanted))
    whole = lab.run(lab.rows(replace(wanted, until=NEW_YEAR + timedelta(seconds=50))))

    assert (len(cut.rows), len(whole.rows)) == (50, 50)
    assert "read up to 2026-01-01 00:00:50 UTC" in cut.planner.wait_reason
    assert "as told" in cut.planner.wait_reason
    assert whole.planner.wait_reason == ""


@pytest.mark.parametrize("left", ["id < 240", "FALSE"], ids=["some are left", "none is left"])
def test_a_range_of_what_appends_is_read_up_to_its_end_though_no_row_stands_there(server: Server, left: str) -> None:
    """Its target is to lose what stood there, which only a window that reaches so far can tell it."""
    versioned(server)
    appends, upserts = (stream(server, mode=mode) for mode in (Mode.APPEND, Mode.UPSERT))
    for lab in (appends, upserts):
        lab.run()
    run_sql(server, f"DELETE FROM t WHERE id BETWEEN 80 AND 479 AND NOT ({left})")
    wanted = ExtractRequest(since=NEW_YEAR + timedelta(seconds=2), until=NEW_YEAR + timedelta(seconds=12))
    high = Cursor.from_values((NEW_YEAR + timedelta(seconds=12)).replace(tzinfo=None))

    again, as_before = (lab.run(lab.rows(wanted)) for lab in (appends, upserts))

    windows = [window for plan, _ in again.batches for window in plan.draft.windows]
    assert Window.join(windows) == Window(
        Cursor.from_values((NEW_YEAR + timedelta(seconds=2)).replace(tzinfo=None)), high
    )
    assert again.rows == as_before.rows
    assert high not in [window.high for plan, _ in as_before.batches for window in plan.draft.windows]
    assert again.planner.wait_reason == ""


def test_a_range_of_what_appends_ends_at_a_row_while_what_is_later_can_still_change(server: Server) -> None:
    versioned(server, per_tie=1, rows=100)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=50)), mode=Mode.APPEND)
    lab.run()

    cut = lab.run(lab.rows(ExtractRequest(since=NEW_YEAR, until=NEW_YEAR + timedelta(seconds=80))))

    assert (len(cut.batches), len(cut.rows)) == (1, 50)
    assert cut.batches[-1][0].draft.windows[-1].high == Cursor.from_values(
        (NEW_YEAR + timedelta(seconds=49)).replace(tzinfo=None), 49
    )
    assert "read up to 2026-01-01 00:00:50 UTC" in cut.planner.wait_reason


def test_hot_rows_above_a_held_horizon_come_ahead(server: Server) -> None:
    versioned(server, "TIMESTAMP(6) NULL", rows=100)
    run_sql(server, "UPDATE t SET update_at = NOW(6) - INTERVAL 2 MINUTE")
    lab = stream(server, Told(server))
    lab.run()
    mark = lab.watermark.required_extract_progress.cursor
    lab.horizons.held = timedelta(seconds=60)
    run_sql(server, "UPDATE t SET v = 2, update_at = NOW(6) - INTERVAL id * 10000 MICROSECOND WHERE id < 20")

    ahead = lab.run(lab.rows())

    assert [plan.draft.kind for plan, _ in ahead.batches] == [BatchKind.AHEAD]
    assert pairs(ahead.rows) == Counter((key, 2) for key in range(20))
    assert len(ahead.batches[0][0].draft.windows) == 1
    assert not ahead.batches[0][0].draft.proven
    assert lab.watermark.required_extract_progress.cursor == mark


def test_ahead_goes_on_where_its_last_batch_left_rows(server: Server) -> None:
    versioned(server, "TIMESTAMP(6) NULL", rows=400)
    lab = stream(server, Told(server, bound=NEW_YEAR, held=timedelta(seconds=31)), first_run=FirstRun.NOW)

    ahead = lab.run()

    kinds = [plan.draft.kind for plan, _ in ahead.batches]
    assert kinds == [BatchKind.SNAPSHOT, BatchKind.AHEAD, BatchKind.AHEAD, BatchKind.AHEAD]
    assert pairs(ahead.rows) == Counter((key, 1) for key in range(400))


def test_a_later_pass_reads_ahead_only_what_came_since_and_what_came_late_is_not_lost(server: Server) -> None:
    versioned(server, "TIMESTAMP(6) NULL", rows=400)
    lab = stream(server, Told(server, bound=NEW_YEAR, held=timedelta(seconds=31)), first_run=FirstRun.NOW)
    first = lab.run()

    lab.horizons.held = timedelta(seconds=35)
    too_soon = lab.run(lab.rows())
    lab.horizons.held = timedelta(seconds=62)
    bump(server, "2026-01-01 00:00:40", "id < 5")
    bump(server, "2026-01-01 00:00:20", "id = 7")  # stamped before the first look, committed after it
    second = lab.run(lab.rows())
    lab.horizons.held = timedelta(seconds=93)
    bump(server, "2026-01-01 00:01:10", "id < 2 OR id = 9")
    third = lab.run(lab.rows())
    lab.horizons.bound, lab.horizons.held = NEW_YEAR + timedelta(minutes=5), timedelta(0)
    at_last = lab.run(lab.rows())

    assert pairs(first.rows) == Counter((key, 1) for key in range(400))
    assert too_soon.rows == []
    assert pairs(second.rows) == Counter((key, 2) for key in range(5))
    assert pairs(third.rows) == Counter({(0, 3): 1, (1, 3): 1, (9, 2): 1})
    assert {plan.draft.kind for plan, _ in at_last.batches} == {BatchKind.INCREMENT}
    versions = dict.fromkeys(range(400), 1) | dict.fromkeys((2, 3, 4, 7, 9), 2) | dict.fromkeys((0, 1), 3)
    assert pairs(at_last.rows) == Counter(versions.items())


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        ("DATETIME", "9999-12-31 23:59:59"),
        ("DATETIME(6)", "9999-12-31 23:59:59.999999"),
        ("TIMESTAMP NULL", "2038-01-19 03:14:07"),
        ("TIMESTAMP(6) NULL", "2038-01-19 03:14:07.999999"),
    ],
)
@pytest.mark.parametrize("batch_rows", [3, 150])
def test_rows_at_the_end_of_time_come_ahead(server: Server, kind: str, last: str, batch_rows: int) -> None:
    versioned(server, kind, rows=20)
    lab = stream(
        server,
        Told(server, bound=NEW_YEAR, held=timedelta(seconds=31)),
        first_run=FirstRun.NOW,
        batch_rows=batch_rows,
    )
    run_sql(server, f"UPDATE t SET update_at = '{last}' WHERE id >= 10")

    ahead = lab.run()

    assert pairs(ahead.rows) == Counter((key, 1) for key in range(20))


def test_a_horizon_that_is_hardly_held_brings_nothing_ahead(server: Server) -> None:
    versioned(server, "TIMESTAMP(6) NULL", rows=10)
    run_sql(server, "UPDATE t SET update_at = NOW(6)")
    lab = stream(server, Told(server, held=timedelta(seconds=20)), first_run=FirstRun.NOW)

    assert lab.run().rows == []


WRITER = "transaction 4711, user app"


def held(server: Server, *, seconds: int, holder: str = WRITER, **more: Any) -> Stream:
    """A stream that has read all below a horizon that is held for so long."""
    versioned(server, "TIMESTAMP(6) NULL", rows=10)
    told = Told(server, bound=NEW_YEAR + timedelta(days=1), held=timedelta(seconds=seconds), holder=holder)
    return stream(server, told, **more)


def test_where_all_is_read_up_to_a_horizon_that_is_held_for_long_it_is_said_who_holds_it(server: Server) -> None:
    rows = held(server, seconds=31).run()

    assert len(rows.rows) == 10
    assert rows.planner.wait_reason == f"held by {WRITER}, since 2026-01-02 00:00:00 UTC at the earliest"


@pytest.mark.parametrize(("seconds", "holder"), [(29, WRITER), (600, "")])
def test_what_holds_it_for_a_moment_or_is_nobody_is_not_waited_for(server: Server, seconds: int, holder: str) -> None:
    assert held(server, seconds=seconds, holder=holder).run().planner.wait_reason == ""


def test_what_will_break_a_short_promise_is_said_before_it_breaks(server: Server) -> None:
    lab = held(server, seconds=6, schedule=Schedule(fresh_within=timedelta(seconds=10)))

    assert lab.run().planner.wait_reason.startswith(f"held by {WRITER}")


def test_who_wants_no_more_than_is_complete_waits_for_nobody(server: Server) -> None:
    lab = held(server, seconds=600)

    assert lab.run(lab.rows(ExtractRequest(until=NEW_YEAR + timedelta(hours=1)))).planner.wait_reason == ""


def test_stamps_that_nobody_can_prove_are_behind_by_a_delay_whoever_holds_the_horizon(server: Server) -> None:
    versioned(server, "DATETIME", rows=10)
    run_sql(server, "ALTER TABLE t MODIFY update_at DATETIME NOT NULL")
    told = Told(server, bound=NEW_YEAR + timedelta(days=1), held=timedelta(seconds=50), holder=WRITER)

    assert stream(server, told, settle=timedelta(seconds=60)).run().planner.wait_reason == ""
    assert stream(server, told, settle=timedelta(seconds=40)).run().planner.wait_reason.startswith(f"held by {WRITER}")


def test_a_table_read_whole_is_one_batch_a_run(server: Server) -> None:
    versioned(server)
    lab = stream(server, cursor="none", mode=Mode.REPLACE)

    for _ in range(2):
        rows = lab.run()
        assert [len(read) for _, read in rows.batches] == [1000]

    assert lab.watermark.required_extract_progress.cursor == START_CURSOR
    assert lab.watermark.required_extract_progress.proven


def test_a_growing_table_is_read_up_to_what_the_horizon_has_passed(server: Server) -> None:
    make(server, "id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1")
    run_sql(server, f"INSERT INTO t (v) SELECT 1 FROM {NUMBERS} WHERE n < 400")
    lab = stream(server, Told(server, held=timedelta(hours=1)), cursor="id")

    assert lab.run().rows == [], "a transaction an hour old may hold a lower number"
    lab.horizons.held = timedelta()
    run_sql(server, "INSERT INTO t (v) VALUES (1)")
    rows = lab.run()

    with server.admin() as connection:
        there = [row[0] for row in rows_of(connection, "SELECT id FROM t ORDER BY id")]
    assert sorted(row[0] for row in rows.rows) == there
    assert lab.watermark.required_extract_progress.cursor == Cursor.from_values(there[-1])
    assert lab.watermark.required_extract_progress.proven


def test_a_growing_table_waits_for_somebody_where_there_are_rows_to_wait_for(server: Server) -> None:
    make(server, COUNTED)
    fill(server, 100)
    lab = stream(server, Told(server, holder=WRITER), cursor="id")
    assert len(lab.run().rows) == 100
    lab.horizons.bound, lab.horizons.held = NEW_YEAR, timedelta(seconds=600)

    idle = lab.run()
    run_sql(server, "INSERT INTO t (v) VALUES (1)")
    held = [lab.run().planner.wait_reason]
    lab.horizons.held = timedelta(seconds=660)
    held.append(lab.run().planner.wait_reason)

    assert (idle.rows, idle.planner.wait_reason) == ([], "")
    assert held == [f"held by {WRITER}, since 2026-01-01 00:00:00 UTC at the earliest"] * 2, "the same while it is held"


def test_numbers_drawn_after_a_shared_poll_wait_for_the_next(server: Server) -> None:
    """One poll serves many tables: its instant can be older than the key that is read here."""
    make(server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1", "INSERT INTO t (v) VALUES (1), (1)")
    lab = stream(server, cursor="id")
    lab.horizons.bound = datetime.now(UTC) - timedelta(seconds=1)

    assert lab.run().rows == []
    lab.horizons.bound = None

    assert len(lab.run().rows) == 2


def test_a_growing_table_made_anew_stops_its_stream(server: Server) -> None:
    make(server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1", "INSERT INTO t (id) VALUES (500)")
    lab = stream(server, Told(server), cursor="id")
    lab.run()
    make(server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1", "INSERT INTO t (v) VALUES (1), (1)")

    with pytest.raises(SchemaDrift, match="is back at 3") as stopped:
        lab.run()

    assert "watermark reset" in stopped.value.hint


COUNTED = "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1, born DATETIME(6)"
GIVEN = "id INT PRIMARY KEY, v INT NOT NULL DEFAULT 1, born DATETIME(6)"


def fill(server: Server, rows: int) -> None:
    run_sql(server, f"INSERT INTO t (id, born) SELECT n + 1, NOW(6) FROM {NUMBERS} WHERE n < {rows}")


@pytest.mark.parametrize("columns", [COUNTED, GIVEN])
@pytest.mark.parametrize("rows", [200, 350])
@pytest.mark.parametrize("how", ["dropped", "truncated"])
def test_a_growing_table_that_began_anew_below_the_mark_is_never_taken_for_the_one_that_was_read(
    server: Server, how: str, rows: int, columns: str
) -> None:
    make(server, columns)
    fill(server, 300)
    lab = stream(server, Told(server), cursor="id")
    assert len(lab.run().rows) == 300

    if how == "dropped":
        make(server, columns)
    else:
        run_sql(server, "TRUNCATE t")
    fill(server, rows)

    with pytest.raises(SchemaDrift, match="created again") as stopped:
        lab.run()
    assert "watermark reset" in stopped.value.hint


BARE = "id INT AUTO_INCREMENT PRIMARY KEY, v TEXT"


@pytest.mark.parametrize(
    ("columns", "how"),
    [(COUNTED, "TRUNCATE t"), (BARE, "TRUNCATE t"), (COUNTED, "DELETE FROM t; ALTER TABLE t AUTO_INCREMENT = 1")],
)
def test_numbers_that_were_given_again_past_the_mark_are_never_taken_for_read(
    server: Server, columns: str, how: str
) -> None:
    """No counter stands below the mark any more, and of some tables no row tells itself from another."""
    make(server, columns)
    run_sql(server, f"INSERT INTO t (v) SELECT 1 FROM {NUMBERS} WHERE n < 300")
    sleep(1.1)
    lab = stream(server, Told(server), cursor="id")
    assert len(lab.run().rows) == 300

    run_sql(server, *how.split("; "), f"INSERT INTO t (v) SELECT 2 FROM {NUMBERS} WHERE n < 999")
    if columns is COUNTED:
        run_sql(server, "UPDATE t SET born = NOW(6)")

    with pytest.raises(SchemaDrift, match="emptied"):
        lab.run()


def test_a_growing_table_whose_last_row_changed_or_went_while_it_was_altered_goes_on(server: Server) -> None:
    make(server, f"{COUNTED}, state INT NOT NULL DEFAULT 0")
    run_sql(server, f"INSERT INTO t (v, born) SELECT 1, NOW(6) FROM {NUMBERS} WHERE n < 300")
    lab = stream(server, Told(server), cursor="id")
    lab.run()
    sleep(1.1)

    run_sql(server, "UPDATE t SET state = 1", "ALTER TABLE t ADD COLUMN more INT", "INSERT INTO t (v) VALUES (1)")
    assert len(lab.run().rows) == 1
    sleep(1.1)
    run_sql(
        server,
        "DELETE FROM t ORDER BY id DESC LIMIT 1",
        "ALTER TABLE t ADD COLUMN less INT",
        "INSERT INTO t (v) VALUES (1)",
    )

    assert len(lab.run().rows) == 1


@pytest.mark.parametrize("how", ["TRUNCATE t", "DELETE FROM t; ALTER TABLE t AUTO_INCREMENT = 1"])
def test_a_growing_table_that_was_emptied_and_is_read_anew_waits_for_who_is_still_at_work(
    server: Server, how: str
) -> None:
    """What was known of its numbers is true of those before, and not of the same numbers given again."""
    make(server, COUNTED)
    fill(server, 300)
    notes = StoredHorizonNotes(MemoryStore(), "lab")
    polls = ServerHorizons(server.settings, lambda: connect(server.settings), notes, shared_seconds=0)
    before, lab = stream(server, cursor="id"), stream(server, cursor="id")
    before.polls = lab.polls = polls
    with closing(polls), server.admin() as at_work, at_work.cursor() as cursor:
        assert len(before.run().rows) == 300
        run_sql(server, *how.split("; "))
        sleep(1.1)
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t (v) VALUES (1)")
        run_sql(server, "INSERT INTO t (v) VALUES (2)")

        early = lab.run()
        cursor.execute("COMMIT")
        late = lab.run()

    assert [row[0] for row in early.rows + late.rows] == [1, 2]
    assert lab.watermark.required_extract_progress.proven


def test_numbers_given_again_past_those_that_were_noted_wait_for_who_is_still_at_work(server: Server) -> None:
    """Neither the table's counter nor its time tells that it was emptied: its number does."""
    make(server, COUNTED)
    fill(server, 300)
    lab = stream(server, cursor="id", batch_rows=1000)
    lab.notes = StoredGrowthNotes(MemoryStore(), lab.chain.stream)
    lab.polls = polls = ServerHorizons(
        server.settings, lambda: connect(server.settings), StoredHorizonNotes(MemoryStore(), "lab"), shared_seconds=0
    )
    with closing(polls), server.admin() as at_work, at_work.cursor() as cursor:
        assert len(lab.run().rows) == 300
        sleep(1.1)
        run_sql(server, "TRUNCATE t")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t (v) VALUES (1)")
        run_sql(server, f"INSERT INTO t (v) SELECT 2 FROM {NUMBERS} WHERE n < 350")
        with pytest.raises(SchemaDrift, match="emptied"):
            lab.run()
        Operator(journal=lab.journal, author="a person", reason="made anew").reset_marks(
            lab.chain.stream, reset_load=False
        )

        early = lab.run()
        cursor.execute("COMMIT")
        late = lab.run()

    with server.admin() as connection:
        there = [row[0] for row in rows_of(connection, "SELECT id FROM t ORDER BY id")]
    assert len(there) == 351
    assert sorted(row[0] for row in early.rows + late.rows) == there
    assert lab.watermark.required_extract_progress.proven


@pytest.mark.parametrize("columns", [COUNTED, GIVEN])
def test_a_growing_table_that_was_altered_or_copied_goes_on(server: Server, columns: str) -> None:
    make(server, columns)
    fill(server, 300)
    lab = stream(server, Told(server), cursor="id")
    lab.run()

    run_sql(server, "ALTER TABLE t ADD COLUMN more INT, ENGINE=InnoDB", "INSERT INTO t (id) VALUES (301)")
    assert len(lab.run().rows) == 1
    run_sql(
        server,
        "DROP TABLE IF EXISTS t_old, t_new",
        "CREATE TABLE t_new LIKE t",
        "INSERT INTO t_new SELECT * FROM t",
        "RENAME TABLE t TO t_old, t_new TO t",
        "INSERT INTO t (id) VALUES (302)",
    )

    assert len(lab.run().rows) == 1


def test_numbers_that_an_application_gives_are_complete_over_runs_that_remember_nothing(server: Server) -> None:
    """Each run is a process of its own, and something is always open: what was seen is kept between them."""
    make(server, GIVEN)
    fill(server, 100)
    lab = stream(server, Told(server, held=timedelta(seconds=1)), cursor="id", batch_rows=1000)
    store = MemoryStore()

    def once() -> int:
        lab.notes = StoredGrowthNotes(store, lab.chain.stream)
        return len(lab.run().rows)

    assert once() == 0
    found = 0
    deadline = monotonic() + 120
    while not found and monotonic() < deadline:
        found = once()

    assert found == 100
    assert not lab.watermark.required_extract_progress.proven
    assert list(store.list("notes/")) == ["notes/lab/lab.t.json"]


def test_numbers_of_a_server_that_shows_no_writers_are_read_behind_a_delay(server: Server) -> None:
    make(server, COUNTED)
    fill(server, 100)
    lab = stream(server, Told(server, held=timedelta(seconds=1), proven=False), cursor="id", batch_rows=1000)
    deadline = monotonic() + 120
    found = 0
    while not found and monotonic() < deadline:
        found = len(lab.run().rows)

    assert found == 100
    assert not lab.watermark.required_extract_progress.proven


def test_deleting_the_last_rows_of_a_growing_table_stops_nothing(server: Server) -> None:
    make(
        server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1", "INSERT INTO t (id) VALUES (500), (501)"
    )
    lab = stream(server, Told(server), cursor="id")
    lab.run()
    run_sql(server, "DELETE FROM t WHERE id = 501")

    assert lab.run().rows == []


OTHER = ServerTimeBreak(id="another server", is_other_server=True)


@pytest.mark.parametrize("kind", ["DATETIME(3)", "TIMESTAMP NULL"])
def test_what_another_server_stamped_with_a_slower_clock_is_read_again_once_it_is_complete(
    server: Server, kind: str
) -> None:
    versioned(server, kind, per_tie=1, rows=1000)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=990)))
    lab.run()
    mark = lab.watermark.required_extract_progress.cursor
    run_sql(server, "UPDATE t SET v = 2, update_at = '2026-01-01 00:10:00' WHERE id = 5")
    run_sql(server, "UPDATE t SET v = 2, update_at = '2026-01-01 00:16:20' WHERE id = 6")
    lab.horizons.breaks = (OTHER,)
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=985)

    early = lab.run()
    waited = early.planner.wait_reason
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=995)
    late = lab.run()
    again = lab.run()

    assert (early.rows, lab.watermark.required_extract_progress.proven) == ([], True)
    assert "another server" in waited
    assert [plan.draft.kind for plan, _ in late.batches] == [BatchKind.REPAIR, BatchKind.INCREMENT]
    assert {(5, 2), (6, 2)} <= set(pairs(late.rows))
    assert {row[0] for row in late.batches[0][1]} == {*range(390, 990), 5, 6}, "ten minutes below the mark, and no more"
    assert not late.batches[0][0].draft.proven
    assert late.batches[1][0].draft.basis.mark == mark
    assert again.rows == [], "once is enough"


def test_a_clock_that_went_back_stops_a_stream_until_it_has_passed_the_mark_again(server: Server) -> None:
    versioned(server, per_tie=1, rows=1000)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=990)))
    lab.run()
    lab.horizons.breaks = (ServerTimeBreak(id="went back", clock_reset_to=NEW_YEAR + timedelta(seconds=700)),)
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=750)
    run_sql(server, "UPDATE t SET v = 2, update_at = '2026-01-01 00:12:00' WHERE id = 5")

    with pytest.raises(SourceReplaced, match="clock went back") as stopped:
        lab.run()
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=990)
    late = lab.run()

    assert "00:01:40" in stopped.value.hint
    assert [plan.draft.kind for plan, _ in late.batches] == [BatchKind.REPAIR]
    assert (5, 2) in pairs(late.rows)
    assert lab.run().rows == []


def test_a_break_above_the_mark_is_passed_as_any_time_is(server: Server) -> None:
    versioned(server, per_tie=1, rows=1000)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=100)))
    lab.run()
    lab.horizons.breaks = (ServerTimeBreak(id="went back", clock_reset_to=NEW_YEAR + timedelta(seconds=900)),)
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=990)

    assert {plan.draft.kind for plan, _ in lab.run().batches} == {BatchKind.INCREMENT}
    lab.horizons.bound = None
    assert {plan.draft.kind for plan, _ in lab.run().batches} == {BatchKind.INCREMENT}


def test_another_server_in_the_midst_of_a_first_pass_is_no_loss(server: Server) -> None:
    versioned(server, per_tie=1, rows=400)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=390)))
    lab.run(lab.rows(ExtractRequest(limit=150)))
    lab.horizons.breaks = (OTHER,)
    run_sql(server, "UPDATE t SET v = 2, update_at = '2026-01-01 00:06:20' WHERE id = 5")
    lab.horizons.bound = NEW_YEAR + timedelta(seconds=500)

    rows = lab.run()

    assert rows.batches[0][0].draft.kind is BatchKind.REPAIR
    assert (5, 2) in pairs(rows.rows)
    assert {row[0] for row in rows.rows} == set(range(400))


def test_a_break_does_not_stand_in_the_way_of_a_range_that_a_person_wants(server: Server) -> None:
    versioned(server, per_tie=1, rows=1000)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=999, milliseconds=500)))
    lab.run()
    lab.horizons.breaks = (OTHER,)
    wanted = ExtractRequest(since=NEW_YEAR, until=NEW_YEAR + timedelta(seconds=10))

    rows = lab.run(lab.rows(wanted))

    assert [(plan.draft.kind, len(read)) for plan, read in rows.batches] == [
        (BatchKind.REPAIR, 600),
        (BatchKind.REPAIR, 10),
    ]


def test_the_last_numbers_are_read_again_from_another_server(server: Server) -> None:
    """It may give numbers anew that the one before it had given, and lost."""
    make(server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1")
    run_sql(server, f"INSERT INTO t (v) SELECT 1 FROM {NUMBERS} WHERE n < 400")
    lab = stream(server, Told(server), cursor="id")
    first = lab.run()
    highest = max(row[0] for row in first.rows)
    lab.horizons.breaks = (ServerTimeBreak(id="went back", clock_reset_to=NEW_YEAR),)
    assert lab.run().rows == [], "numbers do not go back with the clock"
    run_sql(server, f"DELETE FROM t WHERE id = {highest - 2}", f"INSERT INTO t VALUES ({highest - 2}, 2)")
    lab.horizons.breaks = (*lab.horizons.breaks, OTHER)

    again = lab.run()

    assert [plan.draft.kind for plan, _ in again.batches] == [BatchKind.REPAIR]
    assert (highest - 2, 2) in pairs(again.rows)
    assert len(again.rows) == 150
    assert lab.run().rows == []


def test_a_growing_table_tells_no_time_to_a_run(server: Server) -> None:
    make(server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1")
    lab = stream(server, cursor="id")
    rows = lab.rows(ExtractRequest(until=NEW_YEAR))

    with pytest.raises(ConfigError, match="a range of time cannot be read"):
        lab.run(rows)


BORN = (
    "id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1,"
    " at {kind} NOT NULL DEFAULT CURRENT_TIMESTAMP"
)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATETIME"])
def test_a_growing_table_begins_at_the_first_row_of_its_time(server: Server, kind: str) -> None:
    """Late ones are among them, whose numbers are lower than those of rows before that time."""
    make(
        server,
        BORN.format(kind=kind),
        f"INSERT INTO t (id, at) SELECT 7 * n + 1, '2026-01-01' + INTERVAL n SECOND FROM {NUMBERS} WHERE n < 1000",
        "UPDATE t SET at = '2026-01-01 00:15:00' WHERE id = 7 * 300 + 1",
        "DELETE FROM t WHERE id BETWEEN 7 * 480 + 1 AND 7 * 510",
    )
    lab = stream(server, Told(server), cursor="id", first_run=FirstRun.FROM, start=NEW_YEAR + timedelta(seconds=500))

    rows = lab.run()

    assert [row[0] for row in rows.rows if row[0] < 7 * 480] == [7 * n + 1 for n in range(300, 480)]
    assert sorted(row[0] for row in rows.rows if row[0] > 7 * 480) == [7 * n + 1 for n in range(510, 1000)]
    assert not lab.watermark.required_extract_progress.proven, "what lies before the start is not promised"


@pytest.mark.parametrize(("second", "first"), [(-5, 0), (0, 0), (1, 1), (998.5, 999), (999, 999)])
def test_the_first_row_of_a_time_is_found_wherever_it_lies(server: Server, second: float, first: int) -> None:
    make(
        server,
        BORN.format(kind="DATETIME"),
        f"INSERT INTO t (id, at) SELECT n + 1, '2026-01-01' + INTERVAL n SECOND FROM {NUMBERS} WHERE n < 1000",
    )
    start = NEW_YEAR + timedelta(seconds=second)
    lab = stream(server, Told(server), cursor="id", first_run=FirstRun.FROM, start=start, batch_rows=1000)

    assert sorted(row[0] for row in lab.run().rows) == list(range(first + 1, 1001))


def test_a_time_of_which_there_is_no_row_yet_is_waited_for(server: Server) -> None:
    make(server, BORN.format(kind="DATETIME"), "INSERT INTO t (at) VALUES ('2026-01-01'), ('2026-01-02')")
    lab = stream(
        server, Told(server), cursor="id", first_run=FirstRun.FROM, start=NEW_YEAR + timedelta(days=5), batch_rows=9
    )

    early = lab.run()
    run_sql(server, "INSERT INTO t (at) VALUES ('2026-01-03'), ('2026-01-07')")

    assert (early.rows, lab.watermark.required_extract_progress.seq) == ([], 0)
    assert "2026-01-06 00:00:00" in early.planner.wait_reason
    assert [row[0] for row in lab.run().rows] == [4]


def test_which_column_tells_the_birth_of_a_row_has_to_be_clear(server: Server) -> None:
    make(server, f"{BORN.format(kind='DATETIME')}, seen DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, old DATETIME(3)")
    run_sql(server, "INSERT INTO t (at, seen, old) VALUES ('2026-01-01', '2026-01-03', '2026-01-01')")
    wanted: dict[str, Any] = {"cursor": "id", "first_run": FirstRun.FROM, "start": NEW_YEAR + timedelta(days=1)}

    with pytest.raises(ConfigError, match="at, seen"):
        stream(server, Told(server), **wanted).run()

    assert len(stream(server, Told(server), start_by="seen", **wanted).run().rows) == 1
    assert stream(server, Told(server), start_by="old", **wanted).run().rows == []
    with pytest.raises(SourceUnfit, match="no column nil"):
        stream(server, Told(server), start_by="nil", **wanted).run()
    make(server, "a INT, b INT, at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (a, b)")
    run_sql(server, "INSERT INTO t (a, b) VALUES (1, 1)")
    with pytest.raises(ConfigError, match="not a single number"):
        stream(server, Told(server), **wanted).run()


def test_a_row_without_a_position_is_refused_where_the_policy_says_so(server: Server) -> None:
    versioned(server, rows=5)
    run_sql(server, "INSERT INTO t VALUES (7, 1, NULL)")

    with pytest.raises(ValueRefused, match="update_at is NULL"):
        stream(server, null_cursor=NullCursor.FAIL).run()


def test_a_batch_is_cut_into_windows_that_abut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncd.extract.plan_rules.FEWEST_ROWS", 50)
    versioned(server)
    lab = stream(server, batch_rows=400, first_run=FirstRun.FROM, start=NEW_YEAR)

    rows = lab.run()

    assert [len(plan.draft.windows) for plan, _ in rows.batches] == [0, 3, 3, 2]
    assert sorted(row[0] for row in rows.rows) == list(range(1000))


def test_a_partitioned_table_is_read_like_any_other(server: Server) -> None:
    make(
        server,
        "id INT, v INT NOT NULL DEFAULT 1, update_at DATETIME NOT NULL, PRIMARY KEY (id), KEY short (update_at),"
        " KEY whole (update_at, id)",
        "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4",
        f"INSERT INTO t SELECT n, 1, '2026-01-01' + INTERVAL n DIV 40 SECOND FROM {NUMBERS} WHERE n < 500",
    )
    for first_run in (FirstRun.SNAPSHOT, FirstRun.FROM):
        rows = stream(server, first_run=first_run, start=NEW_YEAR).run()
        assert sorted(row[0] for row in rows.rows) == list(range(500))


def test_a_partitioned_table_without_an_index_on_all_of_the_order_works_or_is_told_what_it_needs(
    server: Server,
) -> None:
    """MariaDB does not follow the primary key at the end of an index across partitions."""
    make(
        server,
        "id INT, v INT NOT NULL DEFAULT 1, update_at DATETIME NOT NULL, PRIMARY KEY (id), KEY (update_at)",
        "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4",
        f"INSERT INTO t SELECT n, 1, '2026-01-01' + INTERVAL n DIV 40 SECOND FROM {NUMBERS} WHERE n < 500",
    )
    lab = stream(server, first_run=FirstRun.FROM, start=NEW_YEAR)
    try:
        rows = lab.run().rows
    except SourceUnfit as refused:
        assert "would sort" in str(refused)
        run_sql(server, refused.hint)
        rows = lab.run().rows

    assert sorted(row[0] for row in rows) == list(range(500))


def test_own_sql_reads_the_window_it_is_given(server: Server) -> None:
    versioned(server, rows=300)
    query = "SELECT t.id, t.v + 10 AS v, t.update_at FROM lab.t WHERE ${window} AND t.id <> 7;"
    lab = stream(server, query=query, first_run=FirstRun.FROM, start=NEW_YEAR)

    rows = lab.run().rows

    assert sorted(row[0] for row in rows) == [key for key in range(300) if key != 7]
    assert {row[1] for row in rows} == {11}


def test_a_wall_clock_is_bounded_in_the_writers_zone(server: Server) -> None:
    """In New York it is five hours earlier; read as UTC, the last five hours would be taken for complete."""
    versioned(server, "DATETIME", per_tie=1, rows=20)
    lab = stream(
        server,
        Told(server, bound=NEW_YEAR + timedelta(hours=5, seconds=10)),
        first_run=FirstRun.FROM,
        start=NEW_YEAR + timedelta(hours=5),
    )
    lab.zone = "America/New_York"

    assert [row[0] for row in lab.run().rows] == list(range(10))


def test_a_wall_clock_of_unknown_writers_is_never_proven(server: Server) -> None:
    versioned(server, "DATETIME", rows=20)
    lab = stream(server)
    lab.zone = None

    lab.run()

    assert not lab.watermark.required_extract_progress.proven


def test_rows_that_a_foreign_key_changes_are_never_proven(server: Server) -> None:
    run_sql(
        server, "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS parents", "CREATE TABLE parents (id INT PRIMARY KEY)"
    )
    versioned(server, "TIMESTAMP", rows=20)
    lab = stream(server)
    lab.run()
    assert lab.watermark.required_extract_progress.proven

    try:
        run_sql(
            server,
            "ALTER TABLE t ADD COLUMN parent INT, ADD FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE SET NULL",
            "INSERT INTO t (id, v) VALUES (100000, 1)",
        )
        stream(server).run()
        fresh = stream(server)
        fresh.run()
        assert not fresh.watermark.required_extract_progress.proven
    finally:
        run_sql(server, "DROP TABLE t", "DROP TABLE parents")


def test_rows_that_a_trigger_changes_past_the_stamp_are_not_proven(server: Server) -> None:
    """MySQL stamps what a statement changes, and not what only a trigger does."""
    versioned(server, "TIMESTAMP", rows=20)
    run_sql(server, "CREATE TRIGGER counts BEFORE UPDATE ON t FOR EACH ROW SET NEW.v = OLD.v + 1")
    with server.admin() as connection:
        before = rows_of(connection, "SELECT update_at FROM t WHERE id = 1")
        rows_of(connection, "UPDATE t SET id = id WHERE id = 1")
        is_stamped = rows_of(connection, "SELECT update_at FROM t WHERE id = 1") != before
    lab = stream(server)

    lab.run()

    assert lab.watermark.required_extract_progress.proven == is_stamped


def test_stamps_that_a_trigger_keeps_are_not_proven(server: Server) -> None:
    versioned(server, "TIMESTAMP", rows=20)
    run_sql(server, "CREATE TRIGGER keeps BEFORE UPDATE ON t FOR EACH ROW SET NEW.update_at = OLD.update_at")
    lab = stream(server)

    lab.run()

    assert not lab.watermark.required_extract_progress.proven


def test_what_a_period_leaves_of_a_row_is_not_proven(server: Server) -> None:
    """That is a row with a key of its own, and with the stamp of the row that it was cut from."""
    if server.name == "mysql":
        pytest.skip("MySQL has no periods")
    make(
        server,
        "id INT AUTO_INCREMENT, v INT NOT NULL DEFAULT 1, s DATE, e DATE, PERIOD FOR p (s, e), update_at DATETIME(6)"
        " NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), PRIMARY KEY (id), KEY (update_at)",
        "INSERT INTO t (s, e, update_at) VALUES ('2026-01-01', '2027-01-01', '2026-01-01')",
        "DELETE FROM t FOR PORTION OF p FROM '2026-03-01' TO '2026-05-01'",
    )
    with server.admin() as connection:
        assert rows_of(connection, "SELECT id, YEAR(update_at) + MONTH(update_at) FROM t") == [(2, 2027), (3, 2027)]
    lab = stream(server)

    lab.run()

    assert not lab.watermark.required_extract_progress.proven


def test_another_key_is_no_place_to_go_on_from(server: Server) -> None:
    versioned(server, rows=10)
    lab = stream(server)
    lab.run()
    run_sql(server, "ALTER TABLE t MODIFY id VARCHAR(20) NOT NULL, MODIFY update_at BIGINT")
    lab.settings = replace(lab.settings, cursor_unit=EpochUnit.SECONDS)

    with pytest.raises(SchemaDrift, match="order column or key has changed"):
        lab.run()


STAMPED = "update_at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), KEY (update_at)"


@dataclass(frozen=True)
class Altered:
    """A table of columns a and b, and perhaps c, whose key is altered."""

    key: str
    change: str
    told: str
    c: str | None = None
    """What rows have in c."""


ALTERED = {
    "a column before": Altered(
        "PRIMARY KEY (b)", "DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)", r"is now \(update_at, a, b\)"
    ),
    "another column": Altered(
        "PRIMARY KEY (b)", "DROP PRIMARY KEY, ADD PRIMARY KEY (c)", r"is now \(update_at, c\)", "n"
    ),
    "swapped": Altered("PRIMARY KEY (a, b)", "DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)", r"is now \(update_at, b, a\)"),
    "another collation": Altered(
        "c VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY",
        "MODIFY c VARCHAR(9) COLLATE utf8mb4_bin NOT NULL",
        "the collation of c changed from utf8mb4_general_ci to utf8mb4_bin",
        "CONCAT(CHAR(IF(n % 2, 97, 65) + n % 26 USING utf8mb4), n)",
    ),
    "members": Altered(
        "c ENUM('x', 'y'), PRIMARY KEY (c, b)", "MODIFY c ENUM('y', 'x') NOT NULL", "members of c", "1 + n % 2"
    ),
    "digits": Altered(
        "c DECIMAL(9, 2) PRIMARY KEY",
        "MODIFY c DECIMAL(9, 1) NOT NULL",
        "the fractional digits of c changed from 2 to 1",
        "n * 1.1",
    ),
}


@pytest.mark.parametrize("first_run", [FirstRun.SNAPSHOT, FirstRun.FROM])
@pytest.mark.parametrize("altered", ALTERED.values(), ids=ALTERED)
def test_no_position_is_carried_over_into_another_order(server: Server, altered: Altered, first_run: FirstRun) -> None:
    """Its values are of the kinds of before and would pass for a position; what lies before it nobody has read."""
    c = "" if " c " in f" {altered.key}" else "c INT,"
    make(
        server,
        f"a INT NOT NULL, b INT NOT NULL, {c} {altered.key}, {STAMPED}",
        f"INSERT INTO t (a, b, c, update_at) SELECT n % 7, n, {altered.c or 1}, '2026-01-01 00:00:01'"
        f" FROM {NUMBERS} WHERE n < 300",
    )
    lab = stream(server, passages=(passage("a"), passage("b"), passage("c")), first_run=first_run, start=NEW_YEAR)
    lab.run(lab.rows(ExtractRequest(limit=100)))
    run_sql(server, f"ALTER TABLE t {altered.change}")

    with pytest.raises(SchemaDrift, match=altered.told):
        lab.run()


def test_an_order_that_only_grew_is_gone_on_with(server: Server) -> None:
    make(
        server,
        f"a INT, c ENUM('x', 'y'), PRIMARY KEY (c, a), {STAMPED}",
        f"INSERT INTO t SELECT n, 1 + n % 2, '2026-01-01 00:00:01' FROM {NUMBERS} WHERE n < 300",
    )
    lab = stream(server, passages=(passage("a"), passage("c")))
    read = lab.run(lab.rows(ExtractRequest(limit=100))).rows
    run_sql(
        server,
        "ALTER TABLE t MODIFY c ENUM('x', 'y', 'z') NOT NULL, CHANGE a A BIGINT NOT NULL,"
        " MODIFY update_at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
        "INSERT INTO t VALUES (1, 'z', '2026-01-01 00:00:02')",
    )

    assert len(read) + len(lab.run().rows) == 301


def test_another_order_column_is_no_place_to_go_on_from(server: Server) -> None:
    make(
        server,
        f"id INT PRIMARY KEY, v INT, made_at DATETIME(3) NOT NULL, KEY (made_at), {STAMPED}",
        f"INSERT INTO t SELECT n, 1, '2025-01-01', '2026-01-01 00:00:01' FROM {NUMBERS} WHERE n < 300",
    )
    lab = stream(server)
    lab.run()
    lab.settings = replace(lab.settings, cursor="made_at")

    with pytest.raises(SchemaDrift, match=r"now \(made_at, id\)"):
        lab.run()


def test_a_start_before_any_timestamp_begins_with_the_first(server: Server) -> None:
    versioned(server, "TIMESTAMP(3) NULL", rows=10)
    lab = stream(server, first_run=FirstRun.FROM, start=datetime(1960, 1, 1, tzinfo=UTC))

    assert len(lab.run().rows) == 10


def test_a_killed_run_is_finished_by_the_next(server: Server) -> None:
    """Between a sealed plan and its link, rows may move: each version is still read once, and none is lost."""
    versioned(server)
    lab = stream(server, Told(server, bound=NEW_YEAR + timedelta(seconds=100)), first_run=FirstRun.FROM, start=NEW_YEAR)
    killed = lab.rows()

    def kill(plan: Plan) -> None:
        if plan.id.seq == 4:
            raise KeyboardInterrupt

    killed.before_reading = kill
    with pytest.raises(KeyboardInterrupt):
        lab.run(killed)
    bump(server, "2026-01-01 00:01:50", "id BETWEEN 300 AND 350")
    lab.horizons.bound = NEW_YEAR + timedelta(days=1)
    rest = lab.run()

    read = pairs(killed.rows + rest.rows)
    with server.admin() as connection:
        now = dict(rows_of(connection, "SELECT id, v FROM t"))
    assert set(read.values()) == {1}
    assert set(now.items()) <= set(read)
    assert rest.drafts[0].windows[0].low == rest.batches[0][0].draft.high, "the sealed plan was taken up first"
