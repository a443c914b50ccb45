"""Horizons for rows that are read from a replica: from its primary, or from the replica's lag."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from syncd.datatypes.mysql_quoting import decode_text
from syncd.errors import ServerChanged, SourceDown, SourceUnfit
from syncd.mysql.horizon_poll import NotPrimaryServer
from syncd.mysql.replica import (
    RIGHT_MISSING_CODE,
    Replication,
    read_log_end,
    read_replication,
    wait_until_caught_up,
)
from syncd.mysql.source import MySqlSource, SourceConnection
from syncd.mysql.sql import SERVER_CLOCK_SQL, parse_server_clock, visible_tables_sql
from syncd.ports.source import Horizon, HorizonProvider, HorizonRequest, TableName

PRIMARY_SETTING_HINT: Final = "set source.primary to prove it"
GROUP_CHANNEL_PREFIX: Final = "group_replication"
"""Prefix of the channels that keep the members of a group equal."""


class ReplicatedHorizons:
    """The horizons of a primary, each returned once the replica has applied all that it covers.

    The primary is polled, then the end of its binary log is read, then the replica catches up to it. So every probe
    and every snapshot on the replica sees at least what one on the primary would have seen at the end of the poll.

    A replica may follow other primaries too, hold tables of its own, or rename some. Nothing is proven for a table
    that this primary does not show.
    """

    def __init__(self, horizons: HorizonProvider, *, primary: MySqlSource, replica: MySqlSource) -> None:
        self._horizons = horizons
        self._primary = primary
        self._replica = replica
        self._primary_by_table: dict[TableName, str] = {}
        """Tables that a primary has shown, with that primary's identity."""

    def get_horizons(self, requests: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """Return the current horizons of these tables.

        Raises:
            SourceDown: the replica has not caught up in time, or replication does not run.
            SourceUnfit: it follows another server, or stopped on an error that an operator has to fix.
            ServerChanged: the polled server is not the one whose binary log was read.
        """
        return self._wait_for_replica(requests, self._horizons.get_horizons(requests, aged=aged))

    def wait_for_horizons(
        self, requests: Sequence[HorizonRequest], *, within: timedelta
    ) -> Mapping[TableName, Horizon]:
        """Return the same horizons once every bound is known."""
        return self._wait_for_replica(requests, self._horizons.wait_for_horizons(requests, within=within))

    def read_snapshot_horizon(self, table: TableName) -> Horizon:
        """Return the instant before which every commit is visible in any snapshot opened after this."""
        t0 = _read_clock(self._primary)  # before the log's end is taken
        caught_up = self._replica.run(partial(wait_until_caught_up, log=self._primary.run(read_log_end)))
        found = Horizon(bound=t0, proven=True, t0=t0, identity=caught_up.identity)
        request = HorizonRequest(table=table, settle=timedelta())
        if caught_up.follows_several and self._find_tables_missing_at_primary([request]):
            return _horizon_of_table_missing_at_primary(request, found, caught_up.slowest)
        return found

    def _wait_for_replica(
        self, requests: Sequence[HorizonRequest], horizons: Mapping[TableName, Horizon]
    ) -> Mapping[TableName, Horizon]:
        log = self._primary.run(read_log_end)
        if strange := {horizon.identity for horizon in horizons.values()} - {log.identity}:
            self._primary.discard_connections()
            raise ServerChanged(
                f"two servers answer as the primary: {min(strange)} listed its transactions, {log.identity} its"
                " binary log",
                hint="The next pass polls again.",
            )
        caught_up = self._replica.run(partial(wait_until_caught_up, log=log))
        here = {table: replace(horizon, identity=caught_up.identity) for table, horizon in horizons.items()}
        # Check that this primary has the table: once, unless others write too or no id was read.
        doubted = [
            each
            for each in requests
            if caught_up.follows_several
            or self._primary_by_table.get(each.table) != log.identity
            or (each.id_column and here[each.table].max_complete_id is None)
        ]
        strangers = self._find_tables_missing_at_primary(doubted)
        self._primary_by_table |= {each.table: log.identity for each in doubted if each not in strangers}
        return here | {
            each.table: _horizon_of_table_missing_at_primary(each, here[each.table], caught_up.slowest)
            for each in strangers
        }

    def _find_tables_missing_at_primary(self, requests: Sequence[HorizonRequest]) -> Sequence[HorizonRequest]:
        """Return the tables that the primary does not show."""
        if not requests:
            return ()
        rows = self._primary.fetch_rows(
            visible_tables_sql([(each.table.database, each.table.table) for each in requests])
        )
        there = {
            TableName(database=decode_text(database), table=decode_text(table)).normal_form for database, table in rows
        }
        return [each for each in requests if each.table.normal_form not in there]


class ReplicaOnlyHorizons:
    """The horizons of a server that may be a replica without a configured primary.

    A replica does not know the open transactions of its primary, so nothing is proven. The bound stays behind the
    applied rows by each stream's delay, as wherever nothing can be proven.
    """

    def __init__(self, horizons: HorizonProvider, source: MySqlSource) -> None:
        self._horizons = horizons
        self._source = source

    def get_horizons(self, requests: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """Return the current horizons of these tables.

        Raises:
            SourceDown: replication does not run.
            SourceUnfit: the server is neither a primary nor a replica that reports its lag.
            ServerChanged: another server answered than the one that reported to be a replica.
        """
        try:
            return self._horizons.get_horizons(requests, aged=aged)
        except NotPrimaryServer as error:
            return self._read_applied_horizons(requests, error)

    def wait_for_horizons(
        self, requests: Sequence[HorizonRequest], *, within: timedelta
    ) -> Mapping[TableName, Horizon]:
        """Return the same horizons once every bound is known."""
        try:
            return self._horizons.wait_for_horizons(requests, within=within)
        except NotPrimaryServer as error:
            return self._read_applied_horizons(requests, error)

    def read_snapshot_horizon(self, table: TableName) -> Horizon:
        """Return the instant before which every commit is visible; on a server that is no replica, now."""
        with self._source.borrow() as connection:
            identity = connection.get_server_info().identity
            t0 = _read_clock(connection)
            found = _read_replication_if_allowed(connection)
        if found is None or found.channel.startswith(GROUP_CHANNEL_PREFIX):
            return Horizon(bound=t0, proven=True, t0=t0, identity=identity)
        return _delayed_horizon(
            HorizonRequest(table=table, settle=timedelta()), t0, found, _require_lag(found), identity=identity
        )

    def _read_applied_horizons(
        self, requests: Sequence[HorizonRequest], error: NotPrimaryServer
    ) -> Mapping[TableName, Horizon]:
        with self._source.borrow() as connection:
            identity = connection.get_server_info().identity
            t0 = _read_clock(connection)
            found = connection.run(read_replication)
            answered = {identity, connection.identity}
        if strange := answered - {error.facts["identity"]}:
            self._source.discard_connections()
            raise ServerChanged(
                f"two servers answer: {error.facts['identity']} is not a primary, {strange.pop()} reported its"
                " replication lag",
                hint="The next pass polls again.",
            )
        if found is None:
            raise error  # it is read-only and follows no other
        lag = _require_lag(found)
        return {each.table: _delayed_horizon(each, t0, found, lag, identity=identity) for each in requests}


def _read_clock(source: MySqlSource | SourceConnection) -> datetime:
    return parse_server_clock(source.fetch_rows(SERVER_CLOCK_SQL))


def _read_replication_if_allowed(connection: SourceConnection) -> Replication | None:
    try:
        return connection.run(read_replication)
    except SourceUnfit as error:
        if error.facts.get("code") != RIGHT_MISSING_CODE:
            raise
        return None


def _require_lag(replication: Replication) -> timedelta:
    if replication.lag is not None:
        return replication.lag
    why = f": {replication.error.rstrip('.')}" if replication.error else ""
    raise SourceDown(
        f"the replica of {replication.host} reports no lag{why}",
        hint="Check SHOW REPLICA STATUS on it, then run START REPLICA, or RESET REPLICA ALL if it is the primary now.",
    )


def _horizon_of_table_missing_at_primary(request: HorizonRequest, horizon: Horizon, slowest: Replication) -> Horizon:
    """Return an unproven horizon: the writers and ids of a table written elsewhere are unknown."""
    behind = _require_lag(slowest) + request.settle
    reason = (
        f"not proven: table {request.table} is not visible at source.primary: if it is written on another server,"
        f" configure a separate source for it, otherwise GRANT SELECT there; stays {behind.total_seconds():.0f}"
        " s behind"
    )
    return replace(horizon, bound=horizon.t0 - behind, proven=False, reason=reason, holder="", max_complete_id=None)


def _delayed_horizon(
    request: HorizonRequest, t0: datetime, replication: Replication, lag: timedelta, *, identity: str
) -> Horizon:
    behind = lag + request.settle
    reason = (
        f"not proven: this is a replica of {replication.host}, {lag.total_seconds():.0f} s behind it;"
        f" stays {behind.total_seconds():.0f} s behind; {PRIMARY_SETTING_HINT}"
    )
    return Horizon(bound=t0 - behind, proven=False, t0=t0, identity=identity, reason=reason)
