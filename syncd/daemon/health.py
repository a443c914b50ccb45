"""Whether the daemon is alive, and whether it is ready to be relied on."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.errors import LakeDown, LakeUnfit, hinted
from syncd.events import Event, PassEnded
from watermarks.clock import Clock
from watermarks.errors import HintedError, StoreUnavailable

SILENT: Final = 60.0
"""Seconds: a loop that has not come round for so long hangs."""
LOOKED: Final = 60.0
"""Seconds for which a look at the lake counts."""
PATIENCE: Final = 3.0
"""Seconds that whoever asks waits for the first look."""
_OF_THE_LAKE: Final = (LakeDown, LakeUnfit, StoreUnavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Yes or no, and why not."""

    good: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    error: HintedError | None


class Health:
    """Tells from a heartbeat whether the loop is alive, and from looks at the lake whether it can work.

    A reader of events: a pass that ended is a look. Where none did for a while, `look` is
    called, by a thread of its own, one at a time.
    """

    def __init__(
        self, *, clock: Clock, beat: Callable[[], float], look: Callable[[], None], silent: float = SILENT
    ) -> None:
        """Prepare; `beat` tells when the loop came round last, in the clock's seconds that only rise.

        `look` asks the lake for something small, and raises what is wrong.
        """
        self._clock = clock
        self._beat = beat
        self._ask = look
        self._silent = silent
        self._guard = threading.Lock()
        self._looking = False
        self._looked = threading.Event()
        self._last: _Look | None = None

    def __call__(self, event: Event) -> None:
        if not isinstance(event, PassEnded) or event.cut:
            return
        if event.error is None or isinstance(event.error, _OF_THE_LAKE):
            self._note(event.error)

    def age(self) -> float:
        """Since how many seconds the loop has not come round."""
        return max(self._clock.monotonic() - self._beat(), 0.0)

    def alive(self) -> Verdict:
        """Whether the loop comes round."""
        age = self.age()
        return (
            Verdict(good=True)
            if age < self._silent
            else Verdict(good=False, why=f"no turn of the loop for {age:.0f} s")
        )

    def ready(self) -> Verdict:
        """Whether the configuration is in force, and the lake answered when somebody looked last."""
        alive = self.alive()
        if not alive.good:
            return alive
        last = self._last
        if last is None or self._clock.monotonic() - last.at >= LOOKED:
            self._look()
            if last is None:
                self._looked.wait(PATIENCE)
        last = self._last
        if last is None:
            return Verdict(good=False, why="the lake has not answered yet")
        if last.error is not None:
            return Verdict(good=False, why=f"the lake did not answer: {last.error.message}")
        return Verdict(good=True)

    def _look(self) -> None:
        with self._guard:
            if self._looking:
                return
            self._looking = True
        threading.Thread(target=self._look_now, name="look-at-lake", daemon=True).start()

    def _look_now(self) -> None:
        try:
            self._ask()
        except Exception as error:  # noqa: BLE001  # a bug in a look must not look like a lake that answers
            self._note(hinted(error))
        else:
            self._note(None)
        finally:
            with self._guard:
                self._looking = False

    def _note(self, error: HintedError | None) -> None:
        self._last = _Look(self._clock.monotonic(), error)
        self._looked.set()
