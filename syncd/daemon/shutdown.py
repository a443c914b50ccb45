"""Coming to a stop: how long to wait for what is at work, when to end it, and when to leave it."""

from dataclasses import dataclass
from typing import Final

GRACE_FRACTION: Final = 0.6
"""Of the time there is, passes may come to a safe point by themselves; then they are ended."""
RELEASE_FRACTION: Final = 0.25
"""Of the time there is, kept for giving back what is held."""
POLL_SECONDS: Final = 0.5


@dataclass(slots=True)
class ShutdownTimer:
    """When a daemon that was told to stop does what."""

    _started_at: float | None = None
    _timeout_seconds: float = 0.0
    _passes_ended: bool = False

    def start(self, now: float, *, timeout_seconds: float) -> None:
        """Stop from now on; asked twice it is the first time that counts."""
        if self._started_at is None:
            self._started_at, self._timeout_seconds = now, timeout_seconds

    @property
    def has_started(self) -> bool:
        return self._started_at is not None

    def should_end_passes(self, now: float) -> bool:
        """Whether to end what is at work; true once."""
        if (
            self._started_at is None
            or self._passes_ended
            or now < self._started_at + GRACE_FRACTION * self._timeout_seconds
        ):
            return False
        self._passes_ended = True
        return True

    def is_overdue(self, now: float) -> bool:
        """Whether to wait for nobody any more."""
        return self._started_at is not None and now >= self._started_at + (1 - RELEASE_FRACTION) * self._timeout_seconds

    def seconds_to_wait(self, now: float) -> float:
        """Seconds until one of these may have changed."""
        if self._started_at is None or self.is_overdue(now):
            return 0.0
        part = 1 - RELEASE_FRACTION if self._passes_ended else GRACE_FRACTION
        return min(POLL_SECONDS, max(0.0, self._started_at + part * self._timeout_seconds - now))

    def remaining_seconds(self, now: float) -> float | None:
        """Seconds that are left for the last things; None where nobody is in a hurry."""
        return None if self._started_at is None else max(0.5, self._started_at + self._timeout_seconds - now)
