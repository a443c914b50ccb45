"""Another table under a stream's name: the next batch says so where it holds rows that no batch will read."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from syncd.errors import SourceUnfit
from syncd.mysql.source import MySqlSource
from syncd.settings import EpochUnit
from syncd.tables.table_identity import find_replacing_batch
from tests.integration.planner.chains import Stream
from tests.integration.planner.servers import Server, rows_of
from tests.integration.planner.test_streams import NEW_YEAR, NUMBERS, bump, make, run_sql, stream, versioned
from watermarks.batch import BatchId, BatchKind, Plan
from watermarks.operator import Operator

pytestmark = pytest.mark.services

LATER = NEW_YEAR + timedelta(days=1)
A_SECOND = "SELECT SLEEP(1.1)"
"""Servers tell in whole seconds when a table was made."""
PARTITIONS = (
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (1000),"
    " PARTITION p2 VALUES LESS THAN (5000))"
)


@pytest.fixture
def read(server: Server) -> Stream:
    """A stream that was read to its end."""
    versioned(server, rows=200)
    return ended(stream(server, batch_rows=1000))


def ended(lab: Stream) -> Stream:
    lab.run()
    assert lab.watermark.required_extract_progress.proven
    return lab


def told(lab: Stream) -> list[BatchId]:
    """Each batch that met another table, once."""
    plans = (
        lab.chain.read_plan(batch) for batch in lab.watermark.required_extract_progress.batch_ids(after=BatchId(1, 0))
    )
    found = (find_replacing_batch(plan.draft.body) for plan in plans if plan is not None)
    return list(dict.fromkeys(batch for batch in found if batch is not None))


def goes_on(lab: Stream, server: Server, *, hours: int = 1) -> None:
    """Rows change, and a later run reads them."""
    lab.horizons.bound = LATER + timedelta(hours=hours + 1)
    bump(server, f"2026-01-02 {hours:02d}:00:00", "id IN (SELECT * FROM (SELECT MIN(id) FROM t) AS first)")
    lab.run()


def swapped(server: Server) -> None:
    """The table gives way to a copy of it with one row more, which is an old one."""
    run_sql(
        server,
        A_SECOND,
        "DROP TABLE IF EXISTS t_new, t_old",
        "CREATE TABLE t_new LIKE t",
        "INSERT INTO t_new SELECT * FROM t",
        "INSERT INTO t_new VALUES (7000, 1, '2026-01-01 00:00:01')",
        "RENAME TABLE t TO t_old, t_new TO t",
    )


def restored(server: Server) -> None:
    run_sql(
        server,
        A_SECOND,
        "DROP TABLE IF EXISTS kept",
        "CREATE TABLE kept AS SELECT * FROM t",
        "CREATE TABLE again LIKE t",
        "DROP TABLE t",
        "RENAME TABLE again TO t",
        "INSERT INTO t SELECT * FROM kept",
    )


def emptied_and_filled(server: Server) -> None:
    run_sql(
        server,
        "DROP TABLE IF EXISTS kept",
        "CREATE TABLE kept AS SELECT * FROM t",
        "TRUNCATE t",
        "INSERT INTO t SELECT * FROM kept",
    )


def imported(server: Server) -> None:
    with server.admin() as connection:
        [(data,)] = rows_of(connection, "SELECT @@datadir")
    place = Path(str(data)) / "lab"
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS other")
        cursor.execute("CREATE TABLE other LIKE t")
        cursor.execute("INSERT INTO other SELECT * FROM t")
        cursor.execute("FLUSH TABLES other FOR EXPORT")
        kept = {end: (place / f"other.{end}").read_bytes() for end in ("ibd", "cfg")}
        cursor.execute("UNLOCK TABLES")
        cursor.execute("ALTER TABLE t DISCARD TABLESPACE")
        for end, content in kept.items():
            file = place / f"t.{end}"
            file.write_bytes(content)
            shutil.copystat(place / "other.ibd", file)
            shutil.chown(file, place.stat().st_uid, place.stat().st_gid)
        cursor.execute("ALTER TABLE t IMPORT TABLESPACE")


def optimized(server: Server) -> None:
    """Nobody can tell this from a table that was swapped."""
    run_sql(server, A_SECOND, "OPTIMIZE TABLE t")


OTHERS = [swapped, restored, emptied_and_filled, imported, optimized]


@pytest.mark.parametrize("other", OTHERS, ids=lambda each: each.__name__)
def test_the_next_batch_says_it_once_and_nothing_is_proven_from_then_on(
    server: Server, read: Stream, other: Callable[[Server], None]
) -> None:
    last = read.watermark.required_extract_progress.last_batch
    other(server)
    read.horizons.bound = LATER + timedelta(minutes=20)  # what its time of making does not show is asked for by then

    goes_on(read, server)
    goes_on(read, server, hours=2)

    assert told(read) == [last.next]
    assert read.watermark.required_extract_progress.last_batch == last.next.next
    assert not read.watermark.required_extract_progress.proven


@pytest.mark.parametrize("other", [swapped, emptied_and_filled], ids=lambda each: each.__name__)
def test_a_table_at_rest_says_it_by_a_batch_without_rows(
    server: Server, read: Stream, other: Callable[[Server], None]
) -> None:
    rest = read.rows().planner.idle_state
    last = read.watermark.required_extract_progress.last_batch
    other(server)
    read.horizons.bound = LATER + timedelta(hours=1)
    again = read.run()
    once_more = read.run()

    assert rest is None
    assert [(plan.draft.kind, rows) for plan, rows in again.batches] == [(BatchKind.INCREMENT, [])]
    assert once_more.batches == []
    assert told(read) == [last.next]
    assert not read.watermark.required_extract_progress.proven


def altered_in_place(server: Server) -> None:
    run_sql(server, A_SECOND, "ALTER TABLE t ADD KEY (v), ALGORITHM=INPLACE", "ALTER TABLE t COMMENT 'x'")


def analyzed(server: Server) -> None:
    run_sql(server, "ANALYZE TABLE t", "CHECK TABLE t", "FLUSH TABLES")


def renamed_and_back(server: Server) -> None:
    run_sql(server, A_SECOND, "RENAME TABLE t TO away", A_SECOND, "RENAME TABLE away TO t")


def emptied(server: Server) -> None:
    run_sql(server, "TRUNCATE t", "INSERT INTO t VALUES (9000, 1, '2026-01-02 00:30:00')")


def rotated(server: Server) -> None:
    """What was read is put away under another name, and a table without a row takes its place."""
    run_sql(
        server,
        A_SECOND,
        "DROP TABLE IF EXISTS t_new, t_old",
        "CREATE TABLE t_new LIKE t",
        "RENAME TABLE t TO t_old, t_new TO t",
        "INSERT INTO t VALUES (9000, 1, '2026-01-02 00:30:00')",
    )


HARMLESS = [altered_in_place, analyzed, renamed_and_back, emptied, rotated]


@pytest.mark.parametrize("harmless", HARMLESS, ids=lambda each: each.__name__)
def test_what_brings_no_row_below_the_mark_is_told_nobody(
    server: Server, read: Stream, harmless: Callable[[Server], None]
) -> None:
    harmless(server)
    read.horizons.bound = LATER + timedelta(minutes=20)

    goes_on(read, server)

    assert told(read) == []
    assert read.watermark.required_extract_progress.proven


def test_a_stream_by_epochs_says_it_too(server: Server) -> None:
    begin = int(NEW_YEAR.timestamp())
    make(
        server,
        "id INT PRIMARY KEY, v INT NOT NULL DEFAULT 1, changed INT UNSIGNED NOT NULL, KEY (changed)",
        f"INSERT INTO t SELECT n, 1, {begin} + n DIV 40 FROM {NUMBERS} WHERE n < 400",
    )
    lab = stream(server, cursor="changed", cursor_unit=EpochUnit.SECONDS)
    lab.run()
    last = lab.watermark.required_extract_progress.last_batch
    optimized(server)
    lab.horizons.bound = LATER + timedelta(hours=1)

    lab.run()

    assert told(lab) == [last.next]


def added(server: Server) -> None:
    run_sql(
        server,
        "ALTER TABLE t ADD PARTITION (PARTITION p3 VALUES LESS THAN (9999))",
        "INSERT INTO t VALUES (6000, 1, '2026-01-02 00:30:00')",
    )


def dropped(server: Server) -> None:
    run_sql(server, "ALTER TABLE t DROP PARTITION p0")


def one_divided_that_is_empty(server: Server) -> None:
    parts = "PARTITION p2 VALUES LESS THAN (3000), PARTITION p3 VALUES LESS THAN (5000)"
    run_sql(server, f"ALTER TABLE t REORGANIZE PARTITION p2 INTO ({parts})")


def divided(server: Server) -> None:
    parts = "PARTITION p1 VALUES LESS THAN (150), PARTITION pm VALUES LESS THAN (1000)"
    run_sql(server, f"ALTER TABLE t REORGANIZE PARTITION p1 INTO ({parts})")


def exchanged(server: Server) -> None:
    run_sql(
        server,
        "DROP TABLE IF EXISTS x",
        "CREATE TABLE x LIKE t",
        "ALTER TABLE x REMOVE PARTITIONING",
        "INSERT INTO x VALUES (2000, 1, '2026-01-01 00:00:01')",
        "ALTER TABLE t EXCHANGE PARTITION p2 WITH TABLE x",
    )


PARTED = [(added, False), (dropped, False), (one_divided_that_is_empty, False), (divided, True), (exchanged, True)]


@pytest.mark.parametrize(("change", "says"), PARTED, ids=[change.__name__ for change, _ in PARTED])
def test_of_partitions_those_count_that_are_others_and_hold_rows_that_were_passed(
    server: Server, change: Callable[[Server], None], *, says: bool
) -> None:
    versioned(server, rows=200)
    run_sql(server, "ALTER TABLE t ADD KEY (update_at, id)", f"ALTER TABLE t {PARTITIONS}")
    lab = ended(stream(server))
    run_sql(server, A_SECOND)
    change(server)
    lab.horizons.bound = LATER + timedelta(minutes=20)

    goes_on(lab, server)

    assert bool(told(lab)) is says


def test_in_the_midst_of_a_first_pass_it_is_said_by_its_next_chunk(server: Server) -> None:
    versioned(server, rows=400)
    lab = stream(server)
    lab.run(turns=1)
    swapped(server)

    lab.run()

    assert told(lab) == [BatchId(1, 2)]
    assert not lab.watermark.required_extract_progress.proven


def test_a_batch_that_came_to_nothing_leaves_it_to_the_next(server: Server, read: Stream) -> None:
    last = read.watermark.required_extract_progress.last_batch
    swapped(server)
    read.horizons.bound = LATER + timedelta(hours=2)
    bump(server, "2026-01-02 01:00:00", "id = 7")
    rows = read.rows()
    draft = rows.propose_batch(read.watermark)
    assert draft is not None
    read.chain.create_plan(
        Plan(stream=read.chain.stream, id=last.next, draft=draft, nonce="n", epoch=read.held.epoch, planned_at=LATER)
    )
    run_sql(server, A_SECOND, "ALTER TABLE t COMMENT 'its world is gone'")

    read.run()

    assert told(read) == [last.next, last.next.next]
    link = read.chain.read_link(last.next)
    assert link is not None
    assert link.kind is BatchKind.ABANDONED
    assert not read.watermark.required_extract_progress.proven


def test_without_the_right_to_see_numbers_the_time_of_making_is_all_there_is(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MySqlSource.fetch_rows

    def without_process(self: MySqlSource, sql: str) -> object:
        if "INNODB" in sql:
            raise SourceUnfit("Access denied; you need (at least one of) the PROCESS privilege(s)")
        return real(self, sql)

    monkeypatch.setattr(MySqlSource, "fetch_rows", without_process)
    versioned(server, rows=200)
    lab = ended(stream(server))
    last = lab.watermark.required_extract_progress.last_batch
    goes_on(lab, server)
    assert told(lab) == []
    altered_in_place(server)

    goes_on(lab, server, hours=2)

    assert told(lab) == [last.next.next]


def test_a_person_who_has_compared_sets_the_mark_where_it_stands_and_it_is_proven_again(
    server: Server, read: Stream
) -> None:
    swapped(server)
    goes_on(read, server)
    Operator(journal=read.journal, author="ann", reason="compared").set_marks(
        read.chain.stream, extract_cursor=read.watermark.required_extract_progress.cursor
    )

    goes_on(read, server, hours=2)

    assert read.watermark.required_extract_progress.proven


def test_its_numbers_are_asked_for_now_and_then(server: Server, read: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    real = MySqlSource.fetch_rows

    def counted(self: MySqlSource, sql: str) -> object:
        asked.append(sql)
        return real(self, sql)

    monkeypatch.setattr(MySqlSource, "fetch_rows", counted)
    read.horizons.bound = LATER + timedelta(minutes=5)
    bump(server, "2026-01-02 00:02:00", "id < 200")
    read.run()
    assert not [sql for sql in asked if "INNODB" in sql]

    read.horizons.bound = LATER + timedelta(minutes=12)
    bump(server, "2026-01-02 00:11:00", "id < 200")
    read.run()

    assert len([sql for sql in asked if "INNODB" in sql]) == 1
