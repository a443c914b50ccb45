"""Horizons for rows that are read from a replica: its primary's where that may be asked, else of what is applied."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from syncd.errors import ServerChanged, SourceDown, SourceUnfit
from syncd.mysql.connection_pool import PooledSource
from syncd.mysql.horizon_poll import NotPrimaryServer
from syncd.mysql.replica import RIGHT_MISSING_CODE, Replication
from syncd.mysql.source import MySqlSource
from syncd.mysql.sql import SERVER_CLOCK_SQL, parse_identity, visible_tables_sql
from syncd.ports.source import Horizon, HorizonProvider, HorizonRequest, TableName

PRIMARY_SETTING_HINT: Final = "source.primary would prove it"
GROUP_CHANNEL_PREFIX: Final = "group_replication"
"""What the channels begin with by which members of a group keep each other equal."""


class ReplicatedHorizons:
    """The horizons of a primary, each told once its replica has applied all that it covers.

    The primary is polled, then its binary log's end is taken, then the replica is waited for. So every probe and every
    snapshot at the replica sees at least what one at the primary would have seen when the poll was over.

    A replica may follow other primaries too, hold tables of its own, or have some by another name. Of a table that this
    primary does not show, nothing is proven.
    """

    def __init__(self, horizons: HorizonProvider, *, primary: PooledSource, replica: PooledSource) -> None:
        self._horizons = horizons
        self._primary = primary
        self._replica = replica
        self._primary_by_table: dict[TableName, str] = {}
        """Tables that a primary has shown, and which one that was."""

    def get_horizons(self, asked: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """The horizons of these tables now.

        Raises:
            SourceDown: the replica has not applied them in time, or replication does not run.
            SourceUnfit: it follows another server, or met an error that a person has to mend.
            AnotherServer: it was not the server that was polled whose log was asked for.
        """
        return self._wait_for_replica(asked, self._horizons.get_horizons(asked, aged=aged))

    def wait_for_horizons(self, asked: Sequence[HorizonRequest], *, within: timedelta) -> Mapping[TableName, Horizon]:
        """The same, but wait until every bound is known."""
        return self._wait_for_replica(asked, self._horizons.wait_for_horizons(asked, within=within))

    def read_snapshot_horizon(self, table: TableName) -> Horizon:
        """The instant before which all that was committed is to be seen in whatever snapshot is opened after this."""
        t0 = _read_clock(self._primary)  # before the log's end is taken
        caught_up = self._replica.wait_until_caught_up(self._primary.read_binary_log())
        found = Horizon(bound=t0, proven=True, t0=t0, identity=caught_up.identity)
        asked = HorizonRequest(table=table, settle=timedelta())
        if caught_up.follows_several and self._find_tables_missing_at_primary([asked]):
            return _horizon_of_table_missing_at_primary(asked, found, caught_up.slowest)
        return found

    def _wait_for_replica(
        self, asked: Sequence[HorizonRequest], horizons: Mapping[TableName, Horizon]
    ) -> Mapping[TableName, Horizon]:
        log = self._primary.read_binary_log()
        if strange := {horizon.identity for horizon in horizons.values()} - {log.identity}:
            self._primary.discard_connections()
            raise ServerChanged(
                f"two servers answer as the primary: {min(strange)} was polled, the log is of {log.identity}",
                hint="The next pass asks both anew.",
            )
        caught_up = self._replica.wait_until_caught_up(log)
        here = {table: replace(horizon, identity=caught_up.identity) for table, horizon in horizons.items()}
        # Is it there at all that this table is written? Asked once, but where others write too, or no id came.
        doubted = [
            each
            for each in asked
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

    def _find_tables_missing_at_primary(self, asked: Sequence[HorizonRequest]) -> Sequence[HorizonRequest]:
        """The tables of which the primary shows nothing."""
        if not asked:
            return ()
        rows = self._primary.fetch_rows(visible_tables_sql([(each.table.database, each.table.table) for each in asked]))
        there = {
            TableName(database=parse_identity(database), table=parse_identity(table)).normal_form
            for database, table in rows
        }
        return [each for each in asked if each.table.normal_form not in there]


class ReplicaOnlyHorizons:
    """The horizons of a server that may be a replica whose primary nobody named.

    What is open at its primary a replica does not know. So nothing is proven there: the bound stays behind what has
    been applied by the delay of each stream, as wherever nothing can be proven.
    """

    def __init__(self, horizons: HorizonProvider, source: PooledSource) -> None:
        self._horizons = horizons
        self._source = source

    def get_horizons(self, asked: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """The horizons of these tables now.

        Raises:
            SourceDown: replication does not run.
            SourceUnfit: the server is neither where rows are stamped, nor a replica that tells how far it is.
            AnotherServer: it is not the one that said that rows are stamped elsewhere.
        """
        try:
            return self._horizons.get_horizons(asked, aged=aged)
        except NotPrimaryServer as error:
            return self._read_applied_horizons(asked, error)

    def wait_for_horizons(self, asked: Sequence[HorizonRequest], *, within: timedelta) -> Mapping[TableName, Horizon]:
        """The same, but wait until every bound is known."""
        try:
            return self._horizons.wait_for_horizons(asked, within=within)
        except NotPrimaryServer as error:
            return self._read_applied_horizons(asked, error)

    def read_snapshot_horizon(self, table: TableName) -> Horizon:
        """As of a followed one; where it is no replica, or may not be asked, everything is to be seen."""
        with self._source.borrow() as source:
            identity = source.get_server_info().identity
            t0 = _read_clock(source)
            found = _read_replication_if_allowed(source)
        if found is None or found.channel.startswith(GROUP_CHANNEL_PREFIX):
            return Horizon(bound=t0, proven=True, t0=t0, identity=identity)
        return _delayed_horizon(
            HorizonRequest(table=table, settle=timedelta()), t0, found, _require_lag(found), identity=identity
        )

    def _read_applied_horizons(
        self, asked: Sequence[HorizonRequest], error: NotPrimaryServer
    ) -> Mapping[TableName, Horizon]:
        with self._source.borrow() as source:
            identity = source.get_server_info().identity
            t0 = _read_clock(source)
            found = source.read_replication_status()
            answered = {identity, source.identity}
        if strange := answered - {error.facts["identity"]}:
            self._source.discard_connections()
            raise ServerChanged(
                f"two servers answer: {error.facts['identity']} stamps no rows, and {strange.pop()} was asked about it",
                hint="The next pass asks anew.",
            )
        if found is None:
            raise error  # it is read-only, and follows nobody
        lag = _require_lag(found)
        return {each.table: _delayed_horizon(each, t0, found, lag, identity=identity) for each in asked}


def _read_clock(source: PooledSource | MySqlSource) -> datetime:
    [(text,)] = source.fetch_rows(SERVER_CLOCK_SQL)
    return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)


def _read_replication_if_allowed(source: MySqlSource) -> Replication | None:
    try:
        return source.read_replication_status()
    except SourceUnfit as error:
        if error.facts.get("code") != RIGHT_MISSING_CODE:
            raise
        return None


def _require_lag(replication: Replication) -> timedelta:
    if replication.lag is not None:
        return replication.lag
    why = f": {replication.error.rstrip('.')}" if replication.error else ""
    raise SourceDown(
        f"the replica does not know how far behind {replication.host} it is{why}",
        hint="See SHOW REPLICA STATUS there; then START REPLICA; or, where rows are stamped there by now: RESET REPLICA"
        " ALL.",
    )


def _horizon_of_table_missing_at_primary(asked: HorizonRequest, horizon: Horizon, slowest: Replication) -> Horizon:
    """A table that is written elsewhere, or is not shown: of who is at work there nobody knows, nor of its ids."""
    behind = _require_lag(slowest) + asked.settle
    reason = (
        f"not proven: the server named as source.primary shows no {asked.table}: written at another one, it wants a"
        f" source of its own; written there, GRANT SELECT; stays {behind.total_seconds():.0f} s behind"
    )
    return replace(horizon, bound=horizon.t0 - behind, proven=False, reason=reason, holder="", max_complete_id=None)


def _delayed_horizon(
    asked: HorizonRequest, t0: datetime, replication: Replication, lag: timedelta, *, identity: str
) -> Horizon:
    behind = lag + asked.settle
    reason = (
        f"not proven: rows are stamped on {replication.host}, and this is its replica, {lag.total_seconds():.0f} s behind"
        f" it; stays {behind.total_seconds():.0f} s behind; {PRIMARY_SETTING_HINT}"
    )
    return Horizon(bound=t0 - behind, proven=False, t0=t0, identity=identity, reason=reason)
