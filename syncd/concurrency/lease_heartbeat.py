"""The heartbeat: renews the process's lease while the rest of it works."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from syncd.errors import hinted
from watermarks.errors import NotOwner, StateUnreadable
from watermarks.lease import Process

BEATS: Final = 4
"""How often within its time to live a lease is renewed: so a lost request or two end nothing.

That holds for requests that hang too, if each gives up within a sixth of that time: whoever makes the store sees to it.
"""


class Heartbeat:
    """Renews from a thread of its own; when the lease is lost, `lost` is called once, and the work is to stop.

    It is told why the lease was not renewed in time; nothing where nobody knows, as of a process that was paused.
    """

    def __init__(self, process: Process, *, ttl: float, lost: Callable[[str], None]) -> None:
        self._process = process
        self._pause = ttl / BEATS
        self._lost = lost
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._process.renew()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        due, why = time.monotonic(), ""
        while True:
            due = next_beat(due, now=time.monotonic(), pause=self._pause)
            if self._over.wait(due - time.monotonic()):
                return
            try:
                self._process.renew()
                why = ""
            except (NotOwner, StateUnreadable):
                self._lost(why)
                return
            except Exception as error:  # noqa: BLE001  # whatever it is, who beats no more loses all that is at work
                # The next beat tells; whoever waits for our silence counts it from there.
                why = f"its lease could not be renewed: {hinted(error).message}"


def next_beat(last: float, *, now: float, pause: float) -> float:
    """When to renew again: at a fixed rhythm, whatever the last renewal took; at once where that was too long."""
    return max(last + pause, now)
