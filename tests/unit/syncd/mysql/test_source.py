"""The source over its connections: borrowed for a query, replaced when lost, and ended with the pass."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import pymysql
import pytest
from pymysql.constants import CR

from syncd.concurrency.resource_pool import ResourcePool
from syncd.concurrency.running_pass import RunningPass
from syncd.errors import PassStopped, ServerChanged, SourceDown, SourceUnfit, ValueRefused
from syncd.mysql.connection import Connection
from syncd.mysql.source import MySqlSource, SourceConnection, SourceConnectionPool
from syncd.settings import Secret, SourceSettings

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = SourceSettings(name="shop", host="db", user="sync", password=Secret(""))
LOST = pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server during query")
REFUSED = pymysql.err.ProgrammingError(1146, "Table 'shop.nil' doesn't exist")


class FakeConnection:
    """A connection to a MySQL 8.4 that answers each query with its own text."""

    def __init__(self, identity: str = "server-1") -> None:
        self.identity = identity
        self.open = True
        self.queries: list[str] = []
        self.errors: list[Exception] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing is open."""

    def execute(self, sql: str) -> None:
        self.queries.append(sql)
        self.meanwhile()
        if self.errors and sql.startswith("SELECT '"):
            raise self.errors.pop(0)

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        sql = self.queries[-1]
        if sql == "SELECT VERSION()":
            return [("8.4.3",)]
        if sql == "SELECT @@server_uuid":
            return [(self.identity,)]
        if sql.startswith("SELECT @@server_uuid,"):
            return [(self.identity, 0, 0)]
        return [(sql,)]

    def close(self) -> None:
        self.open = False


class FakeServer:
    """An address at which connections are opened."""

    def __init__(self) -> None:
        self.identity = "server-1"
        self.connections: list[FakeConnection] = []

    def open(self) -> Connection:
        self.connections.append(FakeConnection(self.identity))
        return cast("Connection", self.connections[-1])

    def source(self, pool: SourceConnectionPool | None = None, running_pass: RunningPass | None = None) -> MySqlSource:
        return MySqlSource(SETTINGS, self.open, pool=pool, running_pass=running_pass or RunningPass())


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def test_passes_share_the_connections_of_a_pool(server: FakeServer) -> None:
    pool: SourceConnectionPool = ResourcePool(1)

    server.source(pool).fetch_rows("SELECT 'a'")
    server.source(pool).fetch_rows("SELECT 'b'")

    assert len(server.connections) == 1


def test_a_source_without_a_pool_closes_its_own_connection(server: FakeServer) -> None:
    source = server.source()
    source.fetch_rows("SELECT 'a'")

    source.close()

    assert [each.open for each in server.connections] == [False]
    assert source.fetch_rows("SELECT 'b'") == (("SELECT 'b'",),)


def test_closing_a_source_leaves_the_pool_of_others_open(server: FakeServer) -> None:
    pool: SourceConnectionPool = ResourcePool(1)
    source = server.source(pool)
    source.fetch_rows("SELECT 'a'")

    source.close()

    assert server.connections[0].open


def test_a_connection_that_was_lost_while_idle_is_replaced_and_the_query_sent_again(server: FakeServer) -> None:
    source = server.source()
    source.fetch_rows("SELECT 'a'")
    server.connections[0].errors.append(LOST)

    assert source.fetch_rows("SELECT 'b'") == (("SELECT 'b'",),)

    assert [each.open for each in server.connections] == [False, True]


def test_a_fresh_connection_that_is_lost_is_not_replaced() -> None:
    connection = FakeConnection()
    connection.errors += [LOST, LOST]
    source = MySqlSource(SETTINGS, lambda: cast("Connection", connection))

    with pytest.raises(SourceDown, match="Lost connection"):
        source.fetch_rows("SELECT 'a'")

    assert connection.queries.count("SELECT 'a'") == 1
    assert not connection.open


def test_a_refused_query_leaves_the_connection_open(server: FakeServer) -> None:
    source = server.source()
    source.fetch_rows("SELECT 'a'")
    server.connections[0].errors.append(REFUSED)

    with pytest.raises(SourceUnfit, match=r"shop\.nil"):
        source.fetch_rows("SELECT 'b'")
    source.fetch_rows("SELECT 'c'")

    assert [each.open for each in server.connections] == [True]


def test_a_result_that_is_not_utf8_closes_the_connection(server: FakeServer) -> None:
    source = server.source()
    source.fetch_rows("SELECT 'a'")
    server.connections[0].errors.append(UnicodeDecodeError("utf-8", b"\xff\xfe", 0, 1, "invalid start byte"))

    with pytest.raises(ValueRefused, match="FFFE"):
        source.fetch_rows("SELECT 'b'")

    assert not server.connections[0].open


def test_another_server_behind_the_address_is_an_error_once(server: FakeServer) -> None:
    pool: SourceConnectionPool = ResourcePool(2)
    source = server.source(pool)
    source.fetch_rows("SELECT 'a'")
    server.connections[0].errors.append(LOST)
    server.identity = "server-2"

    with pytest.raises(ServerChanged, match="server-1 and is now server server-2"):
        source.fetch_rows("SELECT 'b'")

    assert not any(each.open for each in server.connections)
    assert source.get_server_info().identity == "server-2"


def test_the_end_of_the_pass_stops_its_query(server: FakeServer) -> None:
    running_pass = RunningPass("extract of shop.orders")
    source = server.source(running_pass=running_pass)
    source.fetch_rows("SELECT 'a'")
    connection = server.connections[0]
    connection.meanwhile = lambda: running_pass.end("it took too long")
    connection.errors.append(LOST)

    with pytest.raises(PassStopped, match="it took too long"):
        source.fetch_rows("SELECT 'b'")

    assert len(server.connections) == 1
    assert not connection.open


def test_every_query_is_measured_whether_or_not_it_fails(server: FakeServer) -> None:
    measured: list[object] = []
    connection = SourceConnection(SETTINGS, server.open, meter=measured.append)
    connection.fetch_rows("SELECT 'a'")
    server.connections[0].errors.append(REFUSED)

    with pytest.raises(SourceUnfit):
        connection.fetch_rows("SELECT 'b'")

    assert len(measured) == 2
