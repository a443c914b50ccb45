"""The heartbeat: renews the process's lease while the rest of it works."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from syncd.errors import to_hinted_error
from watermarks.errors import NotOwner, StateUnreadable
from watermarks.lease import ProcessLease

RENEWALS_PER_TTL: Final = 4
"""How often within its time to live a lease is renewed: so a lost request or two end nothing.

That holds for requests that hang too, if each gives up within a sixth of that time: whoever makes the store sees to it.
"""


class Heartbeat:
    """Renews from a thread of its own; when the lease is lost, `lost` is called once, and the work is to stop.

    It is told why the lease was not renewed in time; nothing where nobody knows, as of a process that was paused.
    """

    def __init__(self, process: ProcessLease, *, ttl_seconds: float, on_lost: Callable[[str], None]) -> None:
        self._process = process
        self._interval_seconds = ttl_seconds / RENEWALS_PER_TTL
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._process.renew()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _renew_until_stopped(self) -> None:
        due, why = time.monotonic(), ""
        while True:
            due = next_beat_at(due, now=time.monotonic(), pause=self._interval_seconds)
            if self._stopped.wait(due - time.monotonic()):
                return
            try:
                self._process.renew()
                why = ""
            except (NotOwner, StateUnreadable):
                self._on_lost(why)
                return
            except Exception as error:  # noqa: BLE001  # whatever it is, who beats no more loses all that is at work
                # The next beat tells; whoever waits for our silence counts it from there.
                why = f"its lease could not be renewed: {to_hinted_error(error).message}"


def next_beat_at(last: float, *, now: float, pause: float) -> float:
    """When to renew again: at a fixed rhythm, whatever the last renewal took; at once where that was too long."""
    return max(last + pause, now)
