"""Tells systemd that the daemon is ready, and goes on telling it as long as its loop comes round."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

from syncd.daemon.systemd import Systemd
from watermarks.clock import Clock

LOOKED_EVERY: Final = 1.0
"""Seconds."""


class Loop(Protocol):
    """What is to be alive."""

    turned_at: float
    """When it was last seen to be, on the clock that only rises."""

    @property
    def ending(self) -> bool:
        """Whether it was told to stop, and only brings its work to an end."""
        ...


class Alive:
    """Looks at the loop from a thread of its own: one that stands still is told of no more, and systemd ends it."""

    def __init__(
        self, systemd: Systemd, loop: Loop, *, clock: Clock, status: Callable[[], str], every: float = LOOKED_EVERY
    ) -> None:
        """Prepare; `clock` is that of the loop, `status` says in one line how it stands."""
        self._systemd = systemd
        self._loop = loop
        self._clock = clock
        self._status = status
        self._every = every
        self._said = ""
        self._told_ending = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="systemd", daemon=True)

    def __enter__(self) -> Self:
        if self._systemd.address is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._tell_ending()

    def _work(self) -> None:
        began = self._loop.turned_at
        while self._loop.turned_at == began:
            if self._over.wait(self._every / 10):
                return
        self._systemd.ready()
        while not self._over.wait(self._every):
            self._look()

    def _look(self) -> None:
        now, within = self._clock.monotonic(), self._systemd.pinged_within
        if within is None or now - self._loop.turned_at < within:
            self._systemd.alive(now)
        if self._loop.ending:
            self._tell_ending()
        if (status := self._status()) != self._said:
            self._said = status
            self._systemd.status(status)

    def _tell_ending(self) -> None:
        if not self._told_ending:
            self._told_ending = True
            self._systemd.stopping()
