"""Memory of a process tree without the servers of the sandbox, and processor time with them."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

OFTEN = 0.2  # seconds
SERVERS = (b"mariadbd", b"mysqld", b"s3_server")
LISTENS = "0A"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Peak:
    """The highest sum of PSS so far."""

    bytes: int = 0

    @property
    def mib(self) -> float:
        return self.bytes / 2**20


@contextmanager
def peak_of_tree() -> Iterator[Peak]:
    """Measure five times a second while the `with` lasts."""
    peak, over = Peak(), threading.Event()

    def measure() -> None:
        while not over.wait(OFTEN):
            peak.bytes = max(peak.bytes, sum(map(pss_of, tree_of(os.getpid()))))

    watcher = threading.Thread(target=measure)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def tree_of(root: int) -> list[int]:
    """Return a process and its descendants, without servers of the sandbox."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process and not is_server(child)]
    return found


def is_server(process: int) -> bool:
    with suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        return any(server in command for server in SERVERS)
    return True


def pss_of(process: int) -> int:
    with suppress(OSError):
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        return next(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:"))
    return 0


def work_of(servers: Iterable[int]) -> dict[int, float]:
    """Return the seconds of processor time so far of this process, its descendants and these servers."""
    return {process: processor_seconds(process) for process in {*tree_of(os.getpid()), *servers}}


def work_since(before: dict[int, float], servers: Iterable[int]) -> float:
    """Return the seconds of processor time since `before`; on a shared machine they say more than the clock.

    For a process that ended meanwhile, the time that its parent got from it counts.
    """
    return sum(max(0.0, now - before.get(process, 0.0)) for process, now in work_of(servers).items())


def processor_seconds(process: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS
    return 0.0


def serving(port: int) -> list[int]:
    """Return the processes that listen on a port of this machine."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{line[9]}]" for line in lines if line[3] == LISTENS and line[1].endswith(f":{port:04X}")}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(str(each.readlink()) in sockets for each in process.joinpath("fd").iterdir()):
                found.append(int(process.name))
    return found
