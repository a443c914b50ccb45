"""Whole streams against real servers: first pass, increments, ahead, ranges, and what must not be lost between."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncd.core.columns import Travel
from syncd.core.errors import ConfigError, SchemaDrift, SourceUnfit, ValueRefused
from syncd.core.planner import Request
from syncd.core.settings import EpochUnit, FirstRun, Mode, NullCursor, StreamSettings
from tests.integration.planner.chains import Stream, Told, passage
from tests.integration.planner.servers import Server, rows_of
from watermarks.batch import Kind, Plan
from watermarks.cursor import START, Cursor, Value
from watermarks.cursor import Kind as ValueKind
from watermarks.moves import State

pytestmark = pytest.mark.services

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
VERSION = (passage("id", travel=Travel.INTEGER), passage("v", travel=Travel.INTEGER))
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


def stream(server: Server, horizons: Told | None = None, **settings: Any) -> Stream:
    wanted = {"source": "lab", "database": "lab", "table": "t", "batch_rows": 150, "settle": timedelta(0), **settings}
    return Stream(
        server, StreamSettings(**wanted), VERSION, horizons or Told(server, bound=NEW_YEAR + timedelta(days=1))
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
    assert all(plan.draft.kind is Kind.SNAPSHOT for plan in chunks)
    assert {key for key, _ in read} == set(now), "no row is missing"
    assert all(read[item] == 1 for item in now.items()), "the newest version of each is there"
    assert lab.watermark.chain.proven
    assert lab.horizons.marks[-1] == NEW_YEAR + timedelta(seconds=110), "a proven mark is told to the horizon"
    assert lab.watermark.chain.snapshot
    assert lab.watermark.chain.snapshot.done


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
    assert lab.watermark.chain.seq == 1 + -(-1000 // 90)


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
    assert not lab.watermark.chain.proven, "what lies before the start is not promised"


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

    assert [turn.state for turn in lab.turns] == [State.NOOP, None]
    assert lab.watermark.chain.cursor == Cursor.of(Value(ValueKind.WALL, NEW_YEAR.replace(tzinfo=None)))


def test_a_limit_bounds_the_rows_of_a_run_and_the_next_goes_on(server: Server) -> None:
    versioned(server)
    lab = stream(server)

    sizes = [len(lab.run(lab.rows(Request(limit=220))).rows) for _ in range(6)]

    assert sizes == [220, 220, 220, 220, 120, 0]


def test_until_bounds_increments(server: Server) -> None:
    versioned(server, per_tie=1, rows=20)
    lab = stream(server, first_run=FirstRun.FROM, start=NEW_YEAR)

    lab.run(lab.rows(Request(until=NEW_YEAR + timedelta(seconds=7.5))))

    assert len(lab.run().rows) == 12


def test_a_range_is_read_again_and_moves_no_mark(server: Server) -> None:
    versioned(server)
    lab = stream(server)
    lab.run()
    mark = lab.watermark.chain.cursor
    wanted = Request(since=NEW_YEAR + timedelta(seconds=2), until=NEW_YEAR + timedelta(seconds=12))

    again = lab.run(lab.rows(wanted))

    assert sorted(row[0] for row in again.rows) == list(range(80, 480))
    assert [plan.draft.kind for plan, _ in again.batches] == [Kind.REPAIR] * 3
    assert lab.watermark.chain.cursor == mark


def test_hot_rows_above_a_held_horizon_come_ahead(server: Server) -> None:
    versioned(server, "TIMESTAMP(6) NULL", rows=100)
    run_sql(server, "UPDATE t SET update_at = NOW(6) - INTERVAL 2 MINUTE")
    lab = stream(server, Told(server))
    lab.run()
    mark = lab.watermark.chain.cursor
    lab.horizons.held = timedelta(seconds=60)
    run_sql(server, "UPDATE t SET v = 2, update_at = NOW(6) - INTERVAL id * 10000 MICROSECOND WHERE id < 20")

    ahead = lab.run(lab.rows())

    assert [plan.draft.kind for plan, _ in ahead.batches] == [Kind.AHEAD]
    assert pairs(ahead.rows) == Counter((key, 2) for key in range(20))
    assert len(ahead.batches[0][0].draft.windows) == 1
    assert not ahead.batches[0][0].draft.proven
    assert lab.watermark.chain.cursor == mark


def test_ahead_goes_on_where_its_last_batch_left_rows(server: Server) -> None:
    versioned(server, "TIMESTAMP(6) NULL", rows=400)
    lab = stream(server, Told(server, bound=NEW_YEAR, held=timedelta(seconds=31)), first_run=FirstRun.NOW)

    ahead = lab.run()

    kinds = [plan.draft.kind for plan, _ in ahead.batches]
    assert kinds == [Kind.SNAPSHOT, Kind.AHEAD, Kind.AHEAD, Kind.AHEAD]
    assert pairs(ahead.rows) == Counter((key, 1) for key in range(400))


def test_a_horizon_that_is_hardly_held_brings_nothing_ahead(server: Server) -> None:
    versioned(server, "TIMESTAMP(6) NULL", rows=10)
    run_sql(server, "UPDATE t SET update_at = NOW(6)")
    lab = stream(server, Told(server, held=timedelta(seconds=20)), first_run=FirstRun.NOW)

    assert lab.run().rows == []


def test_a_table_read_whole_is_one_batch_a_run(server: Server) -> None:
    versioned(server)
    lab = stream(server, cursor="none", mode=Mode.REPLACE)

    for _ in range(2):
        rows = lab.run()
        assert [len(read) for _, read in rows.batches] == [1000]

    assert lab.watermark.chain.cursor == START
    assert lab.watermark.chain.proven


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
    assert lab.watermark.chain.cursor == Cursor.of(there[-1])
    assert lab.watermark.chain.proven


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

    with pytest.raises(SchemaDrift, match="counts from 3 again") as stopped:
        lab.run()

    assert "watermark reset" in stopped.value.hint


def test_deleting_the_last_rows_of_a_growing_table_stops_nothing(server: Server) -> None:
    make(
        server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1", "INSERT INTO t (id) VALUES (500), (501)"
    )
    lab = stream(server, Told(server), cursor="id")
    lab.run()
    run_sql(server, "DELETE FROM t WHERE id = 501")

    assert lab.run().rows == []


def test_a_growing_table_tells_no_time(server: Server) -> None:
    make(server, "id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1")
    with pytest.raises(ConfigError, match="tells no time"):
        stream(server, cursor="id", first_run=FirstRun.FROM, start=NEW_YEAR).run()


def test_a_row_without_a_position_is_refused_where_the_policy_says_so(server: Server) -> None:
    versioned(server, rows=5)
    run_sql(server, "INSERT INTO t VALUES (7, 1, NULL)")

    with pytest.raises(ValueRefused, match="update_at is NULL"):
        stream(server, null_cursor=NullCursor.FAIL).run()


def test_a_batch_is_cut_into_windows_that_abut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncd.core.planner.FEWEST_ROWS", 50)
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

    assert not lab.watermark.chain.proven


def test_another_key_is_no_place_to_go_on_from(server: Server) -> None:
    versioned(server, rows=10)
    lab = stream(server)
    lab.run()
    run_sql(server, "ALTER TABLE t MODIFY id VARCHAR(20) NOT NULL, MODIFY update_at BIGINT")
    lab.settings = replace(lab.settings, cursor_unit=EpochUnit.SECONDS)

    with pytest.raises(SchemaDrift, match="order column or key has changed"):
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
