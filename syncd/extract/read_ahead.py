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

from watermarks.batch import BatchId, Draft, Kind, Link, Plan
from watermarks.cursor import Cursor, instant_of, instant_text
from watermarks.progress import Extracted

BEGAN: Final = "looked"
"""Where in a plan it is said when its look began."""


class Past(Protocol):
    """The chain as it stands; `watermarks.Chain` is one."""

    def plan(self, batch: BatchId) -> Plan | None: ...

    def link(self, batch: BatchId) -> Link | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The last look above the horizon."""

    began: datetime
    """The server's clock before its first batch."""
    ended: datetime
    """The same before its last one."""
    left: Cursor | None
    """Where that left rows unread; None: it saw all there were."""


def last_look(chain: Extracted, past: Past, *, identity: str, now: datetime, since: datetime) -> Look | None:
    """The last look of this generation, at this server and in its time; plans made before `since` are not searched."""
    for batch in chain.ids_back(upto=chain.last, after=BatchId(chain.generation, 0)):
        plan = past.plan(batch)
        t0 = _t0(plan.draft.body) if plan is not None else None
        if plan is None or t0 is None or t0 > now or plan.draft.world.source_identity != identity:
            return None
        if plan.draft.kind is Kind.AHEAD and _was_done(past.link(batch)):
            body = plan.draft.body
            began = instant_of(body[BEGAN]) if BEGAN in body else t0
            return Look(began=began, ended=t0, left=plan.draft.windows[-1].high if body["more"] else None)
        if t0 <= since:
            return None
    return None


def begun_at(draft: Draft, began: datetime) -> Draft:
    """The draft of a batch ahead, with the instant at which its look began."""
    return replace(draft, body={**draft.body, BEGAN: instant_text(began)})


def _t0(body: Mapping[str, Any]) -> datetime | None:
    horizon = body.get("horizon")
    return instant_of(horizon["t0"]) if horizon else None


def _was_done(link: Link | None) -> bool:
    return link is not None and link.kind is Kind.AHEAD
