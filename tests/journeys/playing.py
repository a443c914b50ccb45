"""Plays the script on a sandbox, as a user with a shell would, and keeps what was printed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from syncd.host.directories import find_cache
from syncd.host.java import find_java
from syncd.sandbox.faults.s3 import S3Fault, S3FaultKind, S3Proxy, S3Request
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.shop_setup import ensure_shop
from tests.journeys.script import STEPS, AtSource, Killed, Step, Typed
from tests.journeys.truth import wrong
from tests.services.servers import environ_of

PATIENCE: Final = 900.0
"""Seconds that a command may take on a busy machine."""
ORDERS: Final = 1000
COLUMNS: Final = "120"
KILLED: Final = 137
"""What a shell says of a process that SIGKILL ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One step and what it printed, as it came."""

    step: Step
    printed: str = ""
    exits: int = 0


@dataclass(kw_only=True)
class Stage:
    """A sandbox with its shop, a home directory, and a shell in it."""

    box: Sandbox
    home: Path
    proxy: S3Proxy
    environ: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SYNCD_", "AWS_"))},
            **self.box.s3.environ,
            "AWS_ENDPOINT_URL_S3": self.proxy.endpoint,
            "MYSQL_PASSWORD": self.box.mysql.password,
            "REDSHIFT_PASSWORD": self.box.redshift.password,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": COLUMNS,
        }

    @property
    def places(self) -> Mapping[str, str]:
        """What is elsewhere on each machine, and how the page calls it."""
        return {
            f"127.0.0.1:{self.box.mysql.port}": "127.0.0.1:3306",
            f"127.0.0.1:{self.box.redshift.port}": "127.0.0.1:5439",
            str(find_cache(os.environ)): "~/.cache/syncd",
            os.environ.get("TMPDIR", "/tmp"): "/tmp",
            find_java(os.environ): "java",
        }

    def play(self, step: Step) -> Played:
        match step:
            case AtSource():
                return self._at_source(step)
            case Killed():
                return self._killed(step)
            case Typed():
                return self._typed(step)

    def judged(self, step: Step) -> Played:
        """The step, played; and both sides held against each other.

        Raises:
            AssertionError: it ended otherwise than it should, or the sides stand otherwise.
        """
        done = self.play(step)
        expected = {Typed: getattr(step, "exits", 0), Killed: KILLED, AtSource: 0}[type(step)]
        assert (done.exits, wrong(self.box)) == (expected, step.truth), f"{step}:\n{done.printed}"
        return done

    def _typed(self, step: Typed) -> Played:
        done = subprocess.run(
            self._shell(step.typed),
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Played(step=step, printed=done.stdout, exits=done.returncode)

    def _at_source(self, step: AtSource) -> Played:
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            for statement in step.statements:
                cursor.execute(statement)
        return Played(step=step)

    def _killed(self, step: Killed) -> Played:
        """S3 keeps it waiting for the manifest: it is asked for patience until the process is gone."""
        reached = threading.Event()

        def applies(request: S3Request) -> bool:
            if request.method != "PUT" or request.key != step.manifest:
                return False
            reached.set()
            return True

        log = self.home / "killed.log"
        self.proxy.inject(
            S3Fault(kind=S3FaultKind.ERROR, status=503, code="SlowDown", matches=applies, times=1_000_000)
        )
        with log.open("wb") as file:
            process = subprocess.Popen(
                self._shell(f"exec {step.typed}"),
                env=self.environ,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                assert reached.wait(PATIENCE), f"{step.manifest} was never written: {log.read_text()}"
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
                self.proxy.clear_faults()
        return Played(step=step, printed=log.read_text(), exits=128 - process.returncode)

    def _shell(self, typed: str) -> list[str]:
        mysql, redshift = self.box.mysql, self.box.redshift
        at = {"{mysql}": f"{mysql.host}:{mysql.port}", "{redshift}": f"{redshift.host}:{redshift.port}"}
        for word, address in at.items():
            typed = typed.replace(word, address)
        return ["bash", "-c", typed]


@contextmanager
def stage(directory: Path) -> Iterator[Stage]:
    """Everything up and the shop filled, ended with the `with`."""
    home = directory / "home"
    home.mkdir()
    with Sandbox(directory / "sandbox", environ=environ_of("mariadb")) as box, S3Proxy(box.s3.endpoint) as proxy:
        ensure_shop(box.directory, box.mysql, orders=ORDERS, seed=1, is_external=False)
        with box.mysql.connect() as connection, connection.cursor() as cursor:
            cursor.execute("ANALYZE TABLE customers, orders, order_lines, events, countries")
        yield Stage(box=box, home=home, proxy=proxy)


def play_all(on: Stage, *, tell: Callable[[str], None] = lambda _line: None) -> list[Played | str]:
    """The whole script, from its first step to its last; `tell` hears how long each took."""
    played: list[Played | str] = []
    for step in STEPS:
        began = time.monotonic()
        played.append(step if isinstance(step, str) else on.judged(step))
        tell(f"{time.monotonic() - began:6.1f} s  {step if isinstance(step, str) else step.why}")
    return played
