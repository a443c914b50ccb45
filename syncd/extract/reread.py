"""What a stream has to read again before it goes on: another server took its server's place, or the clock went back.

Rows of that time may carry stamps, or numbers, that lie behind the mark. A stream has read them again when the newest
link of its chain knows of the break: every plan says of which it knew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from syncd.ports.source import Break, Horizon
from watermarks.batch import Kind, Plan
from watermarks.progress import Extracted

_FIRST: Final = datetime(1, 1, 2)  # noqa: DTZ001  # of any zone, with a day to spare


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Why a stream has to read again."""

    breaks: tuple[Break, ...]
    """Those that no link of its chain knows of."""
    stranger: bool
    """Whether its newest link was read from another server."""

    @property
    def other_server(self) -> bool:
        return self.stranger or any(each.other for each in self.breaks)

    @property
    def clock(self) -> bool:
        """Whether a clock went back."""
        return any(each.low is not None for each in self.breaks)

    @property
    def unknown(self) -> bool:
        """Whether a clock went back, and nobody knows how far."""
        return any(each.unknown for each in self.breaks)

    def since(self, mark: datetime, *, allowance: timedelta) -> datetime:
        """From when on to read again; of another server's clock nothing is known but that allowance."""
        lows = [each.low for each in self.breaks if each.low is not None]
        low = min((*lows, mark) if self.other_server else lows)
        return max(low, _FIRST.replace(tzinfo=low.tzinfo) + allowance) - allowance

    def fields(self) -> dict[str, Any]:
        return {"breaks": [each.id for each in self.breaks], "stranger": self.stranger}


def due(chain: Extracted, horizon: Horizon, *, identity: str, newest: Callable[[], Plan | None]) -> Due | None:
    """What the stream has to read again for; `newest` is asked only where there was a break.

    A mark that has no batch yet was set by a person, who thereby said from when on to read.
    """
    stranger = is_stranger(chain, identity)
    if not stranger and not horizon.breaks:
        return None
    plan = newest()
    known = (plan.draft.body.get("horizon") or {}).get("breaks", ()) if plan else ()
    by_hand = chain.seq == 0
    fresh = tuple(each for each in horizon.breaks if each.id not in known and not (by_hand and each.unknown))
    return Due(breaks=fresh, stranger=stranger) if stranger or fresh else None


def is_stranger(chain: Extracted, identity: str) -> bool:
    """Whether the newest link of a chain was read from another server."""
    return chain.source_identity not in {None, identity}


def is_again(plan: Plan | None) -> bool:
    """Whether a plan was made to read again, and not because a person asked for it."""
    return plan is not None and plan.draft.kind is Kind.REPAIR and "again" in plan.draft.body
