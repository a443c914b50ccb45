"""Backoff after failures, and circuit breakers that keep streams from a system that does not answer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_SECONDS: Final = 2.0
MAX_PAUSE_SECONDS: Final = 300.0
OPERATOR_PAUSE_SECONDS: Final = 900.0
"""Pause after a failure that only an operator can mend; a reload retries at once."""
PAUSE_JITTER_FRACTION: Final = 0.25
OPEN_AFTER_FAILURES: Final = 3
"""Failures in a row, of any streams, that open a breaker."""
FIRST_PROBE_SECONDS: Final = 5.0
MAX_PROBE_SECONDS: Final = 60.0

RandomFraction = Callable[[], float]
"""Returns a random number from 0 to 1."""


def backoff_seconds(failures: int, *, random_fraction: RandomFraction, needs_operator: bool = False) -> float:
    """Return the pause after so many failures in a row."""
    pause = OPERATOR_PAUSE_SECONDS if needs_operator else _doubled(FIRST_PAUSE_SECONDS, failures - 1, MAX_PAUSE_SECONDS)
    return _jittered(pause, random_fraction)


def _doubled(first: float, times: int, most: float) -> float:
    return min(first * 2.0 ** min(times, 30), most)


def _jittered(pause: float, random_fraction: RandomFraction) -> float:
    return pause * (1 + PAUSE_JITTER_FRACTION * (2 * random_fraction() - 1))


@dataclass(slots=True)
class CircuitBreaker:
    """Breaker of one system: while open, one stream at a time probes it, with growing pauses between probes.

    The next probe may begin after the pause even if the last one has not ended: it may take long because the system
    is back and has much to do.
    """

    random_fraction: RandomFraction
    failures: int = 0
    next_probe_at: float | None = None
    """Time when the next stream may probe; None while the breaker is closed."""
    reason: str = ""
    is_probing: bool = False

    @property
    def is_open(self) -> bool:
        return self.next_probe_at is not None

    def allows(self, now: float) -> bool:
        return self.next_probe_at is None or now >= self.next_probe_at

    def on_attempt(self, now: float) -> None:
        if self.is_open:
            self.is_probing, self.next_probe_at = True, now + self._probe_pause_seconds()

    def on_success(self) -> bool:
        """Close the breaker; return whether it was open."""
        was_open = self.is_open
        self.failures, self.next_probe_at, self.reason, self.is_probing = 0, None, "", False
        return was_open

    def on_failure(self, now: float, reason: str) -> None:
        if not self.is_open or self.is_probing:  # a pass that began before the breaker opened says nothing new
            self.failures += 1
        self.reason, self.is_probing = reason, False
        if self.failures >= OPEN_AFTER_FAILURES:
            self.next_probe_at = now + self._probe_pause_seconds()

    def on_inconclusive(self, now: float) -> None:
        """Let the next stream probe at once: this one ended without asking the system."""
        if self.is_probing:
            self.is_probing, self.next_probe_at = False, now

    def _probe_pause_seconds(self) -> float:
        pause = _doubled(FIRST_PROBE_SECONDS, self.failures - OPEN_AFTER_FAILURES, MAX_PROBE_SECONDS)
        return _jittered(pause, self.random_fraction)


class SystemBreakers:
    """Breakers of all systems, by name."""

    def __init__(self, random_fraction: RandomFraction) -> None:
        self._random_fraction = random_fraction
        self._breakers: dict[str, CircuitBreaker] = {}

    def for_system(self, system: str) -> CircuitBreaker:
        if system not in self._breakers:
            self._breakers[system] = CircuitBreaker(self._random_fraction)
        return self._breakers[system]

    def has_open(self, systems: Sequence[str]) -> bool:
        return any(self.for_system(system).is_open for system in systems)

    def find_blocking(self, systems: Sequence[str], now: float) -> tuple[str, CircuitBreaker] | None:
        """Return the first system that may not be asked now, with its breaker."""
        breakers = ((system, self.for_system(system)) for system in systems)
        return next(((system, breaker) for system, breaker in breakers if not breaker.allows(now)), None)

    def probe_times_after(self, now: float) -> Iterator[float]:
        for breaker in self._breakers.values():
            if breaker.next_probe_at is not None and breaker.next_probe_at > now:
                yield breaker.next_probe_at

    def reset(self) -> None:
        self._breakers.clear()
