"""Tells systemd that the daemon is ready, and goes on telling it as long as its loop comes round."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

from syncd.daemon.systemd import SystemdNoticeSocket
from watermarks.clock import Clock

CHECK_INTERVAL_SECONDS: Final = 1.0
"""Seconds."""


class MonitoredLoop(Protocol):
    """What is to be alive."""

    last_iteration_at: float
    """When it was last seen to be, on the clock that only rises."""

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop, and only brings its work to an end."""
        ...


class SystemdNotifier:
    """Looks at the loop from a thread of its own: one that stands still is told of no more, and systemd ends it."""

    def __init__(
        self,
        systemd: SystemdNoticeSocket,
        loop: MonitoredLoop,
        *,
        clock: Clock,
        describe_status: Callable[[], str],
        interval_seconds: float = CHECK_INTERVAL_SECONDS,
    ) -> None:
        """Prepare; `clock` is that of the loop, `status` says in one line how it stands."""
        self._systemd = systemd
        self._loop = loop
        self._clock = clock
        self._describe_status = describe_status
        self._interval_seconds = interval_seconds
        self._last_status = ""
        self._sent_stopping = False
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
        self._send_stopping()

    def _work(self) -> None:
        began = self._loop.last_iteration_at
        while self._loop.last_iteration_at == began:
            if self._over.wait(self._interval_seconds / 10):
                return
        self._systemd.notify_ready()
        while not self._over.wait(self._interval_seconds):
            self._check_loop()

    def _check_loop(self) -> None:
        now, within = self._clock.monotonic(), self._systemd.watchdog_timeout_seconds
        if within is None or now - self._loop.last_iteration_at < within:
            self._systemd.ping_watchdog(now)
        if self._loop.is_stopping:
            self._send_stopping()
        if (status := self._describe_status()) != self._last_status:
            self._last_status = status
            self._systemd.notify_status(status)

    def _send_stopping(self) -> None:
        if not self._sent_stopping:
            self._sent_stopping = True
            self._systemd.notify_stopping()
