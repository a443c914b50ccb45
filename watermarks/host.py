"""Host: detects dead processes on the same machine, so that a takeover need not wait for the lease to expire."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROC = Path("/proc")
_START_TIME_FIELD = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLocation:
    """Location of a process. Two processes with the same `pid_namespace` see the same process numbers."""

    host: str
    pid_namespace: str | None
    """Boot of the kernel and namespace of process numbers; None if unknown."""
    pid: int
    start_time: str | None
    """Start time of the process by the kernel, which tells apart two processes of the same number."""


class Host(Protocol):
    """Information on the processes of this machine."""

    def locate_process(self) -> ProcessLocation:
        """Return the location of this process."""
        ...

    def is_dead(self, other: ProcessLocation) -> bool:
        """Return True if the other is certainly dead, False if that cannot be known from here."""
        ...


class LocalHost:
    """This machine as Linux shows it under /proc; on other systems no process counts as dead."""

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
        namespace = self._pid_namespace()
        if namespace is None or other.start_time is None or other.pid_namespace != namespace:
            return False
        try:
            return self._read_start_time(other.pid) != other.start_time
        except (FileNotFoundError, ProcessLookupError):
            # Absent, or only hidden from this process (hidepid, ProtectProc): a signal distinguishes these.
            return not _may_exist(other.pid)
        except OSError:
            return False  # too many open files, no permission: unknown

    def _pid_namespace(self) -> str | None:
        try:
            boot = (self._proc / "sys/kernel/random/boot_id").read_text().strip()
            # Containers share the kernel's boot but number their processes apart.
            namespace = (self._proc / "self/ns/pid").readlink()
        except OSError:
            return None
        return f"{boot}/{namespace}"

    def _try_read_start_time(self, pid: int) -> str | None:
        """Return the clock ticks from boot to the start of the process, or None if unknown."""
        try:
            return self._read_start_time(pid)
        except OSError:
            return None

    def _read_start_time(self, pid: int) -> str | None:
        """Return the same; None only for a zombie."""
        stat = (self._proc / str(pid) / "stat").read_text(errors="replace")
        fields = stat.rpartition(")")[2].split()  # the name may have blanks, brackets, any bytes
        return None if fields[0] in {"Z", "X"} else fields[_START_TIME_FIELD - 3]


def _may_exist(pid: int) -> bool:
    """Return True if a process of this number may exist, visible or hidden."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
