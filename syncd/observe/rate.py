"""How fast something goes by now: amounts of the last minutes, in a few buckets."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

BUCKET_SECONDS: Final = 30.0
"""Seconds of one bucket."""
BUCKET_COUNT: Final = 10


@dataclass(slots=True)
class ThroughputMeter:
    """Amounts a second over the last minutes."""

    started_at: float
    """When counting began, in seconds of a clock that only rises."""
    _buckets: deque[list[float]] = field(default_factory=lambda: deque[list[float]](maxlen=BUCKET_COUNT))
    """Number of the bucket, and what fell into it."""

    def add(self, amount: float, now: float) -> None:
        number = now // BUCKET_SECONDS
        if self._buckets and self._buckets[-1][0] == number:
            self._buckets[-1][1] += amount
        else:
            self._buckets.append([number, amount])

    def per_second(self, now: float) -> float:
        oldest = now // BUCKET_SECONDS - BUCKET_COUNT + 1
        counted = sum(amount for number, amount in self._buckets if number >= oldest)
        began = max(oldest * BUCKET_SECONDS, self.started_at)
        return counted / max(now - began, BUCKET_SECONDS)
