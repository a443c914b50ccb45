"""Clock: instants for people, monotonic seconds for waiting."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Source of time, passed in so that a test can control it."""

    def now(self) -> datetime:
        """Return the instant, aware and in UTC; for documents and people, never for order."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only rise, valid on this machine only; for leases and waits."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()
