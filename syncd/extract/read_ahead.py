"""Reading ahead: how far an earlier look above a held horizon came, as its plans in the chain tell.

A look takes one batch or several. The next one begins where this one began, less a margin for what was stamped before
and committed during it: otherwise every pass would read all that has come since the horizon stands. What was stamped
earlier still and committed later lies above the horizon as well, and comes by increments once that goes on: an ahead
batch moves no mark, so it can miss nothing for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, Plan
from watermarks.cursor import Cursor, format_instant, parse_instant
from watermarks.progress import ExtractProgress

SCAN_START_FIELD: Final = "looked"
"""Where in a plan it is said when its look began."""


class ChainHistory(Protocol):
    """The chain as it stands; `watermarks.Chain` is one."""

    def read_plan(self, batch: BatchId) -> Plan | None: ...

    def read_link(self, batch: BatchId) -> BatchLink | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AheadScan:
    """The last look above the horizon."""

    started_at: datetime
    """The server's clock before its first batch."""
    last_batch_at: datetime
    """The same before its last one."""
    unread_from: Cursor | None
    """Where that left rows unread; None: it saw all there were."""


def find_last_scan(
    chain: ExtractProgress, history: ChainHistory, *, identity: str, now: datetime, since: datetime
) -> AheadScan | None:
    """The last look of this generation, at this server and in its time; plans made before `since` are not searched."""
    for batch in chain.batch_ids_newest_first(up_to=chain.last_batch, after=BatchId(chain.generation, 0)):
        plan = history.read_plan(batch)
        t0 = _server_time(plan.draft.body) if plan is not None else None
        if plan is None or t0 is None or t0 > now or plan.draft.basis.source_identity != identity:
            return None
        if plan.draft.kind is BatchKind.AHEAD and _is_ahead_link(history.read_link(batch)):
            body = plan.draft.body
            began = parse_instant(body[SCAN_START_FIELD]) if SCAN_START_FIELD in body else t0
            return AheadScan(
                started_at=began, last_batch_at=t0, unread_from=plan.draft.windows[-1].high if body["more"] else None
            )
        if t0 <= since:
            return None
    return None


def with_scan_start(draft: BatchDraft, started_at: datetime) -> BatchDraft:
    """The draft of a batch ahead, with the instant at which its look began."""
    return replace(draft, body={**draft.body, SCAN_START_FIELD: format_instant(started_at)})


def _server_time(body: Mapping[str, Any]) -> datetime | None:
    horizon = body.get("horizon")
    return parse_instant(horizon["t0"]) if horizon else None


def _is_ahead_link(link: BatchLink | None) -> bool:
    return link is not None and link.kind is BatchKind.AHEAD
