"""One service, several passes at once: loads of batches that were made without a JVM, and extractions with Spark."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from syncd.app.stage_services import StageService
from syncd.concurrency.thread_helpers import locked_cached_property
from syncd.config.check import read_settings
from syncd.s3.lake_client import S3Lake
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.settings import Settings, StreamSettings
from syncd.spark.spark_session import WarmSparkSession
from tests.integration.load.conftest import ROLE, journal, lake, prepared, warehouse
from tests.integration.stage.conftest import warm
from tests.services.prepared import Prepared
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server

if TYPE_CHECKING:
    from syncd.events import StreamEvent

__all__ = [
    "bucket", "client", "clients", "journal", "lake", "no_fault_left", "prepared", "s3_url", "server", "warehouse",
    "warm",
]  # fmt: skip


class WarmService(StageService):
    """The service as it is wired, on a session of Spark that others use too."""

    shared: WarmSparkSession

    @locked_cached_property
    def session(self) -> WarmSparkSession:
        return self.shared


class Threads:
    """Passes in threads of their own, and what came of each."""

    def __init__(self) -> None:
        self.came: dict[str, Any] = {}
        self._threads: list[Thread] = []

    def start(self, name: str, act: Callable[[], Any]) -> None:
        def run() -> None:
            self.came[name] = act()

        self._threads.append(Thread(target=run, name=name))
        self._threads[-1].start()

    def join(self) -> dict[str, Any]:
        for thread in self._threads:
            thread.join(300)
        assert not any(thread.is_alive() for thread in self._threads)
        return self.came


def stream_of(settings: Settings, table: str) -> StreamSettings:
    return next(stream for stream in settings.streams if stream.table == table)


class Loading:
    """A service that loads prepared streams into the stand-in, over two sessions; its MySQL is away."""

    def __init__(self, lake: S3Lake, server: RedshiftStandIn, directory: Path, stack: ExitStack) -> None:
        self._lake = lake
        self._server = server
        self._directory = directory
        self._stack = stack
        self.events: list[StreamEvent] = []
        self.threads = Threads()

    def of(self, *tables: Prepared, sessions: int = 2) -> tuple[StageService, list[StreamSettings]]:
        path, place, server = self._directory / "syncd.yaml", self._lake.settings, self._server
        url = f"redshift://{server.user}:{server.password}@{server.host}:{server.port}/{server.database}"
        named = ", ".join(f"shop.{one.table}: {{metadata: [batch], cursor: {one.cursor}}}" for one in tables)
        path.write_text(
            "sources: {shop: {url: 'mysql://nobody:x@127.0.0.1:9/shop', zone: UTC}}\n"
            f"lake: {{url: 's3://{place.bucket}/{place.prefix}', endpoint: '{place.endpoint}', region: us-east-1}}\n"
            f"warehouse: {{url: '{url}', iam_role: '{ROLE}', max_sessions: {sessions}}}\n"
            f"tables: {{{named}}}\n"
        )
        settings = read_settings(path, {})
        service = self._stack.enter_context(StageService(settings, environ=os.environ, emit=self.events.append))
        return service, [stream_of(settings, one.table) for one in tables]


@pytest.fixture
def loading(lake: S3Lake, server: RedshiftStandIn, tmp_path: Path) -> Iterator[Loading]:
    with ExitStack() as stack:
        yield Loading(lake, server, tmp_path, stack)
