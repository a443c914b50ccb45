"""A replica of two primaries, and a primary's address that moves from one of them to the other."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import count

import pytest

from syncd.concurrency.resource_pool import ResourcePool
from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import ServerChanged, SourceDown, SourceUnfit
from syncd.mysql.connection import Connection, connect
from syncd.mysql.replica import read_log_end, read_replication, wait_until_caught_up
from syncd.mysql.replica_horizon import ReplicaOnlyHorizons, ReplicatedHorizons
from syncd.mysql.shared_horizon import ServerHorizons
from syncd.mysql.source import MySqlSource, SourceConnectionPool
from syncd.ports.source import HorizonRequest, TableName
from syncd.s3.horizon_note_store import StoredHorizonNotes
from syncd.settings import SourceSettings
from tests.services.guarded import sandbox_of, settings_of
from tests.services.replication import follow, rows, run, server_of
from tests.services.servers import BOTH
from watermarks.stores.memory import MemoryStore

pytestmark = pytest.mark.services

TABLES = ("east", "west")
ASKED = HorizonRequest(table=TableName(database="shop", table="east"))
NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Three:
    """Two primaries, with a table each, and who follows both."""

    primaries: dict[str, SourceSettings]
    replica: SourceSettings
    mariadb: bool

    def write(self, name: str) -> int:
        number = next(NUMBERS)
        self.at(self.primaries[name], f"INSERT INTO shop.{name} VALUES ({number})")
        return number

    def has(self, name: str, number: int) -> bool:
        with closing(connect(self.replica)) as connection:
            return bool(rows(connection, f"SELECT 1 FROM shop.{name} WHERE id = {number}"))

    def at(self, settings: SourceSettings, *statements: str) -> None:
        with closing(connect(settings)) as connection:
            run(connection, *statements)

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """The applier of one channel stands still."""
        verb = "{} REPLICA '{}' SQL_THREAD" if self.mariadb else "{} REPLICA SQL_THREAD FOR CHANNEL '{}'"
        self.at(self.replica, verb.format("STOP", name))
        try:
            yield
        finally:
            self.at(self.replica, verb.format("START", name))


@pytest.fixture(scope="module", params=BOTH)
def three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    with ExitStack() as stack:
        boxes = [
            stack.enter_context(
                sandbox_of(request.param, tmp_path_factory.mktemp(name), [f"--server-id={number}", "--log-bin=binlog"])
            )
            for number, name in enumerate((*TABLES, "replica"), 1)
        ]
        east, west, lower = (stack.enter_context(closing(connect(settings_of(box)))) for box in boxes)
        server = server_of(lower)
        for name, upper, box in zip(TABLES, (east, west), boxes, strict=False):
            for each in (upper, lower):
                run(each, f"CREATE TABLE shop.{name} (id INT PRIMARY KEY)")
            follow(settings_of(box), upper, lower, server, by_gtid=False, channel=name)
        made = Three(
            primaries={name: settings_of(box) for name, box in zip(TABLES, boxes, strict=False)},
            replica=replace(settings_of(boxes[-1]), catch_up=timedelta(seconds=20)),
            mariadb=server.mariadb,
        )
        source = lent(made.replica)[0]
        assert wait_until(
            lambda: (found := source.run(read_replication)) is not None and found.running, timeout_seconds=120
        )
        source.discard_connections()
        yield made


def lent(settings: SourceSettings) -> tuple[MySqlSource, SourceConnectionPool]:
    places: SourceConnectionPool = ResourcePool(4)
    return MySqlSource(settings, lambda: connect(settings), pool=places), places


@pytest.mark.parametrize("name", TABLES)
def test_each_of_its_primaries_is_waited_for_by_its_own_channel(three: Three, name: str) -> None:
    (primary, above), (replica, below) = lent(three.primaries[name]), lent(three.replica)
    with closing(above), closing(below):
        for _ in range(5):
            written = three.write(name)

            replica.run(partial(wait_until_caught_up, log=primary.run(read_log_end)))

            assert three.has(name, written)


def test_a_channel_that_stands_still_counts_for_what_comes_by_it(three: Three) -> None:
    (east, above), (west, beside), (replica, below) = (
        lent(three.primaries["east"]),
        lent(three.primaries["west"]),
        lent(replace(three.replica, max_replica_lag=timedelta(hours=1))),
    )
    with closing(above), closing(beside), closing(below), three.stopped("west"):
        written = three.write("east")
        three.write("west")
        replica.run(partial(wait_until_caught_up, log=east.run(read_log_end)))
        assert three.has("east", written)

        with pytest.raises(SourceDown, match="does not run"):
            replica.run(partial(wait_until_caught_up, log=west.run(read_log_end)))
        assert "reports no lag" in str(replica.find_overload())
        found = replica.run(read_replication)
        assert found is not None
        assert (found.lag, found.running) == (None, False)
    west_again = three.write("west")
    (west, beside), (replica, below) = lent(three.primaries["west"]), lent(three.replica)
    with closing(beside), closing(below):
        replica.run(partial(wait_until_caught_up, log=west.run(read_log_end)))
    assert three.has("west", west_again)


def test_nothing_is_told_of_a_replica_of_which_one_channel_stands_still(three: Three) -> None:
    source, places = lent(three.replica)
    polls = ServerHorizons(three.replica, lambda: connect(three.replica), StoredHorizonNotes(MemoryStore(), "shop"))
    horizons = ReplicaOnlyHorizons(polls, source)
    with closing(places), closing(polls):
        with three.stopped("west"), pytest.raises(SourceDown, match=r"the replica of 127\.0\.0\.1:\d+ reports no lag"):
            horizons.get_horizons([ASKED])

        found = horizons.get_horizons([ASKED])[ASKED.table]

    assert not found.proven
    assert found.identity == source.get_server_info().identity


@pytest.mark.parametrize("id_column", [None, "id"])
def test_nothing_is_proven_of_a_table_that_the_primary_which_is_named_does_not_have(
    three: Three, id_column: str | None
) -> None:
    """The other primary writes it: who is at work there is known to nobody who is asked."""
    east, west = (HorizonRequest(table=TableName(database="shop", table=name), id_column=id_column) for name in TABLES)
    three.write("east")
    three.write("west")
    places: SourceConnectionPool = ResourcePool(2)
    primary = MySqlSource(three.primaries["east"], lambda: connect(three.primaries["east"]), pool=places)
    replica, below = lent(three.replica)
    notes = StoredHorizonNotes(MemoryStore(), "shop")
    polls = ServerHorizons(three.primaries["east"], lambda: connect(three.primaries["east"]), notes, pool=places)
    horizons = ReplicatedHorizons(polls, primary=primary, replica=replica)
    with closing(places), closing(below):
        found = horizons.get_horizons([east, west])
        here, there = found[east.table], found[west.table]

        assert here.proven
        assert (here.max_complete_id is not None) == (id_column is not None)
        assert not there.proven
        assert "shop.west is not visible at source.primary" in there.reason
        assert there.bound is not None
        assert there.bound <= there.t0 - west.settle
        assert there.max_complete_id is None
        with three.stopped("west"), pytest.raises(SourceDown, match="reports no lag"):
            horizons.get_horizons([west])


def test_the_primary_that_was_polled_is_the_one_whose_log_is_waited_for(three: Three) -> None:
    """Its address leads to the other primary; the connection of the polls is still where it was."""
    at = ["east"]

    def open_() -> Connection:
        return connect(three.primaries[at[0]])

    places: SourceConnectionPool = ResourcePool(2)
    primary = MySqlSource(three.primaries["east"], open_, pool=places)
    replica, below = lent(three.replica)
    polls = ServerHorizons(
        three.primaries["east"], open_, StoredHorizonNotes(MemoryStore(), "shop"), pool=places, shared_seconds=0
    )
    horizons = ReplicatedHorizons(polls, primary=primary, replica=replica)
    with closing(places), closing(below):
        polls.get_horizons([ASKED])  # opens the connection of the polls, and no other
        at[0] = "west"

        with pytest.raises(ServerChanged, match="two servers answer as the primary"):
            horizons.get_horizons([ASKED])
        found = horizons.get_horizons([ASKED])[ASKED.table]

        assert found.identity == replica.get_server_info().identity


def test_a_server_that_follows_two_others_is_no_replica_of_a_third(three: Three) -> None:
    replica, below = lent(three.replica)
    log = replace(lent(three.primaries["east"])[0].run(read_log_end), primary_id="9")
    with closing(below), pytest.raises(SourceUnfit, match="which is not the server named as its primary"):
        replica.run(partial(wait_until_caught_up, log=log))
