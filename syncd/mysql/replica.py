"""Replica as source: which primary it follows, how far it lags, and when it has caught up.

The horizon is found at the primary, and rows are read from the replica. A position in the primary's binary log
connects the two: taken after the poll, it is behind every transaction that the poll saw as finished, because a server
writes its log before it makes the rows visible. GTIDs of MySQL do not serve: they are added after that.
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
"""One wait query stays far below a connection's longest silence."""
_WAIT_TIMED_OUT: Final = -1
RIGHT_MISSING_CODE: Final = ER.SPECIFIC_ACCESS_DENIED_ERROR
_BINARY_LOG_STATUS_SINCE: Final = (8, 2, 0)
_SOURCE_POS_WAIT_SINCE: Final = (8, 0, 26)
_REPLICA_STATUS_SINCE: Final = (8, 0, 22)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """A position in a primary's binary log."""

    file: str
    offset: int
    gtid: str = ""
    """The GTID position of MariaDB, which counts in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryLog:
    """A primary's binary log with its end at some time."""

    position: LogPosition
    primary_id: str
    """Name of the primary on its replicas: its `server_uuid`, or the `server_id` of a MariaDB."""
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """One replication channel of a server; a replica may have several."""

    channel: str
    """Empty if the channel has no name."""

    host: str
    """The primary, as the replica names it."""
    primary_id: str
    """The primary's `server_uuid`, or the `server_id` of a MariaDB."""
    running: bool
    """Whether it both fetches and applies."""
    lag: timedelta | None
    """None if the replica does not know it."""
    error: str
    """Why it stopped; empty if no error is known."""
    by_gtid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUpReplica:
    """A replica that has applied the binary log of one of its primaries up to a position."""

    identity: str
    slowest: Replication
    """The channel with the longest lag."""
    follows_several: bool
    """Whether it follows other primaries too; their writes are not in that log."""


def read_log_position(primary: Connection, server: ServerInfo, settings: SourceSettings) -> LogPosition:
    """Return the current end of the binary log; everything visible before lies before it.

    Raises:
        SourceUnfit: the server writes no binary log, or the user may not see it.
    """
    newer = not server.mariadb and server.version >= _BINARY_LOG_STATUS_SINCE
    found = _query_one(primary, "SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS", server, settings)
    if found is None:
        raise SourceUnfit(
            f"{settings.host}:{settings.port} writes no binary log, so the progress of its replicas is unknown",
            hint="Enable log_bin on it, or read from the primary itself.",
        )
    gtid = _query_one(primary, "SELECT @@GLOBAL.gtid_binlog_pos AS gtid", server, settings) if server.mariadb else None
    return LogPosition(file=found["File"], offset=found["Position"], gtid=gtid["gtid"] if gtid else "")


def read_channels(connection: Connection, server: ServerInfo, settings: SourceSettings) -> tuple[Replication, ...]:
    """Return every replication channel of a server.

    Raises:
        SourceUnfit: the user may not see them.
    """
    sql = show_channels_statement(server.version, mariadb=server.mariadb)
    return tuple(_parse_channel(row, server) for row in _query_all(connection, sql, server, settings))


def show_channels_statement(version: tuple[int, ...], *, mariadb: bool) -> str:
    """Return the statement that shows one row for each replication channel."""
    if mariadb:
        return "SHOW ALL SLAVES STATUS"  # without ALL it shows only one channel
    return "SHOW REPLICA STATUS" if version >= _REPLICA_STATUS_SINCE else "SHOW SLAVE STATUS"


def read_replication(connection: Connection, server: ServerInfo, settings: SourceSettings) -> Replication | None:
    """Return the slowest replication channel of a server; None if it follows no other."""
    return find_slowest_channel(read_channels(connection, server, settings))


def find_slowest_channel(channels: Sequence[Replication]) -> Replication | None:
    """Return the channel with the longest lag; an unknown lag counts as the longest.

    It counts as running only if all channels run: a row may arrive over any of them.
    """
    if not channels:
        return None
    last = max(channels, key=lambda each: timedelta.max if each.lag is None else each.lag)
    return replace(last, running=all(each.running for each in channels))


def _parse_channel(row: Mapping[str, Any], server: ServerInfo) -> Replication:
    fields = {name.lower().replace("master", "source").replace("slave", "replica"): row[name] for name in row}
    lag = fields["seconds_behind_source"]
    return Replication(
        channel=fields["connection_name" if server.mariadb else "channel_name"],
        host=f"{fields['source_host']}:{fields['source_port']}",
        primary_id=str(fields["source_server_id"] if server.mariadb else fields["source_uuid"]),
        running=fields["replica_io_running"] == "Yes" and fields["replica_sql_running"] == "Yes",
        lag=None if lag is None else timedelta(seconds=int(lag)),
        error=fields["last_sql_error"] or fields["last_io_error"],
        by_gtid=server.mariadb and fields["using_gtid"] != "No",
    )


def read_log_end(primary: Connection, server: ServerInfo, settings: SourceSettings) -> BinaryLog:
    """Return the current end of a primary's binary log; see `read_log_position`."""
    position = read_log_position(primary, server, settings)
    return BinaryLog(position=position, primary_id=read_primary_id(primary, server, settings), identity=server.identity)


def read_primary_id(primary: Connection, server: ServerInfo, settings: SourceSettings) -> str:
    """Return the name by which replicas know this server."""
    variable = "server_id" if server.mariadb else "server_uuid"
    found = _query_one(primary, f"SELECT @@GLOBAL.{variable} AS name", server, settings)
    assert found is not None
    return str(found["name"])


def require_channel_to(channels: Sequence[Replication], *, primary_id: str, settings: SourceSettings) -> Replication:
    """Return the channel over which a server follows this primary: its log positions mean nothing to others.

    Raises:
        SourceUnfit: the server does not follow this primary.
    """
    if not channels:
        raise SourceUnfit(
            f"{settings.host}:{settings.port} is not a replica, or does not report its progress",
            hint="Read from the primary itself, or remove `primary`.",
        )
    found = next((each for each in channels if each.primary_id == primary_id), None)
    if found is None:
        hosts = ", ".join(each.host for each in channels)
        raise SourceUnfit(
            f"{settings.host}:{settings.port} follows {hosts}, which is not the server named as its primary",
            hint="Set `primary` to the server that it follows directly.",
        )
    return found


def wait_until_caught_up(
    replica: Connection, server: ServerInfo, settings: SourceSettings, *, log: BinaryLog
) -> CaughtUpReplica:
    """Return once the replica has applied everything in the binary log of this primary.

    Raises:
        SourceDown: it did not within `catch_up`, or replication does not run.
        SourceUnfit: it follows another server, or none.
    """
    channels = read_channels(replica, server, settings)
    followed = require_channel_to(channels, primary_id=log.primary_id, settings=settings)
    wait_until_applied(replica, server, settings, log.position, followed=followed, within=settings.catch_up)
    slowest_now = find_slowest_channel(read_channels(replica, server, settings)) if channels[1:] else None
    return CaughtUpReplica(identity=server.identity, slowest=slowest_now or followed, follows_several=len(channels) > 1)


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
    """Return once every transaction before a position of the `followed` primary is visible on the replica.

    The snapshot must be opened after that.

    Raises:
        SourceDown: the position was not reached in time, or replication does not run.
        SourceUnfit: replication stopped on an error that an operator has to fix.
    """
    question, arguments = _build_wait_query(server, position, followed)
    end = clock() + within.total_seconds()
    longest = min(_LONGEST_WAIT_SECONDS, settings.silence.total_seconds() / 2)
    while True:
        # Whole seconds: MySQL takes a fraction for zero, and zero for no limit.
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
                hint="The replica lags: check SHOW REPLICA STATUS on it.",
            )


def _require_running(replica: Connection, server: ServerInfo, settings: SourceSettings, *, channel: str) -> None:
    channels = read_channels(replica, server, settings)
    found = next((each for each in channels if each.channel == channel), None)
    if found is not None and found.running:
        return
    message = f"replication at {settings.host}:{settings.port} does not run"
    hint = "Check SHOW REPLICA STATUS on it, then run START REPLICA."
    if found is not None and found.error:
        raise SourceUnfit(f"{message}: {found.error.rstrip('.')}", hint=hint)
    raise SourceDown(message, hint=hint)


def _build_wait_query(
    server: ServerInfo, position: LogPosition, followed: Replication
) -> tuple[str, Mapping[str, object]]:
    if followed.by_gtid and position.gtid:
        # With several workers or domains, only this function knows the last transaction.
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
