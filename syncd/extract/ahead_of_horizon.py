"""Reading ahead of a held horizon: rows that have waited too long are read early, without moving the mark.

A scan above the horizon takes one batch or several. The next scan begins where this one began, less a margin for rows
that were stamped before and committed during it: otherwise every pass would read all rows since the horizon stands.
Rows that were stamped earlier still and committed later lie above the horizon as well, and come by increments once the
horizon goes on: an ahead batch moves no mark, so no row is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from syncd.extract.index_probes import IndexPath, Prober
from syncd.extract.plan_body import plan_beside_mark
from syncd.extract.plan_rules import ProposalContext, is_ahead_due, may_hold_rows
from syncd.tables.order_clock import OrderClock
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink
from watermarks.cursor import Cursor, format_instant, parse_instant
from watermarks.extraction import BatchChain
from watermarks.progress import ExtractProgress

SCAN_START_FIELD: Final = "looked"
"""Field of a plan with the instant at which its scan began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AheadScan:
    """The last scan above the horizon."""

    started_at: datetime
    """The server's clock before its first batch."""
    last_batch_at: datetime
    """The server's clock before its last batch."""
    unread_from: Cursor | None
    """The position from which it left rows unread; None: it read all rows."""


def find_last_scan(
    chain: ExtractProgress, history: BatchChain, *, identity: str, now: datetime, since: datetime
) -> AheadScan | None:
    """Return the last scan of this generation on this server, in its time; plans older than `since` are not read."""
    for batch in chain.batch_ids_newest_first(up_to=chain.last_batch, after=BatchId(chain.generation, 0)):
        plan = history.read_plan(batch)
        t0 = _server_time(plan.draft.body) if plan is not None else None
        if plan is None or t0 is None or t0 > now or plan.draft.basis.source_identity != identity:
            return None
        if plan.draft.kind is BatchKind.AHEAD and _is_ahead_link(history.read_link(batch)):
            body = plan.draft.body
            started_at = parse_instant(body[SCAN_START_FIELD]) if SCAN_START_FIELD in body else t0
            unread_from = plan.draft.windows[-1].high if body["more"] else None
            return AheadScan(started_at=started_at, last_batch_at=t0, unread_from=unread_from)
        if t0 <= since:
            return None
    return None


@dataclass(kw_only=True)
class AheadPlanner:
    """Plans the batches ahead of the horizon, for one run."""

    prober: Prober
    history: BatchChain
    _checked_at: datetime | None = field(default=None, init=False)

    def plan(self, context: ProposalContext, clock: OrderClock, top: Cursor) -> BatchDraft | None:
        """Plan to read rows above `top`, the horizon; None where none have waited for long."""
        horizon, settings = context.horizon, context.settings
        if context.request.until is not None or not is_ahead_due(horizon, settings, checked_at=self._checked_at):
            return None
        # A scan from before `since` would have the next one begin at the top.
        since = clock.to_instant(top.values[0]) + settings.settle
        scan = find_last_scan(
            context.progress, self.history, identity=context.facts.identity, now=horizon.t0, since=since
        )
        is_unfinished = scan is not None and scan.unread_from is not None
        if scan is not None and not is_unfinished and horizon.t0 - scan.last_batch_at < settings.ahead_after:
            return None
        path = IndexPath.from_order(context.order)
        low = self._scan_start(context, scan, clock, top)
        bounds = self.prober.find_bounds(path, low, rows=context.max_rows, windows=1)
        if not bounds.has_more:
            # The top is reached. Rows that go on changing wait as long again, or this would never end.
            self._checked_at = horizon.t0
            end = Cursor((clock.last_value,))
            if bounds.ends and bounds.high < end:
                # The window has no upper end: a row that changes again before it is read has moved up by then, and
                # would be missed. A row at the end of time itself is as far as any can move.
                bounds = replace(bounds, ends=(end,))
        if not bounds.ends:
            return None
        draft = plan_beside_mark(BatchKind.AHEAD, context.facts, context.order, bounds)
        started_at = scan.started_at if scan is not None and is_unfinished else horizon.t0
        return replace(draft, body={**draft.body, SCAN_START_FIELD: format_instant(started_at)})

    @staticmethod
    def _scan_start(context: ProposalContext, scan: AheadScan | None, clock: OrderClock, top: Cursor) -> Cursor:
        """Return the position where the last scan left rows unread, or began; at least the horizon."""
        if scan is None:
            return top
        low = scan.unread_from or Cursor((clock.floor_value(scan.started_at - context.settings.settle),))
        return low if may_hold_rows(low, top) else top


def _server_time(body: Mapping[str, Any]) -> datetime | None:
    horizon = body.get("horizon")
    return parse_instant(horizon["t0"]) if horizon else None


def _is_ahead_link(link: BatchLink | None) -> bool:
    return link is not None and link.kind is BatchKind.AHEAD
