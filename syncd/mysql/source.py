"""One MySQL server as the source: its identity, its table descriptions and small query results, over a pool."""

import math
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from pymysql.constants import CR

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import RunningPass
from syncd.datatypes.mysql_quoting import decode_text, quote_table
from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.errors import ServerChanged, SourceDown, SourceUnfit, ValueRefused
from syncd.events import WaitKind, WaitReason
from syncd.mysql.connection import DRIVER_ERRORS, Connection, OpenConnection, map_error, shut_down
from syncd.mysql.horizon_poll import Poller
from syncd.mysql.introspection import read_table_description
from syncd.mysql.replica import read_replication
from syncd.mysql.sql import identity_sql, is_read_only_setting
from syncd.ports.request_stats import CallObserver, SourceQueried, SourceQueryPurpose, ignore_call
from syncd.settings import SourceSettings

QUERY_KIND: Final = "questions"
MAX_CONNECTION_AGE_SECONDS: Final = 300.0
"""Longest use of one connection: after a failover the old server may stay reachable over it."""

_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_CONNECTION_LOST_CODES: Final = frozenset(
    {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_SERVER_LOST_EXTENDED, 4031, 1927}
)
"""The connection is gone; MySQL and MariaDB send 4031 and 1927 when they close one."""
_BYTE_ENCODING: Final = "latin-1"
"""An encoding in which every byte is a character."""

T = TypeVar("T")
ServerAction: TypeAlias = Callable[[Connection, ServerInfo, SourceSettings], T]
"""Work over one connection, with the server that answers on it."""


class SourceConnection:
    """One connection to the source; opened on first use, and once more if it was lost while it was idle."""

    def __init__(self, settings: SourceSettings, opener: OpenConnection, *, meter: CallObserver = ignore_call) -> None:
        self._settings = settings
        self._open = opener
        self._meter = meter
        self._connection: Connection | None = None
        self._aborted = False
        self.opened_at = -math.inf
        """Start of opening the connection, on the monotonic clock."""
        self.server: ServerInfo | None = None
        """The server that answered last; None if none did. Its read-only state may change."""

    @property
    def is_reusable(self) -> bool:
        """Return whether the connection is open and ready for the next query."""
        return not self._aborted and self._connection is not None and self._connection.open

    @property
    def identity(self) -> str | None:
        """Identity of the server that answered last; None if none did."""
        return self.server.identity if self.server is not None else None

    def abort(self) -> None:
        """Stop the current query, from any thread: it fails like a lost connection, and so does every later query."""
        self._aborted = True
        connection = self._connection
        if connection is not None:
            shut_down(connection)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()

    def fetch_rows(self, sql: str, *, database: str | None = None) -> Sequence[tuple[Any, ...]]:
        """Return all rows of a small result; `database` is the one that is queried, for the hint of an error."""
        try:
            return self._run(lambda connection: _fetch_rows(connection, sql), database)
        except UnicodeDecodeError as error:
            self.close()  # the rest of the result is still in transit
            place = f"{self._settings.host}:{self._settings.port}"
            near = error.object[error.start :][:8].hex().upper()
            raise ValueRefused(
                f"MySQL at {place} returned the bytes {near}, which are not valid UTF-8",
                hint="A text in a key is not valid in its character set. Fix that row, or name another unique key of"
                " the table in the stream's `key`.",
            ) from error

    def fetch_raw_rows(self, sql: str, *, database: str) -> Sequence[tuple[Any, ...]]:
        """Return rows whose texts may hold any bytes, each decoded as a character."""
        return self._run(lambda connection: _fetch_raw_rows(connection, sql), database)

    def run(self, action: ServerAction[T]) -> T:
        """Run an action over one live connection, after asking which server answers on it.

        All that an action reads comes from one server: what one server says means nothing to another.
        """
        return self._run(lambda connection: action(connection, self._read_server(connection), self._settings))

    def get_server_info(self) -> ServerInfo:
        return self.run(lambda _connection, server, _settings: server)

    def _run(self, ask: Callable[[Connection], T], database: str | None = None) -> T:
        """Ask on a live connection; a connection that was lost while it was idle is replaced, once."""
        started = time.monotonic()
        try:
            if self._connection is not None:
                try:
                    return ask(self._connection)
                except DRIVER_ERRORS as error:
                    if self._aborted or not _is_lost_connection(error):
                        raise
                    self.close()
            return ask(self._open_connection())
        except DRIVER_ERRORS as error:
            mapped = map_error(error, self._settings, database=database)
            if not isinstance(mapped, SourceUnfit):
                # After an interruption in the middle of a result the connection is out of step.
                self.close()
            raise mapped from error
        except SourceDown:
            self.close()  # the next bytes on this connection may answer an earlier query
            raise
        finally:
            seconds = time.monotonic() - started
            self._meter(SourceQueried(source=self._settings.name, purpose=SourceQueryPurpose.PLAN, seconds=seconds))

    def _open_connection(self) -> Connection:
        self._require_not_aborted()
        self.opened_at = time.monotonic()
        self._connection = self._open()
        self._require_not_aborted()
        self.server = _identify_server(self._connection)
        return self._connection

    def _require_not_aborted(self) -> None:
        if self._aborted:
            self.close()
            raise SourceDown("the connection was aborted")

    def _read_server(self, connection: Connection) -> ServerInfo:
        assert self.server
        sql = f"SELECT {identity_sql(mariadb=self.server.mariadb)}, @@global.read_only, @@global.innodb_read_only"
        [(identity, read_only, innodb_read_only)] = _fetch_rows(connection, sql)
        self.server = replace(
            self.server,
            identity=decode_text(identity),
            read_only=is_read_only_setting(read_only) or is_read_only_setting(innodb_read_only),
        )
        return self.server


SourceConnectionPool: TypeAlias = ResourcePool[SourceConnection | Poller]
"""The connection slots of one server, with its idle connections."""


class MySqlSource:
    """The port `SourceDatabase` for one pass, or for all: each query borrows a connection.

    No connection is held between queries, so none is held while the pass waits for something else. All answers come
    from one server. If another server answers, every open connection is discarded and its answers count from then on.

    Without a `pool` the source has one connection of its own, until `close`.
    """

    def __init__(
        self,
        settings: SourceSettings,
        opener: OpenConnection,
        *,
        pool: SourceConnectionPool | None = None,
        running_pass: RunningPass = NO_PASS,
        meter: CallObserver = ignore_call,
    ) -> None:
        self._settings = settings
        self._make_connection = partial(SourceConnection, settings, opener, meter=meter)
        self._owns_pool = pool is None
        self._pool: SourceConnectionPool = ResourcePool(1) if pool is None else pool
        self._running_pass = running_pass
        self._identity: str | None = None
        """The server that answered last."""

    @contextmanager
    def borrow(self) -> Generator[SourceConnection]:
        """Yield a connection for a while; the end of the pass aborts it.

        Raises:
            PassStopped: the pass was ended, before or meanwhile.
            ServerChanged: another server answered than before.
        """
        idle = self._pool.acquire(self._running_pass, kind=QUERY_KIND)
        connection = idle if isinstance(idle, SourceConnection) else self._make_connection()
        try:
            with self._running_pass.call_on_end(connection.abort):
                yield connection
                self._require_same_server(connection)
        except SourceUnfit:
            raise  # the result was read to its end
        except BaseException as error:
            connection.close()  # the next bytes on this connection may answer an earlier query
            if self._running_pass.is_ended and isinstance(error, Exception):
                raise self._running_pass.stop_error() from error
            raise
        finally:
            if connection.is_reusable:
                self._pool.put_idle(connection, kind=QUERY_KIND)
            else:
                connection.close()
                self._pool.release()

    def _require_same_server(self, connection: SourceConnection) -> None:
        before, now = self._identity, connection.identity
        self._identity = now
        if before not in {None, now}:
            self._pool.close()
            raise ServerChanged(
                f"the source was server {before} and is now server {now}", hint="The next pass starts over."
            )

    def discard_connections(self) -> None:
        """Close idle connections now, and borrowed ones when they are returned."""
        self._identity = None
        self._pool.close()

    def close(self) -> None:
        """Close the source's own connection; a pool that was given stays open."""
        if self._owns_pool:
            self._pool.close()

    def fetch_rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Return all rows of a small result."""
        with self.borrow() as connection:
            return connection.fetch_rows(sql)

    def run(self, action: ServerAction[T]) -> T:
        """Run an action over one borrowed connection; see `SourceConnection.run`."""
        with self.borrow() as connection:
            return connection.run(action)

    def get_server_info(self) -> ServerInfo:
        with self.borrow() as connection:
            return connection.get_server_info()

    def find_overload(self) -> str | None:
        """Return why the source should not be read now; None if no limit is set or exceeded."""
        return self.run(find_overload_reason)

    def describe_table(self, database: str, name: str) -> SourceTable:
        """Return the current description of a table, with every column."""
        # One connection for all of it: the queries depend on the version of the server that answers them.
        with self.borrow() as connection:
            # A user with rights on some columns sees only these in information_schema. SELECT * fails for that user.
            connection.fetch_rows(f"SELECT * FROM {quote_table(database, name)} LIMIT 0", database=database)
            server = connection.server
            assert server
            table = read_table_description(
                connection.fetch_rows, database, name, version=server.version, mariadb=server.mariadb
            )
            if table is None:
                user = self._settings.user
                raise SourceUnfit(
                    f"table {database}.{name} does not exist or is not visible to user {user}",
                    hint=f"Check its name, or: GRANT SELECT ON {database}.* TO {user}",
                )
            return table

    def show_create_table(self, database: str, name: str) -> str:
        """Return the statement that SHOW CREATE TABLE prints."""
        with self.borrow() as connection:
            rows = connection.fetch_raw_rows(f"SHOW CREATE TABLE {quote_table(database, name)}", database=database)
        text = rows[0][1]
        raw = text if isinstance(text, bytes) else str(text).encode(_BYTE_ENCODING)
        return raw.decode(errors="backslashreplace")

    def kill_statements(self, marker: str) -> None:
        """Kill our connections whose current statement contains the marker."""
        for row in self.fetch_rows("SHOW FULL PROCESSLIST"):
            if marker in str(row[7] or ""):
                with suppress(SourceUnfit):  # it has already ended
                    self.fetch_rows(f"KILL {int(row[0])}")


def _is_lost_connection(error: BaseException) -> bool:
    """Return whether an error only says that the connection is lost, so that the query may be sent again."""
    return (not error.args or error.args[0] in {*_CONNECTION_LOST_CODES, 0}) and not _is_timeout(error)


def _is_timeout(error: BaseException) -> bool:
    """Return whether a wait timed out: the server may still run the query, so it must not be sent again."""
    return isinstance(error.__cause__ or error.__context__, TimeoutError) or "timed out" in str(error)


def _identify_server(connection: Connection) -> ServerInfo:
    """Return the server on a connection; asked once, because a connection never changes its server."""
    [(raw,)] = _fetch_rows(connection, "SELECT VERSION()")
    text = str(raw)
    match = _VERSION.match(text)
    if match is None:
        raise SourceUnfit(f"the source reports the unknown version {text!r}", hint="Check that it is MySQL or MariaDB.")
    mariadb = "mariadb" in text.lower()
    [(identity,)] = _fetch_rows(connection, f"SELECT {identity_sql(mariadb=mariadb)}")
    version = (int(match[1]), int(match[2]), int(match[3]))
    return ServerInfo(identity=decode_text(identity), version=version, mariadb=mariadb)


def _fetch_rows(connection: Connection, sql: str) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(cursor.fetchall())


def _fetch_raw_rows(connection: Connection, sql: str) -> Sequence[tuple[Any, ...]]:
    """Return rows that may hold undecodable bytes: SHOW CREATE TABLE prints the default of a binary column raw."""
    encoding, connection.encoding = connection.encoding, _BYTE_ENCODING
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql.encode())
            return tuple(cursor.fetchall())
    finally:
        connection.encoding = encoding


def find_overload_reason(connection: Connection, server: ServerInfo, settings: SourceSettings) -> str | None:
    """Return why the server should not be read now; None if no limit is set or exceeded.

    Raises:
        SourceUnfit: the user may not see the replica's lag.
    """
    max_threads, max_lag = settings.max_threads_running, settings.max_replica_lag
    if max_threads is not None:
        running = int(_fetch_rows(connection, "SHOW GLOBAL STATUS LIKE 'Threads_running'")[0][1])
        if running > max_threads:
            text = f"{running} threads run at {settings.host}, more than {max_threads}"
            return WaitReason(text, WaitKind.THROTTLED)
    replication = None if max_lag is None else read_replication(connection, server, settings)
    if max_lag is None or replication is None:
        return None
    if replication.lag is None:
        return WaitReason(f"the replica {settings.host} reports no lag", WaitKind.THROTTLED)
    if replication.lag > max_lag:
        text = f"the replica {settings.host} is {replication.lag} behind, more than {max_lag}"
        return WaitReason(text, WaitKind.THROTTLED)
    return None
