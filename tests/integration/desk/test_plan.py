"""`syncd plan`: what a run would do, asked of a real server, a lake and a stand-in, and written to none of them."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from syncd.cli.exits import Exit
from syncd.sandbox.whole import Sandbox
from tests.integration.load.conftest import Loader
from tests.integration.load.test_cost import statements
from tests.integration.marks.conftest import Marks
from tests.services.prepared import Prepared, row
from tests.services.servers import environ_of

pytestmark = pytest.mark.services

Make = Callable[..., Marks]
Prepare = Callable[..., Prepared]
WRITES = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|TRUNCATE|LOCK|GRANT|COPY|VACUUM|CALL)\b", re.IGNORECASE
)
ROWS = 300


@dataclass
class Shop:
    """A server with a table, which remembers what it was asked."""

    box: Sandbox

    def run(self, *sql: str) -> list[Any]:
        with self.box.mysql.connect(database="shop") as connection, connection.cursor() as cursor:
            for statement in sql:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def asked(self) -> list[str]:
        rows = self.run("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type = 'Query'")
        return [str(statement) for (statement,) in rows]

    @property
    def identity(self) -> str:
        from syncd.adapters.mysql.connect import connect  # noqa: PLC0415  # only here
        from syncd.adapters.mysql.source import MySqlSource  # noqa: PLC0415  # only here
        from syncd.core.settings import Secret, SourceSettings, Tls  # noqa: PLC0415  # only here

        at = self.box.mysql
        used = SourceSettings(
            name="shop", host=at.host, port=at.port, user=at.user, password=Secret(at.password), tls=Tls.DISABLE
        )
        source = MySqlSource(used, lambda: connect(used))
        try:
            return source.server().identity
        finally:
            source.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Sandbox(tmp_path_factory.mktemp("plan"), services=["mysql"], environ=environ_of("mariadb")) as box:
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop")
        made = Shop(box)
        made.run("SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1")
        yield made


def filled(shop: Shop, table: str, rows: int = ROWS) -> None:
    """Rows of some minutes after those that a prepared stream has read."""
    shop.run(
        f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR(50), update_at DATETIME(6) NOT NULL"
        " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id))",
        f"INSERT INTO {table} SELECT seq, 'x', '2026-09-21 14:20:00' + INTERVAL seq SECOND FROM seq_1_to_{rows}",
        f"ANALYZE TABLE {table}",
        "TRUNCATE mysql.general_log",
    )


@dataclass
class WithSource(Marks):
    """The configuration names the server."""

    url: str = ""

    @property
    def config(self) -> Path:
        path = super().config
        path.write_text(path.read_text().replace("mysql://nobody:x@127.0.0.1:9/shop", self.url))
        return path


@pytest.fixture
def planning(syncd: Make, shop: Shop) -> Callable[..., WithSource]:
    def make(*tables: Prepared) -> WithSource:
        made = syncd(*tables)
        url = re.sub(r"/[^/]*$", "/shop", shop.box.mysql.url)
        fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
        return WithSource(**fields, url=url)

    return make


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
    assert set(told) == {"table", "source", "read", "load", "notes", "errors"}
    read, load = told["read"], told["load"]
    assert (read["kind"], read["sealed"], read["windows"]) == ("increment", False, 1)
    assert read["next_rows"] >= ROWS
    assert (read["batches"], read["files"]) == (1, 1)
    assert ROWS * 0.5 <= read["rows"] <= ROWS * 2
    assert read["bytes"] > 0
    assert read["seconds"] > 0
    assert len(read["statements"]) == 1
    assert read["statements"][0].startswith("SELECT")
    assert (load["batches"], load["rows"], load["ddl"]) == (2, 1 + read["rows"], [])
    assert load["copies"] == 2  # what waits was prepared for another server's table
    text = made("plan", "--statements").out
    assert re.search(rf"shop\.{orders.table} +increment +1 +\d+ +", text)
    assert "FORCE INDEX" in text or "USE INDEX" in text


def test_before_a_first_run_the_table_to_make_is_told(
    planning: Callable[..., WithSource], prepared: Prepare, shop: Shop
) -> None:
    orders = prepared()
    orders.lake.drop([key for key, _ in orders.lake.stray("")])
    filled(shop, orders.table, rows=20)
    made = planning(orders)

    done = made("plan", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, made.wrote, orders.lake.stray("")) == (0, set(), []), done.err
    assert (told["read"]["kind"], told["read"]["rows"], told["read"]["seconds"]) == ("snapshot", 20, None)
    assert told["load"]["ddl"][0].startswith(f'CREATE TABLE "public"."{orders.table}"')


def test_what_cannot_be_asked_is_told_and_the_rest_is_foretold(syncd: Make, two_landed: Prepared) -> None:
    """With MySQL away, what waits in the lake is known all the same."""
    made = syncd(two_landed)

    done = made("plan", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, made.wrote) == (Exit.SOURCE, set())
    assert told["errors"][0]["exit"] == Exit.SOURCE
    assert (told["load"]["batches"], told["load"]["rows"], told["load"]["copies"]) == (1, 1, 1)
