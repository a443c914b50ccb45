"""Coming to a stop: how long to wait for what is at work, when to end it, and when to leave it."""

from dataclasses import dataclass
from typing import Final

PATIENT_FOR: Final = 0.6
"""Of the time there is, passes may come to a safe point by themselves; then they are ended."""
GIVES_BACK_IN: Final = 0.25
"""Of the time there is, kept for giving back what is held."""
LOOKED: Final = 0.5


@dataclass(slots=True)
class Stopping:
    """When a daemon that was told to stop does what."""

    _since: float | None = None
    _within: float = 0.0
    _ended: bool = False

    def begin(self, now: float, *, within: float) -> None:
        """Stop from now on; asked twice it is the first time that counts."""
        if self._since is None:
            self._since, self._within = now, within

    @property
    def began(self) -> bool:
        return self._since is not None

    def is_impatient(self, now: float) -> bool:
        """Whether to end what is at work; true once."""
        if self._since is None or self._ended or now < self._since + PATIENT_FOR * self._within:
            return False
        self._ended = True
        return True

    def is_late(self, now: float) -> bool:
        """Whether to wait for nobody any more."""
        return self._since is not None and now >= self._since + (1 - GIVES_BACK_IN) * self._within

    def rest(self, now: float) -> float:
        """Seconds until one of these may have changed."""
        if self._since is None or self.is_late(now):
            return 0.0
        part = 1 - GIVES_BACK_IN if self._ended else PATIENT_FOR
        return min(LOOKED, max(0.0, self._since + part * self._within - now))

    def left(self, now: float) -> float | None:
        """Seconds that are left for the last things; None where nobody is in a hurry."""
        return None if self._since is None else max(0.5, self._since + self._within - now)
