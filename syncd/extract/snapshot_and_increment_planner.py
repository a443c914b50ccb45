"""Plans of streams that are read by time, such as by `update_at`.

The first snapshot is read in chunks along the key, then increments from mark to mark, and a range on request. Whole
tables, which have no order, are planned here too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from syncd.datatypes.source_table import SourceTable
from syncd.events import with_context
from syncd.extract.ahead_of_horizon import AheadPlanner
from syncd.extract.horizon_reader import HorizonReader
from syncd.extract.index_probes import IndexPath, Prober
from syncd.extract.plan_body import plan_beside_mark, plan_chunk, plan_increment, plan_start, plan_whole_table
from syncd.extract.plan_rules import (
    IdleState,
    PlanContext,
    Proposal,
    ProposalContext,
    describe_long_hold,
    extend_to_end,
    may_hold_rows,
    reads_in_order,
    require_range,
    require_start,
)
from syncd.extract.reread_after_clock_break import is_automatic_reread
from syncd.settings import FirstRun, Mode, NullCursor
from syncd.tables.order_clock import OrderClock
from syncd.tables.sort_order import must_check_nulls
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.extraction import BatchChain
from watermarks.progress import ExtractProgress


def links_since(progress: ExtractProgress, history: BatchChain, batch: BatchId, kind: BatchKind) -> Iterator[BatchLink]:
    """Return the links of a kind after a batch, the newest first; an abandoned plan has another kind."""
    links = map(history.read_link, progress.batch_ids_newest_first(up_to=progress.last_batch, after=batch))
    return (link for link in links if link is not None and link.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlanner:
    """Plans the first pass over a table that is read by its stamps."""

    prober: Prober
    history: BatchChain

    def plan_first(self, context: ProposalContext, clock: OrderClock, bound: datetime) -> BatchDraft:
        """Plan the first batch: the first chunk, or the mark at which the stream begins without one."""
        if context.settings.first_run is FirstRun.FROM:
            start = Cursor((clock.ceil_value(require_start(context.settings)),))
            return plan_start(context.facts, context.order, start)
        horizon = Cursor((clock.floor_value(bound),))
        if context.settings.first_run is FirstRun.NOW:
            return plan_start(context.facts, context.order, horizon)
        return self._plan_chunk(context, START_CURSOR, horizon, proven=context.horizon.proven)

    def plan_next(self, context: ProposalContext) -> BatchDraft:
        """Plan the next chunk, up to the horizon that the first one fixed."""
        snapshot = context.progress.snapshot
        assert snapshot
        # The first chunk recorded whether that horizon was proven; each chunk carries it on.
        chunks = links_since(
            context.progress, self.history, BatchId(context.progress.generation, 0), BatchKind.SNAPSHOT
        )
        newest = next(chunks, None)
        proven = newest is not None and newest.proven
        return self._plan_chunk(context, snapshot.reached_key, snapshot.horizon, proven=proven)

    def _plan_chunk(self, context: ProposalContext, reached: Cursor, horizon: Cursor, *, proven: bool) -> BatchDraft:
        path = IndexPath.from_key(context.order)
        bounds = self.prober.find_bounds(path, reached, rows=context.max_rows)
        nulls = context.settings.null_cursor is NullCursor.SNAPSHOT_ONLY
        return plan_chunk(context.facts, context.order, bounds, horizon, proven=proven, include_nulls=nulls)


@dataclass(kw_only=True)
class WholeTablePlanner:
    """Plans to read a table whole, once a run."""

    horizons: HorizonReader
    history: BatchChain
    _complete_before: datetime | None = field(default=None, init=False)

    def plan(
        self, progress: ExtractProgress, facts: PlanContext, table: SourceTable, *, run_start: BatchId
    ) -> Proposal:
        if next(links_since(progress, self.history, run_start, BatchKind.SNAPSHOT), None) is not None:
            return Proposal(complete_before=self._complete_before)
        horizon = self.horizons.read_whole_table_horizon(facts, table)  # before its snapshot is opened
        self._complete_before = horizon.bound
        draft = plan_whole_table(replace(facts, horizon=horizon), table.database, table.name, proven=horizon.proven)
        return Proposal(draft=draft)


@dataclass(kw_only=True)
class IncrementPlanner:
    """Plans a stream that goes on by its stamps, for one run."""

    prober: Prober
    history: BatchChain
    ahead: AheadPlanner
    _run_goal: datetime | None = field(default=None, init=False)

    def plan(self, context: ProposalContext, clock: OrderClock, bound: datetime) -> Proposal:
        """Propose the rows after the mark up to the horizon; where none are left, rows ahead of it."""
        # One pass reads up to the horizon of its beginning: a table that is always written to would never end it.
        self._run_goal = self._run_goal or bound
        top = Cursor((clock.floor_value(min(bound, self._run_goal)),))
        path = IndexPath.from_order(context.order)
        bounds = self.prober.find_bounds(path, context.mark, top=top, rows=context.max_rows)
        if not bounds.ends and _must_report_table(context) and may_hold_rows(top, context.mark):
            bounds = replace(bounds, ends=(top,))
        if bounds.ends:
            return Proposal(draft=plan_increment(context.facts, context.order, bounds))
        can_rest = not must_check_nulls(context.order, context.settings)
        idle = IdleState(context=context, clock=clock, breaks=context.horizon.breaks) if can_rest else None
        return Proposal(
            draft=self.ahead.plan(context, clock, top),
            wait_reason=describe_long_hold(context.horizon, context.settings, context.request),
            complete_before=clock.to_instant(top.values[0]),
            idle_state=idle,
        )

    def plan_range(self, context: ProposalContext, clock: OrderClock, bound: datetime) -> Proposal:
        """Propose to read a range again, from where this run has come to; the batches move no mark."""
        since, until = require_range(context.request)
        low = self._range_position(context) or Cursor((clock.ceil_value(since),))
        end, complete_to = Cursor((clock.end_value(until),)), Cursor((clock.floor_value(bound),))
        path = IndexPath.from_order(context.order)
        bounds = self.prober.find_bounds(path, low, top=min(end, complete_to), rows=context.max_rows)
        if context.settings.mode is Mode.APPEND and complete_to >= end:
            bounds = extend_to_end(bounds, end)
        if bounds.ends:
            proven = context.horizon.proven
            return Proposal(
                draft=plan_beside_mark(BatchKind.REPAIR, context.facts, context.order, bounds, proven=proven)
            )
        if complete_to >= end:
            return Proposal()
        return Proposal(
            wait_reason=with_context(
                f"the range is read up to {bound:%Y-%m-%d %H:%M:%S} UTC; later rows can still change",
                context.horizon.reason,
            )
        )

    def _range_position(self, context: ProposalContext) -> Cursor | None:
        """Return the end of the last batch that this run has read of the range."""
        for link in links_since(context.progress, self.history, context.run_start, BatchKind.REPAIR):
            plan = self.history.read_plan(link.id)
            if plan is not None and reads_in_order(plan) and not is_automatic_reread(plan):
                return plan.draft.windows[-1].high
        return None


def _must_report_table(context: ProposalContext) -> bool:
    """Return whether a batch has to report that the table is another one, though no row is due."""
    progress, table = context.progress, context.facts.incarnation
    return (
        table is not None
        and table.replaced_in is not None
        and (progress.proven or table.replaced_in == progress.next_batch)
    )
