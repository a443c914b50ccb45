"""Plans of tables that only grow and are read by their key.

Where such a stream begins at an instant, the first key of that time is found by halving along the key's index: keys
follow time except for rows that were committed late. Then the rows before it are searched once more.
"""

from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Final

from syncd.datatypes.source_table import SourceTable
from syncd.errors import ConfigError
from syncd.extract.horizon_reader import HorizonReader
from syncd.extract.index_probes import IndexPath, Prober
from syncd.extract.plan_body import plan_increment, plan_start
from syncd.extract.plan_rules import (
    PlanMode,
    Proposal,
    ProposalContext,
    describe_hold,
    may_hold_rows,
    reads_in_order,
    require_no_time_range,
    require_start,
)
from syncd.extract.reread_after_clock_break import RereadPlanner, find_newest_plan
from syncd.extract.table_replacement import (
    CREATION_TIME_RESOLUTION,
    build_witness,
    find_restarted_number,
    read_table_id,
    require_same_numbers,
    require_same_rows,
)
from syncd.horizon.key_gaps import SeenKey, SeenKeyStore, add_seen_key, find_complete_key
from syncd.mysql.sql import first_key_sql, lowest_recent_key_sql
from syncd.ports.source import Horizon, SourceDatabase
from syncd.settings import FirstRun, StreamSettings
from syncd.tables.order_clock import parse_zone
from syncd.tables.sort_order import StreamOrder, resolve_birth_column
from watermarks.cursor import Cursor, CursorValue, ValueKind
from watermarks.extraction import BatchChain

MAX_LATE_ROWS: Final = 10_000
"""Rows by which late ones may be out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlanner:
    """Plans a stream that goes on by its key."""

    source: SourceDatabase
    prober: Prober
    horizons: HorizonReader
    rereads: RereadPlanner
    history: BatchChain
    notes: SeenKeyStore
    zone: str | None

    def plan(self, context: ProposalContext) -> Proposal:
        """Propose the rows after the mark up to the highest complete key."""
        require_no_time_range(context.request, context.settings)
        last = self.find_last_key(context)
        if context.order.is_auto_increment:
            require_same_numbers(self.source, context.table, context.mark, last)
        self._require_same_rows(context)
        context, top = self.find_top_key(context, last)
        proposal = self._plan_up_to(context, top)
        if proposal.draft is None:
            is_held = last is not None and may_hold_rows(last, context.mark)
            held = describe_hold(context.horizon) if is_held else ""
            return replace(proposal, wait_reason=proposal.wait_reason or held)
        witness = build_witness(self.source, context.order, context.table, proposal.draft.high)
        return Proposal(draft=replace(proposal.draft, body={**proposal.draft.body, "witness": witness}))

    def find_last_key(self, context: ProposalContext) -> Cursor | None:
        path = IndexPath.from_order(context.order)
        return self.prober.find_position(path, path.last_position_sql("TRUE"))

    def find_top_key(self, context: ProposalContext, last: Cursor | None) -> tuple[ProposalContext, Cursor | None]:
        """Return the highest key below which no row can still come, and the context with the horizon that proves it."""
        # The clock is read after the key, and here: a poll may be shared, and older than the key.
        seen = (
            None
            if last is None
            else SeenKey(key=last, before=self.prober.read_clock(), server=self._note_scope(context))
        )
        context = self._with_numbers_known_since(context, seen)
        horizon = self.horizons.read_horizon(context, None)
        top = self._find_complete_key(context, horizon, seen)
        is_auto_increment = context.order.is_auto_increment
        if top is not None and is_auto_increment and find_restarted_number(self.source, context.table, top, last):
            top = None  # the note is about a table that had this name before
        return context.with_horizon(replace(horizon, proven=horizon.proven and is_auto_increment)), top

    def _with_numbers_known_since(self, context: ProposalContext, seen: SeenKey | None) -> ProposalContext:
        """Add the instant since when the notes of polls are about this very table.

        Earlier notes may be about the table that was read until then, whose numbers are given again.
        """
        since = context.table.created + CREATION_TIME_RESOLUTION if context.table.created else None
        if context.is_restarted and seen is not None:
            add_seen_key(self.notes, seen)
            first = self.notes.read()[0].before
            since = first if since is None else max(since, first)
        return replace(context, numbers_known_since=since)

    def _note_scope(self, context: ProposalContext) -> str:
        """Return the server that a note is about; after a restart of the stream also its number of the table."""
        identity = context.facts.identity
        return f"{identity}, table {read_table_id(self.source, context.table)}" if context.is_restarted else identity

    def _find_complete_key(self, context: ProposalContext, horizon: Horizon, seen: SeenKey | None) -> Cursor | None:
        if context.order.is_auto_increment and (horizon.proven or horizon.max_complete_id is not None):
            return None if horizon.max_complete_id is None else Cursor.from_values(horizon.max_complete_id)
        if seen is not None:
            add_seen_key(self.notes, seen)
        return find_complete_key(self.notes, horizon, table_created_at=context.table.created)

    def _plan_up_to(self, context: ProposalContext, top: Cursor | None) -> Proposal:
        reason = self.rereads.find_reason(context)
        if reason is not None and reason.is_other_server:
            return self.rereads.plan_by_key(context, reason, top)
        if top is None:
            return Proposal()
        if context.mode is PlanMode.BEGIN and context.settings.first_run is FirstRun.NOW:
            return Proposal(draft=plan_start(context.facts, context.order, top))
        if context.mode is PlanMode.BEGIN and context.settings.first_run is FirstRun.FROM:
            return self._plan_start_at(context, require_start(context.settings), top)
        path = IndexPath.from_order(context.order)
        bounds = self.prober.find_bounds(path, context.mark, top=top, rows=context.max_rows)
        return Proposal(draft=plan_increment(context.facts, context.order, bounds) if bounds.ends else None)

    def _plan_start_at(self, context: ProposalContext, instant: datetime, top: Cursor) -> Proposal:
        zone = parse_zone(self.zone or self.prober.read_zone())
        search = build_start_search(
            self.source, context.order, context.table, context.settings, instant=instant, zone=zone
        )
        start = search.find_position_before(top)
        if start is None:
            return Proposal(wait_reason=f"{context.table} has no row of {instant:%Y-%m-%d %H:%M:%S} UTC or later yet")
        return Proposal(draft=plan_start(context.facts, context.order, start))

    def _require_same_rows(self, context: ProposalContext) -> None:
        progress = context.progress
        plan = self.history.read_plan(progress.last_batch) if progress.seq and context.mark else None
        if plan is not None and not reads_in_order(plan):
            plan = find_newest_plan(progress, self.history)
        if plan is not None and plan.draft.body.get("witness"):
            require_same_rows(self.source, context.order, context.table, plan, identity=context.facts.identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartKeySearch:
    """Search for the first key of a time."""

    source: SourceDatabase
    order: StreamOrder
    condition: str
    """The condition of rows at or after the instant."""

    def find_position_before(self, top: Cursor) -> Cursor | None:
        """Return the position before the first of these rows, among the keys up to `top`; None if there is none yet."""
        low, end = 0, _to_number(top) + 1
        if (first := self._find_first_row(None, end)) is None:
            return None
        low, high = first[0], end
        while low < high:
            middle = (low + high) // 2
            row = self._find_first_row(middle, high)
            if row is None or row[1]:
                high = middle
            else:
                low = row[0] + 1
        while (earlier := self._find_earlier_key(high)) is not None:
            high = earlier
        if self._find_first_row(high, end) is None:
            return None
        return Cursor((CursorValue(ValueKind.INT, high - 1),))

    def _find_first_row(self, low: int | None, end: int) -> tuple[int, bool] | None:
        """Return the first row of keys from `low` up to, not including, `end`, and whether it has the time."""
        rows = self.source.fetch_rows(first_key_sql(self.order, self.condition, low=low, end=end))
        return (int(str(rows[0][0])), bool(int(str(rows[0][1] or 0)))) if rows else None

    def _find_earlier_key(self, key: int) -> int | None:
        [(found,)] = self.source.fetch_rows(
            lowest_recent_key_sql(self.order, self.condition, before=key, rows=MAX_LATE_ROWS)
        )
        return None if found is None else int(str(found))


def build_start_search(
    source: SourceDatabase,
    order: StreamOrder,
    table: SourceTable,
    settings: StreamSettings,
    *,
    instant: datetime,
    zone: tzinfo,
) -> StartKeySearch:
    """Return the search for the position where the stream begins.

    Raises:
        ConfigError: no column holds the time of the insert, or the key is not a single number.
    """
    if len(order.columns) != 1 or order.columns[0].kind is not ValueKind.INT:
        raise ConfigError(
            f"{table} is read by its key, which is not a single number: an instant cannot be converted into a position",
            hint="Begin with `first_run: snapshot` or `now`.",
        )
    column, clock = resolve_birth_column(table, settings, zone=zone)
    return StartKeySearch(
        source=source, order=order, condition=f"{column.sql} >= {column.literal(clock.ceil_value(instant))}"
    )


def _to_number(top: Cursor) -> int:
    return int(str(top.values[0].raw))
