"""Horizons for rows that are read from a replica: its primary's where that may be asked, else of what is applied."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from syncd.errors import AnotherServer, SourceDown, SourceUnfit
from syncd.mysql.connection_pool import LentSource
from syncd.mysql.horizon_poll import StampedElsewhere
from syncd.mysql.replica import RIGHT_MISSING, Replication
from syncd.mysql.source import MySqlSource
from syncd.mysql.sql import SERVER_CLOCK, as_identity, which_of
from syncd.ports.source import Asked, Horizon, Horizons, TableName

PROVABLE: Final = "source.primary would prove it"
OF_A_GROUP: Final = "group_replication"
"""What the channels begin with by which members of a group keep each other equal."""


class FollowedHorizons:
    """The horizons of a primary, each told once its replica has applied all that it covers.

    The primary is polled, then its binary log's end is taken, then the replica is waited for. So every probe and every
    snapshot at the replica sees at least what one at the primary would have seen when the poll was over.

    A replica may follow other primaries too, hold tables of its own, or have some by another name. Of a table that this
    primary does not show, nothing is proven.
    """

    def __init__(self, horizons: Horizons, *, primary: LentSource, replica: LentSource) -> None:
        self._horizons = horizons
        self._primary = primary
        self._replica = replica
        self._shown: dict[TableName, str] = {}
        """Tables that a primary has shown, and which one that was."""

    def of(self, asked: Sequence[Asked], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """The horizons of these tables now.

        Raises:
            SourceDown: the replica has not applied them in time, or replication does not run.
            SourceUnfit: it follows another server, or met an error that a person has to mend.
            AnotherServer: it was not the server that was polled whose log was asked for.
        """
        return self._caught_up(asked, self._horizons.of(asked, aged=aged))

    def known(self, asked: Sequence[Asked], *, within: timedelta) -> Mapping[TableName, Horizon]:
        """The same, but wait until every bound is known."""
        return self._caught_up(asked, self._horizons.known(asked, within=within))

    def current(self, table: TableName) -> Horizon:
        """The instant before which all that was committed is to be seen in whatever snapshot is opened after this."""
        t0 = _clock_of(self._primary)  # before the log's end is taken
        caught_up = self._replica.catch_up(self._primary.logged())
        found = Horizon(bound=t0, proven=True, t0=t0, identity=caught_up.identity)
        asked = Asked(table=table, settle=timedelta())
        if caught_up.several and self._not_there([asked]):
            return _elsewhere(asked, found, caught_up.slowest)
        return found

    def _caught_up(self, asked: Sequence[Asked], found: Mapping[TableName, Horizon]) -> Mapping[TableName, Horizon]:
        log = self._primary.logged()
        if strange := {horizon.identity for horizon in found.values()} - {log.identity}:
            self._primary.forget()
            raise AnotherServer(
                f"two servers answer as the primary: {min(strange)} was polled, the log is of {log.identity}",
                hint="The next pass asks both anew.",
            )
        caught_up = self._replica.catch_up(log)
        here = {table: replace(horizon, identity=caught_up.identity) for table, horizon in found.items()}
        # Is it there at all that this table is written? Asked once, but where others write too, or no id came.
        doubted = [
            each
            for each in asked
            if caught_up.several
            or self._shown.get(each.table) != log.identity
            or (each.id_column and here[each.table].ids is None)
        ]
        strangers = self._not_there(doubted)
        self._shown |= {each.table: log.identity for each in doubted if each not in strangers}
        return here | {each.table: _elsewhere(each, here[each.table], caught_up.slowest) for each in strangers}

    def _not_there(self, asked: Sequence[Asked]) -> Sequence[Asked]:
        """The tables of which the primary shows nothing."""
        if not asked:
            return ()
        rows = self._primary.rows(which_of([(each.table.database, each.table.table) for each in asked]))
        there = {TableName(database=as_identity(database), table=as_identity(table)).folded for database, table in rows}
        return [each for each in asked if each.table.folded not in there]


class AppliedHorizons:
    """The horizons of a server that may be a replica whose primary nobody named.

    What is open at its primary a replica does not know. So nothing is proven there: the bound stays behind what has
    been applied by the delay of each stream, as wherever nothing can be proven.
    """

    def __init__(self, horizons: Horizons, source: LentSource) -> None:
        self._horizons = horizons
        self._source = source

    def of(self, asked: Sequence[Asked], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        """The horizons of these tables now.

        Raises:
            SourceDown: replication does not run.
            SourceUnfit: the server is neither where rows are stamped, nor a replica that tells how far it is.
            AnotherServer: it is not the one that said that rows are stamped elsewhere.
        """
        try:
            return self._horizons.of(asked, aged=aged)
        except StampedElsewhere as error:
            return self._applied(asked, error)

    def known(self, asked: Sequence[Asked], *, within: timedelta) -> Mapping[TableName, Horizon]:
        """The same, but wait until every bound is known."""
        try:
            return self._horizons.known(asked, within=within)
        except StampedElsewhere as error:
            return self._applied(asked, error)

    def current(self, table: TableName) -> Horizon:
        """As of a followed one; where it is no replica, or may not be asked, everything is to be seen."""
        with self._source.lent() as source:
            identity = source.server().identity
            t0 = _clock_of(source)
            found = _following(source)
        if found is None or found.channel.startswith(OF_A_GROUP):
            return Horizon(bound=t0, proven=True, t0=t0, identity=identity)
        return _settled(Asked(table=table, settle=timedelta()), t0, found, _lag_of(found), identity=identity)

    def _applied(self, asked: Sequence[Asked], error: StampedElsewhere) -> Mapping[TableName, Horizon]:
        with self._source.lent() as source:
            identity = source.server().identity
            t0 = _clock_of(source)
            found = source.following()
            answered = {identity, source.identity}
        if strange := answered - {error.facts["identity"]}:
            self._source.forget()
            raise AnotherServer(
                f"two servers answer: {error.facts['identity']} stamps no rows, and {strange.pop()} was asked about it",
                hint="The next pass asks anew.",
            )
        if found is None:
            raise error  # it is read-only, and follows nobody
        lag = _lag_of(found)
        return {each.table: _settled(each, t0, found, lag, identity=identity) for each in asked}


def _clock_of(source: LentSource | MySqlSource) -> datetime:
    [(text,)] = source.rows(SERVER_CLOCK)
    return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)


def _following(source: MySqlSource) -> Replication | None:
    try:
        return source.following()
    except SourceUnfit as error:
        if error.facts.get("code") != RIGHT_MISSING:
            raise
        return None


def _lag_of(found: Replication) -> timedelta:
    if found.lag is not None:
        return found.lag
    why = f": {found.error.rstrip('.')}" if found.error else ""
    raise SourceDown(
        f"the replica does not know how far behind {found.host} it is{why}",
        hint="See SHOW REPLICA STATUS there; then START REPLICA; or, where rows are stamped there by now: RESET REPLICA"
        " ALL.",
    )


def _elsewhere(asked: Asked, found: Horizon, slowest: Replication) -> Horizon:
    """A table that is written elsewhere, or is not shown: of who is at work there nobody knows, nor of its ids."""
    behind = _lag_of(slowest) + asked.settle
    reason = (
        f"not proven: the server named as source.primary shows no {asked.table}: written at another one, it wants a"
        f" source of its own; written there, GRANT SELECT; stays {behind.total_seconds():.0f} s behind"
    )
    return replace(found, bound=found.t0 - behind, proven=False, reason=reason, holder="", ids=None)


def _settled(asked: Asked, t0: datetime, found: Replication, lag: timedelta, *, identity: str) -> Horizon:
    behind = lag + asked.settle
    reason = (
        f"not proven: rows are stamped on {found.host}, and this is its replica, {lag.total_seconds():.0f} s behind it;"
        f" stays {behind.total_seconds():.0f} s behind; {PROVABLE}"
    )
    return Horizon(bound=t0 - behind, proven=False, t0=t0, identity=identity, reason=reason)
