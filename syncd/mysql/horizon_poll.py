"""One poll of a server: t0, the statements (A), the locks (C1), the writers (B), the locks again (C2).

The order is the proof (`docs/explanation/horizon.md`): a statement that ended before A was read has its transaction in B,
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

from syncd.datatypes.mysql_quoting import decode_text, quote_name
from syncd.errors import SourceUnfit
from syncd.horizon.readings import NO_CONNECTION, HorizonPoll, ServerThread, Visibility, WritingTransaction
from syncd.horizon.statements import is_replication
from syncd.mysql.connection import OpenConnection, closed_on_error
from syncd.mysql.horizon_queries import (
    CLOCK_QUERY,
    GROUP_MEMBERS_QUERY,
    LOST_INSTRUMENTS_QUERY,
    MARIADB_LOCKS_QUERY,
    MARIADB_THREADS_QUERY,
    PROCESSLIST_QUERY,
    REPLICATION_CHANNELS_QUERY,
    SCHEMA_LOCKS_QUERY,
    SCHEMA_THREADS_QUERY,
    TABLE_WRITERS_QUERY,
    TRANSACTIONS_QUERY,
    TableLocks,
    WritersReading,
    parse_locks,
    parse_mariadb_thread,
    parse_processlist_thread,
    parse_schema_thread,
    parse_table_name,
    parse_writers,
)
from syncd.mysql.replica import show_channels_statement
from syncd.mysql.sql import identity_sql, is_read_only_setting
from syncd.ports.source import TableName

TRANSACTION_LIST_REFRESH_SECONDS: Final = 0.11
"""Seconds after which a server fills INNODB_TRX anew, if nobody reads it meanwhile."""
FRESH_LIST_ATTEMPTS: Final = 20
CONVERSION_ATTEMPTS: Final = 5
CONVERSION_RETRY_SECONDS: Final = 0.02
MOST_WRITERS: Final = 20_000
"""The server cuts the list at 16 MB and says so to nobody but its log."""

CANNOT_CONVERT_CODE: Final = 3854
"""A running statement holds a character of four bytes, and the server cannot print it."""
_ACCESS_DENIED_CODES: Final = frozenset(
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


class NotPrimaryServer(SourceUnfit):
    """Rows are not stamped on this server; fact: `identity`, which one it is."""


class Poller:
    """Polls over one connection, and remembers what that connection may not see."""

    def __init__(self, opener: OpenConnection, *, pause: Callable[[float], None]) -> None:
        self.opened_at = time.monotonic()
        self._connection = connection = opener()
        self._pause = pause
        with closed_on_error(connection):
            version = str(self._query_one("SELECT VERSION()")[0])
            self._mariadb = "mariadb" in version.lower()
            self._schema = not self._mariadb and bool(self._query_one("SELECT @@performance_schema")[0])
            self._locks = self._schema or self._mariadb
            self._all_writers = True
            galera = self._query("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
            self._galera = bool(galera) and str(galera[0][1]).upper() == "ON"
            self._group = self._schema and bool(self._query_if_allowed(GROUP_MEMBERS_QUERY))
            self._follows = self._is_configured_as_replica(version)
            self._identity = decode_text(self._query_one(f"SELECT {identity_sql(mariadb=self._mariadb)}")[0])

    def poll(self, tables: AbstractSet[TableName], *, ids: Mapping[TableName, str]) -> HorizonPoll:
        """One poll; `tables` matter where the server shows writers only table by table.

        `ids` names the columns whose highest value is wanted, by table.

        Raises:
            StampedElsewhere: rows are stamped on another server.
            pymysql.MySQLError, OSError: the connection is of no use any more.
        """
        highest = self._read_highest_ids(ids)
        t0, own, *bars = self._query_one(CLOCK_QUERY)
        t0 = t0.replace(tzinfo=UTC)
        threads = self._read_threads()
        self._require_primary(threads, bars)
        mine = next((thread.lock_owner for thread in threads if thread.connection == own), own)
        threads = tuple(thread for thread in threads if thread.connection != own)
        first = self._read_locks()
        writers = self._read_writers(own, threads, tables)
        again = self._read_locks()
        return HorizonPoll(
            t0=t0,
            identity=self._identity,
            visibility=writers.sight,
            threads=threads,
            writers=writers.writers,
            read_only=writers.read_only,
            locks=_merge_locks(first, again, without=mine),
            tables=frozenset(table.normal_form for table in tables) if writers.sight is Visibility.TABLES else None,
            problem=writers.trouble,
            is_temporary=writers.passing,
            max_ids={table: found for table, found in highest.items() if found is not None},
        )

    def close(self) -> None:
        self._connection.close()

    def _require_primary(self, threads: Sequence[ServerThread], read_only_flags: Sequence[object]) -> None:
        """Make sure that rows are stamped here. A reader of Aurora has no thread that applies; its InnoDB is closed."""
        # A group's applier stands by on the member that is written to as well.
        replicates = not self._group and any(is_replication(thread.command, thread.user) for thread in threads)
        if replicates or self._follows or any(map(is_read_only_setting, read_only_flags)):
            stands = self._follows and not replicates
            what = "applies what another server did" if replicates else "is read-only"
            by_now = " If that is this one by now: RESET REPLICA ALL." if stands else ""
            raise NotPrimaryServer(
                f"this server {'is a replica that stands still' if stands else what}:"
                " rows are not stamped here, so it cannot tell which are still to come",
                hint=f"Name the server where they are stamped: source.primary.{by_now}",
                identity=self._identity,
            )

    def _is_configured_as_replica(self, version: str) -> bool:
        """Whether it is a replica; of an account that may not know, no.

        No thread of it need be seen: stopped, or not started yet, it need not be read-only, and what it applies once
        it goes on was stamped before.
        """
        if self._group:
            return False
        rows = self._query_if_allowed(REPLICATION_CHANNELS_QUERY) if self._schema else None
        if rows is None:
            numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
            rows = self._query_if_allowed(show_channels_statement(tuple(numbers), mariadb=self._mariadb))
        return bool(rows)

    # A: the statements.

    def _read_threads(self) -> tuple[ServerThread, ...]:
        if self._mariadb:
            return tuple(parse_mariadb_thread(*row) for row in self._query(MARIADB_THREADS_QUERY))
        if self._schema:
            rows = self._query_if_allowed(SCHEMA_THREADS_QUERY)
            if rows is not None and not self._query_one(LOST_INSTRUMENTS_QUERY)[0]:
                return tuple(parse_schema_thread(*row) for row in rows)
            # Without its list of threads, or with a list that lost some, the schema names no lock's holder either.
            self._schema = self._locks = False
        return tuple(parse_processlist_thread(*row[:8]) for row in self._query(PROCESSLIST_QUERY))

    # C: the locks.

    def _read_locks(self) -> TableLocks | None:
        if not self._locks:
            return None
        rows = self._query_if_allowed(MARIADB_LOCKS_QUERY if self._mariadb else SCHEMA_LOCKS_QUERY)
        # Where the schema does not watch locks, it lists none, not even the one of this very query.
        if rows is None or (self._schema and not any(parse_table_name(row) == _OWN_LOCK for row in rows)):
            self._locks = False
            return None
        return parse_locks(rows)

    # B: the writers.

    def _read_writers(
        self, own_connection: int, threads: Sequence[ServerThread], tables: AbstractSet[TableName]
    ) -> WritersReading:
        if self._galera:
            return WritersReading(sight=Visibility.NOTHING, trouble="other nodes of the Galera cluster write too")
        if self._group:
            return WritersReading(sight=Visibility.NOTHING, trouble="other members of its group may have written too")
        if not self._all_writers:
            return self._read_writers_by_table(threads, tables)
        try:
            return self._read_all_writers(own_connection, threads, tables)
        except pymysql.err.MySQLError as error:
            code = error.args[0]
            if code == ER.SPECIFIC_ACCESS_DENIED_ERROR:
                self._all_writers = False
                return self._read_writers_by_table(threads, tables)
            if code == CANNOT_CONVERT_CODE:
                return self._read_writers_by_table(
                    threads,
                    tables,
                    fallback_reason="MySQL lists no transactions while one holds a character of four bytes",
                )
            raise

    def _read_all_writers(
        self, own_connection: int, threads: Sequence[ServerThread], tables: AbstractSet[TableName]
    ) -> WritersReading:
        for _ in range(FRESH_LIST_ATTEMPTS):
            nonce = uuid4().hex
            rows = self._query_in_snapshot(TRANSACTIONS_QUERY.format(nonce=nonce))
            if len(rows) > MOST_WRITERS:
                return WritersReading(
                    sight=Visibility.BLIND, trouble=f"more than {MOST_WRITERS:,} transactions are open"
                )
            # Our own row can show this nonce only if the server filled the list during this query.
            if any(row[0] == own_connection and nonce in (row[4] or "") for row in rows):
                return parse_writers(rows, own_connection, {thread.connection: thread.lock_owner for thread in threads})
            self._pause(TRANSACTION_LIST_REFRESH_SECONDS)
        trouble = "other readers keep the server's list of transactions stale"
        return self._read_writers_by_table(threads, tables, fallback_reason=trouble)

    def _query_in_snapshot(self, sql: str) -> Sequence[tuple[Any, ...]]:
        for attempt in range(CONVERSION_ATTEMPTS):
            self._query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            try:
                return self._query(sql)
            except pymysql.err.MySQLError as error:
                if error.args[0] != CANNOT_CONVERT_CODE or attempt == CONVERSION_ATTEMPTS - 1:
                    raise
                self._pause(CONVERSION_RETRY_SECONDS)  # statements are short: the one with that character ends soon
            finally:
                if self._connection.open:
                    self._query("ROLLBACK")
        raise AssertionError("the last attempt returns or raises")

    def _read_writers_by_table(
        self, threads: Sequence[ServerThread], tables: AbstractSet[TableName], *, fallback_reason: str = ""
    ) -> WritersReading:
        """The second choice; `instead_of` says why, where the first may do again next time."""
        if self._schema:
            try:
                found = [writer for table in sorted(tables) for writer in self._read_writers_of_table(threads, table)]
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _ACCESS_DENIED_CODES:
                    raise
            else:
                return WritersReading(sight=Visibility.TABLES, writers=tuple(found), passing=bool(fallback_reason))
        if fallback_reason:
            return WritersReading(sight=Visibility.BLIND, trouble=fallback_reason)
        user = self._query_one("SELECT SUBSTRING_INDEX(USER(), '@', 1)")[0]
        return WritersReading(
            sight=Visibility.NOTHING, trouble=f"the account lacks a right: GRANT PROCESS ON *.* TO {user}"
        )

    def _read_writers_of_table(self, threads: Sequence[ServerThread], table: TableName) -> list[WritingTransaction]:
        connections = {thread.lock_owner: thread.connection for thread in threads}
        return [
            WritingTransaction(
                trx_id=str(trx_id),
                lock_owner=int(holder or 0),
                connection=connections.get(int(holder or 0), NO_CONNECTION),
                table=table,
            )
            for holder, trx_id in self._query(TABLE_WRITERS_QUERY, table.database, table.table)
        ]

    # Questions.

    def _read_highest_ids(self, ids: Mapping[TableName, str]) -> dict[TableName, int | None]:
        found: dict[TableName, int | None] = {}
        for table, column in ids.items():
            sql = f"SELECT MAX({quote_name(column)}) FROM {quote_name(table.database)}.{quote_name(table.table)}"  # noqa: S608  # quoted
            rows = self._query_if_allowed(sql)  # behind a replica, this may not be where the table is
            highest = rows[0][0] if rows else None
            found[table] = None if highest is None else int(highest)
        return found

    def _query_if_allowed(self, sql: str) -> Sequence[tuple[Any, ...]] | None:
        try:
            return self._query(sql)
        except pymysql.err.MySQLError as error:
            if error.args[0] in _ACCESS_DENIED_CODES:
                return None
            raise

    def _query_one(self, sql: str) -> tuple[Any, ...]:
        return self._query(sql)[0]

    def _query(self, sql: str, *values: str) -> Sequence[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return rows


def _merge_locks(first: TableLocks | None, again: TableLocks | None, *, without: int) -> TableLocks | None:
    if first is None or again is None:
        return None
    holders = (first.keys() | again.keys()) - {without}
    return {holder: first.get(holder, frozenset()) | again.get(holder, frozenset()) for holder in holders}
