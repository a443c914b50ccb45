"""Planted differences: all are found, repaired as ordinary batches, and the second comparison is clean."""

import json
import re
import shlex
import threading
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from syncd.cli.main import syncd
from syncd.errors import SourceDown
from syncd.lake.read_requests import ReadRequest, ReadResult
from syncd.verify.result import ComparisonState, DifferenceKind
from tests.integration.verify.conftest import Both
from tests.services.planted import plant, statements

pytestmark = [pytest.mark.services, pytest.mark.parametrize("box", ["mariadb"], indirect=True)]
Make = Callable[..., Both]


def planted(both: Make, table: str, rows: int, deletes: str = "hard") -> tuple[Both, dict[int, DifferenceKind]]:
    pair = both(tables=f"shop.{table}: {{deletes: {deletes}}}", source="silence: 10m")
    pair.sql(*statements(table, rows))
    pair.run()
    return pair, plant(table, rows, here=pair.sql, there=pair.there)


def prove(both: Make, table: str, rows: int) -> None:
    pair, wrong = planted(both, table, rows)
    first = pair.verify(table)
    made = pair.mend(table, first)
    assert made.error is None
    pair.run(extract=False)

    second = pair.verify(table)

    assert {one.key["id"]: one.kind for one in first.differences} == wrong
    assert first.fetched_count < rows * (1 if rows < 100_000 else 0.02) + 37 * 1_600
    assert (made.batches, made.rows) == (2, 37)
    assert (second.state, second.rows) == (ComparisonState.EQUAL, rows - 8)
    assert second.fetched_count < max(rows // 1_000, 10)


def test_thirty_seven_differences_are_found_and_repaired(both: Make) -> None:
    prove(both, "planted", 20_000)


@pytest.mark.long
def test_the_same_among_two_million_rows(both: Make) -> None:
    prove(both, "planted_many", 2_000_000)


def test_soft_deletes_mark_ghosts_and_the_mark_is_no_difference(both: Make) -> None:
    pair, _ = planted(both, "softly", 2_000, deletes="soft")
    pair.mend("softly", pair.verify("softly"))
    pair.run(extract=False)

    verdict = pair.verify("softly")

    assert (verdict.state, verdict.left_out.marked_gone) == (ComparisonState.EQUAL, 8)


def test_what_was_marked_before_deletes_became_hard_is_found_and_deleted(both: Make) -> None:
    pair = both(tables="shop.harder: {deletes: hard, settle: 0s}")
    pair.sql(*statements("harder", 1_000))
    pair.run()
    pair.there(
        "alter table harder add column _syncd_deleted_at timestamp",
        "update harder set _syncd_deleted_at = getdate() where id in (3, 4)",
    )
    pair.sql("DELETE FROM harder WHERE id = 3")

    first = pair.verify("harder")
    pair.mend("harder", first)
    pair.run(extract=False)
    second = pair.verify("harder")

    assert [(one.kind, one.key) for one in first.differences] == [(DifferenceKind.GHOST, {"id": 3})]
    assert (second.state, second.rows) == (ComparisonState.EQUAL, 999)


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_a_row_that_came_back_while_others_were_compared_stays(both: Make, deletes: str) -> None:
    """It is landed by the time that it is found to be gone, in an earlier batch than the one that buries it."""
    table = f"came_back_{deletes}"
    pair = both(tables=f"shop.{table}: {{deletes: {deletes}, settle: 0s}}")
    pair.sql(*statements(table, 1_000))
    pair.run()
    pair.sql(f"DELETE FROM {table} WHERE id = 7")
    mark, compared = pair.state(table).load_progress.cursor, 0

    def insert_again(_name: str, rows: int) -> None:
        nonlocal compared
        compared += rows
        if compared == 700:  # of which the first stride has 640
            pair.sql(f"INSERT INTO {table} (id, name, total, flags, placed_at, rate) VALUES (7, 'b', 1, 1, NOW(6), 1)")
            pair.run()

    first = pair.verify(table, range_rows=10, on_progress=insert_again)
    made = pair.mend(table, first)
    pair.run(extract=False)
    second = pair.verify(table)

    assert [(one.kind, one.key) for one in first.differences] == [(DifferenceKind.GHOST, {"id": 7})]
    assert (made.error, made.rows) == (None, 1)
    assert (second.state, second.rows, second.left_out.marked_gone) == (ComparisonState.EQUAL, 1_000, 0)
    assert first.mark == mark < pair.state(table).load_progress.cursor


class Broken:
    """A reader whose connection breaks."""

    def prepare(self, *, little: bool) -> None:
        pass

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        raise SourceDown("the line broke")


def test_a_repair_that_was_cut_off_is_finished_by_the_next_run(both: Make) -> None:
    """Its plan is sealed, and names the rows: whoever comes next carries it out."""
    pair, _ = planted(both, "cut_off", 2_000)
    made = pair.mend("cut_off", pair.verify("cut_off"), wrap=lambda _: Broken())

    pair.run()
    verdict = pair.verify("cut_off")

    assert isinstance(made.error, SourceDown)
    assert {one.kind for one in verdict.differences} == {DifferenceKind.GHOST}


def test_without_yes_nothing_is_written(both: Make) -> None:
    pair, _ = planted(both, "asked", 2_000)
    keys = pair.keys()

    done = CliRunner().invoke(syncd, ["verify", "-t", "asked", "--repair", "--config", str(pair.config)])

    assert done.exit_code == 7
    assert (
        "29 rows will be read again, 8 deleted rows will be removed from the target; to do so, add --yes" in done.stderr
    )
    assert pair.keys() == keys
    assert pair.verify("asked").counts.total() == 37


@pytest.mark.long
def test_beside_a_writer_nothing_differs(both: Make) -> None:
    pair = both(tables="shop.busy: {deletes: hard, settle: 0s}")
    pair.sql(*statements("busy", 3_000))
    pair.run()
    over = threading.Event()
    broken: list[BaseException] = []

    def write() -> None:
        try:
            number = 0
            while not over.wait(0.02):
                number += 1
                pair.sql(
                    f"UPDATE busy SET name = 'change {number}' WHERE id MOD 97 = {number % 97}",
                    f"INSERT INTO busy (id, name, total, flags, placed_at, rate) VALUES ({100_000 + number}, 'new', 1,"
                    " 1, NOW(6), 1)",
                )
        except BaseException as error:
            broken.append(error)
            raise

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = []
        for _ in range(3):
            found.append(pair.verify("busy"))
            pair.run()
    finally:
        over.set()
        writer.join()

    assert not broken
    assert [one.differences for one in found] == [()] * 3
    assert found[-1].left_out.above_mark > 0


def test_a_row_of_the_future_that_is_gone_at_the_source_goes(both: Make) -> None:
    """It came ahead, and no mark ever reaches its stamp."""
    pair = both(tables="shop.plans: {deletes: hard, settle: 2s, ahead_after: 1s}")
    pair.sql(
        "DROP TABLE IF EXISTS plans",
        "CREATE TABLE plans (id BIGINT PRIMARY KEY, update_at DATETIME(6) NOT NULL, KEY (update_at, id))",
        "INSERT INTO plans VALUES (1, '2026-01-01'), (2, '2026-01-02')",
    )
    pair.run()
    pair.sql("INSERT INTO plans VALUES (3, '2099-01-01')")
    pair.run()
    assert [key for [key] in pair.client.rows("select id from plans order by 1")] == [1, 2, 3]
    pair.sql("DELETE FROM plans WHERE id = 3")

    pair.mend("plans", pair.verify("plans"))
    pair.run(extract=False)

    assert pair.verify("plans").state is ComparisonState.EQUAL
    assert [key for [key] in pair.client.rows("select id from plans order by 1")] == [1, 2]


def test_rows_that_came_with_another_table_are_mended_and_from_a_mark_set_anew_it_is_proven_again(both: Make) -> None:
    pair = both(tables="shop.swapped: {settle: 0s}")
    pair.sql(*statements("swapped", 1_000))
    pair.run()
    was_proven = pair.state("swapped").required_extract_progress.proven
    pair.sql(
        "DO SLEEP(1.1)",
        "DROP TABLE IF EXISTS swapped_new, swapped_old",
        "CREATE TABLE swapped_new LIKE swapped",
        "INSERT INTO swapped_new SELECT * FROM swapped",
        "INSERT INTO swapped_new (id, name, total, flags, placed_at, rate, update_at)"
        " VALUES (5000, 'b', 1, 1, NOW(6), 1, '2026-01-01')",
        "RENAME TABLE swapped TO swapped_old, swapped_new TO swapped",
    )
    pair.run()
    is_proven = pair.state("swapped").required_extract_progress.proven

    first = pair.verify("swapped")
    pair.mend("swapped", first)
    pair.run(extract=False)
    sampled = json.loads(pair.syncd("verify", "-t", "swapped", "--sample", "1%", "--json").stdout)["streams"][0]
    told = json.loads(pair.syncd("verify", "-t", "swapped", "--json").stdout)["streams"][0]
    second = pair.syncd("verify", "-t", "swapped")
    shown = pair.syncd("watermark", "get", "-t", "swapped")
    cursor = pair.state("swapped").required_extract_progress.cursor
    done = pair.syncd(*shlex.split(told["next_step"])[1:], "--yes")
    is_set = pair.state("swapped").required_extract_progress
    shown_then = pair.syncd("watermark", "get", "-t", "swapped")
    pair.sql("UPDATE swapped SET flags = 2 WHERE id = 3")
    pair.run()

    assert (was_proven, is_proven) == (True, False)
    assert [(one.kind, one.key) for one in first.differences] == [(DifferenceKind.LOST, {"id": 5000})]
    assert (told["state"], told["unproven_reason"]) == ("equal", "the table was replaced before batch 1-2")
    assert sampled["next_step"] is None
    assert "not proven to be complete: the table was replaced before batch 1-2\n" in second.stderr
    assert f"from the next rows on: {told['next_step']}\n" in second.stderr
    assert re.search("proven +no: the table was replaced before batch 1-2\n", shown.stdout)
    assert done.exit_code == 0, done.output
    assert is_set.cursor == cursor
    assert re.search("proven +no: nothing has been read since the mark was set\n", shown_then.stdout)
    assert pair.state("swapped").required_extract_progress.proven
    proven = json.loads(pair.syncd("verify", "-t", "swapped", "--json").stdout)["streams"][0]
    assert (proven["proven"], proven["unproven_reason"], proven["next_step"]) == (True, None, None)
