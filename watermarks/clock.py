"""The clock: instants for people, monotonic seconds for waiting."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time; passed in, so that a test can own it."""

    def now(self) -> datetime:
        """The instant, aware and in UTC; for documents and people, never for order."""
        ...

    def monotonic(self) -> float:
        """Seconds that only rise, on this machine alone; for leases and waits."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()
