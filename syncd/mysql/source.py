"""One MySQL server as the source: its identity, its table descriptions and small query results."""

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from pymysql.constants import CR

from syncd.datatypes.mysql_quoting import decode_text, quote_table
from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.errors import SourceDown, SourceUnfit, ValueRefused
from syncd.events import WaitKind, WaitReason
from syncd.mysql.connection import DRIVER_ERRORS, Connection, OpenConnection, map_error, shut_down
from syncd.mysql.introspection import read_table_description
from syncd.mysql.replica import read_replication
from syncd.mysql.sql import identity_sql, is_read_only_setting
from syncd.ports.request_stats import CallObserver, SourceQueried, SourceQueryPurpose, ignore_call
from syncd.settings import SourceSettings

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


class MySqlSource:
    """One server over one connection; opened on first use and reopened after it was lost."""

    def __init__(self, settings: SourceSettings, opener: OpenConnection, *, meter: CallObserver = ignore_call) -> None:
        self._settings = settings
        self._open = opener
        self._meter = meter
        self._connection: Connection | None = None
        self._server: ServerInfo | None = None
        """The server on that connection; its read-only state may change."""
        self._aborted = False
        self.opened_at = -math.inf
        """Start of opening that connection, on the monotonic clock."""

    @property
    def is_reusable(self) -> bool:
        """Return whether an open connection is ready for the next query."""
        return not self._aborted and self._connection is not None and self._connection.open

    @property
    def identity(self) -> str | None:
        """Identity of the server that answered last; None if none did."""
        return self._server.identity if self._server is not None else None

    def abort(self) -> None:
        """Stop the current query, from any thread: it fails like a lost connection, and so does every later query."""
        self._aborted = True
        connection = self._connection
        if connection is not None:
            shut_down(connection)

    def get_server_info(self) -> ServerInfo:
        return self.run(lambda _connection, server, _settings: server)

    def describe_table(self, database: str, name: str) -> SourceTable:
        """Return the current description of a table, with every column."""
        # A user with rights on some columns sees only these in information_schema. SELECT * fails for that user.
        self._query(f"SELECT * FROM {quote_table(database, name)} LIMIT 0", database)
        assert self._server
        table = read_table_description(
            self.fetch_rows, database, name, version=self._server.version, mariadb=self._server.mariadb
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
        sql = f"SHOW CREATE TABLE {quote_table(database, name)}"
        try:
            row: Sequence[Any] = self._run_metered(lambda connection: _fetch_raw_rows(connection, sql)[0])
        except DRIVER_ERRORS as error:
            raise self._map_error(error, database) from error
        text = row[1] if isinstance(row[1], bytes) else str(row[1]).encode(_BYTE_ENCODING)
        return text.decode(errors="backslashreplace")

    def fetch_rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Return all rows of a small result."""
        return self._query(sql, None)

    def find_overload(self) -> str | None:
        """Return why the source should not be read now; None if no limit is set or exceeded."""
        return self.run(find_overload_reason)

    def discard_connections(self) -> None:
        """Use a new connection for the next query."""
        self.close()

    def kill_statements(self, marker: str) -> None:
        """Kill our connections whose current statement contains the marker."""
        for row in self.fetch_rows("SHOW FULL PROCESSLIST"):
            if marker in str(row[7] or ""):
                with suppress(SourceUnfit):  # it has already ended
                    self.fetch_rows(f"KILL {int(row[0])}")

    def run(self, action: ServerAction[T]) -> T:
        """Run an action over one live connection, after asking which server answers on it.

        All that an action reads comes from one server: what one server says means nothing to another.
        """
        try:
            result: T = self._run_metered(
                lambda connection: action(connection, self._read_server(connection), self._settings)
            )
        except DRIVER_ERRORS as error:
            raise self._map_error(error, None) from error
        except SourceDown:
            self.close()  # the next bytes on this connection may answer an earlier query
            raise
        return result

    def _read_server(self, connection: Connection) -> ServerInfo:
        assert self._server
        sql = f"SELECT {identity_sql(mariadb=self._server.mariadb)}, @@global.read_only, @@global.innodb_read_only"
        [(identity, read_only, innodb_read_only)] = _fetch_rows(connection, sql)
        self._server = replace(
            self._server,
            identity=decode_text(identity),
            read_only=is_read_only_setting(read_only) or is_read_only_setting(innodb_read_only),
        )
        return self._server

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()

    def _query(self, sql: str, database: str | None) -> Sequence[tuple[Any, ...]]:
        try:
            rows: Sequence[tuple[Any, ...]] = self._run_metered(lambda connection: _fetch_rows(connection, sql))
        except DRIVER_ERRORS as error:
            raise self._map_error(error, database) from error
        except UnicodeDecodeError as error:
            self.close()  # the rest of the result is still in transit
            place = f"{self._settings.host}:{self._settings.port}"
            near = error.object[error.start :][:8].hex().upper()
            raise ValueRefused(
                f"MySQL at {place} returned the bytes {near}, which are not valid UTF-8",
                hint="A text in a key is not valid in its character set. Fix that row, or name another unique key of"
                " the table in the stream's `key`.",
            ) from error
        return rows

    def _run_metered(self, ask: Callable[[Connection], T]) -> T:
        started = time.monotonic()
        try:
            return self._run_on_live_connection(ask)
        finally:
            seconds = time.monotonic() - started
            self._meter(SourceQueried(source=self._settings.name, purpose=SourceQueryPurpose.PLAN, seconds=seconds))

    def _run_on_live_connection(self, ask: Callable[[Connection], T]) -> T:
        """Run a query on a live connection; replace a connection that broke while it was idle, once."""
        if self._connection is not None:
            try:
                return ask(self._connection)
            except DRIVER_ERRORS as error:
                if (
                    (error.args[:1] and error.args[0] not in {*_CONNECTION_LOST_CODES, 0})
                    or _is_timeout(error)
                    or self._aborted
                ):
                    raise
                self.close()
        self._require_not_aborted()
        self.opened_at = time.monotonic()
        self._connection = self._open()
        self._require_not_aborted()
        self._server = _identify_server(self._connection)
        return ask(self._connection)

    def _require_not_aborted(self) -> None:
        if self._aborted:
            self.close()
            raise SourceDown("the connection was aborted")

    def _map_error(self, error: BaseException, database: str | None) -> Exception:
        mapped = map_error(error, self._settings, database=database)
        if not isinstance(mapped, SourceUnfit):
            # After an interruption in the middle of a result the connection is out of step.
            self.close()
        return mapped


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
        return WaitReason(f"the replica {settings.host} does not know how far behind it is", WaitKind.THROTTLED)
    if replication.lag > max_lag:
        text = f"the replica {settings.host} is {replication.lag} behind, more than {max_lag}"
        return WaitReason(text, WaitKind.THROTTLED)
    return None
