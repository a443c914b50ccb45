"""The heartbeat: renews the process's lease while the rest of it works."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from watermarks.errors import NotOwner, OutcomeUnknown, StateUnreadable, Transient
from watermarks.lease import Process

BEATS: Final = 4
"""How often within its time to live a lease is renewed: so a lost request or two end nothing."""


class Heartbeat:
    """Renews from a thread of its own; when the lease is lost, `lost` is called once, and the work is to stop."""

    def __init__(self, process: Process, *, ttl: float, lost: Callable[[], None]) -> None:
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
        while not self._over.wait(self._pause):
            try:
                self._process.renew()
            except (Transient, OutcomeUnknown):
                continue  # the next beat tells; whoever waits for our silence counts it from there
            except (NotOwner, StateUnreadable):
                self._lost()
                return
