"""The whole stage, from MySQL to parts on S3, while writers do what makes cursors lose rows."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pytest

from syncd.errors import SourceDown
from syncd.events import BatchExtracted
from tests.integration.source.test_horizon_stress import Naive, read_or_leave
from tests.integration.stage.conftest import Pipe
from tests.services.arrivals import Arrivals
from tests.services.clients import Client, standing
from tests.services.load import HOT, TABLES, Load
from watermarks.batch import BatchKind

pytestmark = pytest.mark.services

SECONDS: Final = float(os.environ.get("SYNCD_STRESS_SECONDS", "120"))
FEW: Final = 20


def passes(pipe: Pipe, table: str) -> None:
    """One pass; a table that is barred for a while, or a server that hangs up, is tried again by the next."""
    error = pipe.run(table).error
    if error is not None and not isinstance(error, SourceDown):
        raise error


@dataclass
class Heat:
    """Whether rows that change all the time arrive within two batches ahead, while everybody writes."""

    pipe: Pipe
    client: Client
    arrivals: Arrivals
    noted: list[tuple[int, float, dict[int, int]]] = field(default_factory=list)
    """After how many batches ahead, and when, rows stood at which versions."""
    waited: list[float] = field(default_factory=list)
    """How long versions took to arrive, in seconds."""

    def step(self) -> None:
        """Note the versions, make one pass, and require those of two batches ahead before."""
        sql = f"SELECT id, v FROM fine WHERE id BETWEEN {HOT.start} AND {HOT[-1]}"
        versions = dict(read_or_leave(self.client, sql))
        if versions:
            self.noted.append((ahead(self.pipe), time.monotonic(), versions))
        passes(self.pipe, "fine")
        self.arrivals.look()
        cycles, now = ahead(self.pipe), time.monotonic()
        standing = self.noted
        self.noted = []
        for began, at, wanted in standing:
            arrived = all(self.arrivals.versions.get(row, 0) >= version for row, version in wanted.items())
            if arrived:
                self.waited.append(now - at)
            else:
                assert cycles < began + 2, f"after {cycles - began} batches ahead hot rows are not there"
                self.noted.append((began, at, wanted))


def ahead(pipe: Pipe) -> int:
    """How many batches of `fine` were read ahead."""
    return sum(
        isinstance(event, BatchExtracted) and event.kind == BatchKind.AHEAD and event.stream.table == "fine"
        for event in pipe.events
    )


def play(
    pipe: Pipe, load: Load, seconds: float, until: Callable[[Callable[[], bool]], None], report: Callable[[str], None]
) -> list[float]:
    """Write and read for so long, then until all is read; how long hot rows took to arrive, if there were any."""
    load.prepare()
    arrivals = {table: Arrivals(pipe.lake, f"mysql/shop.{table}") for table in TABLES}
    for table in TABLES:
        passes(pipe, table)
    with Client(pipe.box.mysql) as client, Client(pipe.box.mysql) as other, Client(pipe.box.mysql) as third:
        for waiting in (other, third):
            waiting.run("SET SESSION lock_wait_timeout = 1")
        naive, heat = Naive(other), Heat(pipe, third, arrivals["fine"])
        fine = heat.step if load.deep else partial(passes, pipe, "fine")
        load.run_for(seconds, naive.step, fine, partial(passes, pipe, "whole"), every=0.2)
        if load.broken:
            raise load.broken[0]
        now = {table: dict(client.run(f"SELECT id, v FROM {table}")) for table in TABLES}

        def drained() -> bool:
            for table in TABLES:
                passes(pipe, table)
                arrivals[table].look()
            naive.step()
            return all(arrivals[table].versions == rows for table, rows in now.items())

        until(drained)
        missed = sum(naive.versions.lost(client).values())
    for table in TABLES:
        pipe.lake.links(f"mysql/shop.{table}")
    batches = [event for event in pipe.events if isinstance(event, BatchExtracted)]
    report(
        f"{pipe.kind} {seconds:.0f} s: {load.done} transactions ({dict(load.counts)}), {len(batches)} batches,"
        f" {ahead(pipe)} ahead, {sum(batch.rows for batch in batches)} rows of {sum(map(len, now.values()))}, 0 lost;"
        f" a naive reader lost {missed}; hot rows arrived {len(heat.waited)} times within"
        f" {max(heat.waited, default=0):.1f} s"
    )
    assert missed > 0, "the load did not hurt, so nothing is proved"
    return heat.waited


def test_no_row_is_lost_where_a_naive_reader_loses_some(
    pipe: Pipe, until: Callable[[Callable[[], bool]], None], report: Callable[[str], None]
) -> None:
    pipe.tables = ", ".join(f"{table}: {{ahead_after: 1h}}" for table in TABLES)

    play(pipe, Load(pipe.box.mysql, longest=3), 15, until, report)


@pytest.mark.long
def test_no_row_is_lost_in_two_minutes_and_hot_ones_do_not_wait(
    pipe: Pipe, until: Callable[[Callable[[], bool]], None], report: Callable[[str], None]
) -> None:
    pipe.tables = "fine: {ahead_after: 5s}, whole: {batch_rows: 70000}"  # of ties, a batch is a part

    waited = play(pipe, load := Load(pipe.box.mysql, longest=20, deep=100_000), SECONDS, until, report)

    assert ahead(pipe) >= 2
    assert len(waited) >= 2
    assert min(load.counts[deed] for deed in ("deep_ties", "scattered", "hot", "hold", "prepared")) > 0


def test_hot_rows_arrive_ahead_while_something_holds_the_horizon(
    pipe: Pipe, until: Callable[[Callable[[], bool]], None]
) -> None:
    pipe.tables = "fine: {ahead_after: 1s}"
    load = Load(pipe.box.mysql, longest=1)
    load.prepare()
    passes(pipe, "fine")
    over = threading.Event()

    def heat() -> None:
        with Client(pipe.box.mysql) as client:
            while not over.wait(0.1):
                client.run(f"UPDATE fine SET v = v + 1 WHERE id <= {FEW}")

    writer = threading.Thread(target=heat)
    with Client(pipe.box.mysql) as holder, Client(pipe.box.mysql) as client:
        holder.run("BEGIN", f"UPDATE fine SET v = v + 1 WHERE id = {FEW + 50}")
        writer.start()
        try:
            until(lambda: _ahead(pipe) >= 1)
            wanted = dict(client.run(f"SELECT id, v FROM fine WHERE id <= {FEW}"))
            cycles = _ahead(pipe, look=False)
            until(lambda: _ahead(pipe) >= cycles + 2)
            arrivals = Arrivals(pipe.lake, "mysql/shop.fine")
            arrivals.look()
        finally:
            over.set()
            writer.join()
            holder.run("ROLLBACK")
    assert all(arrivals.versions.get(row, 0) >= version for row, version in wanted.items())


def test_a_source_never_has_more_connections_than_it_was_said(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncd.extract.plan_rules.FEWEST_ROWS", 100)
    pipe.options, pipe.tables = "max_connections: 2", "fine: {batch_rows: 400}"
    Load(pipe.box.mysql, longest=1).prepare()
    over, seen = threading.Event(), list[int]()
    port = pipe.box.mysql.port
    before = standing(port)

    def count() -> None:
        while not over.is_set():
            seen.append(standing(port) - before)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        outcome = pipe.run("fine")
    finally:
        over.set()
        counter.join()

    assert (outcome.error, outcome.rows) == (None, 400)
    assert max(seen) == 2


def _ahead(pipe: Pipe, *, look: bool = True) -> int:
    """How many batches were read ahead, after one more pass."""
    if look:
        passes(pipe, "fine")
    return ahead(pipe)
