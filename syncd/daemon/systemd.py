"""Tells systemd how the process is, over the socket that it gives: ready, stopping, still alive."""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

PINGS_PER_TIMEOUT: Final = 3
"""How often within the time that the watchdog allows."""


@dataclass(slots=True)
class SystemdNoticeSocket:
    """The notice socket of a service; without one, nothing is told to anybody.

    Nothing here waits or fails: a notice that is lost is no reason to stop, and the
    watchdog is pinged by whoever is to be alive, so that one that stands still is missed.
    """

    address: str | None = None
    watchdog_timeout_seconds: float | None = None
    """Seconds that the watchdog allows between two signs of life; none where it does not watch."""
    _pinged_at: float = float("-inf")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, pid: int | None = None) -> Self:
        """What the environment of a service says; the watchdog counts only where it is meant for this process."""
        pid = os.getpid() if pid is None else pid
        allowed = environ.get("WATCHDOG_USEC", "")
        meant = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
        within = int(allowed) / 1e6 if allowed.isdecimal() and int(allowed) and meant else None
        return cls(address=environ.get("NOTIFY_SOCKET") or None, watchdog_timeout_seconds=within)

    def notify_ready(self, status: str = "") -> None:
        """Start-up is over, or a reload is."""
        self._send("READY=1", *_status_line(status))

    def notify_reloading(self) -> None:
        """The configuration is read again; `ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def notify_stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", *_status_line(status))

    def notify_status(self, status: str) -> None:
        """One line that `systemctl status` shows."""
        self._send(*_status_line(status))

    def ping_watchdog(self, now: float) -> None:
        """A sign of life, as often as is needed; to be called by the loop that is to be alive, as often as it likes."""
        if (
            self.watchdog_timeout_seconds is not None
            and now - self._pinged_at >= self.watchdog_timeout_seconds / PINGS_PER_TIMEOUT
        ):
            self._pinged_at = now
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self.address is None or not lines:
            return
        place = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.setblocking(False)  # noqa: FBT003  # the socket's own word
            line.sendto("\n".join(lines).encode(), place)


def _status_line(text: str) -> tuple[str, ...]:
    return (f"STATUS={' '.join(text.split())}",) if text else ()
