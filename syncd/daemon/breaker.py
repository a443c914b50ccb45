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
    """Lets everybody ask a side that answers; of one that does not, one at a time, after longer and longer pauses."""

    chance: Callable[[], float]
    failures: int = 0
    until: float | None = None
    """While it is open: when to look again."""
    reason: str = ""
    probing: bool = False

    @property
    def is_open(self) -> bool:
        return self.until is not None

    def lets(self, now: float) -> bool:
        """Whether the side may be asked now."""
        return self.until is None or (now >= self.until and not self.probing)

    def began(self) -> None:
        """Somebody asks it."""
        self.probing = self.is_open

    def succeeded(self) -> bool:
        """It answered; whether it had been given up."""
        was_open = self.is_open
        self.failures, self.until, self.reason, self.probing = 0, None, "", False
        return was_open

    def failed(self, now: float, reason: str) -> None:
        """It did not answer."""
        self.failures += 1
        self.reason, self.probing = reason, False
        if self.failures >= OPENS_AFTER:
            pause = min(FIRST * 2.0 ** min(self.failures - OPENS_AFTER, 30), MOST)
            self.until = now + pause * (1 + SPREAD * (2 * self.chance() - 1))

    def learned_nothing(self) -> None:
        """Whoever was to ask it had no need to."""
        self.probing = False
