"""How fast something goes by now: amounts of the last minutes, in a few buckets."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

STEP: Final = 30.0
"""Seconds of one bucket."""
BUCKETS: Final = 10


@dataclass(slots=True)
class Rate:
    """Amounts a second over the last minutes."""

    since: float
    """When counting began, in seconds of a clock that only rises."""
    _buckets: deque[list[float]] = field(default_factory=lambda: deque[list[float]](maxlen=BUCKETS))
    """Number of the bucket, and what fell into it."""

    def add(self, amount: float, now: float) -> None:
        number = now // STEP
        if self._buckets and self._buckets[-1][0] == number:
            self._buckets[-1][1] += amount
        else:
            self._buckets.append([number, amount])

    def a_second(self, now: float) -> float:
        oldest = now // STEP - BUCKETS + 1
        counted = sum(amount for number, amount in self._buckets if number >= oldest)
        began = max(oldest * STEP, self.since)
        return counted / max(now - began, STEP)
