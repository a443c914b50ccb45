"""A breaker: whether a side that failed again and again is asked, and by whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.daemon.backoff import PAUSE_JITTER_FRACTION

OPEN_AFTER_FAILURES: Final = 3
"""Failures in a row, of whichever streams."""
FIRST_PROBE_SECONDS: Final = 5.0
"""Seconds until one stream looks whether the side is back."""
MAX_PROBE_SECONDS: Final = 60.0


@dataclass(slots=True)
class CircuitBreaker:
    """Lets everybody ask a side that answers; of one that does not, one after the other, with longer and longer pauses.

    Whoever looks is waited for as long as a pause is, and then the next one looks: a look may last, be it because the
    side is back and there is much to do.
    """

    random_fraction: Callable[[], float]
    failures: int = 0
    next_probe_at: float | None = None
    """While it is open: when the next one may look."""
    reason: str = ""
    is_probing: bool = False
    """Whether somebody looks."""

    @property
    def is_open(self) -> bool:
        return self.next_probe_at is not None

    def allows(self, now: float) -> bool:
        """Whether the side may be asked now."""
        return self.next_probe_at is None or now >= self.next_probe_at

    def on_attempt(self, now: float) -> None:
        """Somebody asks it."""
        if self.is_open:
            self.is_probing, self.next_probe_at = True, now + self._probe_pause_seconds()

    def on_success(self) -> bool:
        """It answered; whether it had been given up."""
        was_open = self.is_open
        self.failures, self.next_probe_at, self.reason, self.is_probing = 0, None, "", False
        return was_open

    def on_failure(self, now: float, reason: str) -> None:
        """It did not answer."""
        if not self.is_open or self.is_probing:  # who was at work before says nothing new
            self.failures += 1
        self.reason, self.is_probing = reason, False
        if self.failures >= OPEN_AFTER_FAILURES:
            self.next_probe_at = now + self._probe_pause_seconds()

    def on_inconclusive(self, now: float) -> None:
        """Whoever was to ask it had no need to: the next one may."""
        if self.is_probing:
            self.is_probing, self.next_probe_at = False, now

    def _probe_pause_seconds(self) -> float:
        pause = min(FIRST_PROBE_SECONDS * 2.0 ** min(self.failures - OPEN_AFTER_FAILURES, 30), MAX_PROBE_SECONDS)
        return pause * (1 + PAUSE_JITTER_FRACTION * (2 * self.random_fraction() - 1))
