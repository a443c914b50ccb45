"""The questions of a poll, one for each kind of server, and what their rows mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

from syncd.horizon.readings import Sight, Thread, Writer
from syncd.horizon.statements import REPLICATION_USER, is_write_lock, is_xa, kind_of_event, kind_of_text
from syncd.ports.source import TableName

Locks: TypeAlias = Mapping[int, frozenset[TableName]]
"""What each holder of locks may write to."""

T0: Final = "SELECT UTC_TIMESTAMP(6), CONNECTION_ID(), @@GLOBAL.read_only, @@GLOBAL.innodb_read_only"
A_SCHEMA: Final = (
    "SELECT t.PROCESSLIST_ID, t.THREAD_ID, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME, t.PROCESSLIST_STATE,"
    " t.PROCESSLIST_USER, s.EVENT_NAME, t.NAME FROM performance_schema.threads t"
    " LEFT JOIN performance_schema.events_statements_current s"
    " ON s.THREAD_ID = t.THREAD_ID AND s.END_EVENT_ID IS NULL AND s.NESTING_EVENT_LEVEL = 0"
    " WHERE t.PROCESSLIST_ID IS NOT NULL"
)
A_LIST: Final = "SHOW PROCESSLIST"
A_MARIADB: Final = "SELECT ID, COMMAND, TIME_MS, STATE, USER, LEFT(INFO, 60) FROM information_schema.PROCESSLIST"
LOST: Final = (
    "SELECT SUM(VARIABLE_VALUE) FROM performance_schema.global_status WHERE VARIABLE_NAME IN"
    " ('Performance_schema_thread_instances_lost', 'Performance_schema_metadata_lock_lost')"
)
GROUP: Final = (
    "SELECT 1 FROM performance_schema.replication_group_members WHERE MEMBER_STATE NOT IN ('OFFLINE', '') LIMIT 1"
)
FOLLOWS: Final = (
    "SELECT 1 FROM performance_schema.replication_connection_configuration"
    " WHERE HOST <> '' AND LEFT(CHANNEL_NAME, 17) <> 'group_replication' LIMIT 1"
)
C_SCHEMA: Final = (
    "SELECT OBJECT_SCHEMA, OBJECT_NAME, OWNER_THREAD_ID, LOCK_TYPE FROM performance_schema.metadata_locks"
    " WHERE OBJECT_TYPE = 'TABLE'"
)
C_MARIADB: Final = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, THREAD_ID, LOCK_MODE FROM information_schema.METADATA_LOCK_INFO"
    " WHERE LOCK_TYPE = 'Table metadata lock'"
)
B: Final = (
    "SELECT /* hz {nonce} */ trx_mysql_thread_id, trx_id, trx_rows_modified, trx_is_read_only, trx_query"
    " FROM information_schema.INNODB_TRX"
)
B_TABLE: Final = (
    "SELECT THREAD_ID, ENGINE_TRANSACTION_ID FROM performance_schema.data_locks WHERE LOCK_TYPE = 'TABLE'"
    " AND LOCK_MODE IN ('IX', 'X') AND OBJECT_SCHEMA = %s AND OBJECT_NAME = %s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """What read B found, or why it found nothing."""

    sight: Sight
    found: tuple[Writer, ...] = ()
    read_only: frozenset[int] = frozenset()
    trouble: str = ""
    passing: bool = False


def named(row: tuple[Any, ...]) -> TableName:
    return TableName(database=str(row[0]), table=str(row[1]))


def locks_of(rows: Sequence[tuple[Any, ...]]) -> Locks | None:
    """Who holds locks, and the tables that each may write to: of who only reads, none.

    MySQL knows of some no owner, in the moment in which a thread begins or ends. Where such a one may be written by,
    anybody may be its writer, and this list says nothing.
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
            tables.add(named(row).folded)
    return {holder: frozenset(tables) for holder, tables in held.items()}


def writers_of(rows: Sequence[tuple[Any, ...]], own: int, holders: Mapping[int, int]) -> Writers:
    return Writers(
        sight=Sight.SERVER,
        found=tuple(
            Writer(
                trx_id=str(trx_id),
                holder=holders.get(int(connection), -1),
                connection=int(connection),
                xa=is_xa(query),
            )
            for connection, trx_id, modified, read_only, query in rows
            # One that is read only has changed temporary tables of its own, and no other's.
            if modified > 0 and connection != own and read_only != 1
        ),
        read_only=frozenset(int(row[0]) for row in rows if row[3] == 1),
    )


def thread_of_schema(
    connection: int, thread: int, command: str | None, seconds: int | None, state: str | None, *rest: str | None
) -> Thread:
    user, event, name = rest
    # The schema names whoever said START REPLICA, where the process list says `system user`.
    if name is not None and name.startswith(("thread/sql/replica", "thread/sql/slave")):
        user = REPLICATION_USER
    return Thread(
        connection=int(connection),
        holder=int(thread),
        command=command or "",
        busy=_span(seconds, 1),
        whole_seconds=True,
        state=state or "",
        user=user or "",
        kind=kind_of_event(event),
    )


def thread_of_list(connection: int, user: str | None, *rest: Any) -> Thread:  # noqa: ANN401  # whatever the driver gave
    _, _, command, seconds, state, text = rest
    return Thread(
        connection=int(connection),
        holder=int(connection),
        command=command or "",
        busy=_span(seconds, 1),
        whole_seconds=True,
        state=state or "",
        user=user or "",
        kind=kind_of_text(text),
    )


def thread_of_mariadb(connection: int, command: str | None, milliseconds: Any, *rest: str | None) -> Thread:  # noqa: ANN401  # as above
    state, user, text = rest
    return Thread(
        connection=int(connection),
        holder=int(connection),
        command=command or "",
        busy=_span(milliseconds, 0.001),
        whole_seconds=False,
        state=state or "",
        user=user or "",
        kind=kind_of_text(text),
    )


def _span(count: Any, unit: float) -> timedelta | None:  # noqa: ANN401  # as above
    """That many units of seconds; None where there is no count, or one that no calendar holds."""
    if count is None:
        return None
    try:
        return timedelta(seconds=float(count) * unit)
    except OverflowError:
        return None
