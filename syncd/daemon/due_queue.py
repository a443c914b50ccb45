"""Which lanes are due, and when is the next one? Told without looking at those of which neither is so."""

import heapq
import itertools
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncd.daemon.stage_task import Lane


class Agenda:
    """Lanes by when they are due. Each one notes itself here whenever that changes."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        """Of notes: two of one time stand in the order in which they were made."""
        self._noted: list[tuple[float, int, Lane]] = []
        """A heap; a note that its lane has outdone by another counts for nothing."""
        self._waiting: dict[Lane, None] = {}
        """Those that were found due, in that order; not all of them are any more."""

    def note(self, lane: "Lane") -> None:
        """Hear of when a lane is due from now on."""
        if lane.due != inf:
            heapq.heappush(self._noted, (lane.due, next(self._numbers), lane))

    def waiting(self, now: float) -> Sequence["Lane"]:
        """Every lane that is due and not at work."""
        while self._noted and self._noted[0][0] <= now:
            _, _, lane = heapq.heappop(self._noted)
            self._waiting[lane] = None
        self._waiting = {lane: None for lane in self._waiting if lane.waits(now)}
        return tuple(self._waiting)

    def next(self) -> float | None:
        """When the next one is due that has not been found due yet."""
        while self._noted:
            at, _, lane = self._noted[0]
            if at == lane.due and lane.began is None:
                return at
            heapq.heappop(self._noted)
        return None
