"""Hosts: whether a process on this very machine still lives, which no lease has to wait to know."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROC = Path("/proc")
_START_TIME_FIELD = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLocation:
    """Where a process runs. Two with the same `place` see the same process numbers."""

    host: str
    pid_namespace: str | None
    """The boot of the kernel and the namespace of process numbers; None where they cannot be told."""
    pid: int
    start_time: str | None
    """When the kernel says that the process started: a number used again is another process."""


class Host(Protocol):
    """What this process can tell of processes around it."""

    def locate_process(self) -> ProcessLocation:
        """Where this process runs."""
        ...

    def is_dead(self, other: ProcessLocation) -> bool:
        """Whether the other is certainly dead; False when this cannot be known from here."""
        ...


class LocalHost:
    """The machine this runs on, as Linux shows it under /proc; elsewhere it knows nothing of others."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def locate_process(self) -> ProcessLocation:
        pid = os.getpid()
        return ProcessLocation(
            host=socket.gethostname(),
            pid_namespace=self._pid_namespace(),
            pid=pid,
            start_time=self._try_read_start_time(pid),
        )

    def is_dead(self, other: ProcessLocation) -> bool:
        place = self._pid_namespace()
        if place is None or other.start_time is None or other.pid_namespace != place:
            return False
        try:
            return self._read_start_time(other.pid) != other.start_time
        except (FileNotFoundError, ProcessLookupError):
            # Absent, or only hidden from us (hidepid, ProtectProc): a signal tells these apart.
            return not _may_exist(other.pid)
        except OSError:
            return False  # too many open files, no permission: nothing is certain

    def _pid_namespace(self) -> str | None:
        try:
            boot = (self._proc / "sys/kernel/random/boot_id").read_text().strip()
            # Containers share the kernel's boot but number their processes apart.
            namespace = (self._proc / "self/ns/pid").readlink()
        except OSError:
            return None
        return f"{boot}/{namespace}"

    def _try_read_start_time(self, pid: int) -> str | None:
        """Clock ticks after boot at which the process started; None when it cannot be told."""
        try:
            return self._read_start_time(pid)
        except OSError:
            return None

    def _read_start_time(self, pid: int) -> str | None:
        """The same; None only for a zombie."""
        stat = (self._proc / str(pid) / "stat").read_text(errors="replace")
        fields = stat.rpartition(")")[2].split()  # the name may hold blanks, brackets, any bytes
        return None if fields[0] in {"Z", "X"} else fields[_START_TIME_FIELD - 3]


def _may_exist(pid: int) -> bool:
    """Whether a process of this number may exist, seen or unseen."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
