"""A replica as source: whom it follows, how far behind it is, and when it has applied what its primary has committed.

A horizon is found at the primary, and rows are read here. Between the two lies a
position in the primary's binary log: taken after the poll, it stands behind every
transaction that the poll knew to be over, because a server writes its log before it
lets others see the rows. GTIDs of MySQL do not serve: they are added after that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any, Final

from pymysql.constants import ER
from pymysql.cursors import DictCursor

from syncd.datatypes.source_table import ServerInfo
from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.connection import Connection, map_driver_errors
from syncd.settings import SourceSettings

_LONGEST_WAIT_SECONDS: Final = 5.0
"""Seconds: one question stays far below what a connection's silence may be."""
_WAIT_TIMED_OUT: Final = -1
RIGHT_MISSING_CODE: Final = ER.SPECIFIC_ACCESS_DENIED_ERROR
_BINARY_LOG_STATUS_SINCE: Final = (8, 2, 0)
_SOURCE_POS_WAIT_SINCE: Final = (8, 0, 26)
_REPLICA_STATUS_SINCE: Final = (8, 0, 22)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """A place in a primary's binary log."""

    file: str
    offset: int
    gtid: str = ""
    """MariaDB's, which counts in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryLog:
    """A primary's binary log, as it ends at some time."""

    position: LogPosition
    primary_id: str
    """What replicas know the primary by: its `server_uuid`; of MariaDB its `server_id`."""
    identity: str
    """Which server that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """How a server follows a primary: one channel, of which a replica may have several."""

    channel: str
    """Empty where nobody named it."""

    host: str
    """The primary, as the replica calls it."""
    primary_id: str
    """Its `server_uuid`; of MariaDB its `server_id`."""
    running: bool
    """Whether it both fetches and applies."""
    lag: timedelta | None
    """None while it does not know."""
    error: str
    """Why it stopped; empty if nobody knows of an error."""
    by_gtid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUpReplica:
    """A replica that has applied what stood in the log of one of its primaries."""

    identity: str
    slowest: Replication
    """Of its channels the one that is behind the furthest."""
    follows_several: bool
    """Whether it follows other primaries too: what they write is not in that log."""


def read_log_position(primary: Connection, server: ServerInfo, settings: SourceSettings) -> LogPosition:
    """Where the binary log ends now; everything that was seen before lies before it.

    Raises:
        SourceUnfit: no such log is written, or it may not be seen.
    """
    newer = not server.mariadb and server.version >= _BINARY_LOG_STATUS_SINCE
    found = _query_one(primary, "SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS", server, settings)
    if found is None:
        raise SourceUnfit(
            f"{settings.host}:{settings.port} writes no binary log: nothing tells what its replicas have applied",
            hint="Turn log_bin on there, or read from the primary itself.",
        )
    gtid = _query_one(primary, "SELECT @@GLOBAL.gtid_binlog_pos AS gtid", server, settings) if server.mariadb else None
    return LogPosition(file=found["File"], offset=found["Position"], gtid=gtid["gtid"] if gtid else "")


def read_channels(connection: Connection, server: ServerInfo, settings: SourceSettings) -> tuple[Replication, ...]:
    """How a server follows each of its primaries.

    Raises:
        SourceUnfit: it may not be seen.
    """
    asked = show_channels_statement(server.version, mariadb=server.mariadb)
    return tuple(_parse_channel(row, server) for row in _query_all(connection, asked, server, settings))


def show_channels_statement(version: tuple[int, ...], *, mariadb: bool) -> str:
    """The statement that shows how a server follows others: a row for each of them."""
    if mariadb:
        return "SHOW ALL SLAVES STATUS"  # without the word it shows but one
    return "SHOW REPLICA STATUS" if version >= _REPLICA_STATUS_SINCE else "SHOW SLAVE STATUS"


def read_replication(connection: Connection, server: ServerInfo, settings: SourceSettings) -> Replication | None:
    """How a server follows others, all in all; none if it does not."""
    return find_slowest_channel(read_channels(connection, server, settings))


def find_slowest_channel(channels: Sequence[Replication]) -> Replication | None:
    """The channel that is behind the furthest, one that does not know how far before all others.

    It runs only where all of them do: a row may come by any.
    """
    if not channels:
        return None
    last = max(channels, key=lambda each: timedelta.max if each.lag is None else each.lag)
    return replace(last, running=all(each.running for each in channels))


def _parse_channel(found: Mapping[str, Any], server: ServerInfo) -> Replication:
    told = {name.lower().replace("master", "source").replace("slave", "replica"): found[name] for name in found}
    lag = told["seconds_behind_source"]
    return Replication(
        channel=told["connection_name" if server.mariadb else "channel_name"],
        host=f"{told['source_host']}:{told['source_port']}",
        primary_id=str(told["source_server_id"] if server.mariadb else told["source_uuid"]),
        running=told["replica_io_running"] == "Yes" and told["replica_sql_running"] == "Yes",
        lag=None if lag is None else timedelta(seconds=int(lag)),
        error=told["last_sql_error"] or told["last_io_error"],
        by_gtid=server.mariadb and told["using_gtid"] != "No",
    )


def read_log_end(primary: Connection, server: ServerInfo, settings: SourceSettings) -> BinaryLog:
    """A primary's binary log, as it ends now; see `position_of`."""
    position = read_log_position(primary, server, settings)
    return BinaryLog(position=position, primary_id=read_primary_id(primary, server, settings), identity=server.identity)


def read_primary_id(primary: Connection, server: ServerInfo, settings: SourceSettings) -> str:
    """What replicas know this server by."""
    variable = "server_id" if server.mariadb else "server_uuid"
    found = _query_one(primary, f"SELECT @@GLOBAL.{variable} AS name", server, settings)
    assert found is not None
    return str(found["name"])


def require_channel_to(channels: Sequence[Replication], *, primary_id: str, settings: SourceSettings) -> Replication:
    """The channel by which a server follows this very primary: its positions mean nothing to any other.

    Raises:
        SourceUnfit: it does not.
    """
    if not channels:
        raise SourceUnfit(
            f"{settings.host}:{settings.port} is no replica that tells what it has applied",
            hint="Read from the primary itself, or leave `primary` out.",
        )
    found = next((each for each in channels if each.primary_id == primary_id), None)
    if found is None:
        hosts = ", ".join(each.host for each in channels)
        raise SourceUnfit(
            f"{settings.host}:{settings.port} follows {hosts}, which is not the server named as its primary",
            hint="Name the server that it follows directly as `primary`.",
        )
    return found


def wait_until_applied(
    replica: Connection,
    server: ServerInfo,
    settings: SourceSettings,
    position: LogPosition,
    *,
    followed: Replication,
    within: timedelta,
    clock: Callable[[], float] = monotonic,
) -> None:
    """Return once every transaction before a position of the primary that is `followed` can be seen here.

    A snapshot must be opened after that.

    Raises:
        SourceDown: it was not there in time, or replication does not run.
        SourceUnfit: replication met an error that a person has to mend.
    """
    question, arguments = _build_wait_query(server, position, followed)
    end = clock() + within.total_seconds()
    longest = min(_LONGEST_WAIT_SECONDS, settings.silence.total_seconds() / 2)
    while True:
        # Whole seconds: MySQL takes a fraction for none, and none for ever.
        seconds = max(1, int(min(longest, end - clock())))
        found = _query_one(replica, question, server, settings, {**arguments, "seconds": seconds})
        answer = None if found is None else found["answer"]
        if answer is not None and int(answer) > _WAIT_TIMED_OUT:
            return
        _require_running(replica, server, settings, channel=followed.channel)
        if clock() >= end:
            raise SourceDown(
                f"the replica {settings.host}:{settings.port} has not applied"
                f" {position.file}:{position.offset} of its primary in {within.total_seconds():g} s",
                hint="It is behind: see SHOW REPLICA STATUS there.",
            )


def _require_running(replica: Connection, server: ServerInfo, settings: SourceSettings, *, channel: str) -> None:
    channels = read_channels(replica, server, settings)
    found = next((each for each in channels if each.channel == channel), None)
    if found is not None and found.running:
        return
    told = f"replication at {settings.host}:{settings.port} does not run"
    hint = "See SHOW REPLICA STATUS there; then START REPLICA."
    if found is not None and found.error:
        raise SourceUnfit(f"{told}: {found.error.rstrip('.')}", hint=hint)
    raise SourceDown(told, hint=hint)


def _build_wait_query(
    server: ServerInfo, position: LogPosition, followed: Replication
) -> tuple[str, Mapping[str, object]]:
    if followed.by_gtid and position.gtid:
        # Of several workers on several domains, only this knows the last.
        return "SELECT MASTER_GTID_WAIT(%(gtid)s, %(seconds)s) AS answer", {"gtid": position.gtid}
    newer = not server.mariadb and server.version >= _SOURCE_POS_WAIT_SINCE
    name = "SOURCE_POS_WAIT" if newer else "MASTER_POS_WAIT"
    arguments = {"file": position.file, "offset": position.offset, "channel": followed.channel}
    return f"SELECT {name}(%(file)s, %(offset)s, %(seconds)s, %(channel)s) AS answer", arguments


def _query_one(
    connection: Connection,
    sql: str,
    server: ServerInfo,
    settings: SourceSettings,
    arguments: Mapping[str, object] | None = None,
) -> Mapping[str, Any] | None:
    return next(iter(_query_all(connection, sql, server, settings, arguments)), None)


def _query_all(
    connection: Connection,
    sql: str,
    server: ServerInfo,
    settings: SourceSettings,
    arguments: Mapping[str, object] | None = None,
) -> Sequence[Mapping[str, Any]]:
    try:
        with map_driver_errors(settings), connection.cursor(DictCursor) as cursor:
            cursor.execute(sql, arguments)
            return tuple(cursor.fetchall())
    except SourceUnfit as error:
        rights = "BINLOG MONITOR, REPLICA MONITOR" if server.mariadb else "REPLICATION CLIENT"
        if error.facts.get("code") != RIGHT_MISSING_CODE:
            raise
        raise SourceUnfit(error.message, hint=f"GRANT {rights} ON *.* TO {settings.user}", **error.facts) from error
