"""A day of the daemon in some minutes: thousands of passes while everything around it fails now and then.

SYNCD_SOAK is for how many passes, SYNCD_SEED by which chance; what was played is told at the end.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pymysql
import pytest

from syncd.sandbox.faults.s3 import S3Fault, S3FaultKind, S3Proxy
from syncd.sandbox.faults.tcp import TcpProxy
from tests.integration.daemon.changes import writing
from tests.integration.daemon.conftest import Place
from tests.integration.daemon.test_shown import url_of, value
from tests.services.chain_check import Lake
from tests.services.daemon import DaemonProcess

pytestmark = [pytest.mark.services, pytest.mark.long]

PASSES = int(os.environ.get("SYNCD_SOAK", "10000"))
SEED = int(os.environ.get("SYNCD_SEED", time.time_ns() % 1_000_000))
TTL = 6.0
CALM = (150.0, 350.0)
"""Passes between two faults while its memory is watched: most are to be whole."""
ROUGH = (3.0, 9.0)
"""Seconds between two blows afterwards."""
STRUCK = 12
"""Times that it is killed, paused or stopped afterwards."""
WARM = 1_000
"""Passes after which memory counts."""
GROWN = 1.0
"""Megabytes that it may grow in a thousand passes."""


class Used(NamedTuple):
    """What the process held after so many passes."""

    passes: float
    megabytes: float
    threads: int
    handles: int


def used(daemon: DaemonProcess, passes: float) -> Used:
    place = Path(f"/proc/{daemon.process.pid}")
    told = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    return Used(
        passes=passes,
        megabytes=int(told["VmRSS"].split()[0]) / 1024,
        threads=int(told["Threads"]),
        handles=len(list((place / "fd").iterdir())),
    )


def slope(samples: list[Used]) -> float:
    """Megabytes in a thousand passes."""
    return 1000 * statistics.linear_regression([one.passes for one in samples], [one.megabytes for one in samples])[0]


@dataclass
class Soak:
    """One daemon, and ways to do it harm."""

    place: Place
    s3: S3Proxy
    wires: dict[str, TcpProxy]
    daemon: DaemonProcess
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    done: Counter[str] = field(default_factory=Counter[str])

    @property
    def passes(self) -> float:
        return value(url_of(self.daemon), "syncd_passes_total")

    def harm(self) -> None:
        """One of what may befall whatever it stands on."""
        kinds: dict[str, Callable[[], object]] = {
            "S3 fails": lambda: self.s3.inject(S3Fault(kind=S3FaultKind.ERROR, status=503, code="SlowDown", times=12)),
            "S3 answers get lost": lambda: self.s3.inject(S3Fault(kind=S3FaultKind.LOST, times=3)),
            "S3 carries out and fails": lambda: self.s3.inject(S3Fault(kind=S3FaultKind.ERROR_AFTER, times=3)),
            "S3 breaks off": lambda: self.s3.inject(S3Fault(kind=S3FaultKind.TRUNCATED, times=2, body_bytes=40)),
            "connections to MySQL cut": self.wires["mysql"].cut,
            "connections to Redshift cut": self.wires["redshift"].cut,
            "JVM killed": self._kill_jvm,
            "MySQL restarted": lambda: self.place.box.restart("mysql", kill=True),
        }
        name = self.chance.choice(list(kinds))
        self.done[name] += 1
        kinds[name]()

    def strike(self) -> None:
        """One of what may befall the daemon itself."""
        what = self.chance.choice(("daemon killed", "daemon paused", "daemon stopped"))
        self.done[what] += 1
        if what == "daemon paused":
            self.daemon.signal(signal.SIGSTOP)
            time.sleep(self.chance.uniform(1.0, 2 * TTL))
            self.daemon.signal(signal.SIGCONT)
            return
        self.daemon.signal(signal.SIGKILL if what == "daemon killed" else signal.SIGTERM)
        self.daemon.process.wait(60)
        self.daemon = self.place.daemon(ttl=TTL)

    def _kill_jvm(self) -> None:
        for java in self.daemon.java:
            os.kill(java, signal.SIGKILL)


@pytest.fixture
def soak(place: Place) -> Iterator[Soak]:
    box = place.box
    with ExitStack() as stack:
        s3 = stack.enter_context(S3Proxy(box.s3.endpoint))
        wires = {
            "mysql": stack.enter_context(TcpProxy(box.mysql.port)),
            "redshift": stack.enter_context(TcpProxy(box.redshift.port)),
        }
        place.endpoint = s3.endpoint
        place.source = _through(box.mysql.url, wires["mysql"])
        place.warehouse = _through(box.redshift.url, wires["redshift"])
        place.http, place.words = "127.0.0.1:0", "every: 50ms"
        for _ in range(6):
            place.table(rows=20)
        yield Soak(place=place, s3=s3, wires=wires, daemon=place.daemon(ttl=TTL))
        for one in place.daemons:
            one.kill()


def _through(url: str, wire: TcpProxy) -> str:
    port = urlsplit(url).port
    return url.replace(f":{port}/", f":{wire.port}/")


def syncd(place: Place, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "syncd", *words, "-c", str(place.config)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def calmly(soak: Soak) -> list[Used]:
    """Thousands of passes of one process, and what it held meanwhile."""
    samples, harmed = list[Used](), 0.0
    while (passes := soak.passes) < PASSES:
        if passes >= WARM:
            samples.append(used(soak.daemon, passes))
        if passes - harmed > soak.chance.uniform(*CALM):
            soak.harm()
            harmed = passes
        time.sleep(0.5)
    return samples


def test_thousands_of_passes_under_faults_lose_nothing_and_leave_nothing(
    soak: Soak, report: Callable[[str], None]
) -> None:
    place = soak.place
    place.comes_equal()
    with writing(place, seed=SEED, every=3.0, away=(OSError, pymysql.err.Error)) as written:
        samples = calmly(soak)
        for _ in range(STRUCK):
            time.sleep(soak.chance.uniform(*ROUGH))
            soak.strike()
            soak.harm()
    soak.s3.clear_faults()
    place.comes_equal(within=300)
    soak.daemon.signal(signal.SIGTERM)
    assert soak.daemon.ends() == 0, soak.daemon.said

    verified = syncd(place, "verify", "--all")
    cleaned = syncd(place, "s3clean", "clean", "--orphans", "--older-than", "0s", "--yes", "--reason", "the end")
    lake = Lake(place.box.s3.make_client(), place.box.s3.bucket, f"daemon{place.number}")
    grown, calm = slope(samples), samples[len(samples) // 2 :]
    report(
        f"seed {SEED}: {samples[-1].passes:.0f} passes of one process, {4 * len(written)} rows written;"
        f" {dict(soak.done)}\n"
        f"memory {samples[0].megabytes:.0f} to {samples[-1].megabytes:.0f} MB, {grown:.2f} MB in 1,000 passes;"
        f" threads {min(one.threads for one in calm)} to {max(one.threads for one in calm)},"
        f" handles {min(one.handles for one in calm)} to {max(one.handles for one in calm)}\n{verified.stdout.rstrip()}"
    )
    assert written
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert cleaned.returncode == 0, cleaned.stderr
    for table in place.tables:
        assert lake.orphans(f"mysql/shop.{table}") == set()
    assert grown < GROWN
    third = len(samples) // 3
    early, late = samples[:third], samples[-third:]
    for held in ("threads", "handles"):
        least = [min(getattr(one, held) for one in some) for some in (early, late)]
        assert least[1] <= least[0] + 2, held
