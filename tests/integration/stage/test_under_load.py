"""The whole stage, from MySQL to parts on S3, while writers do what makes cursors lose rows."""

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

import pytest

from syncd.core.errors import SourceDown
from syncd.core.events import BatchExtracted
from tests.integration.source.test_horizon_stress import Naive
from tests.integration.stage.conftest import Pipe
from tests.services.clients import Client
from tests.services.load import TABLES, Load
from watermarks.batch import Kind

pytestmark = pytest.mark.services

SECONDS: Final = float(os.environ.get("SYNCD_STRESS_SECONDS", "120"))
HOT: Final = 20


def passes(pipe: Pipe, table: str) -> None:
    """One pass; a table that is barred for a while, or a server that hangs up, is tried again by the next."""
    error = pipe.run(table).error
    if error is not None and not isinstance(error, SourceDown):
        raise error


def newest(pipe: Pipe, table: str) -> dict[int, int]:
    """The highest version of each row in the files."""
    found: dict[int, int] = {}
    for row, version in pipe.lake.rows(f"mysql/shop.{table}", "id", "v"):
        found[row] = max(version, found.get(row, 0))
    return found


def play(pipe: Pipe, seconds: float, longest: float, until: Callable[[Callable[[], bool]], None]) -> None:
    pipe.tables = ", ".join(f"{table}: {{ahead_after: 1h}}" for table in TABLES)
    load = Load(pipe.box.mysql, longest=longest)
    load.prepare()
    for table in TABLES:
        passes(pipe, table)
    with Client(pipe.box.mysql) as client, Client(pipe.box.mysql) as other:
        other.run("SET SESSION lock_wait_timeout = 1")
        naive = Naive(other)
        load.run_for(seconds, naive.step, *(lambda table=table: passes(pipe, table) for table in TABLES), every=0.2)
        if load.broken:
            raise load.broken[0]
        now = {table: dict(client.run(f"SELECT id, v FROM {table}")) for table in TABLES}

        def drained() -> bool:
            for table in TABLES:
                passes(pipe, table)
            naive.step()
            return all(newest(pipe, table) == rows for table, rows in now.items())

        until(drained)
        missed = sum(naive.versions.lost(client).values())
    batches = [event for event in pipe.events if isinstance(event, BatchExtracted)]
    sys.stderr.write(
        f"\n{pipe.kind} {seconds:.0f} s: {load.done} transactions, {len(batches)} batches,"
        f" {sum(batch.rows for batch in batches)} rows, 0 lost; a naive reader lost {missed}\n"
    )
    assert missed > 0, "the load did not hurt, so nothing is proved"


def test_no_row_is_lost_where_a_naive_reader_loses_some(
    pipe: Pipe, until: Callable[[Callable[[], bool]], None]
) -> None:
    play(pipe, 15, 3, until)


@pytest.mark.long
def test_no_row_is_lost_in_two_minutes(pipe: Pipe, until: Callable[[Callable[[], bool]], None]) -> None:
    play(pipe, SECONDS, 20, until)


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
                client.run(f"UPDATE fine SET v = v + 1 WHERE id <= {HOT}")

    writer = threading.Thread(target=heat)
    with Client(pipe.box.mysql) as holder, Client(pipe.box.mysql) as client:
        holder.run("BEGIN", f"UPDATE fine SET v = v + 1 WHERE id = {HOT + 50}")
        writer.start()
        try:
            until(lambda: _ahead(pipe) >= 1)
            wanted = dict(client.run(f"SELECT id, v FROM fine WHERE id <= {HOT}"))
            cycles = _ahead(pipe, look=False)
            until(lambda: _ahead(pipe) >= cycles + 2)
            found = newest(pipe, "fine")
        finally:
            over.set()
            writer.join()
            holder.run("ROLLBACK")
    assert all(found.get(row, 0) >= version for row, version in wanted.items())


def _ahead(pipe: Pipe, *, look: bool = True) -> int:
    """How many batches were read ahead, after one more pass."""
    if look:
        passes(pipe, "fine")
    return sum(isinstance(event, BatchExtracted) and event.kind == Kind.AHEAD for event in pipe.events)
