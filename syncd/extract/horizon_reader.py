"""Horizon of one stream's table, with the doubts that the table itself raises."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import ServerChanged
from syncd.extract.index_probes import Prober
from syncd.extract.plan_rules import PlanContext, ProposalContext
from syncd.horizon import (
    BeforeTrigger,
    StampKind,
    find_bypassing_trigger,
    find_stamp_kind,
    find_unstamped_change,
    parse_triggers,
)
from syncd.mysql.sql import MARIADB_IDENTITY_PREFIX, before_triggers_sql
from syncd.ports.source import Horizon, HorizonProvider, HorizonRequest, SourceDatabase, TableName
from syncd.tables.order_clock import OrderClock

UNKNOWN_ZONE_REASON: Final = "the session time zone of writers is not configured (source: zone)"


@dataclass(kw_only=True)
class HorizonReader:
    """Reads the horizon for one stream, of the very server whose rows are read."""

    source: SourceDatabase
    prober: Prober
    horizons: HorizonProvider
    read_snapshot_horizon: Callable[[TableName], Horizon] | None
    """Returns what any snapshot that is opened afterwards shows of a table; None: all that is committed by then."""
    zone: str | None
    """The session time zone of writers."""
    max_wait: timedelta
    """Longest wait of a stream without a mark, for transactions of which nothing is known."""
    _triggers: Sequence[BeforeTrigger] | None = field(default=None, init=False)

    def read_horizon(
        self, context: ProposalContext, clock: OrderClock | None, *, max_age_seconds: float = 0.0
    ) -> Horizon:
        """Return the horizon of the stream's table; where others make the stamps it is a guess, and not proven.

        Raises:
            ServerChanged: the horizon is of another server, which knows nothing of the open transactions of the one
                whose rows are read.
        """
        horizon = self._read_horizon(context, clock, max_age_seconds=max_age_seconds)
        return self._require_same_server(horizon, context.table, identity=context.facts.identity)

    def read_whole_table_horizon(self, facts: PlanContext, table: SourceTable) -> Horizon:
        """Return what a snapshot of the whole table will show, if it is opened afterwards."""
        if self.read_snapshot_horizon is None:
            now = self.prober.read_clock()
            return Horizon(bound=now, proven=True, t0=now, identity=facts.identity)
        horizon = self.read_snapshot_horizon(TableName(database=table.database, table=table.name))
        return self._require_same_server(horizon, table, identity=facts.identity)

    def _require_same_server(self, horizon: Horizon, table: SourceTable, *, identity: str) -> Horizon:
        if horizon.identity == identity:
            return horizon
        self.source.discard_connections()
        raise ServerChanged(
            f"two servers answer: {table} would be read from {identity},"
            f" but its open transactions were listed by {horizon.identity}",
            hint="Check whether the address of the source leads to several servers. The next run tries again.",
        )

    def _read_horizon(self, context: ProposalContext, clock: OrderClock | None, *, max_age_seconds: float) -> Horizon:
        table, order = context.table, context.order
        column = table.find_column(order.columns[0].name)
        stamp = find_stamp_kind(column) if clock and column else None
        request = self._build_request(context, clock)
        # Without a mark nothing is known of transactions older than the first poll: the stream waits for their end.
        if context.mark or (clock and stamp is None):
            horizon = self.horizons.get_horizons([request], aged=max_age_seconds)[request.table]
        else:
            horizon = self.horizons.wait_for_horizons([request], within=self.max_wait)[request.table]
        if clock and stamp is None:
            return self._delayed_horizon(horizon, context)
        doubt = UNKNOWN_ZONE_REASON if stamp is StampKind.WALL and self.zone is None else ""
        if stamp and column and horizon.proven and not doubt:
            doubt = find_unstamped_change(self.source.show_create_table(table.database, table.name))
            if not doubt and not max_age_seconds:  # for a stream at rest only the bound counts
                doubt = self._find_stamp_bypass(context, column)
        return replace(horizon, proven=False, reason=horizon.reason or doubt) if doubt else horizon

    @staticmethod
    def _build_request(context: ProposalContext, clock: OrderClock | None) -> HorizonRequest:
        table, order = context.table, context.order
        proven_mark = clock is not None and bool(context.mark) and context.progress.proven
        return HorizonRequest(
            table=TableName(database=table.database, table=table.name),
            mark=clock.to_instant(context.mark.values[0]) if clock and proven_mark else None,
            settle=context.settings.settle,
            transactional=(table.engine or "").lower() == "innodb",
            id_column=order.key[0].name if clock is None and order.is_auto_increment else None,
            table_created_at=context.numbers_known_since,
        )

    def _find_stamp_bypass(self, context: ProposalContext, column: SourceColumn) -> str:
        """Describe a trigger that writes past the server's stamp; asked once.

        An account that may not see triggers gets an empty answer.
        """
        if self._triggers is None:
            self._triggers = parse_triggers(
                self.source.fetch_rows(before_triggers_sql(context.table.database, context.table.name))
            )
        mariadb = context.facts.identity.startswith(MARIADB_IDENTITY_PREFIX)
        return find_bypassing_trigger(self._triggers, column, mariadb=mariadb)

    @staticmethod
    def _delayed_horizon(horizon: Horizon, context: ProposalContext) -> Horizon:
        """Return a bound that stays a delay behind now: the server cannot tell when a client makes its stamps."""
        delayed = horizon.t0 - context.settings.settle
        bound = delayed if horizon.bound is None else min(delayed, horizon.bound)
        name = context.order.columns[0].name
        reason = horizon.reason or f"{name} is not stamped by the server at every insert and update"
        holder = horizon.holder if bound == horizon.bound else ""
        return replace(horizon, bound=bound, proven=False, reason=reason, holder=holder)
