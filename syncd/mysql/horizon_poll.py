"""One poll of a server: t0, the statements (A), the locks (C1), the writers (B), the locks again (C2).

The order is the proof (`docs/explanation/horizon.md`). A statement that ended before A was read has its transaction
in B. One that had its locks when A was read has them in C1, or in C2 if C1 read while a lock changed hands.
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

from syncd.datatypes.mysql_quoting import decode_text, quote_name, quote_table
from syncd.errors import SourceUnfit
from syncd.horizon.running_statements import is_replication
from syncd.horizon.transaction_readings import NO_CONNECTION, HorizonPoll, ServerThread, Visibility, WritingTransaction
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
"""The server refreshes INNODB_TRX this long after the last read of it."""
FRESH_LIST_ATTEMPTS: Final = 20
CONVERSION_ATTEMPTS: Final = 5
CONVERSION_RETRY_SECONDS: Final = 0.02
MOST_WRITERS: Final = 20_000
"""The server cuts the list at 16 MB and reports that only in its log."""

CANNOT_CONVERT_CODE: Final = 3854
"""A running statement holds a character of four bytes, which the server cannot print."""
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

MISSING_PRIVILEGE: Final = "the user lacks a privilege"
"""First words of the problem that a grant solves."""
_OWN_LOCK: Final = TableName(database="performance_schema", table="metadata_locks")


class NotPrimaryServer(SourceUnfit):
    """Rows are not stamped on this server; fact: `identity` of the server."""


class Poller:
    """Polls over one connection; it remembers what its user may not see."""

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
        """Poll once; `tables` matter where the server shows writers only table by table.

        `ids` names by table the columns whose highest value is wanted.

        Raises:
            NotPrimaryServer: rows are stamped on another server.
            pymysql.MySQLError, OSError: the connection is no longer usable.
        """
        highest = self._read_max_ids(ids)
        t0, own, *read_only_flags = self._query_one(CLOCK_QUERY)
        t0 = t0.replace(tzinfo=UTC)
        threads = self._read_threads()
        self._require_primary(threads, read_only_flags)
        own_lock_owner = next((thread.lock_owner for thread in threads if thread.connection == own), own)
        threads = tuple(thread for thread in threads if thread.connection != own)
        locks_before = self._read_locks()
        writers = self._read_writers(own, threads, tables)
        locks_after = self._read_locks()
        return HorizonPoll(
            t0=t0,
            identity=self._identity,
            visibility=writers.sight,
            threads=threads,
            writers=writers.writers,
            read_only=writers.read_only,
            locks=_merge_locks(locks_before, locks_after, without=own_lock_owner),
            tables=frozenset(table.normal_form for table in tables) if writers.sight is Visibility.TABLES else None,
            problem=writers.trouble,
            is_temporary=writers.passing,
            max_ids=highest,
        )

    def close(self) -> None:
        self._connection.close()

    def _require_primary(self, threads: Sequence[ServerThread], read_only_flags: Sequence[object]) -> None:
        """Fail if rows are stamped on another server.

        A reader of Aurora has no replication thread, but its InnoDB is read-only.
        """
        # In a group the written member has an applier thread too.
        replicates = not self._group and any(is_replication(thread.command, thread.user) for thread in threads)
        if replicates or self._follows or any(map(is_read_only_setting, read_only_flags)):
            is_stopped_replica = self._follows and not replicates
            state = "is a running replica" if replicates else "is read-only"
            promoted_hint = " If this server is the primary now: RESET REPLICA ALL." if is_stopped_replica else ""
            raise NotPrimaryServer(
                f"this server {'is a stopped replica' if is_stopped_replica else state}:"
                " rows are stamped on another server, so open transactions are not visible here",
                hint=f"Set source.primary to the server where rows are stamped.{promoted_hint}",
                identity=self._identity,
            )

    def _is_configured_as_replica(self, version: str) -> bool:
        """Return whether the server is configured as a replica; False for a user who may not see that.

        A stopped replica has no replication thread and need not be read-only. What it applies once it runs again was
        stamped before.
        """
        if self._group:
            return False
        rows = self._query_if_allowed(REPLICATION_CHANNELS_QUERY) if self._schema else None
        if rows is None:
            numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
            rows = self._query_if_allowed(show_channels_statement(numbers, mariadb=self._mariadb))
        return bool(rows)

    # A: the statements.

    def _read_threads(self) -> tuple[ServerThread, ...]:
        if self._mariadb:
            return tuple(parse_mariadb_thread(*row) for row in self._query(MARIADB_THREADS_QUERY))
        if self._schema:
            rows = self._query_if_allowed(SCHEMA_THREADS_QUERY)
            if rows is not None and not self._query_one(LOST_INSTRUMENTS_QUERY)[0]:
                return tuple(parse_schema_thread(*row) for row in rows)
            # Without a complete list of threads, the schema cannot name the holders of locks either.
            self._schema = self._locks = False
        return tuple(parse_processlist_thread(*row[:8]) for row in self._query(PROCESSLIST_QUERY))

    # C: the locks.

    def _read_locks(self) -> TableLocks | None:
        if not self._locks:
            return None
        rows = self._query_if_allowed(MARIADB_LOCKS_QUERY if self._mariadb else SCHEMA_LOCKS_QUERY)
        # If lock instruments are off, the schema lists no lock, not even that of this query.
        if rows is None or (self._schema and not any(parse_table_name(row) == _OWN_LOCK for row in rows)):
            self._locks = False
            return None
        return parse_locks(rows)

    # B: the writers.

    def _read_writers(
        self, own_connection: int, threads: Sequence[ServerThread], tables: AbstractSet[TableName]
    ) -> WritersReading:
        if self._galera:
            return WritersReading(sight=Visibility.NOTHING, trouble="other nodes of the Galera cluster may write too")
        if self._group:
            return WritersReading(sight=Visibility.NOTHING, trouble="other members of its group may write too")
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
                    fallback_reason="MySQL cannot list transactions while a statement holds a four-byte character",
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
            # Our own row shows this nonce only if the server refreshed the list during this query.
            if any(row[0] == own_connection and nonce in (row[4] or "") for row in rows):
                return parse_writers(rows, own_connection, {thread.connection: thread.lock_owner for thread in threads})
            self._pause(TRANSACTION_LIST_REFRESH_SECONDS)
        reason = "other readers keep the server's list of transactions stale"
        return self._read_writers_by_table(threads, tables, fallback_reason=reason)

    def _query_in_snapshot(self, sql: str) -> Sequence[tuple[Any, ...]]:
        for attempt in range(CONVERSION_ATTEMPTS):
            self._query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            try:
                return self._query(sql)
            except pymysql.err.MySQLError as error:
                if error.args[0] != CANNOT_CONVERT_CODE or attempt == CONVERSION_ATTEMPTS - 1:
                    raise
                self._pause(CONVERSION_RETRY_SECONDS)  # the statement with that character ends soon
            finally:
                if self._connection.open:
                    self._query("ROLLBACK")
        raise AssertionError("the last attempt returns or raises")

    def _read_writers_by_table(
        self, threads: Sequence[ServerThread], tables: AbstractSet[TableName], *, fallback_reason: str = ""
    ) -> WritersReading:
        """Read the writers of each table; `fallback_reason` says why the full list failed this time."""
        if self._schema:
            try:
                writers = [writer for table in sorted(tables) for writer in self._read_writers_of_table(threads, table)]
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _ACCESS_DENIED_CODES:
                    raise
            else:
                return WritersReading(sight=Visibility.TABLES, writers=tuple(writers), passing=bool(fallback_reason))
        if fallback_reason:
            return WritersReading(sight=Visibility.BLIND, trouble=fallback_reason)
        user = self._query_one("SELECT SUBSTRING_INDEX(USER(), '@', 1)")[0]
        return WritersReading(sight=Visibility.NOTHING, trouble=f"{MISSING_PRIVILEGE}: GRANT PROCESS ON *.* TO {user}")

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

    def _read_max_ids(self, ids: Mapping[TableName, str]) -> dict[TableName, int]:
        max_ids: dict[TableName, int] = {}
        for table, column in ids.items():
            sql = f"SELECT MAX({quote_name(column)}) FROM {quote_table(table.database, table.table)}"  # noqa: S608  # quoted
            rows = self._query_if_allowed(sql)  # the primary of a replica may not have the table
            if rows and rows[0][0] is not None:
                max_ids[table] = int(rows[0][0])
        return max_ids

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


def _merge_locks(before: TableLocks | None, after: TableLocks | None, *, without: int) -> TableLocks | None:
    if before is None or after is None:
        return None
    holders = (before.keys() | after.keys()) - {without}
    return {holder: before.get(holder, frozenset()) | after.get(holder, frozenset()) for holder in holders}
