"""The source over PyMySQL: who answers, what a table looks like, and small answers."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

from pymysql.constants import CR, ER

from syncd.adapters.mysql.connect import FOREIGN, Connection, Opener, error_of, shut
from syncd.adapters.mysql.describe import describe
from syncd.adapters.mysql.replica import (
    Position,
    Replication,
    channels_of,
    name_of,
    position_of,
    replication_of,
    require_follows,
    wait_until_applied,
)
from syncd.adapters.mysql.throttle import reason_to_wait
from syncd.core.calls import Asking, Meter, SourceAsked, unmetered
from syncd.core.errors import SourceDown, SourceUnfit
from syncd.core.mysql_sql import as_identity, identity_sql, is_on
from syncd.core.quoting import qualified
from syncd.core.schema import Server, Table
from syncd.core.settings import SourceSettings

_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_LOST: Final = frozenset({CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_SERVER_LOST_EXTENDED, 4031, 1927})
"""The connection is gone; 4031 and 1927 are what MySQL and MariaDB say last to one that they ended."""
_ANY_BYTES: Final = "latin-1"
"""Every byte is a character of it."""
_NO_STATEMENT: Final = frozenset({ER.PARSE_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.SYNTAX_ERROR})

Version: TypeAlias = tuple[tuple[int, int, int], bool]
"""A server's version, and whether it is MariaDB."""

Told = TypeVar("Told")


class MySqlSource:
    """One server, over one connection that is opened when it is first needed, and again when it was lost."""

    def __init__(self, settings: SourceSettings, opener: Opener, *, meter: Meter = unmetered) -> None:
        self._settings = settings
        self._open = opener
        self._meter = meter
        self._connection: Connection | None = None
        self._version: Version | None = None
        self._aborted = False

    @property
    def waits(self) -> bool:
        """Whether a connection is open on which the next question can be asked."""
        return not self._aborted and self._connection is not None and self._connection.open

    def abort(self) -> None:
        """End what is asked, from any thread: it fails as if the line had broken, and nothing is asked any more."""
        self._aborted = True
        connection = self._connection
        if connection is not None:
            shut(connection)

    def server(self) -> Server:
        """Which server answers now."""
        version, mariadb = self._known()
        asked = f"SELECT {identity_sql(mariadb=mariadb)}, @@global.read_only, @@global.innodb_read_only"
        [(identity, read_only, closed)] = self.rows(asked)
        return Server(
            identity=as_identity(identity),
            version=version,
            mariadb=mariadb,
            read_only=is_on(read_only) or is_on(closed),
        )

    def table(self, database: str, name: str) -> Table:
        """The table as it is now, with every column."""
        # Whoever may read but some columns is shown only these; the server says so when all are asked for.
        self._ask(f"SELECT * FROM {qualified(database, name)} LIMIT 0", database)
        version, mariadb = self._known()
        found = describe(self._bare, database, name, version=version, mariadb=mariadb)
        if found is None:
            raise SourceUnfit(f"{database}.{name} is not to be seen", hint=self._grant(database))
        return found

    def _known(self) -> Version:
        """What answers on this connection: asked once, for it cannot become another."""
        self._bare("DO 0")
        if self._version is None:
            [(named,)] = self._bare("SELECT VERSION()")
            self._version = _version_of(str(named))
        return self._version

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
        server = self.server()
        reason: str | None = self._run(lambda connection: reason_to_wait(connection, server, self._settings))
        return reason

    def end_statements(self, marked: str) -> None:
        """End the connections of ours whose statement holds these words."""
        for row in self._bare("SHOW FULL PROCESSLIST"):
            if marked in str(row[7] or ""):
                with suppress(SourceUnfit):  # it has ended by itself
                    self._bare(f"KILL {int(row[0])}")

    # Replication, where the source is a primary or its replica.

    def logged(self) -> tuple[Position, str]:
        """Where this server's binary log ends now, and what replicas know the server by.

        Raises:
            SourceUnfit: it writes no such log, or does not let it be seen.
        """
        server = self.server()
        return self._told(
            lambda connection: (
                position_of(connection, server, self._settings),
                name_of(connection, server, self._settings),
            )
        )

    def following(self) -> Replication | None:
        """How this server follows others; None if it does not."""
        server = self.server()
        return self._told(lambda connection: replication_of(connection, server, self._settings))

    def catch_up(self, position: Position, *, primary: str) -> None:
        """Return once all that stands before a position of this very primary can be seen here.

        Raises:
            SourceDown: it could not in the time of `catch_up`, or replication does not run.
            SourceUnfit: it follows another server, or none.
        """
        settings, server = self._settings, self.server()

        def caught_up(connection: Connection) -> None:
            followed = require_follows(channels_of(connection, server, settings), primary=primary, settings=settings)
            within = settings.catch_up
            wait_until_applied(connection, server, settings, position, followed=followed, within=within)

        self._told(caught_up)

    def _told(self, ask: Callable[[Connection], Told]) -> Told:
        try:
            told: Told = self._run(ask)
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
        self._connection, self._version = self._open(), None
        self._require_wanted()
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


def _version_of(named: str) -> Version:
    match = _VERSION.match(named)
    if match is None:
        raise SourceUnfit(f"the source calls its version {named!r}", hint="Is it MySQL or MariaDB?")
    return (int(match[1]), int(match[2]), int(match[3])), "mariadb" in named.lower()


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
