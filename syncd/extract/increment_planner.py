"""Plans by time: increments from mark to mark, and ranges that an operator asks to read again."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from syncd.extract.index_probes import IndexPath, Prober
from syncd.extract.plan_drafts import plan_beside_mark, plan_increment
from syncd.extract.plan_rules import (
    IdleState,
    Proposal,
    ProposalContext,
    describe_long_hold,
    extend_to_end,
    may_hold_rows,
    reads_in_order,
    require_range,
)
from syncd.extract.read_ahead import AheadPlanner
from syncd.extract.reread import is_automatic_reread
from syncd.extract.snapshot_planner import links_since
from syncd.settings import Mode
from syncd.tables.order_clock import OrderClock
from syncd.tables.sort_order import must_check_nulls
from syncd.wait_reason import with_context
from watermarks.batch import BatchKind
from watermarks.cursor import Cursor
from watermarks.extraction import BatchChain


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
        bounds = self.prober.find_bounds_up_to(path, context.mark, top, rows=context.max_rows)
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
        bounds = self.prober.find_bounds_up_to(path, low, min(end, complete_to), rows=context.max_rows)
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
