"""Snapshots, write locks, conflicts: two or three sessions at once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from redshift_connector.error import ProgrammingError

from syncd.sandbox.redshift import CopyStorage, Isolation, RedshiftStandIn
from tests.standin.clients import Bucket, Client, Clients, numbers

pytestmark = [pytest.mark.services, pytest.mark.fact("11.12")]
SOON = 60.0


class Waiting:
    """A statement under way in a thread of its own."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._error: Exception | None = None
        self.result: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._action()
        except Exception as error:  # noqa: BLE001  # told by `error`
            self._error = error

    def end(self) -> None:
        self._thread.join(SOON)
        assert not self._thread.is_alive()

    def fields(self) -> dict[str, str]:
        self.end()
        assert self._error is not None
        fields = self._error.args[0]
        assert isinstance(fields, dict)
        return fields

    def done(self) -> Any:  # what the action returned
        self.end()
        if self._error is not None:
            raise self._error
        return self.result


@contextmanager
def waits(server: RedshiftStandIn, session: Client, action: Callable[[], object]) -> Iterator[Waiting]:
    """Start something that must wait for a lock, and go on when PostgreSQL says that it waits."""
    pid = session.pid
    waiting = Waiting(action)
    behind = server.connect_postgres()
    try:
        asked = f"SELECT count(*) FROM pg_catalog.redshift_locks_behind WHERE pid = {pid} AND NOT granted"
        tries = 0
        while behind.fetch_value(asked) == "0":
            tries += 1
            assert tries < 20_000, "it does not wait"
        yield waiting
    finally:
        behind.close()


@pytest.fixture
def table(client: Client) -> str:
    table = client.table("k integer, v integer")
    client.run(f"insert into {table} values (1, 1), (2, 2)")
    return table


def test_second_writer_waits_until_the_first_commits(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    first, second = clients(), clients()
    first.run("begin")
    first.run(f"insert into {table} values (3, 3)")

    with waits(server, second, lambda: second.run(f"insert into {table} values (4, 4)")) as waiting:
        first.run("commit")
        waiting.done()

    assert first.value(f"select count(*) from {table}") == 4


def test_copy_waits_for_a_writer_too(server: RedshiftStandIn, clients: Clients, bucket: Bucket, table: str) -> None:
    first, second = clients(), clients()
    manifest = bucket.manifest_of(pa.table({"k": pa.array([9], pa.int32()), "v": pa.array([9], pa.int32())}))
    first.run("begin")
    first.run(f"update {table} set v = 5 where k = 1")

    with waits(server, second, lambda: second.copy(table, manifest)) as waiting:
        first.run("rollback")
        waiting.done()

    assert first.rows(f"select k, v from {table} order by k") == [[1, 1], [2, 2], [9, 9]]


def test_readers_do_not_wait_for_writers(clients: Clients, table: str) -> None:
    writer, reader = clients(), clients()
    writer.run("begin")
    writer.run(f"delete from {table}")

    assert reader.value(f"select count(*) from {table}") == 2


def test_lock_blocks_readers(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    holder, reader = clients(), clients()
    holder.run("begin")
    holder.run(f"lock {table}")

    with waits(server, reader, lambda: reader.value(f"select count(*) from {table}")) as waiting:
        holder.run("commit")
        assert waiting.done() == 2


def test_lock_takes_no_snapshot(clients: Clients, client: Client, table: str) -> None:
    fence = client.table("epoch integer")
    holder = clients()
    holder.run("begin")
    holder.run(f"lock table {fence}")
    client.run(f"insert into {table} values (3, 3)")

    assert holder.value(f"select count(*) from {table}") == 3


def test_begin_takes_no_snapshot_and_the_first_select_does(clients: Clients, client: Client, table: str) -> None:
    reader = clients()
    reader.run("begin")
    client.run(f"insert into {table} values (3, 3)")
    first = reader.value(f"select count(*) from {table}")
    client.run(f"insert into {table} values (4, 4)")

    assert (first, reader.value(f"select count(*) from {table}")) == (3, 3)
    reader.run("commit")
    assert reader.value(f"select count(*) from {table}") == 4


def test_writer_that_waited_conflicts_over_the_same_rows(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    first, second = clients(), clients()
    first.run("begin")
    first.run(f"delete from {table} where k = 1")

    with waits(server, second, lambda: second.run(f"delete from {table} where k = 1")) as waiting:
        first.run("commit")
        fields = waiting.fields()

    assert (fields["C"], fields["M"]) == ("XX000", "1023")
    assert "Serializable isolation violation on table" in fields["D"]


def test_conflict_fails_the_whole_transaction(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    first, second = clients(), clients()
    other = first.table("a integer")
    second.run("begin")
    second.run(f"insert into {other} values (1)")
    first.run(f"update {table} set v = 9 where k = 1")

    assert second.refused(f"update {table} set v = 8 where k = 1")["M"] == "1023"
    assert second.refused("select 1")["C"] == "25P02"
    second.run("rollback")

    assert first.value(f"select count(*) from {other}") == 0
    assert first.value(f"select v from {table} where k = 1") == 9


def test_writers_of_different_rows_both_commit(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    first, second = clients(), clients()
    first.run("begin")
    first.run(f"update {table} set v = 10 where k = 1")

    with waits(server, second, lambda: second.run(f"update {table} set v = 20 where k = 2")) as waiting:
        first.run("commit")
        waiting.done()

    assert first.rows(f"select k, v from {table} order by k") == [[1, 10], [2, 20]]


def test_two_sessions_that_read_the_ledger_before_the_lock_double_a_batch(
    server: RedshiftStandIn, clients: Clients, table: str
) -> None:
    """Correction 5 of the facts: the second reads in a snapshot that is older than the first's commit."""
    first, second = clients(), clients()
    for session in (first, second):
        session.run("begin")
        assert session.value(f"select count(*) from {table} where k = 7") == 0
    first.run(f"insert into {table} values (7, 7)")

    with waits(server, second, lambda: second.run(f"insert into {table} values (7, 7)")) as waiting:
        first.run("commit")
        waiting.done()
    second.run("commit")

    assert first.value(f"select count(*) from {table} where k = 7") == 2


def test_two_sessions_that_lock_first_land_it_once(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    first, second = clients(), clients()
    fence = first.table("epoch integer")
    first.run("begin")
    first.run(f"lock {fence}")
    second.run("begin")
    with waits(server, second, lambda: second.run(f"lock {fence}")) as waiting:
        first.run(f"insert into {table} values (7, 7)")
        first.run("commit")
        waiting.done()

    assert second.value(f"select count(*) from {table} where k = 7") == 1


def outcome(session: Client, sql: str) -> str:
    """What becomes of the statement; a refused one gives its locks back."""
    try:
        session.run(sql)
    except ProgrammingError as error:
        session.run("rollback")
        return str(error.args[0]["M"])
    return "done"


def test_tables_taken_in_opposite_order_deadlock(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    first, second = clients(), clients()
    other = first.table("a integer")
    first.run("begin")
    second.run("begin")
    first.run(f"insert into {table} values (3, 3)")
    second.run(f"insert into {other} values (1)")

    with waits(server, first, lambda: outcome(first, f"insert into {other} values (2)")) as waiting:
        outcomes = [outcome(second, f"insert into {table} values (4, 4)"), waiting.done()]

    assert sorted(outcomes) == ["deadlock detected", "done"]


def test_table_made_after_the_snapshot_does_not_exist_in_it(clients: Clients, client: Client, table: str) -> None:
    reader = clients()
    reader.run("begin")
    reader.value(f"select count(*) from {table}")
    newer = client.table("a integer")

    assert reader.refused(f"select * from {newer}")["M"] == "1018"
    reader.run("rollback")
    reader.run("begin")
    reader.value(f"select count(*) from {table}")
    newest = client.table("a integer")
    assert reader.refused(f"insert into {newest} values (1)")["M"] == "1018"


def test_error_aborts_the_block_until_rollback(client: Client, table: str) -> None:
    client.run("begin")
    client.run(f"insert into {table} values (3, 3)")
    client.refused(f"insert into {table} values ('x', 3)")

    assert client.refused("select 1")["C"] == "25P02"
    assert client.refused("select nonsense(")["C"] in {"25P02", "42601"}
    client.run("commit")

    assert client.value(f"select count(*) from {table}") == 2


def test_refusal_of_the_stand_in_aborts_the_block_as_well(client: Client, table: str) -> None:
    client.run("begin")
    client.run(f"insert into {table} values (3, 3)")
    client.refused("savepoint s")

    assert client.refused("select 1")["C"] == "25P02"
    client.run("rollback")
    assert client.value(f"select count(*) from {table}") == 2


def test_begin_inside_and_rollback_outside_are_no_errors(client: Client) -> None:
    client.run("rollback")
    client.run("begin")
    client.run("begin")
    client.run("rollback")
    client.run("commit")


def test_alter_waits_for_readers_in_a_block(server: RedshiftStandIn, clients: Clients, table: str) -> None:
    reader, owner = clients(), clients()
    reader.run("begin")
    reader.value(f"select count(*) from {table}")

    with waits(server, owner, lambda: owner.run(f"alter table {table} add column w integer")) as waiting:
        reader.run("commit")
        waiting.done()


def test_statement_timeout_counts_the_wait_for_a_lock(clients: Clients, table: str) -> None:
    holder, other = clients(), clients()
    holder.run("begin")
    holder.run(f"insert into {table} values (3, 3)")
    other.run("set statement_timeout to 2000")

    fields = other.refused(f"insert into {table} values (4, 4)")

    assert fields["C"] == "57014"
    assert fields["M"] == f"Query ({other.value('select pg_backend_pid()')}) canceled on user's request"


def test_lock_outside_a_block_is_refused(client: Client, table: str) -> None:
    client.refused(f"lock {table}")
    client.refused(f"lock {table} in share mode")


def test_database_tells_its_isolation(client: Client) -> None:
    sql = "select database_isolation_level from svv_redshift_databases where database_name = 'dev'"

    assert client.value(sql) == "Snapshot Isolation"


def test_serializable_database_refuses_a_cycle(s3_url: str) -> None:
    with RedshiftStandIn(isolation=Isolation.SERIALIZABLE, lake=CopyStorage(endpoint=s3_url)) as server:
        clients = Clients(server)
        first, second = clients(), clients()
        a, b = first.table("n integer"), first.table("n integer")
        for session in (first, second):
            session.run("begin")
        first.run(f"insert into {a} select count(*) from {b}")
        second.run(f"insert into {b} select count(*) from {a}")
        first.run("commit")

        assert second.refused("commit")["M"] == "1023"
        assert first.value("select isolation_level from stv_db_isolation_level") == "Serializable"
        clients.close()


@pytest.mark.parametrize(
    "sql",
    [
        "select set_config('default_transaction_isolation', 'read committed', false)",
        "select set_config('transaction_isolation', 'read committed', true)",
        "select pg_catalog.set_config('default_transaction_isolation', 'read committed', false)",
    ],
)
def test_no_session_talks_itself_out_of_its_snapshot(clients: Clients, client: Client, table: str, sql: str) -> None:
    reader = clients()
    reader.refused(sql)

    reader.run("begin")
    reader.value(f"select count(*) from {table}")
    client.run(f"insert into {table} values (3, 3)")

    assert reader.value(f"select count(*) from {table}") == 2


@pytest.mark.fact("11.8")
def test_table_that_two_sessions_make_at_once_exists_already(server: RedshiftStandIn, clients: Clients) -> None:
    first, second = clients(), clients()
    name = f"t{next(numbers)}"
    first.run("begin")
    first.run(f"create table {name} (a integer)")

    with waits(server, second, lambda: second.run(f"create table {name} (a integer)")) as waiting:
        first.run("commit")
        fields = waiting.fields()

    assert (fields["C"], fields["M"]) == ("42P07", f'Relation "{name}" already exists')
