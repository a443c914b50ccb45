"""Two daemons of one configuration, without a JVM: the batches lie there, and the source is away."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from syncd.s3.lake_client import S3Lake
from syncd.sandbox.redshift import RedshiftStandIn
from tests.integration.load.conftest import Reader, journal, lake, prepared, warehouse
from tests.services.daemon import DaemonProcess, until
from tests.services.prepared import Prepared, row
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server
from watermarks.document import Stage, Watermark
from watermarks.history import Journal
from watermarks.lease import Claim, LeaseOwner
from watermarks.names import claim_key, owner_key

__all__ = [
    "bucket", "client", "clients", "journal", "lake", "no_fault_left", "prepared", "s3_url", "server", "warehouse",
]  # fmt: skip
pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
GIVEN_UP = "source shop does not answer"
TTL = 8.0
"""Seconds: a daemon that lives loses no lease to the other, however busy the machine is."""


@dataclass
class Pair:
    """Daemons of one file."""

    lake: S3Lake
    server: RedshiftStandIn
    journal: Journal[Watermark]
    directory: Path
    daemons: list[DaemonProcess] = field(default_factory=list)

    def write(self, *tables: Prepared) -> None:
        settings, server = self.lake.settings, self.server
        url = f"redshift://{server.user}:{server.password}@{server.host}:{server.port}/{server.database}"
        named = ", ".join(f"shop.{one.table}: {{metadata: [batch], every: 2s}}" for one in tables)
        (self.directory / "syncd.yaml").write_text(
            "sources: {shop: {url: 'mysql://nobody:x@127.0.0.1:9/shop', zone: UTC}}\n"
            f"lake: {{url: 's3://{settings.bucket}/{settings.prefix}', endpoint: '{settings.endpoint}',"
            " region: us-east-1}\n"
            f"warehouse: {{url: '{url}'}}\ndaemon: {{http: off, stop_timeout: 20s}}\ntables: {{{named}}}\n"
        )

    def start(self) -> DaemonProcess:
        self.daemons.append(DaemonProcess(self.directory / "syncd.yaml", ttl=TTL))
        return self.daemons[-1].start()

    def claim(self, table: Prepared) -> Claim | None:
        stored = self.journal.store.read(claim_key(table.stream, Stage.LOAD))
        return Claim.from_bytes(stored.body, stream=table.stream, stage=Stage.LOAD) if stored else None

    def has_loaded(self, table: Prepared, seq: int) -> bool:
        state = self.journal.read(table.stream.stem)
        return state is not None and state.load_progress.last_batch.seq == seq

    def pid_of(self, table: Prepared) -> int:
        """The process that has the loader's claim."""
        claim = self.claim(table)
        assert claim is not None
        stored = self.journal.store.read(owner_key(claim.owner))
        assert stored is not None
        return LeaseOwner.from_bytes(stored.body, location=owner_key(claim.owner)).process_location.pid


@pytest.fixture
def pair(lake: S3Lake, server: RedshiftStandIn, journal: Journal[Watermark], tmp_path: Path) -> Iterator[Pair]:
    made = Pair(lake=lake, server=server, journal=journal, directory=tmp_path)
    yield made
    for one in made.daemons:
        one.kill()


def rows_of(count: int) -> list[tuple[int, str]]:
    return [(number, f"row {number}") for number in range(1, count + 1)]


def test_a_killed_daemon_is_followed_by_the_other_and_each_batch_lands_once(
    prepared: Prepare, pair: Pair, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    pair.write(orders)
    first = pair.start()
    until(lambda: pair.has_loaded(orders, 1), "the first batch")
    second = pair.start()
    assert pair.pid_of(orders) == first.process.pid

    first.signal(signal.SIGKILL)
    first.process.wait()
    orders.increment(row(2, 2))

    until(lambda: pair.has_loaded(orders, 2), "the second batch")
    assert pair.pid_of(orders) == second.process.pid
    assert warehouse.rows(orders) == rows_of(2)
    second.signal(signal.SIGTERM)
    assert second.ends() == 0, second.said
    claim = pair.claim(orders)
    assert claim is not None
    assert claim.is_released


@pytest.mark.slow
def test_a_daemon_that_slept_wakes_as_another_owner_and_goes_on(
    prepared: Prepare, pair: Pair, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    pair.write(orders)
    first = pair.start()
    until(lambda: pair.has_loaded(orders, 1), "the first batch")
    second = pair.start()

    first.signal(signal.SIGSTOP)
    orders.increment(row(2, 2))
    until(lambda: pair.has_loaded(orders, 2), "the second batch, by the other")
    first.signal(signal.SIGCONT)
    until(lambda: first.has_said("continues under a new name"), "its new name")
    second.signal(signal.SIGTERM)
    assert second.ends() == 0, second.said
    orders.increment(row(3, 3))

    until(lambda: pair.has_loaded(orders, 3), "the third batch, by the one that slept")
    assert pair.pid_of(orders) == first.process.pid
    assert first.process.poll() is None
    assert warehouse.rows(orders) == rows_of(3)


@pytest.mark.slow
def test_a_source_that_is_away_is_asked_by_few_and_the_loader_works_on(
    prepared: Prepare, pair: Pair, warehouse: Reader
) -> None:
    tables = [prepared() for _ in range(8)]
    for one in tables:
        one.increment(row(1, 1))
        one.let_go()
    pair.write(*tables)

    daemon = pair.start()

    for one in tables:
        until(partial(pair.has_loaded, one, 1), "every table")
    assert all(warehouse.rows(one) == rows_of(1) for one in tables)
    until(lambda: daemon.has_said(GIVEN_UP, times=4), "that the source is given up")
    lines = list(daemon.lines)
    given_up = [place for place, line in enumerate(lines) if GIVEN_UP in line][3]  # later on one looks now and then
    assert sum("extract failed" in line for line in lines[:given_up]) <= 5, daemon.said
    daemon.signal(signal.SIGINT)
    assert daemon.ends() == 0, daemon.said
