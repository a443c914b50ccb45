"""The queries of a poll for each kind of server, and the parsers of their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

from syncd.horizon.running_statements import REPLICATION_USER, is_write_lock, is_xa, kind_from_event, kind_from_text
from syncd.horizon.transaction_readings import ServerThread, Visibility, WritingTransaction
from syncd.ports.source import TableName

TableLocks: TypeAlias = Mapping[int, frozenset[TableName]]
"""The tables that each lock holder may write to."""

CLOCK_QUERY: Final = "SELECT UTC_TIMESTAMP(6), CONNECTION_ID(), @@GLOBAL.read_only, @@GLOBAL.innodb_read_only"
SCHEMA_THREADS_QUERY: Final = (
    "SELECT t.PROCESSLIST_ID, t.THREAD_ID, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME, t.PROCESSLIST_STATE,"
    " t.PROCESSLIST_USER, s.EVENT_NAME, t.NAME FROM performance_schema.threads t"
    " LEFT JOIN performance_schema.events_statements_current s"
    " ON s.THREAD_ID = t.THREAD_ID AND s.END_EVENT_ID IS NULL AND s.NESTING_EVENT_LEVEL = 0"
    " WHERE t.PROCESSLIST_ID IS NOT NULL"
)
PROCESSLIST_QUERY: Final = "SHOW PROCESSLIST"
MARIADB_THREADS_QUERY: Final = (
    "SELECT ID, COMMAND, TIME_MS, STATE, USER, LEFT(INFO, 60) FROM information_schema.PROCESSLIST"
)
LOST_INSTRUMENTS_QUERY: Final = (
    "SELECT SUM(VARIABLE_VALUE) FROM performance_schema.global_status WHERE VARIABLE_NAME IN"
    " ('Performance_schema_thread_instances_lost', 'Performance_schema_metadata_lock_lost')"
)
GROUP_MEMBERS_QUERY: Final = (
    "SELECT 1 FROM performance_schema.replication_group_members WHERE MEMBER_STATE NOT IN ('OFFLINE', '') LIMIT 1"
)
REPLICATION_CHANNELS_QUERY: Final = (
    "SELECT 1 FROM performance_schema.replication_connection_configuration"
    " WHERE HOST <> '' AND LEFT(CHANNEL_NAME, 17) <> 'group_replication' LIMIT 1"
)
SCHEMA_LOCKS_QUERY: Final = (
    "SELECT OBJECT_SCHEMA, OBJECT_NAME, OWNER_THREAD_ID, LOCK_TYPE FROM performance_schema.metadata_locks"
    " WHERE OBJECT_TYPE = 'TABLE'"
)
MARIADB_LOCKS_QUERY: Final = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, THREAD_ID, LOCK_MODE FROM information_schema.METADATA_LOCK_INFO"
    " WHERE LOCK_TYPE = 'Table metadata lock'"
)
TRANSACTIONS_QUERY: Final = (
    "SELECT /* hz {nonce} */ trx_mysql_thread_id, trx_id, trx_rows_modified, trx_is_read_only, trx_query"
    " FROM information_schema.INNODB_TRX"
)
TABLE_WRITERS_QUERY: Final = (
    "SELECT THREAD_ID, ENGINE_TRANSACTION_ID FROM performance_schema.data_locks WHERE LOCK_TYPE = 'TABLE'"
    " AND LOCK_MODE IN ('IX', 'X') AND OBJECT_SCHEMA = %s AND OBJECT_NAME = %s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritersReading:
    """The result of read B, or the reason why it shows nothing."""

    sight: Visibility
    writers: tuple[WritingTransaction, ...] = ()
    read_only: frozenset[int] = frozenset()
    trouble: str = ""
    passing: bool = False


def parse_table_name(row: tuple[Any, ...]) -> TableName:
    return TableName(database=str(row[0]), table=str(row[1]))


def parse_locks(rows: Sequence[tuple[Any, ...]]) -> TableLocks | None:
    """Return the lock holders with the tables that each may write to; a reader may write to none.

    MySQL lists some locks without an owner, at the moment when a thread begins or ends. If such a lock permits
    writing, any thread may be the writer, and the list proves nothing.
    """
    held: dict[int, set[TableName]] = {}
    for row in rows:
        writes = is_write_lock(row[3])
        if row[2] is None:
            if writes:
                return None
            continue
        tables = held.setdefault(int(row[2]), set())
        if writes:
            tables.add(parse_table_name(row).normal_form)
    return {holder: frozenset(tables) for holder, tables in held.items()}


def parse_writers(rows: Sequence[tuple[Any, ...]], own_connection: int, holders: Mapping[int, int]) -> WritersReading:
    return WritersReading(
        sight=Visibility.SERVER,
        writers=tuple(
            WritingTransaction(
                trx_id=str(trx_id),
                lock_owner=holders.get(int(connection), -1),
                connection=int(connection),
                xa=is_xa(query),
            )
            for connection, trx_id, modified, read_only, query in rows
            # A read-only transaction has changed only temporary tables of its own.
            if modified > 0 and connection != own_connection and read_only != 1
        ),
        read_only=frozenset(int(row[0]) for row in rows if row[3] == 1),
    )


def parse_schema_thread(
    connection: int, thread: int, command: str | None, seconds: int | None, state: str | None, *rest: str | None
) -> ServerThread:
    user, event, name = rest
    # The schema names the user who ran START REPLICA, where the process list says `system user`.
    if name is not None and name.startswith(("thread/sql/replica", "thread/sql/slave")):
        user = REPLICATION_USER
    running_for = _to_duration(seconds, 1)
    kind = kind_from_event(event)
    return _make_thread(connection, command, running_for, state, user, kind=kind, lock_owner=thread)


def parse_processlist_thread(connection: int, user: str | None, *rest: Any) -> ServerThread:  # noqa: ANN401  # from the driver
    _, _, command, seconds, state, text = rest
    return _make_thread(connection, command, _to_duration(seconds, 1), state, user, kind=kind_from_text(text))


def parse_mariadb_thread(connection: int, command: str | None, milliseconds: Any, *rest: str | None) -> ServerThread:  # noqa: ANN401  # as above
    state, user, text = rest
    running_for = _to_duration(milliseconds, 0.001)
    kind = kind_from_text(text)
    return _make_thread(connection, command, running_for, state, user, kind=kind, whole_seconds=False)


def _make_thread(
    connection: int,
    command: str | None,
    running_for: timedelta | None,
    state: str | None,
    user: str | None,
    *,
    kind: str,
    lock_owner: int | None = None,
    whole_seconds: bool = True,
) -> ServerThread:
    return ServerThread(
        connection=int(connection),
        lock_owner=int(connection if lock_owner is None else lock_owner),
        command=command or "",
        running_for=running_for,
        whole_seconds=whole_seconds,
        state=state or "",
        user=user or "",
        kind=kind,
    )


def _to_duration(count: Any, unit: float) -> timedelta | None:  # noqa: ANN401  # as above
    """Return a duration; None without a count, or for one that no calendar holds."""
    if count is None:
        return None
    try:
        return timedelta(seconds=float(count) * unit)
    except OverflowError:
        return None
