"""The load stage of `syncd run`, as an engineer and a scheduler meet it."""

import json
import re
from collections.abc import Callable

import pytest

from tests.integration.load.conftest import Reader
from tests.integration.run.conftest import Command
from tests.services.prepared import Prepared, row

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Make = Callable[..., Command]
DRIVERS = {"redshift_connector", "pyspark"}


@pytest.mark.parametrize("word", ["--load-only", "--redshift-only"])
def test_with_mysql_away_what_is_extracted_is_loaded(
    prepared: Prepare, command: Make, warehouse: Reader, word: str
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.increment(row(3, 3))

    done = command(orders).run("-t", orders.table, "-t", f"shop.{orders.table}", word)

    assert done.code == 0, done.err
    assert re.search(rf"shop\.{orders.table} +loaded +3 +2 +0 ", done.out)
    assert "loaded batches 1-1 to 1-2: 3 rows from 2 files" in done.err
    assert warehouse.rows(orders) == [(1, "row 1"), (2, "row 2"), (3, "row 3")]


def test_a_failed_extraction_does_not_stop_the_load_and_its_code_is_told(
    prepared: Prepare, command: Make, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))

    done = command(orders).run("--all", "--json")

    told = done.told(orders.table)
    assert done.code == 4, done.err
    assert (told["state"], told["error"]["exit"], told["exit"]) == ("failed", 4, 4)
    assert json.loads(done.out)["exit"] == 4
    assert (told["load"]["state"], told["load"]["rows"], told["load"]["error"]) == ("loaded", 1, None)
    assert warehouse.rows(orders) == [(1, "row 1")]


def test_the_fields_of_a_landing(prepared: Prepare, command: Make) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    link = orders.increment(row(2, 2), row(3, 3), parts=2)

    told = command(orders).run("--all", "--load-only", "--json").told(orders.table)

    assert told["state"] == "skipped"
    assert told["exit"] == 0
    assert told["load"] | {"seconds": 0} == {
        "state": "loaded",
        "batches": 2,
        "rows": 3,
        "files": 3,
        "quarantined": 0,
        "incomplete": [],
        "last_batch": "1-2",
        "mark": list(link.high.to_texts()),
        "complete_up_to": "2026-09-21T14:13:23.000000Z",
        "pending_batches": 0,
        "seconds": 0,
        "planned": None,
        "error": None,
    }


@pytest.mark.parametrize(("limit", "counts"), [(1, [2, 2]), (3, [2]), (5, [4, 2, 0])])
def test_a_limit_takes_whole_batches_in_order_and_one_at_least(
    prepared: Prepare, command: Make, limit: int, counts: list[int]
) -> None:
    orders = prepared()
    for key in (1, 3, 5):
        orders.increment(row(key, key), row(key + 1, key + 1))
    made = command(orders)

    done = [made.run("--all", "--load-only", "--json", "--limit", str(limit)) for _ in counts]

    assert [one.told(orders.table)["load"]["rows"] for one in done] == counts


def test_a_dry_run_tells_what_would_be_loaded_and_writes_nothing(
    prepared: Prepare, command: Make, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2), parts=2)
    orders.increment(row(3, 3))
    made = command(orders)
    before = sorted(found.key for found in orders.lake.list_objects(""))

    told = made.run("--all", "--load-only", "--dry-run", "--json")
    shown = made.run("--all", "--load-only", "--dry-run", "--limit", "2")

    planned = {"first": "1-1", "last": "1-2", "batches": 2, "rows": 3, "files": 3}
    assert (told.code, told.told(orders.table)["load"]["planned"]) == (0, planned)
    assert told.told(orders.table)["load"]["pending_batches"] == 2
    assert "1-1 to 1-1 would be loaded: 2 rows in 2 files" in shown.err
    assert sorted(found.key for found in orders.lake.list_objects("")) == before
    assert told.loaded.isdisjoint(DRIVERS)
    assert not warehouse.client.rows(f"select 1 from pg_class where relname = '{orders.table}'")


def test_a_warehouse_that_was_restored_is_seen_though_nothing_is_due(
    prepared: Prepare, command: Make, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    orders.increment(row(2, 2))
    made = command(orders)
    made.run("--all", "--load-only")
    warehouse.client.run(f"delete from syncd_ledger where table_name = 'public.{orders.table}' and batch % 1000 = 2")
    warehouse.client.run(f"delete from {orders.table} where id = 2")

    done = made.run("--all", "--load-only", "--json")

    assert done.code == 0, done.err
    assert warehouse.rows(orders, "id", "1") == [(1,), (2,)]
    assert [batch % 1000 for batch, *_ in warehouse.ledger(orders)] == [1, 2]


def test_where_nothing_is_due_the_warehouse_is_looked_at_and_nothing_is_written(
    prepared: Prepare, command: Make
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    made = command(orders)
    made.run("--all", "--load-only")
    before = sorted(orders.journal.store.list(""))

    second = made.run("--all", "--load-only", "--json")
    both = made.run("--all", "--json")

    assert second.told(orders.table)["load"]["state"] == "nothing new"
    assert second.loaded.isdisjoint(DRIVERS - {"redshift_connector"})
    assert both.loaded.isdisjoint(DRIVERS - {"redshift_connector"})
    assert sorted(orders.journal.store.list("")) == before


def test_a_warehouse_that_is_away_is_no_failure_where_nothing_is_due(prepared: Prepare, command: Make) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    made = command(orders)
    made.run("--all", "--load-only")
    made.port = 9

    assert made.run("--all", "--load-only").code == 0


def test_a_warehouse_that_is_away_is_exit_6_and_the_batches_wait(prepared: Prepare, command: Make) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    made = command(orders, port=9)

    done = made.run("--all", "--load-only", "--json")

    told = done.told(orders.table)["load"]
    assert (done.code, told["state"], told["error"]["exit"], told["pending_batches"]) == (6, "failed", 6, 1)
    assert "trying again in" in done.err


def test_without_a_role_copy_reads_with_the_credentials_of_the_lake_and_shows_them_to_nobody(
    prepared: Prepare, command: Make, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    secret = "Sekrit/0123456789+of/the/lake"

    done = command(orders, role=False).run("--all", "--load-only", "--debug", environ={"AWS_SECRET_ACCESS_KEY": secret})

    assert done.code == 0, done.err
    assert warehouse.rows(orders) == [(1, "row 1")]
    assert secret not in done.out + done.err


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["--all"], "add `warehouse:` to the configuration"),
        (["--all", "--load-only"], "or use --extract-only"),
        (["--all", "--load-only", "--extract-only"], "exclude each other"),
        (["--all", "--load-only", "--until", "2026-01-01"], "leave them out with --load-only"),
    ],
)
def test_what_makes_no_sense_is_told_with_what_mends_it(
    prepared: Prepare, command: Make, words: list[str], word: str
) -> None:
    done = command(prepared(), with_warehouse=False).run(*words)

    assert done.code == 2
    assert word in done.err
    assert "Traceback" not in done.err


def test_a_stream_that_cannot_be_loaded_does_not_stop_the_others(
    prepared: Prepare, command: Make, warehouse: Reader
) -> None:
    bad, good = prepared(), prepared()
    bad.increment(row(1, 1))
    good.increment(row(2, 2))
    bad.lake.delete_objects(
        [found.key for found in bad.lake.list_objects("data/") if f"/shop.{bad.table}/" in found.key]
    )

    done = command(bad, good).run("--all", "--load-only", "--json")

    assert done.code == 7, done.err
    assert done.told(bad.table)["load"]["state"] == "failed"
    assert done.told(good.table)["load"]["state"] == "loaded"
    assert warehouse.rows(good) == [(2, "row 2")]
