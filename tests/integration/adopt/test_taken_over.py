"""Tables that are equal are taken over: both marks are set, no row is copied, and the next run reads what is newer."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from syncd.operations.reloadable_files import RowsNotInLake
from syncd.operations.stream_status import IMPORTED_NOT_READ
from syncd.redshift.ledger import TargetTableChanged
from syncd.verify.result import ComparisonState
from tests.integration.adopt.conftest import ORDERS, Adopted
from watermarks.document import Watermark
from watermarks.history import ChangeKind

pytestmark = [pytest.mark.services, pytest.mark.parametrize("box", ["mariadb"], indirect=True)]
Make = Callable[..., Adopted]

NEWER = "'2026-02-01 00:00:00'"
"""A stamp above every mark, and long below the horizon."""
LAST = ["wall:2026-01-01T00:02:30.000000", "int:300"]


def flat(table: str) -> bytes:
    """As the older tool leaves it, here after half of the last second's rows."""
    fields: dict[str, Any] = {
        "table_name": f"shop.{table}",
        "last_mysql_extraction_time": "2026-01-01T00:10:09.481516Z",
        "last_mysql_data_timestamp": "2026-01-01T00:02:30Z",
        "mysql_rows_extracted": 299,
        "mysql_status": "success",
        "redshift_rows_loaded": 299,
        "redshift_status": "success",
        "backup_strategy": "sequential",
        "s3_file_count": 1,
        "processed_s3_files": [f"s3://old/incremental/{table}/one.parquet"],
        "last_error": None,
        "metadata": {"manual_watermark": False},
    }
    return json.dumps(fields).encode()


def states(table: str) -> bytes:
    """Version 2.0."""
    fields: dict[str, Any] = {
        "version": "2.0",
        "table_name": f"US_DW:shop.{table}",
        "cdc_strategy": "hybrid",
        "mysql_state": {"last_timestamp": "2026-01-01T00:02:30+00:00", "last_id": 300, "status": "success"},
        "redshift_state": {"status": "success", "total_rows": 300},
        "processed_files": [],
        "metadata": {"manual_override": False},
    }
    return json.dumps(fields).encode()


def require_taken(one: Adopted, told: dict[str, Any], before: list[tuple[Any, ...]]) -> Watermark:
    """Both marks stand, nothing was copied, and a comparison is clean."""
    assert (told["exit"], told["state"], told["error"]) == (0, "taken over", None)
    state = one.pair.state(one.table)
    assert (state.required_extract_progress.cursor, state.load_progress.cursor) == (
        state.load_progress.cursor,
        state.required_extract_progress.cursor,
    )
    assert state.required_extract_progress.cursor.to_texts() == told["mark"] == told["after"]["loaded_mark"]
    assert not one.copied
    assert one.rows == before
    keys = one.pair.keys()
    assert {key.split("/")[1] for key in keys} == {"watermarks", "history"}
    assert one.pair.verify(one.table).state is ComparisonState.EQUAL
    return state


def test_a_table_loaded_by_hand_is_taken_over_up_to_its_last_row(adopted: Make) -> None:
    one = adopted("by_hand")
    one.source()
    one.load()
    before = one.rows

    told = one.told("--yes", "--reason", "moved to syncd")

    state = require_taken(one, told, before)
    assert (told["mark"], told["limited_by"], told["rows"]) == (LAST, "target", 300)
    entry = one.pair.journal.read_entry(state.stem, state.revision)
    assert entry is not None
    assert (entry.note.change, entry.note.reason) == (ChangeKind.IMPORT, "moved to syncd")
    proof = entry.note.evidence["proof"]
    assert (proof["rows"], proof["mark"], proof["run"]) == (300, LAST, told["run"])
    assert (proof["target"], proof["differences"]) == (f"public.{one.table}", {})


@pytest.mark.parametrize(
    ("key", "make"),
    [
        ("watermarks/shop.{table}.json", flat),
        pytest.param("watermark/tables/shop_{table}.json", flat, marks=pytest.mark.long),
        ("watermarks/v2/us_dw_shop_{table}_redshift_default.json", states),
    ],
    ids=["flat", "flat, in tables", "2.0"],
)
def test_documents_of_the_earlier_tool_are_found_and_kept_word_by_word(
    adopted: Make, key: str, make: Callable[[str], bytes]
) -> None:
    one = adopted("inherited")
    one.source()
    one.load()
    before = one.rows
    body = make(one.table)
    place = one.document(key.format(table=one.table), body)
    one.document(key.format(table="inherited_old"), make("inherited_old"))

    told = one.told("--from", f"{place.rpartition('/')[0]}/", "--yes")

    assert told["state"] == "taken over", told
    state = require_taken(one, told, before)
    entry = one.pair.journal.read_entry(state.stem, state.revision)
    assert entry is not None
    assert entry.note.evidence["document"].encode() == body
    assert told["document"]["location"] == place


def test_the_next_run_brings_what_is_newer_and_the_ties_that_the_earlier_tool_lost(adopted: Make) -> None:
    """Its mark is an instant, of whose rows it had read some: the target knows which."""
    one = adopted("ties", "settle: 0s")
    one.source()
    one.pair.sql("INSERT INTO ties (id, name, total, update_at) VALUES (301, 'row 301', 1, '2026-01-01 00:02:30')")
    one.load("id <= 300")
    place = one.document("watermarks/shop.ties.json", flat("ties"))

    told = one.told("--from", place, "--yes")
    one.pair.sql(
        f"INSERT INTO ties (id, name, total, update_at) VALUES (1000, 'new', 1, {NEWER})",
        f"UPDATE ties SET name = 'changed', update_at = {NEWER} WHERE id = 5",
    )
    one.pair.run()

    assert (told["state"], told["mark"], told["left_out"]["above_mark"]) == ("taken over", LAST, 1)
    names = {row[0]: row[1] for row in one.rows}
    assert (len(names), len(one.rows), names[1000], names[5]) == (302, 302, "new", "changed")
    state = one.pair.state("ties")
    assert (
        state.required_extract_progress.counts.rows,
        state.load_progress.counts.rows,
        str(state.required_extract_progress.last_batch),
    ) == (3, 3, "2-1")
    assert one.pair.verify("ties").state is ComparisonState.EQUAL


def test_a_document_bounds_what_is_taken_over(adopted: Make) -> None:
    one = adopted("bounded")
    one.source()
    one.load()
    place = one.document("watermarks/last_run_timestamp.txt", b"2026-01-01T00:01:00\n")

    told = one.told("--from", place, "--yes")

    assert (told["state"], told["document"]["format"]) == ("taken over", "system-wide text")
    assert told["mark"] == ["wall:2026-01-01T00:01:00.000000", "int:121"]
    assert told["left_out"]["above_mark"] == 179


def test_what_can_still_change_at_the_source_is_left_to_the_next_run(adopted: Make) -> None:
    """A transaction is open that will commit a row below the target's last one."""
    one = adopted("held")
    one.source()
    with one.pair.box.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO held (id, name, total) VALUES (2000, 'late', 1)")
        cursor.execute("SELECT update_at FROM held WHERE id = 2000")
        [(stamp,)] = cursor.fetchall()
        one.pair.sql(f"INSERT INTO held (id, name, total, update_at) VALUES (1999, 'early', 1, '{stamp}')")
        one.load()

        told = one.told("--yes", "--wait", "0s")
        connection.rollback()

    assert told["state"] == "failed"
    assert "open since before the first poll" in told["error"]["message"]
    assert one.pair.keys() == []


def test_a_table_that_only_grows_is_taken_over_by_its_key(adopted: Make) -> None:
    one = adopted("grown", "cursor: id, mode: append")
    one.source(ORDERS.replace("BIGINT PRIMARY", "BIGINT AUTO_INCREMENT PRIMARY"))
    one.load()
    before = one.rows

    told = one.told("--yes")

    require_taken(one, told, before)
    assert told["mark"] == ["int:300"]


@pytest.mark.long
def test_a_key_of_texts_stands_behind_all_rows_of_the_last_instant(adopted: Make) -> None:
    """Redshift sorts texts in another way: the last key of the last instant is not asked for there."""
    one = adopted("texts")
    one.source(ORDERS.replace("id BIGINT", "id VARCHAR(20)"))
    one.load(layout="id varchar(80), name varchar(240), total decimal(10,2), update_at timestamp")
    before = one.rows

    told = one.told("--yes")

    require_taken(one, told, before)
    assert told["mark"] == ["wall:2026-01-01T00:02:31.000000"]


@pytest.mark.long
def test_rows_before_the_configured_start_are_no_matter(adopted: Make) -> None:
    one = adopted("begun", "first_run: {from: '2026-01-01T00:01:00Z'}, deletes: hard")
    one.source()
    one.load("update_at >= '2026-01-01 00:01:00'")

    told = one.told("--yes")

    assert (told["state"], told["rows"], told["proven"]) == ("taken over", 181, False)
    assert told["left_out"]["before_start"] == 119
    assert (one.pair.verify("begun").state, one.pair.verify("begun").left_out.before_start) == (
        ComparisonState.EQUAL,
        119,
    )


@pytest.mark.long
def test_ghosts_stay_where_deletes_are_ignored_and_are_told(adopted: Make) -> None:
    one = adopted("ghosts")
    one.source()
    one.load()
    one.pair.sql("DELETE FROM ghosts WHERE id = 7")

    told = one.told("--yes")

    assert (told["state"], told["kept_ghosts"], told["ghost"]) == ("taken over", 1, 0)


@pytest.mark.long
def test_asked_again_for_what_is_so_it_says_so_and_writes_nothing(adopted: Make) -> None:
    one = adopted("twice")
    one.source()
    one.load()
    one.told("--yes")
    keys = one.pair.keys()

    told = one.told("--yes")

    assert (told["exit"], told["state"]) == (0, "taken over already")
    assert one.pair.keys() == keys


@pytest.mark.long
def test_undo_gives_the_stream_back_to_its_first_pass(adopted: Make) -> None:
    one = adopted("undone")
    one.source()
    one.load()
    one.told("--yes")

    assert one.pair.syncd("watermark", "undo", "-t", "undone", "--yes").exit_code == 0
    one.pair.run()

    assert len(one.rows) == 300
    assert one.pair.verify("undone").state is ComparisonState.EQUAL


def test_status_and_check_have_nothing_to_say_against_it(adopted: Make) -> None:
    one = adopted("looked_at")
    one.source()
    one.load()
    one.told("--yes")

    check = one.pair.syncd("watermark", "check", "-t", "looked_at")
    [standing] = json.loads(one.pair.syncd("status", "--json").stdout)["streams"]

    assert check.exit_code == 0
    assert (standing["state"], standing["mark"]) == ("current", LAST)
    assert standing["reasons"] == [IMPORTED_NOT_READ]
    assert one.pair.syncd("audit", "-t", "looked_at").exit_code == 0


def test_a_row_of_before_is_explained(adopted: Make) -> None:
    one = adopted("explained")
    one.source()
    one.load()
    one.told("--yes")

    told = json.loads(one.pair.syncd("explain", "explained", "id=5", "--json").stdout)
    wrong = one.pair.syncd("explain", "explained", "name=5")

    assert (told["location"], told["reason"]) == ("loaded", "the target has it; no file has it")
    assert "the key of shop.explained is id=..." in str(wrong.exception)


@pytest.mark.long
def test_the_command_itself_reads_one_new_row_with_spark_and_upserts_it(adopted: Make) -> None:
    one = adopted("by_spark", "settle: 0s")
    one.source()
    one.load()
    assert one.told("--yes")["state"] == "taken over"
    one.pair.sql(f"INSERT INTO by_spark (id, name, total, update_at) VALUES (1000, 'new', 1, {NEWER})")

    done = subprocess.run(
        [sys.executable, "-m", "syncd", "run", "-t", "by_spark", "--json", "--config", str(one.pair.config)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    [stream] = json.loads(done.stdout)["streams"]
    assert (stream["batches"], stream["rows"], stream["load"]["rows"]) == (1, 1, 1)
    assert [row[0] for row in one.rows] == [*range(1, 301), 1000]
    assert one.pair.verify("by_spark").state is ComparisonState.EQUAL


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param("drop table {t}", id="dropped"),
        pytest.param("delete from {t}", id="emptied", marks=pytest.mark.long),
    ],
)
def test_a_target_that_is_gone_after_it_was_taken_over_is_not_begun_anew(adopted: Make, gone: str) -> None:
    """Its rows are in no file: a new table with the newer rows alone would pass for all of them."""
    one = adopted("vanished", "settle: 0s")
    one.source()
    one.load()
    one.told("--yes")
    one.pair.sql(f"INSERT INTO vanished (id, name, total, update_at) VALUES (1000, 'new', 1, {NEWER})")
    one.pair.there(gone.format(t="vanished"))

    with pytest.raises(TargetTableChanged, match="were imported") as e:
        one.pair.run()

    assert e.value.hint.endswith("syncd watermark reset -t vanished")


@pytest.mark.long
def test_what_was_taken_over_cannot_land_again_from_files_and_is_read_again_instead(adopted: Make) -> None:
    one = adopted("relanded", "settle: 0s")
    one.source()
    one.load()
    one.told("--yes")
    one.pair.sql(f"INSERT INTO relanded (id, name, total, update_at) VALUES (1000, 'new', 1, {NEWER})")
    one.pair.run()
    one.pair.there("drop table relanded")
    reset = ("watermark", "reset", "-t", "relanded", "--yes")

    half = one.pair.syncd(*reset, "--redshift-only")
    both = one.pair.syncd(*reset)
    one.pair.run()

    assert isinstance(half.exception, RowsNotInLake)
    assert half.exception.hint.endswith("syncd watermark reset -t shop.relanded")
    assert (both.exit_code, len(one.rows)) == (0, 301)
    assert one.pair.syncd(*reset, "--redshift-only", "--dry-run").exit_code == 0
