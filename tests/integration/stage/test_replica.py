"""The whole stage where rows are read from a replica, and stamped on its primary."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from syncd.concurrency.thread_helpers import wait_until as came_true
from syncd.errors import SourceDown, SourceUnfit
from syncd.extract.extract_pass import ExtractState
from syncd.mysql.connection import connect
from syncd.mysql.replica import read_replication
from syncd.sandbox.running_sandbox import Sandbox
from syncd.spark.spark_session import WarmSparkSession
from tests.integration.source.test_horizon_stress import Naive
from tests.integration.stage.conftest import Pipe
from tests.integration.stage.test_under_load import passes
from tests.services.arrivals import Arrivals
from tests.services.clients import Client
from tests.services.guarded import settings_of
from tests.services.load import TABLES, Load
from tests.services.replication import follow, run, server_of
from tests.services.servers import ONE, environ_of

pytestmark = pytest.mark.services


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A primary, and its replica beside a lake."""

    kind: str
    upper: Sandbox
    lower: Sandbox

    def at_primary(self, *statements: str) -> None:
        with Client(self.upper.mysql) as client:
            client.run(*statements)

    def at_replica(self, *statements: str) -> None:
        with Client(self.lower.mysql) as client:
            client.run(*statements)

    @contextmanager
    def applier_stopped(self) -> Iterator[None]:
        self.at_replica("STOP REPLICA SQL_THREAD")
        try:
            yield
        finally:
            self.at_replica("START REPLICA SQL_THREAD")

    @contextmanager
    def applier_held(self, table: str) -> Iterator[None]:
        """Somebody's lock at the replica, before which its applier has to wait."""
        with Client(self.lower.mysql) as client:
            client.run(f"LOCK TABLES {table} READ")
            yield


@pytest.fixture(scope="module", params=ONE)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    environ = environ_of(request.param)

    def box(name: str, services: list[str], *options: str) -> Sandbox:
        return Sandbox(tmp_path_factory.mktemp(name), services=services, environ=environ, mysql_options=options)

    with (
        box("upper", ["mysql"], "--server-id=1", "--log-bin=binlog", "--log-bin-trust-function-creators=1") as upper,
        box("lower", ["mysql", "s3"], "--server-id=2", "--log-bin-trust-function-creators=1") as lower,
        closing(connect(settings_of(upper))) as at_primary,
        closing(connect(settings_of(lower))) as at_replica,
    ):
        for each in (at_primary, at_replica):
            run(each, "CREATE DATABASE IF NOT EXISTS shop")
        server = server_of(at_primary)
        follow(settings_of(upper), at_primary, at_replica, server, by_gtid=request.param == "mariadb")

        def running() -> bool:
            found = read_replication(at_replica, server, settings_of(lower))
            return found is not None and found.running

        assert came_true(running, timeout_seconds=120)
        keys = {"AWS_ACCESS_KEY_ID": str(lower.s3.access_key), "AWS_SECRET_ACCESS_KEY": str(lower.s3.secret_key)}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in keys.items():
                patch.setenv(name, value)
            yield Pair(kind=request.param, upper=upper, lower=lower)


@pytest.fixture
def lane(pair: Pair, warm: WarmSparkSession, tmp_path: Path) -> Pipe:
    """The stage, with the replica as its source and the primary told."""
    pipe = Pipe(box=pair.lower, kind=pair.kind, directory=tmp_path, client=pair.lower.s3.make_client(), warm=warm)
    pipe.options = f"primary: {{url: '{pair.upper.mysql.url}'}}, catch_up: 10s"
    return pipe


def numbered(pair: Pair, rows: int) -> None:
    pair.at_primary(
        "DROP TABLE IF EXISTS shop.fine",
        "CREATE TABLE shop.fine (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1, update_at DATETIME(6)"
        " NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id))",
    )
    more(pair, rows)


def more(pair: Pair, rows: int) -> None:
    pair.at_primary(f"INSERT INTO shop.fine () VALUES {', '.join(['()'] * rows)}")


def test_a_first_pass_does_not_take_what_a_replica_lacks_for_what_there_is(pair: Pair, lane: Pipe) -> None:
    """It would end at the last key that it sees, with a horizon that covers keys behind it."""
    lane.tables = "fine:"
    numbered(pair, 50)
    assert lane.run("fine").rows == 50
    lane.prefix += "-2"

    with pair.applier_held("shop.fine"):
        more(pair, 50)
        behind = lane.run("fine")
    with pair.applier_stopped():
        more(pair, 10)
        stopped = lane.run("fine")
    after = lane.run("fine")

    assert isinstance(behind.error, SourceDown)
    assert "has not applied" in behind.error.message
    assert isinstance(stopped.error, SourceDown)
    assert "does not run" in stopped.error.message
    assert (after.error, after.rows, after.proven) == (None, 110, True)


def test_a_replica_that_lags_less_than_its_bound_is_waited_for(pair: Pair, lane: Pipe) -> None:
    lane.tables = "fine:"
    numbered(pair, 10)
    lane.run("fine")
    lane.options = lane.options.replace("10s", "60s")

    with ExitStack() as held:
        held.enter_context(pair.applier_held("shop.fine"))
        more(pair, 10)
        release = threading.Timer(2, held.pop_all().close)
        release.start()
        outcome = lane.run("fine")
        release.join()

    assert (outcome.error, outcome.rows) == (None, 10)


def test_no_row_is_lost_while_a_replica_falls_behind_and_catches_up(
    pair: Pair, lane: Pipe, until: Callable[[Callable[[], bool]], None]
) -> None:
    lane.tables = ", ".join(f"{table}: {{ahead_after: 1h}}" for table in TABLES)
    lane.options = lane.options.replace("10s", "3s")
    seconds = float(os.environ.get("SYNCD_REPLICA_SECONDS", "15"))
    load = Load(pair.upper.mysql, longest=2)
    load.prepare()
    over = threading.Event()

    def disturb() -> None:
        while not over.wait(1):
            with pair.applier_stopped():
                over.wait(2)
            over.wait(1)
            with pair.applier_held("shop.fine"):
                over.wait(1)

    thread = threading.Thread(target=disturb)
    thread.start()
    with Client(pair.upper.mysql) as client, Client(pair.upper.mysql) as other:
        other.run("SET SESSION lock_wait_timeout = 1")
        naive = Naive(other)
        load.run_for(seconds, naive.step, *(lambda table=table: passes(lane, table) for table in TABLES), every=0.2)
        over.set()
        thread.join()
        if load.broken:
            raise load.broken[0]
        now = {table: dict(client.run(f"SELECT id, v FROM {table}")) for table in TABLES}

        def drained() -> bool:
            for table in TABLES:
                passes(lane, table)
            naive.step()
            return all(Arrivals.of(lane.lake, f"mysql/shop.{table}").versions == rows for table, rows in now.items())

        until(drained)
        assert sum(naive.versions.lost(client).values()) > 0, "the load did not hurt, so nothing is proved"


def test_a_replica_whose_primary_nobody_named_stays_behind_and_says_so(pair: Pair, lane: Pipe) -> None:
    lane.options = ""
    lane.tables = "fine: {settle: 1s}"
    numbered(pair, 30)
    assert came_true(lambda: lane.run("fine").rows == 30, timeout_seconds=120)

    outcome = lane.run("fine")

    assert outcome.state is not ExtractState.FAILED
    assert not outcome.proven
    with pair.applier_stopped():
        stopped = lane.run("fine")
    assert isinstance(stopped.error, SourceDown)
    assert "reports no lag" in stopped.error.message


def test_a_replica_that_stands_still_altogether_is_not_taken_for_where_rows_are_stamped(pair: Pair, lane: Pipe) -> None:
    """None of its threads is seen, and it need not be read-only: a first pass took its last row for the last there is.

    Its mark became now, and whatever the replica applied once it went on lay below that.
    """
    lane.options = ""
    lane.tables = "fine: {settle: 1s}"
    numbered(pair, 20)
    assert came_true(lambda: lane.run("fine").rows == 20, timeout_seconds=120)
    lane.prefix += "-2"

    pair.at_replica("STOP REPLICA")
    more(pair, 5)
    stopped = lane.run("fine")
    pair.at_replica("START REPLICA")

    assert isinstance(stopped.error, SourceDown)
    assert "reports no lag" in stopped.error.message
    rows = list[int]()  # what the replica has not applied yet comes with a later run

    def all_are_read() -> bool:
        rows.append(lane.run("fine").rows)
        return sum(rows) == 25

    assert came_true(all_are_read, timeout_seconds=120), rows


def test_a_table_that_is_read_whole_waits_for_its_replica_too(pair: Pair, lane: Pipe) -> None:
    """Else it would say that it has all that there is now, however long its replica stands still."""
    lane.tables = "fine: {cursor: none, mode: replace}"
    numbered(pair, 10)
    assert lane.run("fine").rows == 10

    with pair.applier_stopped():
        more(pair, 5)
        stopped = lane.run("fine")
        lane.options = ""
        alone = lane.run("fine")

    assert isinstance(stopped.error, SourceDown)
    assert "does not run" in stopped.error.message
    assert isinstance(alone.error, SourceDown)
    assert "reports no lag" in alone.error.message
    assert came_true(lambda: lane.run("fine").rows == 15, timeout_seconds=120)
    assert not lane.run("fine").proven


def test_a_table_that_the_primary_does_not_have_is_not_proven_by_it(pair: Pair, lane: Pipe) -> None:
    """Written at the replica, or under another name at the primary: who is at work on it the primary does not tell."""
    lane.tables = "here: {settle: 0s}"
    stamped = "update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
    made = f"CREATE TABLE shop.here (id INT PRIMARY KEY, {stamped}, KEY (update_at))"
    pair.at_replica("DROP TABLE IF EXISTS shop.here", made, "INSERT INTO shop.here (id) VALUES (1)")

    first = lane.run("here")

    assert (first.error, first.rows, first.proven) == (None, 1, False)


def test_a_server_that_follows_nobody_is_no_replica_of_the_primary_that_is_named(pair: Pair, lane: Pipe) -> None:
    """The last test of this file: replication ends with it."""
    lane.tables = "fine:"
    numbered(pair, 10)
    passes(lane, "fine")
    pair.at_replica("STOP REPLICA", "RESET REPLICA ALL")
    more(pair, 10)

    outcome = lane.run("fine")

    assert isinstance(outcome.error, SourceUnfit)
    assert "is not a replica" in outcome.error.message
    assert outcome.rows == 0

    lane.options = ""
    lane.prefix += "-2"
    pair.at_replica("INSERT INTO shop.fine () VALUES ()")
    promoted = lane.run("fine")
    assert (promoted.error, promoted.rows, promoted.proven) == (None, 11, True), "rows are stamped there now"
