"""A SERIALIZABLE database: streams that shared one ledger would make each other begin again; each has its own there."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Barrier, Thread

import pytest

from syncd.events import LoadRetried
from syncd.load.load_pass import LoadPass
from syncd.redshift.control_tables import ISOLATION_LEVEL_QUERY, ControlTables, own_ledgers_query
from syncd.sandbox.redshift import CopyStorage, Isolation, RedshiftStandIn
from tests.builders import RUN
from tests.integration.load.conftest import Loader
from tests.services.landed import Batches
from tests.services.prepared import Prepared, row

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
ROUNDS = 5


@pytest.fixture(scope="module")
def server(s3_url: str) -> Iterator[RedshiftStandIn]:
    with RedshiftStandIn(lake=CopyStorage(endpoint=s3_url), isolation=Isolation.SERIALIZABLE) as running:
        yield running


def controls(loader: Loader, stream: Prepared, *, apart: bool) -> ControlTables:
    return ControlTables(
        lake=loader.lake.settings.address, stream=stream.stream, schema=loader.warehouse.schema, has_own_ledger=apart
    )


def rounds(server: RedshiftStandIn, one: Loader, streams: list[Batches], *, apart: bool) -> int:
    """All streams land a batch in the same moment, round after round; how often one had to begin again."""
    loaders = [Loader(server, one.lake, one.journal) for _ in streams]
    runs = [
        loader.run(batches.prepared, control_tables=controls(one, batches.prepared, apart=apart))
        for loader, batches in zip(loaders, streams, strict=True)
    ]
    for batches, run in zip(streams, runs, strict=True):
        batches.add(row(1, 1))
        run.execute(RUN)
    with ExitStack() as stack:
        for loader in loaders:
            loader.events.clear()
            stack.callback(loader.sessions.close)
            stack.callback(loader.end)
        for number in range(ROUNDS):
            barrier = Barrier(len(streams))
            threads = []
            for batches, run in zip(streams, runs, strict=True):
                batches.add(row(2 + number, 2 + number))

                def land(run: LoadPass = run, barrier: Barrier = barrier) -> None:
                    barrier.wait()
                    assert run.execute(RUN).error is None

                threads.append(Thread(target=land))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(300)
    return sum(isinstance(event, LoadRetried) for loader in loaders for event in loader.events)


@pytest.mark.slow
def test_streams_with_ledgers_of_their_own_never_make_each_other_begin_again(
    server: RedshiftStandIn, prepared: Prepare, loader: Loader
) -> None:
    streams = [Batches(prepared()) for _ in range(3)]

    assert rounds(server, loader, streams, apart=True) == 0

    others = [Batches(prepared()) for _ in streams]
    assert rounds(server, loader, others, apart=False) > 0, "nothing was in each other's way: nothing is proved"
    session = loader.sessions.session()
    for batches in streams:
        own = controls(loader, batches.prepared, apart=True).own_ledger
        assert [batch for (batch,) in session.rows(f"select batch from {own.sql} order by 1")] == batches.ledger


def test_what_the_shared_ledger_holds_is_not_landed_again(prepared: Prepare, loader: Loader) -> None:
    """As of a stream that landed before its database was known to be SERIALIZABLE."""
    orders = Batches(prepared())
    orders.add(row(1, 1), row(2, 2))
    loader.load(orders.prepared)
    orders.add(row(1, 3, name="newer"))

    run = loader.run(orders.prepared, control_tables=controls(loader, orders.prepared, apart=True))
    outcome = run.execute(RUN, compare=True)

    assert (outcome.error, outcome.batches, outcome.rows) == (None, 1, 1)
    session = loader.sessions.session()
    held = {apart: controls(loader, orders.prepared, apart=apart).ledger for apart in (False, True)}
    mine = f"where table_name = 'public.{orders.prepared.table}'"
    counts = {apart: session.rows(f"select count(*) from {table.sql} {mine}") for apart, table in held.items()}
    assert counts == {False: [(1,)], True: [(1,)]}


def test_the_database_says_how_it_isolates_and_which_ledgers_are_there(prepared: Prepare, loader: Loader) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    mine = controls(loader, orders, apart=True)
    assert loader.run(orders, control_tables=mine).execute(RUN).error is None

    session = loader.sessions.session()

    assert session.rows(ISOLATION_LEVEL_QUERY) == [("Serializable",)]
    assert (mine.own_ledger.name,) in session.rows(own_ledgers_query("public"))
    assert ("syncd_ledger",) not in session.rows(own_ledgers_query("public"))
