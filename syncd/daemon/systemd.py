"""systemd: notices over its socket (ready, stopping, alive), and the watchdog of the daemon's loop."""

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, Self

from watermarks.clock import Clock

PINGS_PER_TIMEOUT: Final = 3
CHECK_INTERVAL_SECONDS: Final = 1.0


@dataclass(slots=True)
class SystemdNoticeSocket:
    """Notice socket of a service; without an address every notice is dropped.

    No notice waits or fails: a lost one is no reason to stop.
    """

    address: str | None = None
    watchdog_timeout_seconds: float | None = None
    """Longest time that the watchdog allows between two pings; None without a watchdog."""
    _pinged_at: float = float("-inf")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, pid: int | None = None) -> Self:
        """Read the environment of a service; a watchdog for another process does not count."""
        pid = os.getpid() if pid is None else pid
        timeout = environ.get("WATCHDOG_USEC", "")
        is_for_us = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
        seconds = int(timeout) / 1e6 if timeout.isdecimal() and int(timeout) and is_for_us else None
        return cls(address=environ.get("NOTIFY_SOCKET") or None, watchdog_timeout_seconds=seconds)

    def notify_ready(self, status: str = "") -> None:
        """Report that the start, or a reload, is complete."""
        self._send("READY=1", *_status_line(status))

    def notify_stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", *_status_line(status))

    def notify_status(self, status: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._send(*_status_line(status))

    def ping_watchdog(self, now: float) -> None:
        """Ping the watchdog, if a ping is due."""
        timeout = self.watchdog_timeout_seconds
        if timeout is not None and now - self._pinged_at >= timeout / PINGS_PER_TIMEOUT:
            self._pinged_at = now
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self.address is None or not lines:
            return
        path = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)  # noqa: FBT003  # the parameter has no name
            sock.sendto("\n".join(lines).encode(), path)


def _status_line(text: str) -> tuple[str, ...]:
    return (f"STATUS={' '.join(text.split())}",) if text else ()


class MonitoredLoop(Protocol):
    """Loop that the watchdog watches."""

    last_iteration_at: float
    """Monotonic time of its last iteration."""

    @property
    def is_stopping(self) -> bool: ...


class SystemdNotifier:
    """Watches the loop from a thread of its own; pings end when the loop hangs, so that systemd restarts it."""

    def __init__(
        self,
        systemd: SystemdNoticeSocket,
        loop: MonitoredLoop,
        *,
        clock: Clock,
        describe_status: Callable[[], str],
        interval_seconds: float = CHECK_INTERVAL_SECONDS,
    ) -> None:
        """Make the notifier; `clock` is the clock of the loop."""
        self._systemd = systemd
        self._loop = loop
        self._clock = clock
        self._describe_status = describe_status
        self._interval_seconds = interval_seconds
        self._last_status = ""
        self._sent_stopping = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="systemd", daemon=True)

    def __enter__(self) -> Self:
        if self._systemd.address is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._send_stopping()

    def _run(self) -> None:
        began = self._loop.last_iteration_at
        while self._loop.last_iteration_at == began:
            if self._over.wait(self._interval_seconds / 10):
                return
        self._systemd.notify_ready()
        while not self._over.wait(self._interval_seconds):
            self._check_loop()

    def _check_loop(self) -> None:
        now, timeout = self._clock.monotonic(), self._systemd.watchdog_timeout_seconds
        if timeout is None or now - self._loop.last_iteration_at < timeout:
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
