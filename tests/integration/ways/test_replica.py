import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from time import monotonic

import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.datatypes.source_table import ServerInfo
from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.connection import Connection, connect
from syncd.mysql.replica import (
    LogPosition,
    Replication,
    read_channels,
    read_log_position,
    read_primary_id,
    read_replication,
    require_channel_to,
    wait_until_applied,
)
from syncd.mysql.source import find_overload_reason
from syncd.settings import Secret, SourceSettings
from tests.services.guarded import sandbox_of, settings_of
from tests.services.replication import follow, rows, run, server_of

pytestmark = pytest.mark.services

WITHIN = timedelta(seconds=60)
NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A primary, its replica, and a connection to each."""

    primary: SourceSettings
    replica: SourceSettings
    upper: Connection
    lower: Connection
    server: ServerInfo

    def write(self) -> int:
        number = next(NUMBERS)
        run(self.upper, f"INSERT INTO shop.noted VALUES ({number})")
        return number

    def position(self) -> LogPosition:
        return read_log_position(self.upper, self.server, self.primary)

    def wait(self, position: LogPosition, *, within: timedelta = WITHIN) -> None:
        wait_until_applied(self.lower, self.server, self.replica, position, followed=self.replication(), within=within)

    def replication(self) -> Replication:
        found = read_replication(self.lower, self.server, self.replica)
        assert found is not None
        return found

    def has(self, number: int) -> bool:
        return bool(rows(self.lower, f"SELECT 1 FROM shop.noted WHERE id = {number}"))


@pytest.fixture(scope="module", params=["mariadb by position", "mariadb by gtid", "mysql by position"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    kind, _, way = str(request.param).partition(" by ")
    with (
        sandbox_of(kind, tmp_path_factory.mktemp("primary"), ["--server-id=1", "--log-bin=binlog"]) as upper,
        sandbox_of(kind, tmp_path_factory.mktemp("replica"), ["--server-id=2"]) as lower,
        closing(connect(settings_of(upper))) as at_primary,
        closing(connect(settings_of(lower))) as at_replica,
    ):
        run(at_primary, "CREATE TABLE shop.noted (id INT PRIMARY KEY)")
        run(at_replica, "CREATE TABLE shop.noted (id INT PRIMARY KEY)")
        server = server_of(at_primary)
        follow(settings_of(upper), at_primary, at_replica, server, by_gtid=way == "gtid")
        made = Pair(
            primary=settings_of(upper),
            replica=settings_of(lower),
            upper=at_primary,
            lower=at_replica,
            server=server,
        )
        assert wait_until(lambda: made.replication().running, timeout_seconds=120), made.replication()
        yield made


def test_what_the_primary_committed_is_there_after_the_wait(pair: Pair) -> None:
    for _ in range(20):
        written = pair.write()

        pair.wait(pair.position())

        assert pair.has(written)


def test_a_replica_that_is_behind_is_waited_for(pair: Pair) -> None:
    with held_back(pair):
        written = pair.write()
        position = pair.position()
        assert not pair.has(written)

    pair.wait(position)

    assert pair.has(written)


def test_the_wait_is_bounded_and_longer_than_a_connection_may_be_silent(pair: Pair) -> None:
    impatient = replace(pair.replica, silence=timedelta(seconds=2))
    with held_back(pair), closing(connect(impatient)) as connection:
        pair.write()
        position = pair.position()
        began = monotonic()

        with pytest.raises(SourceDown, match="has not applied"):
            wait_until_applied(
                connection, pair.server, impatient, position, followed=pair.replication(), within=timedelta(seconds=4)
            )

        assert 3.9 < monotonic() - began < WITHIN.total_seconds()


def test_replication_that_was_stopped_is_told_at_once(pair: Pair) -> None:
    run(pair.lower, "STOP REPLICA SQL_THREAD")
    try:
        pair.write()
        began = monotonic()

        with pytest.raises(SourceDown, match="does not run"):
            pair.wait(pair.position())

        assert monotonic() - began < WITHIN.total_seconds() / 2
    finally:
        run(pair.lower, "START REPLICA SQL_THREAD")
    pair.wait(pair.position())


def test_replication_that_met_an_error_is_for_a_person(pair: Pair) -> None:
    clash = next(NUMBERS)
    run(pair.lower, f"INSERT INTO shop.noted VALUES ({clash})")
    run(pair.upper, f"INSERT INTO shop.noted VALUES ({clash})")
    try:
        with pytest.raises(SourceUnfit, match="does not run: ") as caught:
            pair.wait(pair.position())
    finally:
        run(pair.lower, f"DELETE FROM shop.noted WHERE id = {clash}", "START REPLICA SQL_THREAD")

    assert "START REPLICA" in caught.value.hint
    pair.wait(pair.position())


def test_a_replica_tells_whom_it_follows_and_how_far_behind_it_is(pair: Pair) -> None:
    pair.wait(pair.position())

    found = pair.replication()

    assert found.running
    assert found.lag is not None
    assert found.lag < timedelta(seconds=10)
    assert found.host == f"127.0.0.1:{pair.primary.port}"
    assert found.error == ""
    require_channel_to(
        [found], primary_id=read_primary_id(pair.upper, pair.server, pair.primary), settings=pair.replica
    )


def test_a_stopped_replica_does_not_know_how_far_behind_it_is(pair: Pair) -> None:
    run(pair.lower, "STOP REPLICA SQL_THREAD")
    try:
        assert pair.replication().lag is None
    finally:
        run(pair.lower, "START REPLICA SQL_THREAD")


def test_a_primary_follows_nobody(pair: Pair) -> None:
    assert read_replication(pair.upper, pair.server, pair.primary) is None
    with pytest.raises(SourceUnfit, match="is not a replica"):
        require_channel_to(read_channels(pair.upper, pair.server, pair.primary), primary_id="1", settings=pair.primary)


def test_a_replica_of_another_server_is_refused(pair: Pair) -> None:
    """The names of binary logs are alike everywhere: a strange position would be waited for, and reached."""
    itself = read_primary_id(pair.lower, pair.server, pair.replica)

    with pytest.raises(SourceUnfit, match="is not the server named as its primary"):
        require_channel_to([pair.replication()], primary_id=itself, settings=pair.replica)


def test_a_server_without_a_binary_log_is_no_primary(pair: Pair) -> None:
    with pytest.raises(SourceUnfit, match="writes no binary log"):
        read_log_position(pair.lower, pair.server, pair.replica)


def test_a_missing_right_names_the_grant(pair: Pair) -> None:
    run(pair.lower, "CREATE USER plain IDENTIFIED BY 'secret'")
    settings = replace(pair.replica, user="plain", password=Secret("secret"))
    try:
        with closing(connect(settings)) as connection, pytest.raises(SourceUnfit) as caught:
            read_replication(connection, pair.server, settings)
        rights = re.fullmatch(r"GRANT (.+) ON \*\.\* TO plain", caught.value.hint)
        assert rights is not None
        run(pair.lower, caught.value.hint)

        with closing(connect(settings)) as connection:
            assert read_replication(connection, pair.server, settings) is not None
    finally:
        run(pair.lower, "DROP USER plain")


def test_no_bound_means_no_reason_to_wait(pair: Pair) -> None:
    assert find_overload_reason(pair.lower, pair.server, pair.replica) is None


def test_a_busy_server_is_not_read_now(pair: Pair) -> None:
    calm = replace(pair.replica, max_threads_running=1_000)
    strict = replace(pair.replica, max_threads_running=0)

    assert find_overload_reason(pair.lower, pair.server, calm) is None
    assert "more than 0" in str(find_overload_reason(pair.lower, pair.server, strict))


def test_a_replica_that_lags_is_not_read_now(pair: Pair) -> None:
    bounded = replace(pair.replica, max_replica_lag=timedelta(seconds=1))
    with held_back(pair):
        pair.write()

        assert wait_until(
            lambda: "behind" in str(find_overload_reason(pair.lower, pair.server, bounded)), timeout_seconds=60
        )

    pair.wait(pair.position())
    assert wait_until(lambda: find_overload_reason(pair.lower, pair.server, bounded) is None, timeout_seconds=60)


@contextmanager
def held_back(pair: Pair) -> Iterator[None]:
    """Somebody's lock at the replica, before which its applier has to wait."""
    with closing(connect(pair.replica)) as other:
        run(other, "LOCK TABLES shop.noted READ")
        yield
