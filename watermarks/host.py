"""Hosts: whether a process on this very machine still lives, which no lease has to wait to know."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROC = Path("/proc")
_START_FIELD = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where a process runs. Two with the same `place` see the same process numbers."""

    host: str
    place: str | None
    """The boot of the kernel and the namespace of process numbers; None where they cannot be told."""
    pid: int
    started: str | None
    """When the kernel says that the process started: a number used again is another process."""


class Host(Protocol):
    """What this process can tell of processes around it."""

    def here(self) -> Whereabouts:
        """Where this process runs."""
        ...

    def is_dead(self, other: Whereabouts) -> bool:
        """Whether the other is certainly dead; False when this cannot be known from here."""
        ...


class LocalHost:
    """The machine this runs on, as Linux shows it under /proc; elsewhere it knows nothing of others."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def here(self) -> Whereabouts:
        pid = os.getpid()
        return Whereabouts(host=socket.gethostname(), place=self._place(), pid=pid, started=self._started(pid))

    def is_dead(self, other: Whereabouts) -> bool:
        place = self._place()
        if place is None or other.started is None or other.place != place:
            return False
        try:
            return self._start_of(other.pid) != other.started
        except (FileNotFoundError, ProcessLookupError):
            # Absent, or only hidden from us (hidepid, ProtectProc): a signal tells these apart.
            return not _signallable(other.pid)
        except OSError:
            return False  # too many open files, no permission: nothing is certain

    def _place(self) -> str | None:
        try:
            boot = (self._proc / "sys/kernel/random/boot_id").read_text().strip()
            # Containers share the kernel's boot but number their processes apart.
            namespace = (self._proc / "self/ns/pid").readlink()
        except OSError:
            return None
        return f"{boot}/{namespace}"

    def _started(self, pid: int) -> str | None:
        """Clock ticks after boot at which the process started; None when it cannot be told."""
        try:
            return self._start_of(pid)
        except OSError:
            return None

    def _start_of(self, pid: int) -> str | None:
        """The same; None only for a zombie."""
        stat = (self._proc / str(pid) / "stat").read_text(errors="replace")
        fields = stat.rpartition(")")[2].split()  # the name may hold blanks, brackets, any bytes
        return None if fields[0] in {"Z", "X"} else fields[_START_FIELD - 3]


def _signallable(pid: int) -> bool:
    """Whether a process of this number may exist, seen or unseen."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
