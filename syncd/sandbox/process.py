"""Processes of a sandbox: identity, launch and end; and the loopback ports they get."""

import contextlib
import os
import platform
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import NotReady

PROC: Final = Path("/proc")
MARKER_VARIABLE: Final = "SYNCD_SANDBOX_SERVICE"
OWNER_ONLY_MODE: Final = 0o600
KILL_TIMEOUT_SECONDS: Final = 10.0
_THREADS, _STARTED = 17, 19  # places in /proc/PID/stat, counted after the name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process number that no later process of the same number matches."""

    boot: str
    pid: int
    started: str

    @classmethod
    def from_pid(cls, pid: int) -> Self | None:
        """Return the identity of a running process, or None if it does not exist or is a zombie."""
        started = _start_time(pid)
        return None if started is None else cls(boot=_boot_id(), pid=pid, started=started)

    def is_alive(self) -> bool:
        """Return True if this very process still runs; a child that ended is reaped."""
        _reap(self.pid)
        return ProcessId.from_pid(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Signal this process, and no later one of the same number."""
        if not hasattr(os, "pidfd_open"):
            if self.is_alive():
                os.kill(self.pid, number)
            return
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive():
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass  # it ended before the signal
        finally:
            os.close(handle)

    def terminate(self, *, timeout_seconds: float) -> None:
        """Ask it to end, and kill it after `timeout_seconds`."""
        self.send(signal.SIGTERM)
        if wait_until(lambda: not self.is_alive(), timeout_seconds=timeout_seconds):
            return
        self.kill()

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.send(signal.SIGKILL)
        wait_until(lambda: not self.is_alive(), timeout_seconds=KILL_TIMEOUT_SECONDS)


def launch(argv: Sequence[str], *, environ: Mapping[str, str], log: Path, marker: str) -> ProcessId:
    """Start a process in a session of its own, which writes to a log and outlives this one.

    `marker` stands in its environment and in that of its children: processes that a killed
    sandbox left are found by it, whatever their parent is by then.
    """
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawnp(
        argv[0],
        list(argv),
        {**environ, MARKER_VARIABLE: marker},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), writing, OWNER_ONLY_MODE),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    # A process that ended at once has no start time; the empty one shows that it is gone.
    return ProcessId.from_pid(pid) or ProcessId(boot=_boot_id(), pid=pid, started="")


def find_marked(ends_with: str) -> Iterator[tuple[str, ProcessId]]:
    """Yield every running process whose marker ends like this, with its marker (Linux only)."""
    for entry in PROC.glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or belongs to another user
        name = f"{MARKER_VARIABLE}=".encode()
        marker = next((v.removeprefix(name).decode(errors="replace") for v in variables if v.startswith(name)), "")
        if marker.endswith(ends_with) and (found := ProcessId.from_pid(int(entry.name))):
            yield marker, found


def _boot_id() -> str:
    """Return an identifier that changes when the machine restarts."""
    if platform.system() == "Linux":
        # Containers share the kernel's boot and have process numbers of their own.
        return f"{(PROC / 'sys/kernel/random/boot_id').read_text().strip()}/{(PROC / 'self/ns/pid').readlink()}"
    return _run_program("sysctl", "-n", "kern.bootsessionuuid")


def _start_time(pid: int) -> str | None:
    """Return the start of a process in its system's own terms, or None for one that has ended."""
    if platform.system() != "Linux":
        state, _, started = _run_program("ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
        return started.strip() or None if not state.startswith("Z") else None
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # A killed server's first thread is a zombie while the others still release sockets and files.
    over = fields[0] in "ZX" and int(fields[_THREADS]) <= 1
    return None if over else fields[_STARTED]


def _run_program(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10).stdout.strip()


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # not a child of ours: its parent reaps it
        os.waitpid(pid, os.WNOHANG)


LOOPBACK: Final = "127.0.0.1"


class PortBusy(NotReady):
    pass


def choose_port(*, requested: int | None, previous: int | None) -> int:
    """Return the requested port, else the previous one if it is free, else any free one.

    Raises:
        PortBusy: the requested port is taken.
    """
    if requested is not None:
        if not is_port_free(requested):
            raise PortBusy(
                f"port {requested} on {LOOPBACK} is used by another program",
                hint="Choose another port, or none for any free one.",
            )
        return requested
    if previous is not None and is_port_free(previous):
        return previous
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_port_free(port: int) -> bool:
    """Return True if a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do: connections that linger after the end of their server do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
