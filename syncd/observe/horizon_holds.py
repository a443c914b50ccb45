"""How long transactions held the horizons of sources, for as long as that is news."""

import threading
from collections.abc import Collection, Mapping
from typing import Final

from watermarks.clock import Clock

HOLD_VALID_SECONDS: Final = 600.0
"""Seconds: what a poll saw may be over after that, and nobody was there to see it end."""


class HorizonHoldTimes:
    """What the last poll of each source saw. Safe for several threads."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._last_polls: dict[str, tuple[float, float]] = {}
        """The seconds that were told, and when."""

    def record(self, source: str, seconds: float) -> None:
        """A poll saw the horizon of a source held for so many seconds."""
        with self._guard:
            self._last_polls[source] = seconds, self._clock.monotonic()

    def retain_sources(self, sources: Collection[str]) -> None:
        """Forget every source but these."""
        with self._guard:
            self._last_polls = {source: seen for source, seen in self._last_polls.items() if source in sources}

    def current(self) -> Mapping[str, float]:
        """The seconds by source, of those that were polled lately."""
        since = self._clock.monotonic() - HOLD_VALID_SECONDS
        with self._guard:
            return {source: seconds for source, (seconds, at) in self._last_polls.items() if at > since}
