"""What a stream has to read again before it goes on: another server took its server's place, or the clock went back.

Rows of that time may carry stamps, or numbers, that lie behind the mark. A stream has read them again when the newest
link of its chain knows of the break: every plan says of which it knew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from syncd.ports.source import Horizon, ServerTimeBreak
from watermarks.batch import BatchKind, Plan
from watermarks.progress import ExtractProgress

_EARLIEST_INSTANT: Final = datetime(1, 1, 2)  # noqa: DTZ001  # of any zone, with a day to spare


@dataclass(frozen=True, slots=True, kw_only=True)
class RereadReason:
    """Why a stream has to read again."""

    breaks: tuple[ServerTimeBreak, ...]
    """Those that no link of its chain knows of."""
    newest_link_is_foreign: bool
    """Whether its newest link was read from another server."""

    @property
    def is_other_server(self) -> bool:
        return self.newest_link_is_foreign or any(each.is_other_server for each in self.breaks)

    @property
    def clock_went_back(self) -> bool:
        """Whether a clock went back."""
        return any(each.clock_reset_to is not None for each in self.breaks)

    @property
    def clock_offset_unknown(self) -> bool:
        """Whether a clock went back, and nobody knows how far."""
        return any(each.is_start_unknown for each in self.breaks)

    def reread_since(self, mark: datetime, *, allowance: timedelta) -> datetime:
        """From when on to read again; of another server's clock nothing is known but that allowance."""
        lows = [each.clock_reset_to for each in self.breaks if each.clock_reset_to is not None]
        low = min((*lows, mark) if self.is_other_server else lows)
        return max(low, _EARLIEST_INSTANT.replace(tzinfo=low.tzinfo) + allowance) - allowance

    def fields(self) -> dict[str, Any]:
        return {"breaks": [each.id for each in self.breaks], "stranger": self.newest_link_is_foreign}


def find_reread_reason(
    chain: ExtractProgress, horizon: Horizon, *, identity: str, newest: Callable[[], Plan | None]
) -> RereadReason | None:
    """What the stream has to read again for; `newest` is asked only where there was a break.

    A mark that has no batch yet was set by a person, who thereby said from when on to read.
    """
    stranger = is_from_other_server(chain, identity)
    if not stranger and not horizon.breaks:
        return None
    plan = newest()
    known = (plan.draft.body.get("horizon") or {}).get("breaks", ()) if plan else ()
    by_hand = chain.seq == 0
    fresh = tuple(each for each in horizon.breaks if each.id not in known and not (by_hand and each.is_start_unknown))
    return RereadReason(breaks=fresh, newest_link_is_foreign=stranger) if stranger or fresh else None


def is_from_other_server(chain: ExtractProgress, identity: str) -> bool:
    """Whether the newest link of a chain was read from another server."""
    return chain.source_identity not in {None, identity}


def is_automatic_reread(plan: Plan | None) -> bool:
    """Whether a plan was made to read again, and not because a person asked for it."""
    return plan is not None and plan.draft.kind is BatchKind.REPAIR and "again" in plan.draft.body
