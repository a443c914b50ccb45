"""`syncd plan`: what a run would do, asked of a real server, a lake and a stand-in, and written to none of them."""

import json
import re
from collections.abc import Callable

import pytest

from syncd.error_classes import ExitCode
from syncd.settings import Mode
from tests.integration.desk.conftest import Shop, WithSource
from tests.integration.load.conftest import Loader
from tests.integration.load.test_cost import statements
from tests.integration.marks.conftest import Marks
from tests.services.prepared import Prepared, row

pytestmark = pytest.mark.services

Make = Callable[..., Marks]
Prepare = Callable[..., Prepared]
WRITES = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|TRUNCATE|LOCK|GRANT|COPY|VACUUM|CALL)\b", re.IGNORECASE
)
ROWS = 300


def filled(shop: Shop, table: str, rows: int = ROWS) -> None:
    """Rows of some minutes after those that a prepared stream has read."""
    shop.run(
        f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR(50), update_at DATETIME(6) NOT NULL"
        " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id))",
        f"INSERT INTO {table} SELECT seq, 'x', '2026-09-21 14:20:00' + INTERVAL seq SECOND FROM seq_1_to_{rows}",
        f"ANALYZE TABLE {table}",
        "TRUNCATE mysql.general_log",
    )


def test_a_run_is_foretold_and_nothing_is_written_anywhere(
    planning: Callable[..., WithSource], prepared: Prepare, loader: Loader, shop: Shop
) -> None:
    orders = prepared(identity=shop.identity)
    orders.increment(row(1, 1), row(2, 2))
    loader.load(orders)
    orders.increment(row(3, 3))
    filled(shop, orders.table)
    made = planning(orders)

    with statements() as warehouse:
        done = made("plan", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, made.wrote) == (0, set()), done.err
    assert [one for one in shop.asked() if WRITES.match(one)] == []
    assert [one for one in warehouse if WRITES.match(one)] == []
    assert warehouse
    assert set(told) == {"table", "source", "extract", "load", "notes", "errors"}
    read, load = told["extract"], told["load"]
    assert (read["kind"], read["already_planned"], read["windows"]) == ("increment", False, 1)
    assert read["next_rows"] >= ROWS
    assert (read["batches"], read["files"]) == (1, 1)
    assert ROWS * 0.5 <= read["rows"] <= ROWS * 2
    assert read["bytes"] > 0
    assert read["seconds"] > 0
    assert len(read["statements"]) == 1
    assert read["statements"][0].startswith("SELECT")
    assert (load["batches"], load["rows"], load["ddl"]) == (2, 1 + read["rows"], [])
    assert load["copies"] == 2  # what waits was prepared for another server's table
    dry = made("run", "--all", "--dry-run")
    assert (dry.code, made.wrote) == (0, set()), dry.err
    text = made("plan", "--statements").out
    assert re.search(rf"shop\.{orders.table} +increment +1 +\d+ +", text)
    assert "FORCE INDEX" in text or "USE INDEX" in text


def test_before_a_first_run_the_table_to_make_is_told(
    planning: Callable[..., WithSource], prepared: Prepare, shop: Shop
) -> None:
    orders = prepared()
    orders.lake.delete_objects([found.key for found in orders.lake.list_objects("")])
    filled(shop, orders.table, rows=20)
    made = planning(orders)

    done = made("plan", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, made.wrote, orders.lake.list_objects("")) == (0, set(), []), done.err
    assert (told["extract"]["kind"], told["extract"]["rows"], told["extract"]["seconds"]) == ("snapshot", 20, None)
    assert told["load"]["ddl"][0].startswith(f'CREATE TABLE "public"."{orders.table}"')


def test_of_a_table_that_is_read_whole_every_row_is_foretold_each_time(
    planning: Callable[..., WithSource], prepared: Prepare, loader: Loader, shop: Shop
) -> None:
    table = prepared(mode=Mode.REPLACE, cursor="none", identity=shop.identity)
    table.chunk(row(1, 1), row(2, 2), done=True)
    loader.load(table)
    filled(shop, table.table, rows=2)
    made = planning(table)
    made.more = ", mode: replace"

    done = made("plan", "--json")

    assert done.code == 0, done.err
    [told] = json.loads(done.out)["streams"]
    assert (told["extract"]["kind"], told["extract"]["rows"], told["load"]["rows"]) == ("snapshot", 2, 2)


def test_what_cannot_be_asked_is_told_and_the_rest_is_foretold(syncd: Make, two_landed: Prepared) -> None:
    """With MySQL away, what waits in the lake is known all the same."""
    made = syncd(two_landed)

    done = made("plan", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, made.wrote) == (ExitCode.SOURCE, set())
    assert told["errors"][0]["exit"] == ExitCode.SOURCE
    assert (told["load"]["batches"], told["load"]["rows"], told["load"]["copies"]) == (1, 1, 1)
