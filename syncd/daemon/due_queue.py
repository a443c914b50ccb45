"""Which lanes are due, and when is the next one? Told without looking at those of which neither is so."""

import heapq
import itertools
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncd.daemon.stage_task import StageTask


class DueQueue:
    """Lanes by when they are due. Each one notes itself here whenever that changes."""

    def __init__(self) -> None:
        self._sequence = itertools.count()
        """Of notes: two of one time stand in the order in which they were made."""
        self._heap: list[tuple[float, int, StageTask]] = []
        """A heap; a note that its lane has outdone by another counts for nothing."""
        self._due: dict[StageTask, None] = {}
        """Those that were found due, in that order; not all of them are any more."""

    def reschedule(self, task: "StageTask") -> None:
        """Hear of when a lane is due from now on."""
        if task.due != inf:
            heapq.heappush(self._heap, (task.due, next(self._sequence), task))

    def collect_due(self, now: float) -> Sequence["StageTask"]:
        """Every lane that is due and not at work."""
        while self._heap and self._heap[0][0] <= now:
            _, _, lane = heapq.heappop(self._heap)
            self._due[lane] = None
        self._due = {lane: None for lane in self._due if lane.is_waiting(now)}
        return tuple(self._due)

    def next_due_at(self) -> float | None:
        """When the next one is due that has not been found due yet."""
        while self._heap:
            at, _, lane = self._heap[0]
            if at == lane.due and lane.running_since is None:
                return at
            heapq.heappop(self._heap)
        return None
