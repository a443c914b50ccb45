"""The source over PyMySQL: who answers, what a table looks like, and small answers."""

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from pymysql.constants import CR, ER

from syncd.datatypes.mysql_quoting import quote_table
from syncd.datatypes.source_table import ServerInfo, SourceTable
from syncd.errors import SourceDown, SourceUnfit, ValueRefused
from syncd.mysql.connection import DRIVER_ERRORS, Connection, OpenConnection, map_error, shut_down
from syncd.mysql.introspection import read_table_description
from syncd.mysql.replica import (
    BinaryLog,
    CaughtUpReplica,
    Replication,
    find_slowest_channel,
    read_channels,
    read_log_end,
    read_replication,
    require_channel_to,
    wait_until_applied,
)
from syncd.mysql.sql import identity_sql, is_read_only_setting, parse_identity
from syncd.mysql.throttle import find_throttle_reason
from syncd.ports.request_stats import CallObserver, SourceQueried, SourceQueryPurpose, ignore_call
from syncd.settings import SourceSettings

_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_CONNECTION_LOST_CODES: Final = frozenset(
    {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_SERVER_LOST_EXTENDED, 4031, 1927}
)
"""The connection is gone; 4031 and 1927 are what MySQL and MariaDB say last to one that they ended."""
_BYTE_ENCODING: Final = "latin-1"
"""Every byte is a character of it."""
_NO_STATEMENT: Final = frozenset({ER.PARSE_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.SYNTAX_ERROR})

Answer = TypeVar("Answer")


class MySqlSource:
    """One server, over one connection that is opened when it is first needed, and again when it was lost."""

    def __init__(self, settings: SourceSettings, opener: OpenConnection, *, meter: CallObserver = ignore_call) -> None:
        self._settings = settings
        self._open = opener
        self._meter = meter
        self._connection: Connection | None = None
        self._server: ServerInfo | None = None
        """Who answers on that connection; whether it is read-only may change."""
        self._aborted = False
        self.opened_at = -math.inf
        """When that connection was begun to be opened, on the monotonic clock."""

    @property
    def is_reusable(self) -> bool:
        """Whether a connection is open on which the next question can be asked."""
        return not self._aborted and self._connection is not None and self._connection.open

    @property
    def identity(self) -> str | None:
        """The server that answered last; None where none did."""
        return self._server.identity if self._server is not None else None

    def abort(self) -> None:
        """End what is asked, from any thread: it fails as if the line had broken, and nothing is asked any more."""
        self._aborted = True
        connection = self._connection
        if connection is not None:
            shut_down(connection)

    def get_server_info(self) -> ServerInfo:
        """Which server answers now."""
        return self._run_mapping_errors(self._read_server)

    def describe_table(self, database: str, name: str) -> SourceTable:
        """The table as it is now, with every column."""
        # Whoever may read but some columns is shown only these; the server says so when all are asked for.
        self._query(f"SELECT * FROM {quote_table(database, name)} LIMIT 0", database)
        assert self._server
        found = read_table_description(
            self._query_plain, database, name, version=self._server.version, mariadb=self._server.mariadb
        )
        if found is None:
            raise SourceUnfit(f"{database}.{name} is not to be seen", hint=self._grant_hint(database))
        return found

    def show_create_table(self, database: str, name: str) -> str:
        """The statement that SHOW CREATE TABLE prints."""
        sql = f"SHOW CREATE TABLE {quote_table(database, name)}"
        try:
            row: Sequence[Any] = self._run_metered(lambda connection: _fetch_raw_rows(connection, sql)[0])
        except DRIVER_ERRORS as error:
            raise self._map_error(error, database) from error
        text = row[1] if isinstance(row[1], bytes) else str(row[1]).encode(_BYTE_ENCODING)
        return text.decode(errors="backslashreplace")

    def fetch_rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        """All rows of a small answer."""
        return self._query_plain(sql)

    def find_overload(self) -> str | None:
        """Why not to read now; None where no bound is set, or none is passed."""
        return self._run_mapping_errors(lambda at: find_throttle_reason(at, self._read_server(at), self._settings))

    def discard_connections(self) -> None:
        """Ask the next question over another connection."""
        self.close()

    def kill_statements(self, marker: str) -> None:
        """End the connections of ours whose statement holds these words."""
        for row in self._query_plain("SHOW FULL PROCESSLIST"):
            if marker in str(row[7] or ""):
                with suppress(SourceUnfit):  # it has ended by itself
                    self._query_plain(f"KILL {int(row[0])}")

    # Replication, where the source is a primary or its replica. Each answer comes over one connection: what one server
    # says means nothing to another.

    def read_binary_log(self) -> BinaryLog:
        """This server's binary log, as it ends now.

        Raises:
            SourceUnfit: it writes no such log, or does not let it be seen.
        """
        return self._run_mapping_errors(lambda at: read_log_end(at, self._read_server(at), self._settings))

    def read_replication_status(self) -> Replication | None:
        """How this server follows others; None if it does not."""
        return self._run_mapping_errors(lambda at: read_replication(at, self._read_server(at), self._settings))

    def wait_until_caught_up(self, log: BinaryLog) -> CaughtUpReplica:
        """Return once all that stands in the log of this very primary can be seen here.

        Raises:
            SourceDown: it could not in the time of `catch_up`, or replication does not run.
            SourceUnfit: it follows another server, or none.
        """
        settings = self._settings

        def caught_up(connection: Connection) -> CaughtUpReplica:
            server = self._read_server(connection)
            channels = read_channels(connection, server, settings)
            followed = require_channel_to(channels, primary_id=log.primary_id, settings=settings)
            within = settings.catch_up
            wait_until_applied(connection, server, settings, log.position, followed=followed, within=within)
            slowest_now = find_slowest_channel(read_channels(connection, server, settings)) if channels[1:] else None
            return CaughtUpReplica(
                identity=server.identity, slowest=slowest_now or followed, follows_several=len(channels) > 1
            )

        return self._run_mapping_errors(caught_up)

    def _read_server(self, connection: Connection) -> ServerInfo:
        assert self._server
        asked = f"SELECT {identity_sql(mariadb=self._server.mariadb)}, @@global.read_only, @@global.innodb_read_only"
        [(identity, read_only, closed)] = _fetch_rows(connection, asked)
        self._server = replace(
            self._server,
            identity=parse_identity(identity),
            read_only=is_read_only_setting(read_only) or is_read_only_setting(closed),
        )
        return self._server

    def _run_mapping_errors(self, ask: Callable[[Connection], Answer]) -> Answer:
        try:
            told: Answer = self._run_metered(ask)
        except DRIVER_ERRORS as error:
            raise self._map_error(error, None) from error
        except SourceDown:
            self.close()  # what comes next on this line may answer an older question
            raise
        return told

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()

    def _query_plain(self, sql: str) -> Sequence[tuple[Any, ...]]:
        return self._query(sql, None)

    def _query(self, sql: str, database: str | None) -> Sequence[tuple[Any, ...]]:
        try:
            rows: Sequence[tuple[Any, ...]] = self._run_metered(lambda connection: _fetch_rows(connection, sql))
        except DRIVER_ERRORS as error:
            raise self._map_error(error, database) from error
        except UnicodeDecodeError as error:
            self.close()  # the rest of the answer is still on its way
            place = f"{self._settings.host}:{self._settings.port}"
            near = error.object[error.start :][:8].hex().upper()
            raise ValueRefused(
                f"MySQL at {place} answers with the bytes {near}, which are no text",
                hint="Which text of a key is not valid in its character set? Mend that row, or name another unique key"
                " of the table in the stream's `key`.",
            ) from error
        return rows

    def _run_metered(self, ask: Callable[[Connection], Any]) -> Any:  # noqa: ANN401  # whatever is asked for
        """Ask on a live connection, and let it be counted."""
        began = time.monotonic()
        try:
            return self._run_on_live_connection(ask)
        finally:
            seconds = time.monotonic() - began
            self._meter(SourceQueried(source=self._settings.name, purpose=SourceQueryPurpose.PLAN, seconds=seconds))

    def _run_on_live_connection(self, ask: Callable[[Connection], Any]) -> Any:  # noqa: ANN401  # as above
        """Ask on a live connection: one that was cut while nothing was asked is replaced, once."""
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
            raise SourceDown("this connection was ended")

    def _map_error(self, error: BaseException, database: str | None) -> Exception:
        meant = map_error(error, self._settings, database=database)
        if not isinstance(meant, SourceUnfit):
            # After a cut in the midst of an answer nothing sensible follows on this connection.
            self.close()
        return meant

    def _grant_hint(self, database: str) -> str:
        return f"Is its name right? If so: GRANT SELECT ON {database}.* TO {self._settings.user}"


def _is_timeout(error: BaseException) -> bool:
    """Whether the answer did not come in time: the server may be at work on it still, and must not get it twice."""
    return isinstance(error.__cause__ or error.__context__, TimeoutError) or "timed out" in str(error)


def _identify_server(connection: Connection) -> ServerInfo:
    """Who answers: asked once, for what is at the end of a connection does not become another."""
    [(told,)] = _fetch_rows(connection, "SELECT VERSION()")
    named = str(told)
    match = _VERSION.match(named)
    if match is None:
        raise SourceUnfit(f"the source calls its version {named!r}", hint="Is it MySQL or MariaDB?")
    mariadb = "mariadb" in named.lower()
    [(identity,)] = _fetch_rows(connection, f"SELECT {identity_sql(mariadb=mariadb)}")
    version = (int(match[1]), int(match[2]), int(match[3]))
    return ServerInfo(identity=parse_identity(identity), version=version, mariadb=mariadb)


def _fetch_rows(connection: Connection, sql: str) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(cursor.fetchall())


def _fetch_raw_rows(connection: Connection, sql: str) -> Sequence[tuple[Any, ...]]:
    """As `_fetched`, of what may hold bytes that are no text: it prints the default of a binary column as it is."""
    encoding, connection.encoding = connection.encoding, _BYTE_ENCODING
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql.encode())
            return tuple(cursor.fetchall())
    finally:
        connection.encoding = encoding
