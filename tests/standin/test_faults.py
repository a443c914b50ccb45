"""Faults on demand: for each, what the client sees and what the server holds afterwards."""

import pytest
from redshift_connector.error import InterfaceError

from syncd.sandbox.redshift import FaultTiming, RedshiftStandIn
from tests.standin.clients import Bucket, Client, Clients, ints
from tests.standin.test_transactions import Waiting

pytestmark = pytest.mark.services
GONE = "server socket closed"


@pytest.fixture
def table(client: Client) -> str:
    return client.table("a integer")


def held_behind(server: RedshiftStandIn, table: str) -> int:
    """The rows that PostgreSQL holds, asked past the stand-in."""
    behind = server.connect_postgres()
    try:
        return int(behind.fetch_value(f"SELECT count(*) FROM {table}") or 0)
    finally:
        behind.close()


def test_connection_dropped_before_commit_loses_the_transaction(
    server: RedshiftStandIn, clients: Clients, table: str
) -> None:
    client = clients()
    client.run("begin")
    client.run(f"insert into {table} values (1)")
    server.faults.drop(when=FaultTiming.BEFORE)

    with pytest.raises(InterfaceError, match=GONE):
        client.run("commit")

    assert clients().value(f"select count(*) from {table}") == 0
    assert held_behind(server, table) == 0


def test_connection_dropped_after_commit_keeps_the_transaction(
    server: RedshiftStandIn, clients: Clients, table: str
) -> None:
    client = clients()
    client.run("begin")
    client.run(f"insert into {table} values (1)")
    server.faults.drop(when=FaultTiming.AFTER)

    with pytest.raises(InterfaceError, match=GONE):
        client.run("commit")

    assert held_behind(server, table) == 1


@pytest.mark.parametrize(("when", "rows"), [(FaultTiming.BEFORE, 0), (FaultTiming.AFTER, 1)])
def test_connection_dropped_around_a_statement_of_its_own(
    server: RedshiftStandIn, clients: Clients, table: str, when: FaultTiming, rows: int
) -> None:
    client = clients()
    server.faults.drop(r"^insert", when=when)

    with pytest.raises(InterfaceError, match=GONE):
        client.run(f"insert into {table} values (1)")

    assert held_behind(server, table) == rows


@pytest.mark.parametrize(("when", "rows"), [(FaultTiming.BEFORE, 0), (FaultTiming.AFTER, 1)])
def test_connection_dropped_around_copy(  # noqa: PLR0917  # each is a fixture or a parameter
    server: RedshiftStandIn, clients: Clients, bucket: Bucket, table: str, when: FaultTiming, rows: int
) -> None:
    client = clients()
    server.faults.drop("^copy", when=when)

    with pytest.raises(InterfaceError, match=GONE):
        client.copy(table, bucket.manifest_of(ints(a=1)))

    assert held_behind(server, table) == rows


def test_drop_inside_a_block_after_a_write_loses_it(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    client = clients()
    client.run("begin")
    server.faults.drop("^insert", when=FaultTiming.AFTER)

    with pytest.raises(InterfaceError, match=GONE):
        client.run(f"insert into {table} values (1)")

    assert held_behind(server, table) == 0


def test_fault_waits_for_its_turn_and_comes_once(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    client = clients()
    server.faults.fail("^insert", "no", nth=2)

    client.run(f"insert into {table} values (1)")
    assert client.refused(f"insert into {table} values (2)")["M"] == "no"
    client.run(f"insert into {table} values (3)")

    assert held_behind(server, table) == 2


def test_nth_copy_fails_with_a_given_text(server: RedshiftStandIn, client: Client, bucket: Bucket, table: str) -> None:
    manifest = bucket.manifest_of(ints(a=1))
    server.faults.fail_copy("Spectrum Scan Error: Retries exceeded", nth=2, detail="code: 15001")

    client.copy(table, manifest)
    refused = client.copy_refused(table, manifest)
    client.copy(table, manifest)

    assert (refused["C"], refused["M"], refused["D"]) == (
        "XX000",
        "Spectrum Scan Error: Retries exceeded",
        "code: 15001",
    )
    assert held_behind(server, table) == 2


def test_failed_copy_inside_a_block_fails_the_block(
    server: RedshiftStandIn, client: Client, bucket: Bucket, table: str
) -> None:
    server.faults.fail_copy("no")
    client.run("begin")
    client.run(f"insert into {table} values (1)")

    client.copy_refused(table, bucket.manifest_of(ints(a=1)))

    assert client.refused("select 1")["C"] == "25P02"
    client.run("rollback")
    assert held_behind(server, table) == 0


def test_conflict_at_commit_rolls_everything_back(server: RedshiftStandIn, client: Client, table: str) -> None:
    server.faults.fail_with_conflict()
    client.run("begin")
    client.run(f"insert into {table} values (1)")

    refused = client.refused("commit")

    assert (refused["C"], refused["M"]) == ("XX000", "1023")
    assert "Serializable isolation violation on table" in refused["D"]
    client.run("rollback")
    assert held_behind(server, table) == 0


def test_held_statement_stands_still_until_released(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    client = clients()
    client.run("begin")
    client.run(f"insert into {table} values (1)")
    hold = server.faults.hold("^commit")

    commit = Waiting(lambda: client.run("commit"))
    hold.wait_reached()
    before = held_behind(server, table)
    hold.release()
    commit.done()

    assert (before, held_behind(server, table)) == (0, 1)


def test_answer_held_back_after_the_commit(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    client = clients()
    hold = server.faults.hold("^insert", when=FaultTiming.AFTER)

    insert = Waiting(lambda: client.run(f"insert into {table} values (1)"))
    hold.wait_reached()
    seen = clients().value(f"select count(*) from {table}")
    hold.release()

    assert insert.done() == 1
    assert seen in {0, 1}


def test_delay_delays_and_changes_nothing(server: RedshiftStandIn, client: Client, table: str) -> None:
    fault = server.faults.delay("^insert", 0.05)

    client.run(f"insert into {table} values (1)")

    fault.wait_reached(0)
    assert held_behind(server, table) == 1


def test_refused_connections_leave_open_ones_alone(server: RedshiftStandIn, clients: Clients, client: Client) -> None:
    server.faults.refuse_connections()
    server.faults.wait_refusing()

    with pytest.raises(InterfaceError, match="communication error"):
        clients()
    assert client.value("select 1") == 1
    server.faults.accept_connections()
    server.faults.wait_listening()
    assert clients().value("select 1") == 1


def test_frozen_server_answers_nobody_and_loses_nothing(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    client = clients()
    with server.faults.frozen():
        insert = Waiting(lambda: client.run(f"insert into {table} values (1)"))
        connecting = Waiting(clients)
        assert held_behind(server, table) == 0
        assert insert.result is None
        assert connecting.result is None

    assert insert.done() == 1
    assert connecting.done().value(f"select count(*) from {table}") == 1


def test_client_that_gives_up_on_a_frozen_server_leaves_no_half_transaction(
    server: RedshiftStandIn, clients: Clients, table: str
) -> None:
    client = clients(timeout=3)  # it is busy, and answers sooner than that
    client.run("begin")
    client.run(f"insert into {table} values (1)")
    with server.faults.frozen():
        with pytest.raises((InterfaceError, OSError)):
            client.run("commit")
        client.connection._usock.close()

    assert clients().value(f"select count(*) from {table}") == 0


def test_cleared_faults_never_happen(server: RedshiftStandIn, client: Client, table: str) -> None:
    server.faults.fail("^insert", "no")
    server.faults.refuse_connections()

    server.faults.clear()

    assert client.run(f"insert into {table} values (1)") == 1


def test_fault_that_does_not_come_is_told(server: RedshiftStandIn) -> None:
    with pytest.raises(TimeoutError, match="no statement triggered"):
        server.faults.hold("^never").wait_reached(0.01)
