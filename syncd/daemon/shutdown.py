"""Timing of a shutdown: when to interrupt running passes, and when to leave them."""

from dataclasses import dataclass
from typing import Final

GRACE_FRACTION: Final = 0.6
"""Part of the timeout in which passes may reach a safe point; then they are interrupted."""
RELEASE_FRACTION: Final = 0.25
"""Part of the timeout that is kept for releasing leases."""
POLL_SECONDS: Final = 0.5


@dataclass(slots=True)
class ShutdownTimer:
    """Timer of a shutdown."""

    _started_at: float | None = None
    _timeout_seconds: float = 0.0
    _passes_ended: bool = False

    def start(self, now: float, *, timeout_seconds: float) -> None:
        """Start the shutdown; a second call has no effect."""
        if self._started_at is None:
            self._started_at, self._timeout_seconds = now, timeout_seconds

    @property
    def has_started(self) -> bool:
        return self._started_at is not None

    def should_end_passes(self, now: float) -> bool:
        """Return whether to interrupt the running passes; true once."""
        if (
            self._started_at is None
            or self._passes_ended
            or now < self._started_at + GRACE_FRACTION * self._timeout_seconds
        ):
            return False
        self._passes_ended = True
        return True

    def is_overdue(self, now: float) -> bool:
        """Return whether to stop waiting for passes."""
        return self._started_at is not None and now >= self._started_at + (1 - RELEASE_FRACTION) * self._timeout_seconds

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until one of these may change."""
        if self._started_at is None or self.is_overdue(now):
            return 0.0
        part = 1 - RELEASE_FRACTION if self._passes_ended else GRACE_FRACTION
        return min(POLL_SECONDS, max(0.0, self._started_at + part * self._timeout_seconds - now))

    def remaining_seconds(self, now: float) -> float | None:
        """Return the seconds that are left for releasing leases; None before a shutdown."""
        return None if self._started_at is None else max(0.5, self._started_at + self._timeout_seconds - now)
