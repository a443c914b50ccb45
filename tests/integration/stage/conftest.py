import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.concurrency.running_pass import RunningPass
from syncd.config.check import read_settings
from syncd.events import StreamEvent
from syncd.extract.extract_pass import ExtractOutcome
from syncd.extract.plan_rules import ExtractRequest
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Settings, SparkSettings
from syncd.spark.spark_session import WarmSparkSession
from tests.services.chain_check import Lake
from tests.services.servers import ONE, environ_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from syncd.ports.source import BatchReader


class WarmService(StageService):
    """The service as it is wired, on a session of Spark that others use too."""

    shared: WarmSparkSession
    wrap: "Callable[[BatchReader], BatchReader]"

    @cached_property
    def session(self) -> WarmSparkSession:
        return self.shared

    def make_reader(self, source: str, running_pass: RunningPass) -> "BatchReader":
        return self.wrap(super().make_reader(source, running_pass))


@dataclass
class Pipe:
    """A database, a lake of its own for each test, and the stage between them."""

    box: Sandbox
    kind: str
    directory: Path
    client: "S3Client"
    warm: WarmSparkSession
    url: str = ""
    """Of the source, where it is not the server itself that is asked."""
    endpoint: str = ""
    """Of the lake, likewise."""
    options: str = ""
    spark: str = ""
    tables: str = "orders:"
    wrap: "Callable[[BatchReader], BatchReader]" = lambda reader: reader
    """What a test puts around the reader."""
    heard: Callable[[StreamEvent], None] = lambda _event: None
    events: list[StreamEvent] = field(default_factory=list)
    prefix: str = field(default_factory=lambda: uuid4().hex[:8])

    @property
    def config(self) -> Path:
        path = self.directory / f"{self.prefix}.yaml"
        s3 = self.box.s3
        text = (
            f"source: {{url: '{self.url or self.box.mysql.url}', zone: UTC, {self.options}}}\n"
            f"lake: {{url: 's3://{s3.bucket}/{self.prefix}', endpoint: '{self.endpoint or s3.endpoint}',"
            f" region: '{s3.region}'}}\n"
            f"spark: {{{self.spark}}}\n"
            f"tables: {{{self.tables}}}\n"
        )
        if not path.exists() or path.read_text() != text:  # another thread may be reading it
            path.write_text(text)
        return path

    @property
    def lake(self) -> Lake:
        return Lake(self.client, self.box.s3.bucket, self.prefix)

    @property
    def settings(self) -> Settings:
        return read_settings(self.config, {})

    def run(self, table: str = "orders", *, ttl: float = 30.0, **wanted: Any) -> ExtractOutcome:
        """One pass in this process."""
        settings = self.settings
        stream = next(stream for stream in settings.streams if stream.table == table)
        with WarmService(settings, environ=os.environ, emit=self.tell, lease_ttl_seconds=ttl) as service:
            service.shared, service.wrap = self.warm, self.wrap
            return service.extract(
                stream, PassOptions(request=ExtractRequest(**wanted), horizon_wait=timedelta(seconds=20))
            )

    def tell(self, event: StreamEvent) -> None:
        self.events.append(event)
        self.heard(event)

    def victim(self, point: str, signal: int, *, ttl: float = 30.0) -> "subprocess.Popen[str]":
        """A process that stops at the point."""
        words = [str(self.config), "orders", point, str(int(signal)), str(ttl)]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.services.victim", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmSparkSession]:
    session = WarmSparkSession(SparkSettings())
    yield session
    session.stop()


@pytest.fixture(scope="session", params=ONE)
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """MariaDB and S3, then MySQL itself where it can be had."""
    environ = environ_of(request.param)
    with Sandbox(tmp_path_factory.mktemp("stage"), services=["mysql", "s3"], environ=environ) as box:
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        os.environ |= {"AWS_ACCESS_KEY_ID": str(box.s3.access_key), "AWS_SECRET_ACCESS_KEY": str(box.s3.secret_key)}
        yield box


@pytest.fixture
def pipe(box: Sandbox, warm: WarmSparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Pipe:
    kind = request.node.callspec.params["box"]
    return Pipe(box=box, kind=kind, directory=tmp_path, client=box.s3.make_client(), warm=warm)


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Ask until it is so, and fail when it is not within some minutes."""

    def wait(asked: Callable[[], bool], *, within: float = 240.0) -> None:
        deadline = time.monotonic() + within
        while not asked():
            assert time.monotonic() < deadline, "it did not come about"
            time.sleep(0.02)

    return wait
