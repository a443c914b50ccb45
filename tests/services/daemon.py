"""A daemon in a process of its own, as `syncd daemon` starts one; its leases live as long as a test wants.

python -m tests.services.daemon CONFIG TTL
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

STARTED: Final = "tables; process"


def until(asked: Callable[[], bool], what: str, *, within: float = 120.0) -> None:
    """Ask until it is so, and fail where it is not in time."""
    deadline = time.monotonic() + within
    while not asked():
        assert time.monotonic() < deadline, f"{what} did not come about in {within:.0f} s"
        time.sleep(0.05)


@dataclass
class DaemonProcess:
    """One daemon, and what it has said so far."""

    config: Path
    ttl: float = 30.0
    environ: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def start(self, *, wait: bool = True) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.daemon", str(self.config), str(self.ttl)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environ},
            start_new_session=True,
        )
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        if wait:
            until(lambda: self.has_said(STARTED) or self.process.poll() is not None, "its start")
        return self

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as said:
            for line in said:
                self.lines.append(line.rstrip())

    @property
    def said(self) -> str:
        return "\n".join(list(self.lines))

    def has_said(self, word: str, *, times: int = 1) -> bool:
        return sum(word in line for line in list(self.lines)) >= times

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self, *, within: float = 120.0) -> int:
        """Wait for its end, and until its last word is heard; how it ended."""
        code = self.process.wait(within)
        self.listener.join(within)
        assert not self.listener.is_alive(), "somebody still holds its line"
        return code

    def kill(self) -> None:
        """End it and whatever it started, in whichever state it is; what it said is shown where its test fails."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self.listener.join(10)
        sys.stderr.write(f"daemon {self.process.pid}:\n{self.said}\n")

    @property
    def java(self) -> list[int]:
        """The JVMs that it has. Around one that archives its classes there is a shell."""
        asked = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True)
        found = [line.split(maxsplit=2) for line in asked.stdout.splitlines()]
        processes = [(int(pid), int(parent), name) for pid, parent, name in found]
        mine = {self.process.pid}
        while more := {pid for pid, parent, _ in processes if parent in mine} - mine:
            mine |= more
        return [pid for pid, _, name in processes if pid in mine and name == "java"]


if __name__ == "__main__":
    from syncd.cli.daemon import run_daemon

    run_daemon(Path(sys.argv[1]), ttl=float(sys.argv[2]))
