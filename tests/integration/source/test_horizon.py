"""Each trap of the commit horizon that a few connections can set, on both servers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pymysql
import pytest

from syncd.errors import SourceUnfit
from syncd.mysql.connection import Connection, connect
from syncd.mysql.shared_horizon import ServerHorizons
from syncd.ports.request_stats import ExternalCall, HorizonLagMeasured, SourceQueried, SourceQueryPurpose
from syncd.ports.source import Horizon, HorizonRequest, TableName
from syncd.s3.horizon_note_store import StoredHorizonNotes
from syncd.settings import Secret, SourceSettings, Tls
from tests.services.clients import Client, eventually, is_gone, state_of
from watermarks.stores.memory import MemoryStore

if TYPE_CHECKING:
    from tests.integration.source.conftest import SourceServer

pytestmark = pytest.mark.services

T, U = (TableName(database="shop", table=name) for name in "tu")
ASLEEP = 4
"""Seconds that a statement is at work: a poll that begins then is over before it, on a busy machine too."""
COLUMNS = (
    "(id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 0,"
    " update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6))"
)


def settings_of(server: "SourceServer", user: str = "") -> SourceSettings:
    address = server.address
    return SourceSettings(
        name="shop",
        host=address.host,
        port=address.port,
        user=user or address.user,
        password=Secret(address.password),
        tls=Tls.PREFER,
    )


class Polls:
    """Our side of the tests: horizons that begin with a first poll, and what they say of a table."""

    def __init__(self, server: "SourceServer", *, user: str = "", store: MemoryStore | None = None) -> None:
        settings = settings_of(server, user)
        keeper = StoredHorizonNotes(store=store or MemoryStore(), source="shop")
        self.calls = list[ExternalCall]()
        self.opened: list[Connection] = []

        def open_() -> Connection:
            self.opened.append(connect(settings))
            return self.opened[-1]

        self.horizons = ServerHorizons(settings, open_, keeper, shared_seconds=0, meter=self.calls.append)

    def of(self, table: TableName = T, *, mark: datetime | None = None) -> Horizon:
        return self.horizons.get_horizons([HorizonRequest(table=table, mark=mark)])[table]

    def bound(self, table: TableName = T) -> datetime:
        bound = self.of(table).bound
        assert bound is not None
        return bound


@pytest.fixture
def client(server: "SourceServer") -> Iterator[Callable[[], Client]]:
    """More connections, all closed at the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Client(server.address))


@pytest.fixture
def watcher(server: "SourceServer") -> Iterator[Client]:
    """Two empty tables, and a connection that looks on."""
    with Client(server.address) as watcher:
        watcher.run(
            *(f"DROP TABLE IF EXISTS {name}" for name in "tu"), *(f"CREATE TABLE {name} {COLUMNS}" for name in "tu")
        )
        yield watcher


@pytest.fixture
def polls(server: "SourceServer", watcher: Client) -> Iterator[Polls]:
    """Horizons that have polled once, so that they have notes."""
    polls = Polls(server)
    assert eventually(lambda: polls.of(T).bound is not None)
    polls.bound(U)
    yield polls
    polls.horizons.close()


def stamp_of(client: Client, table: str = "t") -> datetime:
    """The lowest stamp in a table as this client sees it."""
    found: datetime = client.one(f"SELECT MIN(update_at) FROM {table}")
    return found.replace(tzinfo=UTC)


def server_clock(client: Client) -> datetime:
    found: datetime = client.one("SELECT UTC_TIMESTAMP(6)")
    return found.replace(tzinfo=UTC)


def wait_for_clock(watcher: Client, seconds: float) -> None:
    """Until the server's own clock is that much later."""
    end = server_clock(watcher) + timedelta(seconds=seconds)
    assert eventually(lambda: server_clock(watcher) > end)


def test_open_transaction_holds_until_it_commits(polls: Polls, client: Callable[[], Client]) -> None:
    writer = client()
    writer.run("BEGIN", "INSERT INTO t () VALUES ()")

    held = polls.of()

    assert held.bound is not None
    assert held.bound <= stamp_of(writer)
    assert held.proven
    assert "user syncd" in held.reason
    writer.run("COMMIT")
    assert polls.bound() > stamp_of(writer)


def test_how_long_it_is_held_is_counted_and_so_is_each_poll(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    writer = client()
    writer.run("BEGIN", "INSERT INTO t () VALUES ()")
    wait_for_clock(watcher, 1.2)
    polls.calls.clear()

    polls.of()

    [asked] = [call for call in polls.calls if isinstance(call, SourceQueried)]
    [held] = [call for call in polls.calls if isinstance(call, HorizonLagMeasured)]
    assert (asked.source, asked.purpose) == ("shop", SourceQueryPurpose.HORIZON)
    assert asked.seconds > 0
    assert held.source == "shop"
    assert held.seconds >= 1
    writer.run("COMMIT")


def microseconds_of(client: Client) -> int:
    return int(client.one("SELECT MICROSECOND(UTC_TIMESTAMP(6))"))


def test_a_stamp_waits_for_a_metadata_lock_longer_than_its_transaction_lives(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    locker, writer = client(), client()
    locker.run("LOCK TABLES t WRITE")
    waiting = writer.start("SET autocommit = 0", "INSERT INTO t () VALUES ()")
    assert eventually(lambda: "metadata lock" in state_of(watcher, writer.id))
    while_waiting = polls.bound()
    wait_for_clock(watcher, 2.2)
    still_waiting = polls.bound()

    locker.run("UNLOCK TABLES")
    waiting.result(timeout=60)

    left_open = polls.bound()
    stamp = stamp_of(writer)
    started = watcher.one(
        f"SELECT trx_started FROM information_schema.innodb_trx WHERE trx_mysql_thread_id={writer.id}"
    )
    assert started.replace(tzinfo=UTC) > stamp + timedelta(seconds=1), "the trap was not set"
    assert max(while_waiting, still_waiting, left_open) <= stamp
    writer.run("COMMIT")
    assert polls.bound() > stamp


def test_a_statement_stamps_long_before_its_first_row(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    writer = client()
    running = writer.start(f"INSERT INTO t (v) SELECT SLEEP({ASLEEP})", "SELECT 1")
    assert eventually(lambda: state_of(watcher, writer.id) == "User sleep")

    held = polls.bound()
    running.result(timeout=60)

    assert held <= stamp_of(watcher)


def test_seconds_are_counted_by_a_clock_that_lags_behind_the_one_that_stamps(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    """Some milliseconds after each full second MySQL lists statements with one second too few."""
    writer = client()
    assert eventually(lambda: 300_000 < microseconds_of(watcher) < 900_000)
    running = writer.start("INSERT INTO t (v) SELECT SLEEP(4)", "SELECT 1")
    assert eventually(lambda: state_of(watcher, writer.id) == "User sleep")

    bounds = [polls.bound()]
    while eventually(lambda: running.done() or microseconds_of(watcher) < 2_000, every=0):
        found = [polls.bound() for _ in range(3)]
        if state_of(watcher, writer.id) != "User sleep":
            break  # of these some may have seen it end, and lie above its stamp with right
        bounds += found
    running.result(timeout=60)

    assert max(bounds) <= stamp_of(watcher)


@pytest.fixture
def scheduler(watcher: Client) -> Iterator[None]:
    """The server carries out events."""
    watcher.run("SET GLOBAL event_scheduler = ON")
    yield
    watcher.run("DROP EVENT IF EXISTS e", "SET GLOBAL event_scheduler = OFF")


@pytest.mark.usefixtures("scheduler")
def test_what_an_event_writes_stamps_like_any_statement(polls: Polls, watcher: Client) -> None:
    """The performance schema calls whoever carries an event out by the name of whoever starts it."""
    watcher.run(
        f"CREATE EVENT e ON SCHEDULE AT CURRENT_TIMESTAMP DO INSERT INTO shop.t (v) SELECT 7 + SLEEP({ASLEEP})",
    )
    assert eventually(lambda: any(row[6] == "User sleep" for row in watcher.run("SHOW PROCESSLIST")))

    held = polls.bound()
    assert eventually(lambda: watcher.one("SELECT COUNT(*) FROM t") == 1)

    assert held <= stamp_of(watcher)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("waits_for", ["no event", "an event of later"])
def test_who_waits_for_events_holds_nothing(polls: Polls, watcher: Client, waits_for: str) -> None:
    if waits_for != "no event":
        watcher.run("CREATE EVENT e ON SCHEDULE AT CURRENT_TIMESTAMP + INTERVAL 1 HOUR DO DELETE FROM shop.t")
    begun = server_clock(watcher)
    wait_for_clock(watcher, 1.2)

    assert polls.bound() > begun + timedelta(seconds=1)


def test_values_that_sleep_look_like_a_read_to_the_server(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    writer = client()
    running = writer.start(f"INSERT INTO t (v) VALUES (SLEEP({ASLEEP}))")
    assert eventually(lambda: state_of(watcher, writer.id) == "User sleep")

    held = polls.bound()
    running.result(timeout=60)

    assert held <= stamp_of(watcher)


def test_a_function_that_writes_carries_the_stamp_of_the_select_around_it(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    watcher.run(
        "DROP FUNCTION IF EXISTS f",
        f"CREATE FUNCTION f() RETURNS INT BEGIN DO SLEEP({ASLEEP}); INSERT INTO t () VALUES (); RETURN 1; END",
    )
    writer = client()
    running = writer.start("SELECT f()")
    assert eventually(lambda: state_of(watcher, writer.id) == "User sleep")

    held = polls.bound()
    running.result(timeout=60)

    assert held <= stamp_of(watcher)


def test_prepared_transaction_holds_with_its_client_and_without(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    writer = client()
    writer.run("XA START 'a'", "INSERT INTO t () VALUES ()")
    stamp = stamp_of(writer)
    writer.run("XA END 'a'", "XA PREPARE 'a'")
    with_client = polls.bound()
    writer.vanish()
    assert eventually(lambda: is_gone(watcher, writer.id))

    without = polls.of()

    assert with_client <= stamp
    assert without.bound is not None
    assert without.bound <= stamp
    assert "XA RECOVER" in without.reason
    watcher.run("XA COMMIT 'a'")
    assert polls.bound() > stamp


def test_prepared_transaction_that_nobody_saw_while_it_ran(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    writer = client()
    writer.run("XA START 'b'", "INSERT INTO t () VALUES ()")
    stamp = stamp_of(writer)
    writer.run("XA END 'b'", "XA PREPARE 'b'")
    writer.vanish()
    assert eventually(lambda: is_gone(watcher, writer.id))

    held = polls.bound()

    watcher.run("XA ROLLBACK 'b'")
    assert held <= stamp


def test_rollback_to_a_savepoint_brings_an_older_stamp_back(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    writer = client()
    writer.run("BEGIN", "INSERT INTO t () VALUES ()")
    older = stamp_of(writer)
    writer.run("SAVEPOINT s", "UPDATE t SET v = v + 1")
    assert stamp_of(writer) > older
    between = polls.bound()

    writer.run("ROLLBACK TO SAVEPOINT s")

    assert stamp_of(writer) == older
    assert max(between, polls.bound()) <= older


@pytest.mark.parametrize("begin", ["SELECT 1", "START TRANSACTION READ ONLY"])
def test_reports_do_not_hold(begin: str, polls: Polls, watcher: Client, client: Callable[[], Client]) -> None:
    watcher.run("INSERT INTO u () VALUES ()")
    reader = client()
    running = reader.start(begin, f"SELECT SLEEP({ASLEEP}) FROM u")
    assert eventually(lambda: state_of(watcher, reader.id) == "User sleep")

    horizon = polls.of()

    assert horizon.bound == horizon.t0
    running.result(timeout=60)


def test_transaction_that_changed_nothing_does_not_hold(polls: Polls, client: Callable[[], Client]) -> None:
    writer = client()
    writer.run("BEGIN", "UPDATE t SET v = 1 WHERE id = 999", "SELECT * FROM u FOR UPDATE")

    horizon = polls.of()

    assert horizon.bound == horizon.t0


def test_waiting_alter_does_not_hold(polls: Polls, watcher: Client, client: Callable[[], Client]) -> None:
    reader, owner = client(), client()
    reader.run("BEGIN", "SELECT * FROM t")
    waiting = owner.start("ALTER TABLE t ADD COLUMN w INT")
    assert eventually(lambda: "metadata lock" in state_of(watcher, owner.id))

    horizon = polls.of()

    assert horizon.bound == horizon.t0
    reader.run("COMMIT")
    waiting.result(timeout=60)


def has_plugin(client: Client) -> bool:
    """Whether MariaDB shows its locks; as it comes, it does not."""
    plugin = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'METADATA_LOCK_INFO'"
    return bool(client.one(plugin))


def test_only_where_locks_are_seen_another_table_does_not_hold(
    server: "SourceServer", polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    seen = not server.mariadb or has_plugin(watcher)
    writer = client()
    writer.run("BEGIN", "INSERT INTO u () VALUES ()")

    unrelated, held = polls.of(T), polls.bound(U)

    assert (unrelated.bound == unrelated.t0) is seen
    assert held <= stamp_of(writer, "u")


def test_text_of_four_bytes_blinds_nobody(polls: Polls, watcher: Client, client: Callable[[], Client]) -> None:
    writer, talker = client(), client()
    writer.run("BEGIN", "INSERT INTO t () VALUES ()")
    stamp = stamp_of(writer)
    before = polls.bound()
    running = talker.start(f"SELECT SLEEP({ASLEEP}), '\N{GRINNING FACE}'")
    assert eventually(lambda: state_of(watcher, talker.id) == "User sleep")
    seen = _refusal(watcher, "SELECT COUNT(*) FROM information_schema.innodb_trx")

    during = polls.of()

    assert not running.done()
    assert seen in {None, 3854}
    assert during.proven
    assert during.bound is not None
    assert max(before, during.bound) <= stamp
    running.result(timeout=60)
    writer.run("COMMIT")
    assert polls.bound() > stamp


def _refusal(client: Client, statement: str) -> int | None:
    try:
        client.run(statement)
    except pymysql.err.MySQLError as error:
        return int(error.args[0])
    return None


def test_reader_that_keeps_the_list_stale_is_outwaited(
    server: "SourceServer", polls: Polls, client: Callable[[], Client]
) -> None:
    writer, stop = client(), threading.Event()
    with Client(server.address) as reader:

        def read_often() -> None:
            while not stop.wait(0.05):
                reader.run("SELECT COUNT(*) FROM information_schema.innodb_trx")

        thread = threading.Thread(target=read_often)
        thread.start()
        try:
            for _ in range(2):
                writer.run("BEGIN", "INSERT INTO t () VALUES ()")
                stamp = writer.one("SELECT MAX(update_at) FROM t").replace(tzinfo=UTC)

                assert polls.bound() <= stamp

                writer.run("COMMIT")
        finally:
            stop.set()
            thread.join()


def test_first_poll_waits_for_transactions_by_name_and_not_for_ever(
    server: "SourceServer", watcher: Client, client: Callable[[], Client]
) -> None:
    writer = client()
    writer.run("BEGIN", "INSERT INTO t () VALUES ()")
    stamp = stamp_of(writer)
    polls = Polls(server)

    with pytest.raises(
        SourceUnfit,
        match=r"still unknown after .* up to where shop\.t is complete: waits for transaction \d+, user syncd",
    ):
        polls.horizons.wait_for_horizons([HorizonRequest(table=T)], within=timedelta(seconds=0.5))

    assert polls.of(mark=stamp - timedelta(hours=1)).bound == stamp - timedelta(hours=1)
    writer.run("COMMIT")
    bound = polls.horizons.wait_for_horizons([HorizonRequest(table=T)], within=timedelta(seconds=60))[T].bound
    assert bound is not None
    assert bound > stamp
    polls.horizons.close()


def test_notes_outlive_the_process(server: "SourceServer", watcher: Client, client: Callable[[], Client]) -> None:
    store = MemoryStore()
    first = Polls(server, store=store)
    first.bound()
    first.horizons.close()
    writer = client()
    writer.run("BEGIN", "INSERT INTO t () VALUES ()")

    second = Polls(server, store=store)

    assert second.bound() <= stamp_of(writer)
    second.horizons.close()


def test_a_lost_connection_is_opened_anew(polls: Polls, watcher: Client) -> None:
    watcher.run(f"KILL {polls.opened[-1].thread_id()}")

    assert polls.of().proven


def test_read_only_server_is_refused_by_the_name_of_the_setting(polls: Polls, watcher: Client) -> None:
    watcher.run("SET GLOBAL read_only = 1")
    try:
        with pytest.raises(SourceUnfit, match="read-only") as caught:
            polls.of()
    finally:
        watcher.run("SET GLOBAL read_only = 0")
    assert "source.primary" in caught.value.hint
    assert polls.of().proven


def test_server_that_replicates_is_refused(server: "SourceServer", polls: Polls, watcher: Client) -> None:
    words = ("MASTER", "SLAVE") if server.mariadb else ("REPLICATION SOURCE", "REPLICA")
    side = words[0].rpartition(" ")[2]
    watcher.run(
        f"CHANGE {words[0]} TO {side}_HOST = '127.0.0.1', {side}_PORT = 9, {side}_USER = 'nobody'", f"START {words[1]}"
    )
    try:
        with pytest.raises(SourceUnfit, match="is a running replica") as caught:
            polls.of()
    finally:
        watcher.run(f"STOP {words[1]}", f"RESET {words[1]} ALL")
    assert "source.primary" in caught.value.hint


def test_too_long_a_list_of_transactions_is_no_list(
    polls: Polls, client: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = polls.bound()
    client().run("BEGIN", "INSERT INTO t () VALUES ()")
    monkeypatch.setattr("syncd.mysql.horizon_poll.MOST_WRITERS", 1)

    horizon = polls.of()

    assert horizon.bound == last
    assert "more than" in horizon.reason


@pytest.fixture
def user(server: "SourceServer", watcher: Client) -> Iterator[Callable[..., str]]:
    """A user with no more than these rights."""

    def made(*grants: str) -> str:
        watcher.run(
            "DROP USER IF EXISTS poor@'127.0.0.1'",
            f"CREATE USER poor@'127.0.0.1' IDENTIFIED BY '{server.address.password}'",
            *(f"GRANT {grant} TO poor@'127.0.0.1'" for grant in ("SELECT ON shop.*", *grants)),
        )
        return "poor"

    yield made
    watcher.run("DROP USER IF EXISTS poor@'127.0.0.1'")


def test_without_the_right_nothing_is_proven(
    server: "SourceServer", user: Callable[..., str], client: Callable[[], Client]
) -> None:
    client().run("BEGIN", "INSERT INTO t () VALUES ()")
    polls = Polls(server, user=user())

    horizon = polls.of()

    assert (horizon.bound, horizon.proven) == (horizon.t0 - timedelta(seconds=60), False)
    assert "PROCESS" in horizon.reason
    polls.horizons.close()


def test_process_alone_gives_one_horizon_for_the_server(
    server: "SourceServer", user: Callable[..., str], client: Callable[[], Client]
) -> None:
    polls = Polls(server, user=user("PROCESS ON *.*"))
    polls.bound()
    writer = client()
    writer.run("BEGIN", "INSERT INTO u () VALUES ()")

    assert polls.of(T).proven
    if not has_plugin(writer):  # with it, PROCESS is enough to see locks as well
        assert polls.bound(T) <= stamp_of(writer, "u")
    assert polls.bound(U) <= stamp_of(writer, "u")
    polls.horizons.close()


def test_performance_schema_alone_gives_a_horizon_by_table(
    server: "SourceServer", user: Callable[..., str], client: Callable[[], Client]
) -> None:
    if server.mariadb:
        pytest.skip("MariaDB's performance schema has no data_locks, and is off by default")
    polls = Polls(server, user=user("SELECT ON performance_schema.*"))
    first = polls.horizons.get_horizons([HorizonRequest(table=T), HorizonRequest(table=U)])
    assert all(horizon.proven for horizon in first.values())
    writer = client()
    writer.run("BEGIN", "INSERT INTO u () VALUES ()")

    second = polls.horizons.get_horizons([HorizonRequest(table=T), HorizonRequest(table=U)])

    assert second[T].bound == second[T].t0
    held = second[U].bound
    assert held is not None
    assert held <= stamp_of(writer, "u")
    polls.horizons.close()


def test_locks_that_are_not_watched_are_not_taken_for_none(
    server: "SourceServer", watcher: Client, client: Callable[[], Client]
) -> None:
    if server.mariadb:
        pytest.skip("MariaDB has no instrument for these locks")
    switch = "UPDATE performance_schema.setup_instruments SET ENABLED = '{}' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
    watcher.run(switch.format("NO"))
    try:
        polls = Polls(server)
        polls.bound()
        writer = client()
        writer.run("BEGIN", "INSERT INTO t () VALUES ()")

        assert polls.bound() <= stamp_of(writer)
        polls.horizons.close()
    finally:
        watcher.run(switch.format("YES"))


def test_a_statement_older_than_the_watch_over_locks_holds_every_table(
    server: "SourceServer", watcher: Client, client: Callable[[], Client]
) -> None:
    if server.mariadb:
        pytest.skip("MariaDB has no instrument for these locks")
    switch = "UPDATE performance_schema.setup_instruments SET ENABLED = '{}' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
    store = MemoryStore()
    before = Polls(server, store=store)
    before.bound()
    before.horizons.close()
    watcher.run(switch.format("NO"))
    try:
        writer = client()
        running = writer.start(f"INSERT INTO t (v) SELECT SLEEP({ASLEEP})", "SELECT 1")
        assert eventually(lambda: state_of(watcher, writer.id) == "User sleep")
    finally:
        watcher.run(switch.format("YES"))
    polls = Polls(server, store=store)

    held = polls.bound()
    running.result(timeout=60)

    assert held <= stamp_of(watcher)
    polls.horizons.close()


def test_a_report_that_cannot_write_holds_nothing_though_it_fills_a_table_of_its_own(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    report = client()
    report.run("CREATE TEMPORARY TABLE mine (a INT)", "START TRANSACTION READ ONLY", "INSERT INTO mine VALUES (1)")
    began = server_clock(watcher)
    wait_for_clock(watcher, 0.5)

    assert polls.bound() > began


def test_ids_of_a_table_are_not_those_of_one_whose_name_differs_in_case(
    polls: Polls, watcher: Client, client: Callable[[], Client]
) -> None:
    if watcher.one("SELECT @@lower_case_table_names"):
        pytest.skip("this server takes both for one table")
    twin = TableName(database="shop", table="T")
    watcher.run("DROP TABLE IF EXISTS T", f"CREATE TABLE T {COLUMNS}", "INSERT INTO T (id) VALUES (1000)")
    watcher.run("INSERT INTO t () VALUES (), ()")
    writer = client()
    asked = [HorizonRequest(table=T, id_column="id"), HorizonRequest(table=twin, id_column="id")]
    polls.horizons.get_horizons(asked)
    writer.run("BEGIN", "INSERT INTO t () VALUES ()")
    watcher.run("INSERT INTO t () VALUES ()")

    found = polls.horizons.get_horizons(asked)

    watcher.run("DROP TABLE T")
    assert found[T].max_complete_id == 2, "3 is not committed yet, and 4 is"
    assert found[twin].max_complete_id == 1000


def test_ids_commit_out_of_order_and_are_complete_in_order(polls: Polls, client: Callable[[], Client]) -> None:
    early, late = client(), client()
    early.run("BEGIN", "INSERT INTO t () VALUES ()")
    late.run("INSERT INTO t () VALUES ()")

    def ids() -> int | None:
        return polls.horizons.get_horizons([HorizonRequest(table=T, id_column="id")])[T].max_complete_id

    while_open = [ids() for _ in range(3)]
    early.run("COMMIT")

    assert while_open == [None, None, None]
    assert eventually(lambda: ids() == 2)


def test_restart_keeps_what_was_prepared(server: "SourceServer", watcher: Client, client: Callable[[], Client]) -> None:
    polls = Polls(server)
    polls.bound()
    with Client(server.address) as writer:
        writer.run("XA START 'c'", "INSERT INTO t () VALUES ()")
        stamp = stamp_of(writer)
        writer.run("XA END 'c'", "XA PREPARE 'c'")
        assert polls.bound() <= stamp
        server.box.restart("mysql")

    after = polls.of()

    assert after.proven, "a restarted server is itself, so the notes hold"
    assert after.bound is not None
    assert after.bound <= stamp
    with Client(server.address) as again:
        again.run("XA ROLLBACK 'c'")
    polls.horizons.close()
