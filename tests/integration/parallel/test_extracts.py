"""Extractions of several streams at once by one service: never more connections than allowed, and the end of one."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.config.check import read_settings
from syncd.errors import PassAlreadyRunning, PassStopped
from syncd.extract.extract_pass import ExtractState
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Settings
from syncd.spark.spark_session import WarmSparkSession
from tests.integration.parallel.conftest import Threads, WarmService
from tests.integration.parallel.conftest import stream_of as named
from tests.services.chain_check import Lake
from tests.services.clients import Client, eventually, standing
from tests.services.servers import environ_of
from watermarks.document import Stage
from watermarks.progress import RunStrategy

pytestmark = pytest.mark.services

MOST = 3
LOOKED_EVERY = 0.02
ROWS = 600
LAYOUT = (
    "(id BIGINT PRIMARY KEY, v INT NOT NULL DEFAULT 1, update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"
    " ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id))"
)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("par"), services=["mysql", "s3"], environ=environ_of("mariadb")) as box:
        with Client(replace(box.mysql, database="")) as client:
            client.run("CREATE DATABASE IF NOT EXISTS shop", "CREATE USER sync@'%'", "GRANT ALL ON *.* TO sync@'%'")
        os.environ |= {"AWS_ACCESS_KEY_ID": str(box.s3.access_key), "AWS_SECRET_ACCESS_KEY": str(box.s3.secret_key)}
        yield box


@dataclass
class Shop:
    """A service over some tables, which enters MySQL as a user of its own; and somebody who watches it."""

    box: Sandbox
    settings: Settings
    service: StageService
    watcher: Client
    threads: Threads

    def extract(self, table: str, wanted: PassOptions | None = None) -> None:
        self.threads.start(table, partial(self.service.extract, named(self.settings, table), wanted or PassOptions()))

    def end(self, table: str, *, why: str) -> bool:
        return self.service.end_pass(named(self.settings, table).stream_name, Stage.EXTRACT, why=why)

    def connections(self) -> dict[int, str]:
        """Those of the service, each with its statement."""
        rows = self.watcher.run("SHOW FULL PROCESSLIST")
        return {int(row[0]): str(row[7] or "") for row in rows if row[1] == "sync"}

    def reads(self, table: str) -> bool:
        """Whether somebody is read to from a table."""
        return any("SLEEP" in text and f"shop.{table}" in text for text in self.connections().values())


@pytest.fixture
def shop(box: Sandbox, warm: WarmSparkSession, tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    with ExitStack() as stack:

        def make(tables: dict[str, str], *, most: int) -> Shop:
            watcher = stack.enter_context(Client(box.mysql))
            for table in tables:
                numbers = f"INSERT INTO {table} (id) SELECT seq FROM seq_1_to_{ROWS}"
                watcher.run(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} {LAYOUT}", numbers)
            url = f"mysql://sync@{box.mysql.host}:{box.mysql.port}/shop"
            prefix, s3 = uuid4().hex[:8], box.s3
            path = tmp_path / f"{prefix}.yaml"
            path.write_text(
                f"source: {{url: '{url}', zone: UTC, max_connections: {most}}}\n"
                f"lake: {{url: 's3://{s3.bucket}/{prefix}', endpoint: '{s3.endpoint}', region: '{s3.region}'}}\n"
                f"tables: {{{', '.join(f'shop.{table}: {{{more}}}' for table, more in tables.items())}}}\n"
            )
            settings = read_settings(path, {"window": "${window}"})
            service = stack.enter_context(WarmService(settings, environ=os.environ, emit=lambda _event: None))
            service.shared = warm
            return Shop(box=box, settings=settings, service=service, watcher=watcher, threads=Threads())

        yield make


def test_streams_at_once_keep_to_the_connections_that_are_allowed(shop: Callable[..., Shop]) -> None:
    tables = ["one", "two", "three", "four"]
    made = shop(dict.fromkeys(tables, "batch_rows: 400"), most=MOST)
    over, counts = threading.Event(), list[int]()

    def watch() -> None:
        while not over.wait(LOOKED_EVERY):
            counts.append(standing(made.box.mysql.port) - before)

    before = standing(made.box.mysql.port)
    watching = threading.Thread(target=watch)
    watching.start()
    for table in tables:
        made.extract(table, PassOptions(strategy=RunStrategy.INTER_TABLE))
    came = made.threads.join()
    over.set()
    watching.join()

    assert {name: (outcome.error, outcome.rows) for name, outcome in came.items()} == dict.fromkeys(
        tables, (None, ROWS)
    )
    assert 1 < max(counts) <= MOST
    lake = Lake(made.box.s3.make_client(), made.box.s3.bucket, made.settings.lake.prefix)
    for table in tables:
        document = lake.document(f"watermarks/mysql/shop.{table}.json")
        assert document["backup_strategy"] == "inter-table"
        assert len(lake.rows(f"mysql/shop.{table}", "id")) == ROWS
    for outcome in came.values():
        assert outcome.complete_before >= outcome.mark.values[0].raw.replace(tzinfo=UTC)


@pytest.mark.long  # what goes on meanwhile has to outlast it: a busy machine needs more than the seconds of a quick run
def test_a_pass_that_is_ended_returns_and_no_other_is_disturbed(shop: Callable[..., Shop]) -> None:
    slow = "query: 'SELECT * FROM shop.{0} WHERE ${{window}} AND SLEEP(0.5) = 0'"
    made = shop({"slow": slow.format("slow"), "other": slow.format("other"), "quick": ""}, most=4)
    for table in ("slow", "other"):
        made.extract(table)
    both = eventually(lambda: made.reads("slow") and made.reads("other"), within=120)
    assert both, made.threads.came
    again = made.service.extract(named(made.settings, "slow"), PassOptions())

    assert made.end("slow", why="it took longer than 6 h")
    assert eventually(lambda: "slow" in made.threads.came, within=120)
    assert eventually(lambda: not made.reads("slow"), within=120), "its statement is ended at the server too"
    quick = made.service.extract(named(made.settings, "quick"), PassOptions())
    assert made.reads("other"), "the other is at work still"
    made.end("other", why="the test is over")
    came = made.threads.join()

    assert isinstance(again.error, PassAlreadyRunning)
    assert isinstance(came["slow"].error, PassStopped)
    assert "it took longer than 6 h" in came["slow"].error.message
    assert (quick.error, quick.rows, quick.state) == (None, ROWS, ExtractState.EXTRACTED)


def test_an_ended_reading_that_had_every_connection_leaves_them_to_others(shop: Callable[..., Shop]) -> None:
    """Spark counts a task as gone as soon as its job is cancelled, while it waits for a row of the server still."""
    slow = "query: 'SELECT * FROM shop.slow WHERE ${window} AND SLEEP(0.5) = 0'"
    made = shop({"slow": slow, "quick": ""}, most=1)
    made.extract("slow")
    assert eventually(lambda: made.reads("slow"), within=120), made.threads.came

    made.end("slow", why="it took longer than 6 h")
    quick = made.service.extract(named(made.settings, "quick"), PassOptions())

    assert (quick.error, quick.rows) == (None, ROWS)
    assert eventually(lambda: not made.reads("slow"), within=120), "its statement is ended at the server"
    assert isinstance(made.threads.join()["slow"].error, PassStopped)
    state = made.service.journal.read_newest(named(made.settings, "slow").stream_name.stem)
    assert state is not None
    assert not state.failures, "who ended it says nothing of the stream"


def test_a_question_that_hangs_ends_with_its_pass(shop: Callable[..., Shop]) -> None:
    made = shop({"locked": "", "free": ""}, most=4)
    with Client(made.box.mysql) as holder:
        holder.run("LOCK TABLES locked WRITE")
        made.extract("locked")
        assert eventually(lambda: any("`locked`" in text for text in made.connections().values()), within=120)

        free = made.service.extract(named(made.settings, "free"), PassOptions())
        made.end("locked", why="a stop was requested")
        came = made.threads.join()

    assert (free.error, free.rows) == (None, ROWS)
    assert isinstance(came["locked"].error, PassStopped)
    assert made.service.extract(named(made.settings, "locked"), PassOptions()).rows == ROWS
