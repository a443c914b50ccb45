"""An address that leads to another server from now on, while the one before lives and keeps its connections."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.errors import ServerChanged, SourceReplaced
from syncd.mysql.connection import Connection, connect
from syncd.mysql.replica_horizon import ReplicaOnlyHorizons
from syncd.mysql.shared_horizon import ServerHorizons
from syncd.mysql.source import QUERY_KIND, MySqlSource, SourceConnection, SourceConnectionPool
from syncd.s3.horizon_note_store import StoredHorizonNotes
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import StreamSettings
from tests.integration.planner.chains import Rows, Stream, Told
from tests.integration.planner.servers import Server, rows_of
from tests.integration.planner.test_streams import VERSION, run_sql
from tests.services.clients import eventually
from tests.services.servers import environ_of
from watermarks.batch import Plan
from watermarks.errors import HintedError
from watermarks.stores.memory import MemoryStore

pytestmark = pytest.mark.services

PASSES = 6
"""More than it takes to see that another server answers, to ask it anew, and to read again."""


@dataclass
class Address:
    """Where a source is reached: now at one server, now at another; and what is open there."""

    at: Server
    places: SourceConnectionPool = field(default_factory=lambda: ResourcePool(4))

    def open(self) -> Connection:
        return connect(self.at.settings)

    def source(self) -> MySqlSource:
        """For one pass."""
        return MySqlSource(self.at.settings, self.open, pool=self.places)

    def cut_questions(self) -> None:
        """Lose the connection for questions, and no other: the next one is opened where the address leads by then."""
        found = self.places.acquire(NO_PASS, kind=QUERY_KIND)
        assert isinstance(found, SourceConnection)
        [(number,)] = found.fetch_rows("SELECT CONNECTION_ID()")
        self.places.put_idle(found, kind=QUERY_KIND)
        run_sql(self.at, f"KILL {number}")


@dataclass
class Moving:
    """A stream whose source moves from X to Y."""

    x: Server
    y: Server
    address: Address
    lab: Stream
    horizons: ReplicaOnlyHorizons
    waited: list[str] = field(default_factory=list)
    failed: list[HintedError] = field(default_factory=list)

    def run(self) -> Sequence[tuple[Any, ...]]:
        """One pass, as whoever goes on with what fails in it."""
        planner = replace(self.lab.rows().planner, source=self.address.source(), horizons=self.horizons)
        rows = Rows(planner, self.address.at, VERSION, before_reading=self._require_met)
        try:
            self.lab.run(rows)
        except HintedError as error:
            self.failed.append(error)
        self.waited.append(planner.wait_reason)
        return rows.rows

    def run_until_quiet(self) -> Sequence[tuple[Any, ...]]:
        """All passes until nothing is left to wait for."""
        read = list[tuple[Any, ...]]()
        for _ in range(PASSES):
            failed = len(self.failed)
            read += self.run()
            if len(self.failed) == failed and not self.waited[-1]:
                return read
        raise AssertionError((self.failed, self.waited))

    def _require_met(self, plan: Plan) -> None:
        """Every reading asks whom it meets, before the first row."""
        # As Spark does, over a connection of its own.
        with closing(SourceConnection(self.address.at.settings, self.address.open)) as connection:
            if plan.draft.basis.source_identity != connection.get_server_info().identity:
                raise SourceReplaced("not the server that the plan was made for")


@pytest.fixture(scope="module")
def second(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Sandbox(tmp_path_factory.mktemp("second"), services=["mysql"], environ=environ_of(server.name)) as sandbox:
        running = Server(sandbox, server.name)
        with running.admin("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS lab")
        yield running


@pytest.fixture
def moving(server: Server, second: Server) -> Iterator[Moving]:
    """Two servers with one row each, the same; what is open to the first of them has been used."""
    for each in (server, second):
        run_sql(
            each,
            "DROP TABLE IF EXISTS t",
            "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 1, update_at TIMESTAMP(6) NOT NULL"
            " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at)) ENGINE=InnoDB",
            "INSERT INTO t (id) VALUES (1)",
        )
    settings = StreamSettings(source="lab", database="lab", table="t", batch_rows=150)
    address = Address(server)
    polls = ServerHorizons(
        server.settings,
        address.open,
        StoredHorizonNotes(store=MemoryStore(), source="lab"),
        shared_seconds=0,
        pool=address.places,
    )
    with ExitStack() as stack:
        stack.callback(address.places.close)
        made = Moving(
            x=server,
            y=second,
            address=address,
            lab=Stream(server, settings, VERSION, Told(server)),
            horizons=ReplicaOnlyHorizons(polls, address.source()),
        )
        assert eventually(lambda: {row[0] for row in made.run()} == {1})
        yield made


def test_rows_of_one_server_are_not_read_up_to_the_horizon_of_another(moving: Moving) -> None:
    """The poll asks on at the server before, which lives; questions and readings are at the new one."""
    x, y = (each.source().get_server_info().identity for each in (moving.x, moving.y))
    moving.address.cut_questions()
    moving.address.at = moving.y
    with moving.y.admin() as writer:
        writer.begin()
        rows_of(writer, "INSERT INTO t (id) VALUES (7)")
        run_sql(moving.y, "INSERT INTO t (id) VALUES (8)")
        read = [*moving.run(), *moving.run()]
        writer.commit()
    run_sql(moving.y, "INSERT INTO t (id) VALUES (9)")
    read += moving.run_until_quiet()

    assert {row[0] for row in read} >= {7, 8, 9}
    assert x in moving.waited[1] or x in moving.waited[0]
    assert y in moving.waited[1] or y in moving.waited[0]
    assert moving.failed == []
    assert moving.lab.watermark.required_extract_progress.source_identity == y


def test_a_planned_switchover_needs_nobody(moving: Moving) -> None:
    """The server before is made read-only, its sessions live on, and its name leads to the new one."""
    with moving.x.admin() as connection:
        rows_of(connection, "SET GLOBAL read_only = 1")
        try:
            moving.address.at = moving.y
            run_sql(moving.y, "INSERT INTO t (id) VALUES (7)")

            read = moving.run_until_quiet()
        finally:
            rows_of(connection, "SET GLOBAL read_only = 0")

    assert {row[0] for row in read} >= {7}
    assert moving.failed == []
    assert (
        moving.lab.watermark.required_extract_progress.source_identity == moving.y.source().get_server_info().identity
    )


def test_who_is_asked_about_one_server_never_answers_of_two(moving: Moving) -> None:
    source = moving.address.source()
    before = source.get_server_info().identity
    moving.address.cut_questions()
    moving.address.at = moving.y

    with pytest.raises(ServerChanged, match=before):
        source.fetch_rows("SELECT 1")

    assert source.get_server_info().identity == moving.y.source().get_server_info().identity


def test_a_server_that_was_read_only_all_along_is_believed_of_itself_alone(moving: Moving) -> None:
    """A poll meets a replica whose primary nobody named; what waits for questions is at another server."""
    with moving.y.admin() as connection:
        rows_of(connection, "SET GLOBAL read_only = 1")
        try:
            moving.address.at = moving.y
            fresh = ServerHorizons(
                moving.y.settings,
                moving.address.open,
                StoredHorizonNotes(store=MemoryStore(), source="lab"),
                shared_seconds=0,
            )
            moving.horizons = ReplicaOnlyHorizons(fresh, moving.address.source())
            moving.run()
            first = moving.waited[-1]
            moving.run()
            fresh.close()
        finally:
            rows_of(connection, "SET GLOBAL read_only = 0")

    assert "is not a primary" in first
    assert "is read-only" in moving.failed[-1].message
