"""Each fault of MySQL: what the client sees, and what the server holds afterwards."""

from collections.abc import Iterator
from dataclasses import replace

import pymysql
import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.sandbox.faults.tcp import TcpProxy
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.schema import count_rows, drop_tables
from syncd.sandbox.shop.seed import ShopSize, seed_shop
from syncd.sandbox.shop.writer import ShopWriter

pytestmark = pytest.mark.services
LOST = (pymysql.err.OperationalError, pymysql.err.InterfaceError)
SILENCE = 3.0
"""Seconds: a server that is busy greets sooner."""


@pytest.fixture
def table(own: Sandbox) -> MySqlAddress:
    """A server with one empty table, `t`."""
    with own.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    return own.mysql


@pytest.fixture
def wire(table: MySqlAddress) -> Iterator[TcpProxy]:
    with TcpProxy(table.port) as proxy:
        yield proxy


def rows(address: MySqlAddress) -> list[int]:
    with address.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM t ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


def open_transactions(address: MySqlAddress) -> int:
    with address.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_rows_modified > 0")
        return int(cursor.fetchone()[0])


def test_a_killed_connection_loses_what_it_had_not_committed(table: MySqlAddress) -> None:
    with table.connect() as client, client.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        client.begin()
        cursor.execute("INSERT INTO t VALUES (2)")

        assert table.cut_connections() == 1

        with pytest.raises(LOST):
            cursor.execute("INSERT INTO t VALUES (3)")
    assert wait_until(lambda: open_transactions(table) == 0, timeout_seconds=60)
    assert rows(table) == [1]


def test_a_cut_wire_loses_what_was_not_committed(table: MySqlAddress, wire: TcpProxy) -> None:
    through = replace(table, port=wire.port)
    with through.connect() as client, client.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        client.begin()
        cursor.execute("INSERT INTO t VALUES (2)")

        assert wire.cut() == 1

        with pytest.raises(LOST):
            cursor.execute("INSERT INTO t VALUES (3)")
    assert wait_until(lambda: open_transactions(table) == 0, timeout_seconds=60)
    assert rows(table) == [1]
    with through.connect() as client, client.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (4)")
    assert rows(table) == [1, 4]


def test_a_frozen_wire_is_noticed_by_a_time_limit_alone(table: MySqlAddress, wire: TcpProxy) -> None:
    through = replace(table, port=wire.port)
    with through.connect(timeout_seconds=SILENCE) as client, client.cursor() as cursor:
        wire.freeze()

        with pytest.raises(LOST, match="timed out"):
            cursor.execute("INSERT INTO t VALUES (1)")

        assert rows(table) == []


def test_what_was_sent_into_a_frozen_wire_may_still_arrive(table: MySqlAddress, wire: TcpProxy) -> None:
    """Why an outcome is unknown, not failed: the client gave up, and the row appears afterwards."""
    through = replace(table, port=wire.port)
    with through.connect(timeout_seconds=SILENCE) as client, client.cursor() as cursor:
        wire.freeze()
        with pytest.raises(LOST):
            cursor.execute("INSERT INTO t VALUES (1)")
        assert rows(table) == []

        wire.thaw()

        assert wait_until(lambda: rows(table) == [1], timeout_seconds=60)


def test_a_refusing_port_stops_new_connections_only(table: MySqlAddress, wire: TcpProxy) -> None:
    through = replace(table, port=wire.port)
    with through.connect() as client, client.cursor() as cursor:
        wire.refuse()

        with pytest.raises(pymysql.err.OperationalError, match="refused"):
            through.connect()

        cursor.execute("INSERT INTO t VALUES (1)")
    wire.accept()
    with through.connect() as client, client.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (2)")
    assert rows(table) == [1, 2]


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_keeps_what_was_committed_and_the_port(own: Sandbox, table: MySqlAddress, *, kill: bool) -> None:
    with table.connect() as client, client.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        client.begin()
        cursor.execute("INSERT INTO t VALUES (2)")

        standing = own.restart("mysql", kill=kill)

        with pytest.raises(LOST):
            cursor.execute("INSERT INTO t VALUES (3)")
    assert standing.port == table.port
    assert own.mysql == table
    assert rows(table) == [1]


def test_a_writer_goes_on_through_cuts_and_counts_what_it_cannot_know(own: Sandbox) -> None:
    with own.mysql.connect() as connection:
        drop_tables(connection)
        seed_shop(connection, ShopSize(orders=500))
        before = count_rows(connection)
    with TcpProxy(own.mysql.port) as wire, ShopWriter(replace(own.mysql, port=wire.port), rate=400) as writer:
        for cuts in range(1, 6):
            assert wait_until(lambda seen=cuts: writer.summary().transactions >= 40 * seen, timeout_seconds=120)  # type: ignore[misc]  # mypy infers no type for a lambda's default
            wire.cut()
        done = writer.stop()

    with own.mysql.connect() as connection:
        after = count_rows(connection)
    assert done.failed + done.unknown >= 1
    grown = after["orders"] - before["orders"]
    known = done.inserted.get("orders", 0) - done.deleted.get("orders", 0)
    assert abs(grown - known) <= done.unknown
