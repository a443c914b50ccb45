"""One MySQL, one S3 and one stand-in for all; each test has tables, a lake and daemons of its own."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from syncd.lake.batch_number import batch_from_number
from syncd.sandbox.running_sandbox import Sandbox
from tests.services.daemon import DaemonProcess, until
from tests.services.servers import ENVIRON
from watermarks.batch import BatchId
from watermarks.document import Watermark
from watermarks.history import Journal
from watermarks.names import StreamName
from watermarks.stores.s3 import S3Store

numbers = count(1)


@dataclass
class Place:
    """Tables at the source, a lake and a warehouse, and the file that says so."""

    box: Sandbox
    directory: Path
    number: int = field(default_factory=lambda: next(numbers))
    daemons: list[DaemonProcess] = field(default_factory=list)
    words: str = "every: 1s"
    daemon_words: str = "stop_timeout: 20s"
    http: str = "off"
    spark: str = ""
    tables: list[str] = field(default_factory=list)
    source: str = ""
    """Instead of the server's own address."""
    endpoint: str = ""
    warehouse: str = ""
    """The same of S3 and the stand-in."""

    def table(self, rows: int = 0, name: str = "") -> str:
        """A table at the source, with so many rows."""
        name = name or f"t{self.number}_{len(self.tables)}"
        self.sql(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY AUTO_INCREMENT, body VARCHAR(200),"
            " update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
            " KEY (update_at, id))"
        )
        self.tables.append(name)
        self.insert(name, rows)
        self.write()
        return name

    def insert(self, table: str, rows: int) -> None:
        if rows:
            self.sql(f"INSERT INTO {table} (body) VALUES " + ", ".join(["(UUID())"] * rows))

    @property
    def config(self) -> Path:
        return self.directory / "syncd.yaml"

    def write(self, more: str = "") -> None:
        s3 = self.box.s3
        tables = "\n".join(f"  shop.{name}: {{{self.words}}}" for name in self.tables)
        self.config.write_text(
            f"source: {{url: '{self.source or self.box.mysql.url}', zone: UTC}}\n"
            f"lake: {{url: 's3://{s3.bucket}/daemon{self.number}', endpoint: '{self.endpoint or s3.endpoint}',"
            f" region: '{s3.region}'}}\n"
            f"warehouse: {{url: '{self.warehouse or self.box.redshift.url}'}}\n"
            f"spark: {{{self.spark}}}\n"
            f"daemon: {{http: '{self.http}', {self.daemon_words}}}\n"
            f"tables:\n{tables}\n{more}"
        )

    def daemon(self, *, ttl: float = 30.0, wait: bool = True, **environ: str) -> DaemonProcess:
        made = DaemonProcess(self.config, ttl=ttl, environ=environ)
        self.daemons.append(made)
        return made.start(wait=wait)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.box.mysql.connect(database="shop") as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def landed(self, table: str, columns: str = "id, body") -> list[tuple[Any, ...]]:
        """The rows in the warehouse; none where there is no table yet."""
        with self.box.redshift.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(f"SELECT COUNT(*) FROM pg_tables WHERE tablename = '{table}'")
            if not cursor.fetchone()[0]:
                return []
            cursor.execute(f'SELECT {columns} FROM public."{table}" ORDER BY id')
            return [tuple(row) for row in cursor.fetchall()]

    def equal(self, table: str) -> bool:
        return self.landed(table) == list(self.sql(f"SELECT id, body FROM {table} ORDER BY id"))

    def comes_equal(self, *tables: str, within: float = 240.0) -> None:
        for table in tables or self.tables:
            until(partial(self.equal, table), f"equality of {table}", within=within)

    @property
    def journal(self) -> Journal[Watermark]:
        s3 = self.box.s3
        return Journal(S3Store(s3.make_client(), bucket=s3.bucket, prefix=f"daemon{self.number}"), Watermark)

    def watermark(self, table: str) -> Watermark:
        state = self.journal.read_newest(self.stream(table).stem)
        assert state is not None
        return state

    def stream(self, table: str) -> StreamName:
        return StreamName(source="mysql", database="shop", table=table)

    def ledger(self, table: str) -> list[BatchId]:
        """The batches of a table in the ledger, each as often as it stands there."""
        lake = f"%/daemon{self.number}"
        stem = self.stream(table).stem
        with self.box.redshift.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(
                "SELECT batch FROM public.syncd_ledger"
                f" WHERE lake LIKE '{lake}' AND stream = '{stem}' ORDER BY load_generation, batch"
            )
            return [batch_from_number(int(number)) for (number,) in cursor.fetchall()]


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("daemon"), environ=ENVIRON) as box:
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        os.environ |= {"AWS_ACCESS_KEY_ID": str(box.s3.access_key), "AWS_SECRET_ACCESS_KEY": str(box.s3.secret_key)}
        yield box


@pytest.fixture
def place(box: Sandbox, tmp_path: Path) -> Iterator[Place]:
    made = Place(box=box, directory=tmp_path)
    yield made
    for one in made.daemons:
        one.kill()
