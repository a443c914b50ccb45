"""`syncd explain`: where a row is and why, asked of real files, a stand-in, and a server that may be away."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from syncd.error_classes import ExitCode
from syncd.settings import Deletes
from tests.integration.desk.conftest import Shop, WithSource
from tests.integration.load.conftest import Loader
from tests.integration.marks.conftest import Marks
from tests.integration.run.conftest import Ran
from tests.services.prepared import Prepared, moment, position, row

pytestmark = pytest.mark.services

Make = Callable[..., Marks]
Prepare = Callable[..., Prepared]
FIELDS = {
    "table", "key", "location", "reason", "next_step", "mysql", "warehouse", "mark", "loaded", "loaded_at", "versions",
    "quarantine", "all_files_searched", "missing_files",
}  # fmt: skip


def told(done: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.out)
    assert set(found) == FIELDS
    return found


def test_with_mysql_away_lake_and_warehouse_tell(syncd: Make, prepared: Prepare, loader: Loader) -> None:
    orders = prepared()
    orders.increment(*(row(key, key) for key in range(1, 9)), parts=2)
    orders.increment(row(3, 30), row(20, 20, name="a\0b"), row(21, 21))
    loader.load(orders)
    orders.increment(row(9, 40))
    made = syncd(orders)

    def asked(key: int, *more: str) -> dict[str, Any]:
        return told(made("explain", orders.table, f"id={key}", "--json", *more))

    loaded, newer, waits, refused = asked(5), asked(3, "--all-files"), asked(9), asked(20)
    assert made.wrote == set()
    assert (loaded["location"], loaded["versions"][0]["batch"], loaded["warehouse"]["batch"]) == (
        "loaded",
        "1-1",
        "1-1",
    )
    assert loaded["loaded_at"]
    assert "MySQL could not be queried" in loaded["mysql"]["problem"]
    assert [(seen["batch"], seen["cursor"][-8:]) for seen in newer["versions"]] == [
        ("1-2", "14:13:50"),
        ("1-1", "14:13:23"),
    ]
    assert (newer["location"], newer["warehouse"]["batch"]) == ("loaded", "1-2")
    assert (waits["location"], waits["versions"][0]["batch"], waits["warehouse"]["rows"]) == ("in a file", "1-3", 0)
    assert waits["next_step"] == f"syncd run -t shop.{orders.table} --load-only"
    assert (refused["location"], refused["quarantine"][0]["batch"]) == ("quarantined", "1-2")
    assert "NUL byte" in refused["quarantine"][0]["reason"]
    nowhere = asked(77)
    assert (nowhere["location"], nowhere["versions"]) == ("unknown", [])
    text = made("explain", orders.table, "id=5")
    assert f"shop.{orders.table} id=5: loaded\n  batch 1-1 read it, row " in text.out
    assert "  warehouse: has it, read by batch 1-1" in text.out


def test_with_the_warehouse_away_the_mark_is_what_is_known(syncd: Make, two_landed: Prepared) -> None:
    done = told(syncd(two_landed, port=9)("explain", two_landed.table, "id=1", "--json"))

    assert done["location"] == "loaded"
    assert "according to the mark; the warehouse could not be queried" in done["reason"]


def test_a_row_that_is_buried_is_deleted(syncd: Make, prepared: Prepare, loader: Loader) -> None:
    orders = prepared(layout={"deletes": Deletes.HARD})
    orders.increment(row(1, 1), row(2, 2))
    loader.load(orders)
    orders.bury(1, upto=position(row(2, 2)), gone_at=moment(99))
    made = syncd(orders)

    waits = told(made("explain", orders.table, "id=1", "--json"))
    loader.load(orders)
    gone = told(made("explain", orders.table, "id=1", "--json"))

    assert (waits["location"], waits["reason"]) == ("deleted", "batch 1-2 deletes it, and waits to be loaded")
    assert (gone["location"], gone["reason"]) == (
        "deleted",
        "it was deleted at the source: batch 1-2 removed it from the target",
    )


def test_with_all_sides_there_a_row_is_found_wherever_it_is(
    planning: Callable[..., WithSource], prepared: Prepare, loader: Loader, shop: Shop
) -> None:
    orders = prepared(identity=shop.identity)
    orders.increment(row(1, 1), row(2, 2), row(4, 4))
    loader.load(orders)
    shop.run(
        f"CREATE TABLE {orders.table} (id BIGINT PRIMARY KEY, name VARCHAR(50), update_at DATETIME(6) NOT NULL"
        " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id))",
        f"INSERT INTO {orders.table} VALUES (1, 'x', '2026-09-21 14:13:21'), (3, 'x', '2026-09-21 14:13:22'),"
        f" (5, 'x', '2026-09-21 14:20:00'), (6, 'x', '2199-01-01')",
    )
    made = planning(orders)

    def asked(key: str) -> tuple[str, str, int]:
        done = made("explain", orders.table, f"id={key}", "--json")
        found = told(done)
        return found["location"], found["reason"], done.code

    assert asked("1")[0] == "loaded"
    lost = asked("3")
    assert (lost[0], lost[2]) == ("in doubt", ExitCode.DOUBT)
    assert "at or below the mark" in lost[1]
    assert asked("5")[0] == "not yet due"
    assert asked("6")[0] in {"not yet due", "held"}
    assert asked("77")[0] == "never seen"
    assert made.wrote == set()


def test_a_row_that_waits_for_an_open_transaction_is_held_and_no_run_is_named_that_would_read_it(
    planning: Callable[..., WithSource], prepared: Prepare, loader: Loader, shop: Shop
) -> None:
    orders = prepared(identity=shop.identity)
    orders.increment(row(1, 1))
    loader.load(orders)
    shop.run(
        f"CREATE TABLE {orders.table} (id BIGINT PRIMARY KEY, name VARCHAR(50), update_at DATETIME(6) NOT NULL"
        " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id))",
        f"INSERT INTO {orders.table} VALUES (1, 'x', '2026-09-21 14:13:21')",
    )
    made = planning(orders)
    polled = made("run", "-t", orders.table, "--extract-only")

    with shop.box.mysql.connect(database="shop") as writer, writer.cursor() as cursor:
        writer.begin()
        cursor.execute(f"INSERT INTO {orders.table} (id) VALUES (2)")
        shop.run(f"INSERT INTO {orders.table} (id) VALUES (3)")
        found = told(made("explain", orders.table, "id=3", "--json"))
        writer.rollback()

    assert polled.code == ExitCode.DONE, polled.err
    assert (found["location"], found["next_step"]) == ("held", "nothing has to be done")
    assert "can still change" in found["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("42",), "write the key as COLUMN=VALUE"),
        (("id=1", "id=2"), "given twice"),
        (("name=x",), "the key of shop."),
        (("id=many",), "is not a value of"),
    ],
)
def test_what_is_no_key_is_refused(syncd: Make, two_landed: Prepared, words: tuple[str, ...], said: str) -> None:
    done = syncd(two_landed)("explain", two_landed.table, *words)

    assert done.code == ExitCode.USAGE
    assert said in done.err
