"""Reading again after a break in the server's time: another server took its place, or its clock went back.

Rows of that time may carry stamps, or numbers, that lie behind the mark. A stream has read them again when the newest
link of its chain knows of the break: every plan records the breaks that it knew of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from syncd.errors import SourceReplaced
from syncd.events import with_context
from syncd.extract.index_probes import IndexPath, Prober
from syncd.extract.plan_body import plan_reread
from syncd.extract.plan_rules import PlanMode, Proposal, ProposalContext, may_hold_rows, reads_in_order
from syncd.ports.source import Horizon, ServerTimeBreak
from syncd.tables.order_clock import OrderClock
from watermarks.batch import BatchId, BatchKind, Plan
from watermarks.cursor import Cursor
from watermarks.extraction import BatchChain
from watermarks.progress import ExtractProgress

_EARLIEST_INSTANT: Final = datetime(1, 1, 2)  # noqa: DTZ001  # of any zone, with a day to spare


@dataclass(frozen=True, slots=True, kw_only=True)
class RereadReason:
    """The breaks for which a stream has to read again."""

    breaks: tuple[ServerTimeBreak, ...]
    """The breaks that no link of the chain knows of."""
    newest_link_is_foreign: bool
    """Whether the newest link was read from another server."""

    @property
    def is_other_server(self) -> bool:
        return self.newest_link_is_foreign or any(each.is_other_server for each in self.breaks)

    @property
    def clock_went_back(self) -> bool:
        return any(each.clock_reset_to is not None for each in self.breaks)

    @property
    def clock_offset_unknown(self) -> bool:
        """Return whether a clock went back by an unknown time."""
        return any(each.is_start_unknown for each in self.breaks)

    def reread_since(self, mark: datetime, *, allowance: timedelta) -> datetime:
        """Return the instant to read again from; of another server's clock only the allowance is known."""
        lows = [each.clock_reset_to for each in self.breaks if each.clock_reset_to is not None]
        low = min((*lows, mark) if self.is_other_server else lows)
        return max(low, _EARLIEST_INSTANT.replace(tzinfo=low.tzinfo) + allowance) - allowance

    def fields(self) -> dict[str, Any]:
        return {"breaks": [each.id for each in self.breaks], "stranger": self.newest_link_is_foreign}


def find_reread_reason(
    chain: ExtractProgress, horizon: Horizon, *, identity: str, newest: Callable[[], Plan | None]
) -> RereadReason | None:
    """Return the reason to read again, if any; `newest` is called only where there was a break.

    An operator who set a mark that has no batch yet has thereby said from when on to read.
    """
    is_foreign = is_from_other_server(chain, identity)
    if not is_foreign and not horizon.breaks:
        return None
    plan = newest()
    known = (plan.draft.body.get("horizon") or {}).get("breaks", ()) if plan else ()
    set_by_hand = chain.seq == 0
    fresh = tuple(
        each for each in horizon.breaks if each.id not in known and not (set_by_hand and each.is_start_unknown)
    )
    return RereadReason(breaks=fresh, newest_link_is_foreign=is_foreign) if is_foreign or fresh else None


def is_from_other_server(chain: ExtractProgress, identity: str) -> bool:
    """Return whether the newest link of a chain was read from another server."""
    return chain.source_identity not in {None, identity}


def is_automatic_reread(plan: Plan) -> bool:
    """Return whether a plan reads again because of a break, and not because an operator asked for it."""
    return plan.draft.kind is BatchKind.REPAIR and "again" in plan.draft.body


def find_newest_plan(progress: ExtractProgress, history: BatchChain) -> Plan | None:
    """Return the plan of the newest link that was read from the source."""
    for batch in progress.batch_ids_newest_first(up_to=progress.last_batch, after=BatchId(progress.generation, 0)):
        link = history.read_link(batch)
        if link is not None and link.kind is not BatchKind.ABANDONED:
            plan = history.read_plan(batch)
            if plan is None or reads_in_order(plan):
                return plan
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RereadPlanner:
    """Plans the batches that read again after a break."""

    prober: Prober
    history: BatchChain
    margin: timedelta
    """Time before the mark that is read again."""

    def find_reason(self, context: ProposalContext) -> RereadReason | None:
        if context.mode is PlanMode.BEGIN or not context.final_mark:
            return None
        newest = partial(find_newest_plan, context.progress, self.history)
        return find_reread_reason(context.progress, context.horizon, identity=context.facts.identity, newest=newest)

    def plan_by_time(self, context: ProposalContext, clock: OrderClock) -> Proposal | None:
        """Propose to read again up to the mark; None where no row of the time in doubt has been read.

        Raises:
            SourceReplaced: a clock went back, and has not reached the mark again or went back by an unknown time.
        """
        reason = self.find_reason(context)
        if reason is None:
            return None
        low = self._reread_start(context, clock, reason)
        top, bound = context.final_mark, context.horizon.bound
        if not may_hold_rows(top, low):
            return None
        if bound is None or may_hold_rows(top, Cursor((clock.floor_value(bound),))):
            # Rows below the mark can still change: they are read again once they cannot.
            return _wait_for_server_clock(context, clock, reason, low)
        return self._plan(context, reason, low, top)

    def plan_by_key(self, context: ProposalContext, reason: RereadReason, top: Cursor | None) -> Proposal:
        """Propose to read the last keys before the mark again: another server may have given their numbers again."""
        if top is None or may_hold_rows(context.mark, top):
            return Proposal(
                wait_reason="another server answers now: its last rows will be read again once they are complete"
            )
        path, rows = IndexPath.from_order(context.order), context.settings.batch_rows
        return self._plan(context, reason, self.prober.find_tail_start(path, context.mark, rows=rows), context.mark)

    def _plan(self, context: ProposalContext, reason: RereadReason, low: Cursor, top: Cursor) -> Proposal:
        path = IndexPath.from_order(context.order)
        bounds = self.prober.find_all_bounds(path, low, top=top, rows=context.settings.batch_rows)
        return Proposal(draft=plan_reread(context.facts, context.order, bounds, reason.fields()))

    def _reread_start(self, context: ProposalContext, clock: OrderClock, reason: RereadReason) -> Cursor:
        if reason.clock_offset_unknown:
            raise SourceReplaced(
                "the server's clock went back by an unknown time, perhaps together with this machine's clock: rows"
                f" written since then may be below the mark of {context.table}, {context.mark}",
                hint="Take the earliest time that the server's clock showed since then, subtract its longest"
                " transaction,"
                f" and read from there: syncd watermark set -t {context.table} --mysql-only --timestamp INSTANT"
                " --reason 'the clocks went back'",
            )
        since = reason.reread_since(clock.to_instant(context.final_mark.values[0]), allowance=self.margin)
        return Cursor((clock.ceil_value(since),))


def _wait_for_server_clock(context: ProposalContext, clock: OrderClock, reason: RereadReason, low: Cursor) -> Proposal:
    """Wait until the server's time has passed the mark.

    Raises:
        SourceReplaced: a clock went back, which an operator should know.
    """
    horizon = context.horizon
    if reason.clock_went_back:
        since = clock.to_instant(low.values[0])
        raise SourceReplaced(
            f"the server's clock went back: it shows {horizon.t0:%Y-%m-%d %H:%M:%S} UTC,"
            f" but {context.table} was already read up to {context.final_mark}",
            hint=f"Once the clock has passed that, everything from {low} on is read again. To continue now: "
            f"syncd watermark set -t {context.table} --mysql-only --timestamp '{since:%Y-%m-%d %H:%M:%S.%f}'"
            " --reason 'the clock went back'",
        )
    return Proposal(
        wait_reason=with_context(
            f"another server answers now: rows from {low} on will be read again once they are complete", horizon.reason
        )
    )
