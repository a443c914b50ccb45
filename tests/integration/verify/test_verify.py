"""One stream on both sides: each kind of difference is told, what nothing was promised of is left out."""

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from click.testing import CliRunner

from syncd.cli.main import syncd
from syncd.lake.manifest import Manifest
from syncd.lake.read_requests import NULL_CURSOR_COUNT
from syncd.verify.digest_forms import SHORT_TEXT_BYTES
from syncd.verify.result import ComparisonResult, ComparisonState, DifferenceKind
from tests.integration.verify.conftest import Both
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH

pytestmark = pytest.mark.services
ONE = pytest.mark.parametrize("box", ["mariadb"], indirect=True)
"""What is the same for both servers."""

STAMP = "update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
ORDERS = f"id BIGINT PRIMARY KEY, name VARCHAR(60) NULL, total DECIMAL(10,2) NOT NULL, {STAMP}, KEY (update_at, id)"
Make = Callable[..., Both]


def filled(both: Both, table: str, layout: str = ORDERS, *, rows: int = 300) -> None:
    """A table whose stamps are some months old, one a second."""
    both.sql(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} ({layout}) CHARACTER SET utf8mb4",
        f"INSERT INTO {table} (id, name, total, update_at) WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1"
        f" FROM c WHERE n < {rows}) SELECT n, CONCAT('row ', n), n / 7, '2026-01-01' + INTERVAL n SECOND FROM c",
    )


def told(verdict: ComparisonResult) -> set[tuple[DifferenceKind, object, tuple[str, ...]]]:
    return {(one.kind, next(iter(one.key.values())), one.columns) for one in verdict.differences}


def test_each_kind_of_difference_is_told_with_key_and_columns(both: Make) -> None:
    pair = both(tables="shop.kinds: {deletes: hard}")
    filled(pair, "kinds")
    pair.run()
    assert pair.verify("kinds").state is ComparisonState.EQUAL
    pair.there(
        "delete from kinds where id = 10",
        "update kinds set name = 'row 2O' where id = 20",
        "update kinds set name = '' where id = 30",
        "update kinds set name = null where id = 31",
        "update kinds set total = total + 0.01 where id = 40",
        "update kinds set update_at = dateadd(second, -1, update_at), name = 'older' where id = 50",
        "insert into kinds select * from kinds where id = 60",
        "insert into kinds (id, name, total, update_at)"
        " select 100000 + id, name, total, update_at from kinds where id = 70",
    )
    pair.sql("UPDATE kinds SET name = NULL, update_at = update_at WHERE id = 30")

    verdict = pair.verify("kinds")

    assert told(verdict) == {
        (DifferenceKind.LOST, 10, ()),
        (DifferenceKind.DIFFERENT, 20, ("name",)),
        (DifferenceKind.DIFFERENT, 30, ("name",)),
        (DifferenceKind.DIFFERENT, 31, ("name",)),
        (DifferenceKind.DIFFERENT, 40, ("total",)),
        (DifferenceKind.STALE, 50, ("name", "update_at")),
        (DifferenceKind.DOUBLED, 60, ()),
        (DifferenceKind.GHOST, 100070, ()),
    }
    assert verdict.counts == Counter(
        {
            DifferenceKind.DIFFERENT: 4,
            DifferenceKind.LOST: 1,
            DifferenceKind.STALE: 1,
            DifferenceKind.DOUBLED: 1,
            DifferenceKind.GHOST: 1,
        }
    )
    [null] = [one for one in verdict.differences if one.key == {"id": 30}]
    assert (null.source_values, null.target_values) == ({"name": None}, {"name": ""})


def test_texts_around_the_length_of_which_a_digest_takes_their_place(both: Make) -> None:
    pair = both(tables="shop.long_texts:")
    stamp = "update_at DATETIME(6) NOT NULL"
    pair.sql(
        "DROP TABLE IF EXISTS long_texts",
        f"CREATE TABLE long_texts (id INT PRIMARY KEY, one TEXT, other TEXT, {stamp}, KEY (update_at, id))"
        " CHARACTER SET utf8mb4",
        "INSERT INTO long_texts WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c WHERE n < 24)"
        f" SELECT n, REPEAT(IF(n % 2, 'x', 'é'), {SHORT_TEXT_BYTES} / IF(n % 2, 1, 2) - 6 + n DIV 2),"
        f" CONCAT('{SHORT_TEXT_BYTES}:', REPEAT('y', n * 50)), '2026-01-01' FROM c",
    )
    pair.run()
    assert pair.verify("long_texts").state is ComparisonState.EQUAL
    longest = pair.client.value("select max(octet_length(one)) from long_texts")
    assert SHORT_TEXT_BYTES < int(str(longest)) < 2 * SHORT_TEXT_BYTES
    pair.there(
        "update long_texts set one = left(one, length(one) - 1) || 'z' where id > 4",
        "update long_texts set one = one || ',', other = substring(other, 2) where id = 1",
    )

    verdict = pair.verify("long_texts")

    assert {(one.key["id"], one.columns) for one in verdict.differences} == {
        (1, ("one", "other")),
        *((n, ("one",)) for n in range(5, 25)),
    }


@ONE
def test_what_changed_since_the_last_load_is_left_out_on_both_sides(both: Make) -> None:
    pair = both(tables="shop.moved: {deletes: hard}")
    filled(pair, "moved")
    pair.run()
    pair.sql(
        "UPDATE moved SET name = 'newer' WHERE id BETWEEN 5 AND 8",
        "INSERT INTO moved (id, name, total) VALUES (1000, 'new', 1)",
    )

    verdict = pair.verify("moved")

    assert (verdict.state, verdict.left_out.above_mark, verdict.rows) == (ComparisonState.EQUAL, 5, 296)


@ONE
def test_what_is_extracted_and_not_loaded_is_above_the_loaded_mark(both: Make) -> None:
    pair = both(tables="shop.waiting: {settle: 0s}")
    filled(pair, "waiting")
    pair.run()
    pair.sql("UPDATE waiting SET name = 'newer' WHERE id = 5")
    pair.run(load=False)

    verdict = pair.verify("waiting")

    assert (verdict.state, verdict.left_out.above_mark) == (ComparisonState.EQUAL, 1)


@ONE
@pytest.mark.parametrize("mode", ["append", "history"])
def test_of_versions_the_newest_is_compared(both: Make, mode: str) -> None:
    table = f"versions_{mode}"
    pair = both(tables=f"shop.{table}: {{mode: {mode}, first_run: {{from: 2025-01-01}}}}")
    filled(pair, table)
    pair.run()
    for name in ("second", "third"):
        pair.sql(f"UPDATE {table} SET name = '{name}' WHERE id BETWEEN 3 AND 7")
        pair.run()

    equal = pair.verify(table)
    pair.there(
        f"update {table} set name = 'wrong' where name = 'third' and id = 4", f"delete from {table} where id = 9"
    )
    verdict = pair.verify(table)

    assert (equal.state, equal.rows) == (ComparisonState.EQUAL, 300)
    assert told(verdict) == {(DifferenceKind.DIFFERENT, 4, ("name",)), (DifferenceKind.LOST, 9, ())}
    assert equal.left_out.earlier_versions == (10 if mode == "history" else 0)


@ONE
def test_doubled_rows_lead_to_what_takes_out_the_versions_that_a_mode_before_kept(both: Make) -> None:
    pair = both(tables="shop.kept: {mode: append}")
    filled(pair, "kept")
    pair.run()
    pair.sql("UPDATE kept SET name = 'second' WHERE id IN (3, 4)")
    pair.run()
    assert "append" not in pair.syncd("verify", "-t", "kept").stderr
    pair.tables = "shop.kept: {mode: upsert}"

    found = pair.syncd("verify", "-t", "kept")

    assert (found.exit_code, found.stderr.count(": doubled")) == (7, 2)
    assert "if `mode` was `append`" in found.stderr
    [command] = [line for line in found.stderr.splitlines() if "load all files again" in line]
    words = command.partition(": syncd ")[2].partition(";")[0].split()
    assert pair.syncd(*words, "--yes", "--reason", "a test").exit_code == 0
    pair.run()
    assert pair.verify("kept").state is ComparisonState.EQUAL


@ONE
def test_rows_marked_as_gone_are_no_ghosts_and_lost_where_the_source_has_them(both: Make) -> None:
    pair = both(tables="shop.marked: {deletes: soft}")
    filled(pair, "marked")
    pair.run()
    pair.there("update marked set _syncd_deleted_at = getdate() where id in (3, 4)")
    pair.sql("DELETE FROM marked WHERE id = 3")

    verdict = pair.verify("marked")

    assert told(verdict) == {(DifferenceKind.LOST, 4, ())}
    assert verdict.left_out.marked_gone == 2


@ONE
def test_rows_before_the_start_and_without_a_stamp_are_left_out_and_counted(both: Make) -> None:
    layout = ORDERS.replace("DATETIME(6) NOT NULL", "DATETIME(6) NULL")
    pair = both(tables="shop.begun: {first_run: {from: '2026-01-01T00:01:40Z'}, deletes: hard}")
    filled(pair, "begun", layout)
    pair.sql("UPDATE begun SET update_at = NULL WHERE id IN (250, 260)")
    pair.run()

    verdict = pair.verify("begun")

    assert (verdict.state, verdict.rows) == (ComparisonState.EQUAL, 199)
    assert (verdict.left_out.before_start, verdict.left_out.without_stamp) == (99, 2)


@ONE
def test_rows_without_a_stamp_are_counted_in_the_manifests_that_hold_them(both: Make) -> None:
    layout = ORDERS.replace("DATETIME(6) NOT NULL", "DATETIME(6) NULL")
    pair = both(tables="shop.stampless: {batch_rows: 100}")
    filled(pair, "stampless", layout)
    pair.sql("UPDATE stampless SET update_at = NULL WHERE id IN (5, 7, 250)")

    pair.run()

    name = pair.stream("stampless").stream_name
    chain, half = BatchChain(pair.journal, name), pair.state("stampless").required_extract_progress
    manifests = [Manifest.from_link(chain.require_link(batch)) for batch in half.batch_ids(after=BEFORE_FIRST_BATCH)]
    assert [one.problem_counts for one in manifests if one.rows] == [{NULL_CURSOR_COUNT: 2}, {}, {NULL_CURSOR_COUNT: 1}]
    assert sum(one.rows for one in manifests) == 300


@ONE
def test_a_row_that_lost_its_stamp_is_no_ghost(both: Make) -> None:
    layout = ORDERS.replace("DATETIME(6) NOT NULL", "DATETIME(6) NULL")
    pair = both(tables="shop.unstamped: {deletes: hard}")
    filled(pair, "unstamped", layout)
    pair.run()
    pair.sql("UPDATE unstamped SET update_at = NULL WHERE id = 5")

    assert pair.verify("unstamped").state is ComparisonState.EQUAL


@ONE
def test_a_table_read_by_its_key(both: Make) -> None:
    pair = both(tables="shop.grown: {cursor: id, mode: append, deletes: hard}")
    filled(pair, "grown", ORDERS.replace("BIGINT PRIMARY", "BIGINT AUTO_INCREMENT PRIMARY"))
    pair.run()
    pair.sql("INSERT INTO grown (name, total) VALUES ('new', 1)", "UPDATE grown SET name = 'unseen' WHERE id = 8")
    pair.there("delete from grown where id = 9")
    pair.sql("DELETE FROM grown WHERE id = 10")

    verdict = pair.verify("grown")

    assert told(verdict) == {
        (DifferenceKind.LOST, 9, ()),
        (DifferenceKind.GHOST, 10, ()),
        (DifferenceKind.STALE, 8, ("name", "update_at")),
    } or told(verdict) == {
        (DifferenceKind.LOST, 9, ()),
        (DifferenceKind.GHOST, 10, ()),
        (DifferenceKind.DIFFERENT, 8, ("name", "update_at")),
    }
    assert verdict.left_out.above_mark == 1


KEYS = {
    "text": ("code VARCHAR(40) COLLATE utf8mb4_general_ci PRIMARY KEY", "CONCAT('Kéy ', n)", "code"),
    "binary": ("code BINARY(16) PRIMARY KEY", "UNHEX(MD5(n))", "code"),
    "mixed": ("tenant INT, code VARCHAR(20), PRIMARY KEY (tenant, code)", "n DIV 100, CONCAT('c', n)", "tenant, code"),
    "composite": ("a INT, b INT UNSIGNED, PRIMARY KEY (a, b)", "n DIV 37, 4294967295 - n", "a, b"),
    "enum": ("kind ENUM('z', 'a'), n INT, PRIMARY KEY (kind, n)", "1 + n MOD 2, n", "kind, n"),
    "moment": ("at TIMESTAMP(3) PRIMARY KEY", "'2026-01-01' + INTERVAL n HOUR", "at"),
    "unsigned": ("id BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615 - n", "id"),
    "decimal": ("d DECIMAL(20,5) PRIMARY KEY", "n / 8 - 10", "d"),
    "day": ("d DATE, n SMALLINT, PRIMARY KEY (d, n)", "'2026-01-01' + INTERVAL n DIV 30 DAY, n", "d, n"),
}


@ONE
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type(both: Make, kind: str) -> None:
    """Small ranges and leaves, so that all of the descent is walked."""
    key, values, names = KEYS[kind]
    table = f"key_{kind}"
    pair = both(tables=f"shop.{table}: {{deletes: hard}}")
    pair.sql(
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} ({key}, total INT NOT NULL, {STAMP}, KEY (update_at, {names})) CHARACTER SET utf8mb4",
        f"INSERT INTO {table} ({names}, total, update_at) WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT n + 1 FROM c"
        f" WHERE n < 900) SELECT {values}, n, '2026-01-01' + INTERVAL n SECOND FROM c",
    )
    pair.run()
    equal = pair.verify(table, range_rows=200, leaf_rows=20)
    pair.there(
        f"delete from {table} where total in (1, 450, 900)",
        f"update {table} set total = -total where total in (7, 333, 899)",
    )
    pair.sql(f"DELETE FROM {table} WHERE total IN (2, 500, 898)")

    verdict = pair.verify(table, range_rows=200, leaf_rows=20)

    assert (equal.state, equal.rows) == (ComparisonState.EQUAL, 900)
    assert verdict.counts == Counter({DifferenceKind.LOST: 3, DifferenceKind.DIFFERENT: 3, DifferenceKind.GHOST: 3})


@ONE
def test_a_query_of_ones_own(both: Make) -> None:
    query = "SELECT * FROM own WHERE total > 10 AND ${window}"
    pair = both(tables=f"shop.own: {{query: '{query}', deletes: hard}}")
    filled(pair, "own")
    pair.run()
    equal = pair.verify("own")
    pair.there("delete from own where id = 200")

    assert (equal.state, equal.rows) == (ComparisonState.EQUAL, 230)
    assert told(pair.verify("own")) == {(DifferenceKind.LOST, 200, ())}


@ONE
def test_a_table_that_is_read_whole_and_one_not_loaded_are_not_compared_and_say_why(both: Make) -> None:
    pair = both(tables="shop.early: , shop.small: {cursor: none, mode: replace}")
    filled(pair, "early")
    filled(pair, "small")
    pair.run("small")

    assert (pair.verify("early").state, "first pass" in pair.verify("early").not_compared_reason) == (
        ComparisonState.NOT_COMPARED,
        True,
    )
    assert (pair.verify("small").state, "whole" in pair.verify("small").not_compared_reason) == (
        ComparisonState.NOT_COMPARED,
        True,
    )


@ONE
def test_the_command_tells_keys_and_shows_values_only_when_asked(both: Make) -> None:
    pair = both(tables="shop.shown: , shop.fine:")
    filled(pair, "shown")
    filled(pair, "fine")
    pair.run()
    pair.there("update shown set name = 'secret' where id = 5", "delete from shown where id = 6")
    run = partial(CliRunner().invoke, syncd, env={"NO_COLOR": "1"})
    words = ["verify", "--config", str(pair.config)]

    plain = run([*words, "--all"])
    told = run([*words, "-t", "shown", "--json", "--limit", "1"])
    values = run([*words, "-t", "shown", "--show-values"])
    fine = run([*words, "-t", "fine", "--sample", "50%", "--seed", "3", "--json"])

    assert (plain.exit_code, told.exit_code, fine.exit_code) == (7, 7, 0)
    assert re.search(r"shop\.shown +different +300 +1 +1 +0 +1 +0 +0 ", plain.stdout)
    assert "shop.shown: id=5: different in name (digests " in plain.stderr
    assert "secret" not in plain.output + told.output
    assert "name: 'row 5' at the source, 'secret' in the warehouse" in values.stderr
    [stream] = json.loads(told.stdout)["streams"]
    assert (stream["lost"], stream["different"], len(stream["differences"])) == (1, 1, 1)
    [equal] = json.loads(fine.stdout)["streams"]
    assert (equal["state"], equal["seed"], equal["ranges_compared"]) == ("equal", 3, 1)


@ONE
def test_what_cannot_be_asked_has_its_exit_code(both: Make) -> None:
    pair = both(tables="shop.dropped:")
    filled(pair, "dropped")
    pair.run()
    pair.there("drop table dropped")

    done = CliRunner().invoke(syncd, ["verify", "--all", "--config", str(pair.config)])

    assert done.exit_code == 6
    assert "syncd watermark reset -t shop.dropped --redshift-only" in done.stderr
