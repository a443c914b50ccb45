"""One poll of a server: t0, the statements (A), the locks (C1), the writers (B), the locks again (C2).

The order is the proof (`docs/horizon.md`): a statement that ended before A was read has its transaction in B,
and one that had its locks when A was read has them in C1, or in C2 if C1 met a lock on the move.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC
from typing import Any, Final
from uuid import uuid4

import pymysql
from pymysql.constants import ER

from syncd.datatypes.mysql_quoting import quoted
from syncd.errors import SourceUnfit
from syncd.horizon.readings import NO_CLIENT, Readings, Sight, Thread, Writer
from syncd.horizon.statements import is_replication
from syncd.mysql.connection import Opener, closed_on_error
from syncd.mysql.horizon_queries import (
    A_LIST,
    A_MARIADB,
    A_SCHEMA,
    B_TABLE,
    C_MARIADB,
    C_SCHEMA,
    FOLLOWS,
    GROUP,
    LOST,
    T0,
    B,
    Locks,
    Writers,
    locks_of,
    named,
    thread_of_list,
    thread_of_mariadb,
    thread_of_schema,
    writers_of,
)
from syncd.mysql.replica import show_channels
from syncd.mysql.sql import as_identity, identity_sql, is_on
from syncd.ports.source import TableName

STALE_FOR: Final = 0.11
"""Seconds after which a server fills INNODB_TRX anew, if nobody reads it meanwhile."""
FRESH_TRIES: Final = 20
WIDE_TRIES: Final = 5
WIDE_PAUSE: Final = 0.02
MOST_WRITERS: Final = 20_000
"""The server cuts the list at 16 MB and says so to nobody but its log."""

CANNOT_CONVERT: Final = 3854
"""A running statement holds a character of four bytes, and the server cannot print it."""
_REFUSED: Final = frozenset(
    {
        ER.TABLEACCESS_DENIED_ERROR,
        ER.DBACCESS_DENIED_ERROR,
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
        ER.UNKNOWN_TABLE,
        ER.NO_SUCH_TABLE,
        ER.BAD_DB_ERROR,
    }
)

_OWN_LOCK: Final = TableName(database="performance_schema", table="metadata_locks")


class StampedElsewhere(SourceUnfit):
    """Rows are not stamped on this server; fact: `identity`, which one it is."""


class Poller:
    """Polls over one connection, and remembers what that connection may not see."""

    def __init__(self, opener: Opener, *, pause: Callable[[float], None]) -> None:
        self.opened_at = time.monotonic()
        self._connection = connection = opener()
        self._pause = pause
        with closed_on_error(connection):
            version = str(self._one("SELECT VERSION()")[0])
            self._mariadb = "mariadb" in version.lower()
            self._schema = not self._mariadb and bool(self._one("SELECT @@performance_schema")[0])
            self._locks = self._schema or self._mariadb
            self._all_writers = True
            galera = self._ask("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
            self._galera = bool(galera) and str(galera[0][1]).upper() == "ON"
            self._group = self._schema and bool(self._ask_if_allowed(GROUP))
            self._follows = self._is_told_to_follow(version)
            self._identity = as_identity(self._one(f"SELECT {identity_sql(mariadb=self._mariadb)}")[0])

    def poll(self, tables: AbstractSet[TableName], *, ids: Mapping[TableName, str]) -> Readings:
        """One poll; `tables` matter where the server shows writers only table by table.

        `ids` names the columns whose highest value is wanted, by table.

        Raises:
            StampedElsewhere: rows are stamped on another server.
            pymysql.MySQLError, OSError: the connection is of no use any more.
        """
        highest = self._highest(ids)
        t0, own, *bars = self._one(T0)
        t0 = t0.replace(tzinfo=UTC)
        threads = self._threads()
        self._require_primary(threads, bars)
        mine = next((thread.holder for thread in threads if thread.connection == own), own)
        threads = tuple(thread for thread in threads if thread.connection != own)
        first = self._held()
        writers = self._writers(own, threads, tables)
        again = self._held()
        return Readings(
            t0=t0,
            identity=self._identity,
            sight=writers.sight,
            threads=threads,
            writers=writers.found,
            read_only=writers.read_only,
            locks=_union(first, again, without=mine),
            tables=frozenset(table.folded for table in tables) if writers.sight is Sight.TABLES else None,
            trouble=writers.trouble,
            passing=writers.passing,
            ids={table: found for table, found in highest.items() if found is not None},
        )

    def close(self) -> None:
        self._connection.close()

    def _require_primary(self, threads: Sequence[Thread], bars: Sequence[object]) -> None:
        """Make sure that rows are stamped here. A reader of Aurora has no thread that applies; its InnoDB is closed."""
        # A group's applier stands by on the member that is written to as well.
        replicates = not self._group and any(is_replication(thread.command, thread.user) for thread in threads)
        if replicates or self._follows or any(map(is_on, bars)):
            stands = self._follows and not replicates
            what = "applies what another server did" if replicates else "is read-only"
            by_now = " If that is this one by now: RESET REPLICA ALL." if stands else ""
            raise StampedElsewhere(
                f"this server {'is a replica that stands still' if stands else what}:"
                " rows are not stamped here, so it cannot tell which are still to come",
                hint=f"Name the server where they are stamped: source.primary.{by_now}",
                identity=self._identity,
            )

    def _is_told_to_follow(self, version: str) -> bool:
        """Whether it is a replica; of an account that may not know, no.

        No thread of it need be seen: stopped, or not started yet, it need not be read-only, and what it applies once
        it goes on was stamped before.
        """
        if self._group:
            return False
        rows = self._ask_if_allowed(FOLLOWS) if self._schema else None
        if rows is None:
            numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
            rows = self._ask_if_allowed(show_channels(tuple(numbers), mariadb=self._mariadb))
        return bool(rows)

    # A: the statements.

    def _threads(self) -> tuple[Thread, ...]:
        if self._mariadb:
            return tuple(thread_of_mariadb(*row) for row in self._ask(A_MARIADB))
        if self._schema:
            rows = self._ask_if_allowed(A_SCHEMA)
            if rows is not None and not self._one(LOST)[0]:
                return tuple(thread_of_schema(*row) for row in rows)
            # Without its list of threads, or with a list that lost some, the schema names no lock's holder either.
            self._schema = self._locks = False
        return tuple(thread_of_list(*row[:8]) for row in self._ask(A_LIST))

    # C: the locks.

    def _held(self) -> Locks | None:
        if not self._locks:
            return None
        rows = self._ask_if_allowed(C_MARIADB if self._mariadb else C_SCHEMA)
        # Where the schema does not watch locks, it lists none, not even the one of this very query.
        if rows is None or (self._schema and not any(named(row) == _OWN_LOCK for row in rows)):
            self._locks = False
            return None
        return locks_of(rows)

    # B: the writers.

    def _writers(self, own: int, threads: Sequence[Thread], tables: AbstractSet[TableName]) -> Writers:
        if self._galera:
            return Writers(sight=Sight.NOTHING, trouble="other nodes of the Galera cluster write too")
        if self._group:
            return Writers(sight=Sight.NOTHING, trouble="other members of its group may have written too")
        if not self._all_writers:
            return self._writers_by_table(threads, tables)
        try:
            return self._all(own, threads, tables)
        except pymysql.err.MySQLError as error:
            code = error.args[0]
            if code == ER.SPECIFIC_ACCESS_DENIED_ERROR:
                self._all_writers = False
                return self._writers_by_table(threads, tables)
            if code == CANNOT_CONVERT:
                return self._writers_by_table(
                    threads, tables, instead_of="MySQL lists no transactions while one holds a character of four bytes"
                )
            raise

    def _all(self, own: int, threads: Sequence[Thread], tables: AbstractSet[TableName]) -> Writers:
        for _ in range(FRESH_TRIES):
            nonce = uuid4().hex
            rows = self._in_snapshot(B.format(nonce=nonce))
            if len(rows) > MOST_WRITERS:
                return Writers(sight=Sight.BLIND, trouble=f"more than {MOST_WRITERS:,} transactions are open")
            # Our own row can show this nonce only if the server filled the list during this query.
            if any(row[0] == own and nonce in (row[4] or "") for row in rows):
                return writers_of(rows, own, {thread.connection: thread.holder for thread in threads})
            self._pause(STALE_FOR)
        trouble = "other readers keep the server's list of transactions stale"
        return self._writers_by_table(threads, tables, instead_of=trouble)

    def _in_snapshot(self, sql: str) -> Sequence[tuple[Any, ...]]:
        for attempt in range(WIDE_TRIES):
            self._ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            try:
                return self._ask(sql)
            except pymysql.err.MySQLError as error:
                if error.args[0] != CANNOT_CONVERT or attempt == WIDE_TRIES - 1:
                    raise
                self._pause(WIDE_PAUSE)  # statements are short: the one with that character ends soon
            finally:
                if self._connection.open:
                    self._ask("ROLLBACK")
        raise AssertionError("the last attempt returns or raises")

    def _writers_by_table(
        self, threads: Sequence[Thread], tables: AbstractSet[TableName], *, instead_of: str = ""
    ) -> Writers:
        """The second choice; `instead_of` says why, where the first may do again next time."""
        if self._schema:
            try:
                found = [writer for table in sorted(tables) for writer in self._writers_of_table(threads, table)]
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _REFUSED:
                    raise
            else:
                return Writers(sight=Sight.TABLES, found=tuple(found), passing=bool(instead_of))
        if instead_of:
            return Writers(sight=Sight.BLIND, trouble=instead_of)
        user = self._one("SELECT SUBSTRING_INDEX(USER(), '@', 1)")[0]
        return Writers(sight=Sight.NOTHING, trouble=f"the account lacks a right: GRANT PROCESS ON *.* TO {user}")

    def _writers_of_table(self, threads: Sequence[Thread], table: TableName) -> list[Writer]:
        connections = {thread.holder: thread.connection for thread in threads}
        return [
            Writer(
                trx_id=str(trx_id),
                holder=int(holder or 0),
                connection=connections.get(int(holder or 0), NO_CLIENT),
                table=table,
            )
            for holder, trx_id in self._ask(B_TABLE, table.database, table.table)
        ]

    # Questions.

    def _highest(self, ids: Mapping[TableName, str]) -> dict[TableName, int | None]:
        found: dict[TableName, int | None] = {}
        for table, column in ids.items():
            sql = f"SELECT MAX({quoted(column)}) FROM {quoted(table.database)}.{quoted(table.table)}"  # noqa: S608  # quoted
            rows = self._ask_if_allowed(sql)  # behind a replica, this may not be where the table is
            highest = rows[0][0] if rows else None
            found[table] = None if highest is None else int(highest)
        return found

    def _ask_if_allowed(self, sql: str) -> Sequence[tuple[Any, ...]] | None:
        try:
            return self._ask(sql)
        except pymysql.err.MySQLError as error:
            if error.args[0] in _REFUSED:
                return None
            raise

    def _one(self, sql: str) -> tuple[Any, ...]:
        return self._ask(sql)[0]

    def _ask(self, sql: str, *values: str) -> Sequence[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return rows


def _union(first: Locks | None, again: Locks | None, *, without: int) -> Locks | None:
    if first is None or again is None:
        return None
    holders = (first.keys() | again.keys()) - {without}
    return {holder: first.get(holder, frozenset()) | again.get(holder, frozenset()) for holder in holders}
