"""The source over PyMySQL: who answers, what a table looks like, and small answers."""

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from pymysql.constants import CR, ER

from syncd.datatypes.mysql_quoting import qualified
from syncd.datatypes.source_table import Server, Table
from syncd.errors import SourceDown, SourceUnfit, ValueRefused
from syncd.mysql.connection import FOREIGN, Connection, Opener, error_of, shut
from syncd.mysql.introspection import describe
from syncd.mysql.replica import (
    CaughtUp,
    Log,
    Replication,
    channels_of,
    log_of,
    replication_of,
    require_follows,
    slowest,
    wait_until_applied,
)
from syncd.mysql.sql import as_identity, identity_sql, is_on
from syncd.mysql.throttle import reason_to_wait
from syncd.ports.request_stats import Asking, Meter, SourceAsked, unmetered
from syncd.settings import SourceSettings

_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_LOST: Final = frozenset({CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_SERVER_LOST_EXTENDED, 4031, 1927})
"""The connection is gone; 4031 and 1927 are what MySQL and MariaDB say last to one that they ended."""
_ANY_BYTES: Final = "latin-1"
"""Every byte is a character of it."""
_NO_STATEMENT: Final = frozenset({ER.PARSE_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.SYNTAX_ERROR})

Told = TypeVar("Told")


class MySqlSource:
    """One server, over one connection that is opened when it is first needed, and again when it was lost."""

    def __init__(self, settings: SourceSettings, opener: Opener, *, meter: Meter = unmetered) -> None:
        self._settings = settings
        self._open = opener
        self._meter = meter
        self._connection: Connection | None = None
        self._who: Server | None = None
        """Who answers on that connection; whether it is read-only may change."""
        self._aborted = False
        self.opened_at = -math.inf
        """When that connection was begun to be opened, on the monotonic clock."""

    @property
    def waits(self) -> bool:
        """Whether a connection is open on which the next question can be asked."""
        return not self._aborted and self._connection is not None and self._connection.open

    @property
    def identity(self) -> str | None:
        """The server that answered last; None where none did."""
        return self._who.identity if self._who is not None else None

    def abort(self) -> None:
        """End what is asked, from any thread: it fails as if the line had broken, and nothing is asked any more."""
        self._aborted = True
        connection = self._connection
        if connection is not None:
            shut(connection)

    def server(self) -> Server:
        """Which server answers now."""
        return self._told(self._server_at)

    def table(self, database: str, name: str) -> Table:
        """The table as it is now, with every column."""
        # Whoever may read but some columns is shown only these; the server says so when all are asked for.
        self._ask(f"SELECT * FROM {qualified(database, name)} LIMIT 0", database)
        assert self._who
        found = describe(self._bare, database, name, version=self._who.version, mariadb=self._who.mariadb)
        if found is None:
            raise SourceUnfit(f"{database}.{name} is not to be seen", hint=self._grant(database))
        return found

    def created_by(self, database: str, name: str) -> str:
        """The statement that SHOW CREATE TABLE prints."""
        sql = f"SHOW CREATE TABLE {qualified(database, name)}"
        try:
            row: Sequence[Any] = self._run(lambda connection: _fetched_raw(connection, sql)[0])
        except FOREIGN as error:
            raise self._meant(error, database) from error
        text = row[1] if isinstance(row[1], bytes) else str(row[1]).encode(_ANY_BYTES)
        return text.decode(errors="backslashreplace")

    def rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        """All rows of a small answer."""
        return self._bare(sql)

    def busy(self) -> str | None:
        """Why not to read now; None where no bound is set, or none is passed."""
        return self._told(lambda at: reason_to_wait(at, self._server_at(at), self._settings))

    def forget(self) -> None:
        """Ask the next question over another connection."""
        self.close()

    def end_statements(self, marked: str) -> None:
        """End the connections of ours whose statement holds these words."""
        for row in self._bare("SHOW FULL PROCESSLIST"):
            if marked in str(row[7] or ""):
                with suppress(SourceUnfit):  # it has ended by itself
                    self._bare(f"KILL {int(row[0])}")

    # Replication, where the source is a primary or its replica. Each answer comes over one connection: what one server
    # says means nothing to another.

    def logged(self) -> Log:
        """This server's binary log, as it ends now.

        Raises:
            SourceUnfit: it writes no such log, or does not let it be seen.
        """
        return self._told(lambda at: log_of(at, self._server_at(at), self._settings))

    def following(self) -> Replication | None:
        """How this server follows others; None if it does not."""
        return self._told(lambda at: replication_of(at, self._server_at(at), self._settings))

    def catch_up(self, log: Log) -> CaughtUp:
        """Return once all that stands in the log of this very primary can be seen here.

        Raises:
            SourceDown: it could not in the time of `catch_up`, or replication does not run.
            SourceUnfit: it follows another server, or none.
        """
        settings = self._settings

        def caught_up(connection: Connection) -> CaughtUp:
            server = self._server_at(connection)
            channels = channels_of(connection, server, settings)
            followed = require_follows(channels, primary=log.name, settings=settings)
            within = settings.catch_up
            wait_until_applied(connection, server, settings, log.position, followed=followed, within=within)
            slowest_now = slowest(channels_of(connection, server, settings)) if channels[1:] else None
            return CaughtUp(identity=server.identity, slowest=slowest_now or followed, several=len(channels) > 1)

        return self._told(caught_up)

    def _server_at(self, connection: Connection) -> Server:
        assert self._who
        asked = f"SELECT {identity_sql(mariadb=self._who.mariadb)}, @@global.read_only, @@global.innodb_read_only"
        [(identity, read_only, closed)] = _fetched(connection, asked)
        self._who = replace(self._who, identity=as_identity(identity), read_only=is_on(read_only) or is_on(closed))
        return self._who

    def _told(self, ask: Callable[[Connection], Told]) -> Told:
        try:
            told: Told = self._run(ask)
        except FOREIGN as error:
            raise self._meant(error, None) from error
        except SourceDown:
            self.close()  # what comes next on this line may answer an older question
            raise
        return told

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            connection.close()

    def _bare(self, sql: str) -> Sequence[tuple[Any, ...]]:
        return self._ask(sql, None)

    def _ask(self, sql: str, database: str | None) -> Sequence[tuple[Any, ...]]:
        try:
            rows: Sequence[tuple[Any, ...]] = self._run(lambda connection: _fetched(connection, sql))
        except FOREIGN as error:
            raise self._meant(error, database) from error
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

    def _run(self, ask: Callable[[Connection], Any]) -> Any:  # noqa: ANN401  # whatever is asked for
        """Ask on a live connection, and let it be counted."""
        began = time.monotonic()
        try:
            return self._run_alive(ask)
        finally:
            seconds = time.monotonic() - began
            self._meter(SourceAsked(source=self._settings.name, about=Asking.PLAN, seconds=seconds))

    def _run_alive(self, ask: Callable[[Connection], Any]) -> Any:  # noqa: ANN401  # as above
        """Ask on a live connection: one that was cut while nothing was asked is replaced, once."""
        if self._connection is not None:
            try:
                return ask(self._connection)
            except FOREIGN as error:
                if (error.args[:1] and error.args[0] not in {*_LOST, 0}) or _was_slow(error) or self._aborted:
                    raise
                self.close()
        self._require_wanted()
        self.opened_at = time.monotonic()
        self._connection = self._open()
        self._require_wanted()
        self._who = _answering(self._connection)
        return ask(self._connection)

    def _require_wanted(self) -> None:
        if self._aborted:
            self.close()
            raise SourceDown("this connection was ended")

    def _meant(self, error: BaseException, database: str | None) -> Exception:
        meant = error_of(error, self._settings, database=database)
        if not isinstance(meant, SourceUnfit):
            # After a cut in the midst of an answer nothing sensible follows on this connection.
            self.close()
        return meant

    def _grant(self, database: str) -> str:
        return f"Is its name right? If so: GRANT SELECT ON {database}.* TO {self._settings.user}"


def _was_slow(error: BaseException) -> bool:
    """Whether the answer did not come in time: the server may be at work on it still, and must not get it twice."""
    return isinstance(error.__cause__ or error.__context__, TimeoutError) or "timed out" in str(error)


def _answering(connection: Connection) -> Server:
    """Who answers: asked once, for what is at the end of a connection does not become another."""
    [(told,)] = _fetched(connection, "SELECT VERSION()")
    named = str(told)
    match = _VERSION.match(named)
    if match is None:
        raise SourceUnfit(f"the source calls its version {named!r}", hint="Is it MySQL or MariaDB?")
    mariadb = "mariadb" in named.lower()
    [(identity,)] = _fetched(connection, f"SELECT {identity_sql(mariadb=mariadb)}")
    version = (int(match[1]), int(match[2]), int(match[3]))
    return Server(identity=as_identity(identity), version=version, mariadb=mariadb)


def _fetched(connection: Connection, sql: str) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(cursor.fetchall())


def _fetched_raw(connection: Connection, sql: str) -> Sequence[tuple[Any, ...]]:
    """As `_fetched`, of what may hold bytes that are no text: it prints the default of a binary column as it is."""
    encoding, connection.encoding = connection.encoding, _ANY_BYTES
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql.encode())
            return tuple(cursor.fetchall())
    finally:
        connection.encoding = encoding
