"""Sessions that know of each other: who holds what, and who may end whom."""

import pytest
from redshift_connector.error import Error

from tests.standin.clients import Client, Clients

pytestmark = [pytest.mark.services, pytest.mark.fact("11.14")]


def test_own_session_is_ended_and_its_transaction_rolled_back(clients: Clients, client: Client) -> None:
    table = client.table("a integer")
    victim = clients()
    pid = victim.value("select pg_backend_pid()")
    victim.run("begin")
    victim.run(f"lock {table}")
    victim.run(f"insert into {table} values (1)")

    assert client.value(f"select pg_terminate_backend({pid})") is True

    assert client.value(f"select count(*) from {table}") == 0
    with pytest.raises((Error, OSError, KeyError)):
        victim.run("commit")


def test_session_of_another_user_is_left_alone(clients: Clients, client: Client) -> None:
    other = clients(user="other", password="Other1")
    pid = other.value("select pg_backend_pid()")

    assert client.refused(f"select pg_terminate_backend({pid})")["C"] == "42501"
    assert other.value("select 1") == 1


@pytest.mark.parametrize(("view", "mode"), [("svv_transactions", "lock_mode"), ("pg_locks", "mode")])
def test_holder_of_a_lock_is_found(clients: Clients, client: Client, view: str, mode: str) -> None:
    table = client.table("a integer")
    holder = clients()
    holder.run("begin")
    holder.run(f"lock {table}")

    held = f"relation = (select '{table}'::regclass::oid) and granted and {mode} = 'AccessExclusiveLock'"

    assert client.rows(f"select distinct pid from {view} where {held}") == [[holder.value("select pg_backend_pid()")]]


def test_transactions_of_others_are_hidden(clients: Clients, client: Client) -> None:
    table = client.table("a integer")
    client.run("begin")
    client.run(f"lock {table}")
    other = clients(user="other", password="Other1")

    for view in ("svv_transactions", "pg_locks"):
        mine = client.value(f"select count(*) from {view} where relation = (select '{table}'::regclass::oid)")
        assert mine >= 1
        owner = client.value("select pg_backend_pid()")
        assert other.value(f"select count(*) from {view} where pid = {owner}") == 0


def test_transactions_tell_owner_database_and_start(client: Client) -> None:
    table = client.table("a integer")
    client.run("begin")
    client.run(f"insert into {table} values (1)")

    rows = client.rows(
        "select txn_owner, txn_db, xid is not null, lockable_object_type from svv_transactions"
        " where pid = pg_backend_pid() and relation is not null"
    )

    assert ["loader", "dev", True, "relation"] in rows


def test_sessions_tell_their_application(clients: Clients, client: Client) -> None:
    named = clients(application_name="syncd shop.orders epoch 7")
    pid = named.value("select pg_backend_pid()")

    sql = f"select application_name from sys_connection_log where session_id = {pid}"

    assert client.value(sql) == "syncd shop.orders epoch 7"
    assert client.value(f"select count(*) from stv_sessions where process = {pid}") == 1


def test_activity_has_the_columns_of_postgresql_8(client: Client) -> None:
    assert client.value("select count(*) from pg_stat_activity where procpid = pg_backend_pid()") == 1
    client.refused("select pid from pg_stat_activity")


def test_locked_table_keeps_nobody_from_the_list_of_tables(clients: Clients, client: Client) -> None:
    table = client.table("a integer")
    client.run(f"insert into {table} values (1)")
    holder = clients()
    holder.run("begin")
    holder.run(f"lock {table}")
    client.run("set statement_timeout to 60000")

    assert client.value(f"select count(*) from svv_table_info where \"table\" <> '{table}'") >= 0
