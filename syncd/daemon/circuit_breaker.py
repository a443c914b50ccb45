"""A breaker: whether a side that failed again and again is asked, and by whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.daemon.backoff import SPREAD

OPENS_AFTER: Final = 3
"""Failures in a row, of whichever streams."""
FIRST: Final = 5.0
"""Seconds until one stream looks whether the side is back."""
MOST: Final = 60.0


@dataclass(slots=True)
class Breaker:
    """Lets everybody ask a side that answers; of one that does not, one after the other, with longer and longer pauses.

    Whoever looks is waited for as long as a pause is, and then the next one looks: a look may last, be it because the
    side is back and there is much to do.
    """

    chance: Callable[[], float]
    failures: int = 0
    until: float | None = None
    """While it is open: when the next one may look."""
    reason: str = ""
    looked_at: bool = False
    """Whether somebody looks."""

    @property
    def is_open(self) -> bool:
        return self.until is not None

    def lets(self, now: float) -> bool:
        """Whether the side may be asked now."""
        return self.until is None or now >= self.until

    def began(self, now: float) -> None:
        """Somebody asks it."""
        if self.is_open:
            self.looked_at, self.until = True, now + self._pause()

    def succeeded(self) -> bool:
        """It answered; whether it had been given up."""
        was_open = self.is_open
        self.failures, self.until, self.reason, self.looked_at = 0, None, "", False
        return was_open

    def failed(self, now: float, reason: str) -> None:
        """It did not answer."""
        if not self.is_open or self.looked_at:  # who was at work before says nothing new
            self.failures += 1
        self.reason, self.looked_at = reason, False
        if self.failures >= OPENS_AFTER:
            self.until = now + self._pause()

    def learned_nothing(self, now: float) -> None:
        """Whoever was to ask it had no need to: the next one may."""
        if self.looked_at:
            self.looked_at, self.until = False, now

    def _pause(self) -> float:
        pause = min(FIRST * 2.0 ** min(self.failures - OPENS_AFTER, 30), MOST)
        return pause * (1 + SPREAD * (2 * self.chance() - 1))
