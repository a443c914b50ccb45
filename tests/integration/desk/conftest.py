"""The commands of whoever looks, on batches prepared without a JVM: a lake, a stand-in, and a MySQL that is away."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from syncd.mysql.connection import connect
from syncd.mysql.source import MySqlSource
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Secret, SourceSettings, Tls
from tests.integration.load.conftest import Loader, journal, lake, loader, prepared, warehouse
from tests.integration.marks.conftest import Marks, marks
from tests.services.prepared import Prepared, row
from tests.services.servers import environ_of
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server

__all__ = [
    "bucket", "client", "clients", "journal", "lake", "loader", "marks", "no_fault_left", "prepared", "s3_url",
    "server", "warehouse",
]  # fmt: skip


@pytest.fixture
def syncd(marks: Callable[..., Marks]) -> Callable[..., Marks]:
    """`syncd` in this process, with a configuration of these tables."""
    return partial(marks, group=())


@pytest.fixture
def two_landed(prepared: Callable[..., Prepared], loader: Loader) -> Prepared:
    """Three batches, the first two of them loaded."""
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.increment(row(3, 3), parts=1)
    loader.load(orders)
    orders.increment(row(4, 4))
    return orders


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

        at = self.box.mysql
        used = SourceSettings(
            name="shop", host=at.host, port=at.port, user=at.user, password=Secret(at.password), tls=Tls.DISABLE
        )
        source = MySqlSource(used, lambda: connect(used))
        try:
            return source.get_server_info().identity
        finally:
            source.close()


@pytest.fixture(scope="package")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Sandbox(tmp_path_factory.mktemp("plan"), services=["mysql"], environ=environ_of("mariadb")) as box:
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop")
        made = Shop(box)
        made.run("SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1")
        yield made


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
def planning(syncd: Callable[..., Marks], shop: Shop) -> Callable[..., WithSource]:
    def make(*tables: Prepared) -> WithSource:
        made = syncd(*tables)
        url = re.sub(r"/[^/]*$", "/shop", shop.box.mysql.url)
        fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
        return WithSource(**fields, url=url)

    return make
