"""Sides that take every connection and never answer: whoever looks is told, and is not kept for long."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from syncd.app.operator_context import OperatorContext
from syncd.app.stage_services import StageService
from syncd.app.warehouse_access import WarehouseResources
from syncd.concurrency.response_monitor import ResponseMonitor
from syncd.concurrency.running_pass import StageSlot
from syncd.config.check import read_settings
from syncd.error_classes import ExitCode
from syncd.errors import WarehouseDown
from syncd.s3.lake_client import S3Lake
from syncd.sandbox.redshift import RedshiftStandIn
from tests.integration.marks.conftest import Marks
from tests.integration.run.conftest import Ran
from tests.services.mute import Mute
from watermarks.document import Stage
from watermarks.errors import StoreUnavailable
from watermarks.names import StreamName
from watermarks.stores.s3 import S3Store

pytestmark = pytest.mark.services

TABLES = 60
DEFAULTS = ResponseMonitor.__init__.__kwdefaults__ or {}
WITHIN = 0.5
"""Seconds that a side which keeps silent may take for an answer here; the others have as long as ever."""
LAKE = "syncd.s3.lake_client.READ_ONLY_TIMEOUT_SECONDS"
SOURCE = "syncd.mysql.connection.GREETING_TIMEOUT_SECONDS"
WAREHOUSE = "syncd.redshift.connection.GREETING_TIMEOUT_SECONDS"


class Cut(Marks):
    """Commands over many tables, where some sides do not answer."""

    mysql = "127.0.0.1:9"
    s3 = ""
    redshift = ""

    @property
    def config(self) -> Path:
        path, lake, server = self.directory / "syncd.yaml", self.lake.settings, self.server
        names = ", ".join(f"shop.t{number}: {{}}" for number in range(TABLES))
        path.write_text(
            f"source: {{url: 'mysql://nobody:x@{self.mysql}/shop', zone: UTC}}\n"
            f"lake: {{url: 's3://{lake.bucket}/{lake.prefix}', endpoint: '{self.s3 or lake.endpoint}',"
            " region: us-east-1}\n"
            f"warehouse: {{url: 'redshift://{server.user}:{server.password}@"
            f"{self.redshift or f'{server.host}:{server.port}'}/{server.database}'}}\n"
            f"tables: {{{names}}}\n"
        )
        return path

    def timed(self, *words: str) -> tuple[Ran, float]:
        began = time.monotonic()
        done = self(*words)
        return done, time.monotonic() - began


@pytest.fixture
def cut(lake: S3Lake, server: RedshiftStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cut:
    monkeypatch.setattr(ResponseMonitor.__init__, "__kwdefaults__", {**DEFAULTS, "report_after": WITHIN / 2})
    return Cut(lake=lake, server=server, directory=tmp_path, group=())


@pytest.fixture
def mute() -> Iterator[Mute]:
    with closing(Mute()) as mute:
        yield mute


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("plan",),
        ("runs",),
        ("audit",),
        ("explain", "t3", "id=1"),
        ("watermark", "list"),
        ("watermark", "get", "--all"),
        ("quarantine", "list"),
    ],
    ids=lambda words: words[0],
)
def test_a_lake_that_keeps_silent_is_said_soon_and_waited_for_once(
    cut: Cut, mute: Mute, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LAKE, WITHIN)
    cut.s3 = f"http://127.0.0.1:{mute.port}"

    done, seconds = cut.timed(*words)

    assert done.code == ExitCode.LAKE, done.err
    assert f"s3://{cut.lake.settings.bucket}/{cut.lake.settings.prefix} has not answered for" in done.err
    assert done.err.count("has not answered") == 1, done.err
    assert seconds < TABLES * WITHIN, done.err
    assert mute.calls <= 100, "two attempts of each that were on their way at once"


@pytest.mark.slow
def test_a_source_that_keeps_silent_is_waited_for_once(cut: Cut, mute: Mute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOURCE, WITHIN)
    cut.mysql = f"127.0.0.1:{mute.port}"

    done = cut("plan")

    assert done.code == ExitCode.SOURCE, done.err
    assert f"MySQL at {cut.mysql} has not answered for" in done.err
    assert done.err.count("error: ") == TABLES
    assert mute.calls == 1


def test_a_warehouse_that_keeps_silent_is_waited_for_once(
    cut: Cut, mute: Mute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WAREHOUSE, WITHIN)
    cut.redshift = f"127.0.0.1:{mute.port}"
    said = list[str]()

    with OperatorContext(
        read_settings(cut.config, {}), read_only=True, response_monitor=ResponseMonitor(said.append)
    ) as desk:
        for settings in desk.settings.streams:
            with pytest.raises(WarehouseDown):
                desk.find_target_row(settings, {"id": "1"})

    assert mute.calls == 1
    assert [line.split(" for ")[0] for line in said] == [f"Redshift at {cut.redshift} has not answered"]


def test_whoever_lands_asks_a_silent_warehouse_as_often_as_a_stream_tries(
    cut: Cut, mute: Mute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that restarts, or wakes up, lets the second or the third in; the streams behind do not wait anew anyway."""
    monkeypatch.setattr(WAREHOUSE, WITHIN)
    cut.redshift = f"127.0.0.1:{mute.port}"
    settings, said = read_settings(cut.config, {}), list[str]()
    lane = StageSlot(StreamName(source="shop", database="shop", table="t0"), Stage.LOAD)

    with (
        ResponseMonitor(said.append) as silences,
        StageService(settings, environ={}, emit=lambda _: None, one_shot=True, response_monitor=silences) as service,
        WarehouseResources(settings.warehouses[0], service) as warehouse,
        lane.begin_pass(),
    ):
        sessions = warehouse.pass_sessions(lane)
        for _ in range(2):
            with pytest.raises(WarehouseDown):
                sessions.session()

    assert mute.calls == 2
    assert [line.split(" for ")[0] for line in said] == [f"Redshift at {cut.redshift} has not answered"]


def test_what_was_not_sent_is_not_said_to_be_in_doubt(lake: S3Lake, mute: Mute) -> None:
    with ResponseMonitor(report_after=0.2) as silences:
        settings = lake.settings
        quick = S3Lake.from_settings_with_timeout(
            type(settings)(bucket="lake", region="us-east-1", endpoint=f"http://127.0.0.1:{mute.port}"),
            timeout_seconds=0.4,
            attempts=1,
        ).register_monitor(silences)
        store = S3Store(quick.client, bucket="lake")
        with pytest.raises(StoreUnavailable):
            store.read("documents/a.json")
        calls = mute.calls

        with pytest.raises(StoreUnavailable, match="gave no answer a moment ago"):
            store.put("documents/a.json", b"{}", expected=None)

    assert mute.calls == calls
