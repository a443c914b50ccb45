"""A session as the loader uses it: bounded, and dead after whatever is not a clean answer."""

import socket
import threading
import time
from datetime import timedelta

import pytest

from syncd.errors import CommitUnknown, TransactionConflict, WarehouseDown, WarehouseUnfit
from syncd.ports.request_stats import ExternalCall, WarehouseQueried
from syncd.redshift.session import WarehouseSession
from syncd.sandbox.faults.tcp import TcpProxy
from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.redshift import FaultTiming, RedshiftStandIn
from syncd.settings import Secret
from tests.integration.warehouse.conftest import Sessions
from tests.standin.clients import Bucket, Client, ints

pytestmark = pytest.mark.services
SHORT = timedelta(seconds=0.5)


@pytest.fixture
def table(client: Client) -> str:
    return client.table("a integer")


def test_pid_is_the_one_that_the_server_knows(session: WarehouseSession) -> None:
    assert session.rows("select pg_backend_pid()") == [(session.pid,)]


def test_statements_are_counted_by_their_first_word_also_where_they_fail(sessions: Sessions, table: str) -> None:
    calls = list[ExternalCall]()
    session = sessions(meter=calls.append)

    session.begin()
    session.rows(f"\n  SELECT a FROM {table}")
    session.commit()
    with pytest.raises(WarehouseUnfit):
        session.run("COPY no_such_table FROM 's3://none/x' IAM_ROLE default FORMAT AS PARQUET")
    with pytest.raises(WarehouseUnfit):
        session.run("nonsense 'a secret'")

    told = [(call.warehouse, call.statement) for call in calls if isinstance(call, WarehouseQueried)]
    assert told == [("warehouse", word) for word in ("set", "begin", "select", "commit", "copy", "other")]
    assert all(call.seconds > 0 for call in calls if isinstance(call, WarehouseQueried))


def test_statements_commit_by_themselves_outside_a_transaction(
    session: WarehouseSession, client: Client, table: str
) -> None:
    assert session.run(f"insert into {table} values (%s), (2)", [1]) == 2

    assert client.value(f"select count(*) from {table}") == 2
    assert not session.in_transaction


def test_an_update_that_matches_a_row_several_times_is_refused_and_none_of_them_is_taken(
    session: WarehouseSession, client: Client, table: str
) -> None:
    other = client.table("a integer, b integer")
    client.run(f"insert into {table} values (1)")
    client.run(f"insert into {other} values (1, 2), (1, 3)")

    with pytest.raises(WarehouseUnfit, match="multiple matches"):
        session.run(f"UPDATE {table} SET a = o.b FROM {other} o WHERE {table}.a = o.a")

    assert client.rows(f"select a from {table}") == [[1]]


def test_percent_signs_stay_where_there_are_no_arguments(session: WarehouseSession) -> None:
    assert session.rows("select 'a%s' where 'b%' like 'b%'") == [("a%s",)]


def test_transaction_lands_whole_or_not_at_all(session: WarehouseSession, client: Client, table: str) -> None:
    session.begin()
    session.run(f"insert into {table} values (1)")
    assert session.in_transaction
    session.rollback()
    session.begin()
    session.run(f"insert into {table} values (2)")
    session.commit()

    assert client.rows(f"select a from {table}") == [[2]]
    assert not session.in_transaction


def test_commit_of_a_failed_transaction_is_an_error_and_no_success(
    session: WarehouseSession, client: Client, table: str
) -> None:
    session.begin()
    session.run(f"insert into {table} values (1)")
    with pytest.raises(WarehouseUnfit):
        session.run("select nothing from nowhere")

    with pytest.raises(TransactionConflict, match="nothing of the transaction was committed"):
        session.commit()

    assert session.is_alive
    assert client.value(f"select count(*) from {table}") == 0


def test_commit_without_a_transaction_is_a_bug(session: WarehouseSession) -> None:
    with pytest.raises(RuntimeError):
        session.commit()


def test_session_goes_on_after_an_error_that_the_server_told(session: WarehouseSession) -> None:
    with pytest.raises(WarehouseUnfit, match="does not exist"):
        session.run("select * from nowhere")

    assert session.is_alive
    assert session.rows("select 1") == [(1,)]


def test_copy_counts_nothing_in_the_driver(session: WarehouseSession, bucket: Bucket, table: str) -> None:
    location = bucket.manifest_of(ints(a=1))

    count = session.run(f"copy {table} from '{location}' iam_role default format as parquet manifest")

    assert count == -1
    assert session.rows("select pg_last_copy_count()") == [(1,)]


@pytest.mark.parametrize("when", FaultTiming)
def test_connection_lost_in_a_statement_is_a_warehouse_that_is_down(
    server: RedshiftStandIn, session: WarehouseSession, table: str, when: FaultTiming
) -> None:
    session.begin()
    server.faults.drop("^insert", when=when)

    with pytest.raises(WarehouseDown, match="the connection was lost"):
        session.run(f"insert into {table} values (1)")

    assert not session.is_alive
    session.rollback()
    session.close()
    with pytest.raises(WarehouseDown, match="lost earlier"):
        session.run("select 1")


@pytest.mark.parametrize(("when", "rows"), [(FaultTiming.BEFORE, 0), (FaultTiming.AFTER, 1)])
def test_connection_lost_in_commit_leaves_the_outcome_unknown(  # noqa: PLR0917  # each is a fixture or a parameter
    server: RedshiftStandIn, session: WarehouseSession, client: Client, table: str, when: FaultTiming, rows: int
) -> None:
    session.begin()
    session.run(f"insert into {table} values (1)")
    server.faults.drop(when=when)

    with pytest.raises(CommitUnknown, match="unknown whether the transaction was committed"):
        session.commit()

    assert not session.is_alive
    assert client.value(f"select count(*) from {table}") == rows


def test_statement_that_takes_too_long_is_ended_from_outside(
    server: RedshiftStandIn, session: WarehouseSession, table: str
) -> None:
    held = server.faults.hold("^insert")
    began = time.monotonic()

    with pytest.raises(WarehouseDown, match=r"no answer within 0\.5 s"):
        session.run(f"insert into {table} values (1)", within=SHORT)

    assert 0.4 < time.monotonic() - began < 15
    assert not session.is_alive
    held.release()


def test_commit_that_takes_too_long_leaves_the_outcome_unknown(
    server: RedshiftStandIn, session: WarehouseSession, table: str
) -> None:
    session.begin()
    session.run(f"insert into {table} values (1)")
    server.faults.hold("^commit")

    with pytest.raises(CommitUnknown, match="in time"):
        session.commit(within=SHORT)


def test_short_statements_are_bounded_without_being_told(server: RedshiftStandIn, sessions: Sessions) -> None:
    session = sessions(silence=timedelta(seconds=3))  # its first statements are answered sooner

    with server.faults.frozen(), pytest.raises(WarehouseDown, match="no answer"):
        session.rows("select 1")


def test_frozen_line_does_not_hold_up_the_end_of_a_session(wire: TcpProxy, sessions: Sessions) -> None:
    session = sessions(at=(LOOPBACK, wire.port))
    session.begin()
    wire.freeze()
    began = time.monotonic()

    session.close()

    assert time.monotonic() - began < 15, "less than a statement may take"
    assert not session.is_alive


def test_conflict_asks_for_the_transaction_again(
    server: RedshiftStandIn, session: WarehouseSession, table: str
) -> None:
    session.begin()
    session.run(f"insert into {table} values (1)")
    server.faults.fail_with_conflict()

    with pytest.raises(TransactionConflict, match=r"(?i)serializable isolation violation"):
        session.commit()

    assert session.is_alive
    session.rollback()
    assert not session.in_transaction


def test_session_ended_by_another_asks_for_the_transaction_again(
    session: WarehouseSession, sessions: Sessions, table: str
) -> None:
    session.begin()
    session.run(f"insert into {table} values (1)")
    sessions().rows("select pg_terminate_backend(%s)", [session.pid])

    with pytest.raises((TransactionConflict, WarehouseDown)):
        session.run("select 1")

    assert not session.is_alive


def test_session_ended_by_another_in_commit_leaves_the_outcome_unknown(
    server: RedshiftStandIn, session: WarehouseSession, sessions: Sessions, table: str
) -> None:
    session.begin()
    session.run(f"insert into {table} values (1)")
    sessions().rows("select pg_terminate_backend(%s)", [session.pid])

    with pytest.raises(CommitUnknown):
        session.commit()


def test_statement_under_way_is_ended_by_another_thread(
    server: RedshiftStandIn, session: WarehouseSession, table: str
) -> None:
    held = server.faults.hold("^insert")
    found: list[BaseException] = []

    def insert() -> None:
        try:
            session.run(f"insert into {table} values (1)")
        except WarehouseDown as error:
            found.append(error)

    thread = threading.Thread(target=insert)
    thread.start()
    held.wait_reached()
    session.abort()
    thread.join(60)

    assert found
    assert not session.is_alive


def test_interrupt_in_the_middle_of_an_answer_ends_the_session(
    session: WarehouseSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session._driver, "handle_messages", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.run("select 1")

    assert not session.is_alive


def test_line_is_kept_alive_and_sends_at_once(session: WarehouseSession) -> None:
    sock = session._wire._sock

    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert sock.gettimeout() is None


def test_nothing_is_kept_of_statements(session: WarehouseSession) -> None:
    for number in range(50):
        session.rows(f"select {number}")

    assert sum(len(part) for cache in session._driver._caches.values() for part in cache.values()) <= 3


def test_warehouse_shows_the_process_and_its_query_group(server: RedshiftStandIn, sessions: Sessions) -> None:
    session = sessions(name="host-1 epoch 4", query_group="it's")

    shown = session.rows("select trim(application_name) from sys_connection_log where session_id = %s", [session.pid])

    assert shown == [("syncd host-1 epoch 4",)]
    assert session.rows("show query_group") == [("it's",)]


def test_password_that_is_wrong_is_for_a_person_and_in_no_message(sessions: Sessions) -> None:

    with pytest.raises(WarehouseUnfit, match="password authentication failed") as caught:
        sessions(password=Secret("hunter2hunter2"))

    assert "ALTER USER" in caught.value.hint
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_database_that_is_missing_is_for_a_person(sessions: Sessions) -> None:
    with pytest.raises(WarehouseUnfit, match="does not exist"):
        sessions(database="elsewhere")


def test_nobody_there_is_a_warehouse_that_is_down(server: RedshiftStandIn, sessions: Sessions) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(WarehouseDown, match="refused"):
        sessions(port=port)
