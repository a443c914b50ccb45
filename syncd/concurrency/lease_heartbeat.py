"""Heartbeat thread that renews the lease of this process."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from syncd.errors import to_hinted_error
from watermarks.errors import NotOwner, StateUnreadable
from watermarks.lease import ProcessLease

RENEWALS_PER_TTL: Final = 4
"""Renewals within the lease's time to live: the lease survives a lost request or two.

It also survives requests that hang, if each times out within a sixth of the time to live; the maker of the store sets
that timeout.
"""


class Heartbeat:
    """Renews the lease from its own thread; when the lease is lost, it calls `on_lost` once, and all work has to stop.

    `on_lost` gets the reason why the lease was not renewed in time; an empty one if unknown, such as a paused process.
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
        due, reason = time.monotonic(), ""
        while True:
            due = next_beat_at(due, now=time.monotonic(), pause=self._interval_seconds)
            if self._stopped.wait(due - time.monotonic()):
                return
            try:
                self._process.renew()
                reason = ""
            except (NotOwner, StateUnreadable):
                self._on_lost(reason)
                return
            except Exception as error:  # noqa: BLE001  # if the thread ended, the process would lose all its claims
                # Only the next beat shows whether the lease still holds.
                reason = f"its lease could not be renewed: {to_hinted_error(error).message}"


def next_beat_at(last: float, *, now: float, pause: float) -> float:
    """Return when to renew again: at a fixed rhythm; at once if the last renewal took longer than that."""
    return max(last + pause, now)
