"""Cost of small runs: one that finds nothing, one that starts Spark for 1,000 rows, a warm one, an idle cycle.

python -m benchmarks.start_up [ROUNDS]

Programs are timed from start to end, as a user runs them: with the compiled files of Python and the archive of Java's
classes that a first run leaves behind.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.machine import print_machine
from benchmarks.stage import INCREMENTS, WarmService
from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.config.check import read_settings
from syncd.extract.plan_rules import ExtractRequest
from syncd.extract.planner import IDLE_HORIZON_MAX_AGE_SECONDS
from syncd.mysql.shared_horizon import POLL_SHARED_SECONDS
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.seed import ShopSize, seed_shop
from syncd.settings import Settings, SparkSettings
from syncd.spark.spark_session import WarmSparkSession

ROUNDS = 5
ORDERS = 20_000
LITTLE = 1_000
CYCLES = 20
TABLES = ("customers", "orders", "order_lines", "events")
"""Tables of the shop that are read in the order of their changes."""
FRESH = timedelta(seconds=20)
"""Limit of a first pass's wait for transactions that began before it."""
ALLOWED = {"idle one-shot": 0.8, "cold one-shot, 1,000 rows": 8.0, "warm, 1,000 rows": 1.0, "idle cycle": 0.030}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The shop and the configuration of its streams."""

    box: Sandbox
    config: Path

    @property
    def environ(self) -> dict[str, str]:
        """A user's environment: without compiled files, the compiler would be measured."""
        environ = {**os.environ, **self.box.s3.environ}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        return environ

    @property
    def settings(self) -> Settings:
        return read_settings(self.config, {})

    def program(self) -> float:
        """Return the seconds of `syncd run` for the orders."""
        words = ["-m", "syncd", "run", "-t", "orders", "--extract-only", "--json", "-c", str(self.config)]
        began = time.perf_counter()
        done = subprocess.run(  # noqa: S603  # ours
            [sys.executable, *words], env=self.environ, capture_output=True, text=True, check=False, timeout=300
        )
        took = time.perf_counter() - began
        assert done.returncode == 0, done.stderr
        return took

    def change(self, rows: int = LITTLE) -> None:
        """Change so many orders now."""
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            assert cursor.execute("UPDATE orders SET is_gift = 1 - is_gift ORDER BY id LIMIT %s", (rows,)) == rows

    def passed(self, service: StageService, table: str) -> tuple[int, float]:
        """Return rows and seconds of one pass of a table in this process, as a daemon requests it."""
        (stream,) = (one for one in self.settings.streams if one.table == table)
        began = time.perf_counter()
        outcome = service.extract(
            stream, PassOptions(request=ExtractRequest(), horizon_wait=FRESH, skip_if_at_rest=True)
        )
        if outcome.error is not None:
            raise outcome.error
        return outcome.rows, time.perf_counter() - began


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print_machine()
    with tempfile.TemporaryDirectory() as scratch, Sandbox(Path(scratch) / "box", services=["mysql", "s3"]) as box:
        os.environ |= box.s3.environ
        with box.mysql.connect() as connection:
            seed_shop(connection, ShopSize(orders=ORDERS))
        bench = Bench(box=box, config=configured(box, Path(scratch)))
        bench.program()  # compiles Python, archives Java's classes and begins the stream
        before = work_of_programs()
        print_result("idle one-shot", [bench.program() for _ in range(rounds)])
        # On a shared machine, processor time says more than the clock.
        print(f"{'':26} {(work_of_programs() - before) / rounds:.3f} s of processors each", flush=True)
        print_result("cold one-shot, 1,000 rows", [cold(bench) for _ in range(rounds)])
        warm(bench, rounds)


def work_of_programs() -> float:
    """Return the seconds of processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def configured(box: Sandbox, scratch: Path) -> Path:
    s3, path = box.s3, scratch / "syncd.yaml"
    document: dict[str, Any] = {
        "source": {"url": box.mysql.url, "zone": "UTC"},
        "lake": {"url": s3.url, "endpoint": s3.endpoint, "region": s3.region},
        "tables": {table: {"first_run": INCREMENTS} for table in TABLES},
    }
    path.write_text(json.dumps(document))
    return path


def cold(bench: Bench) -> float:
    bench.change()
    return bench.program()


def warm(bench: Bench, rounds: int) -> None:
    """Measure passes of a resident process, as a daemon's are."""
    session = WarmSparkSession(SparkSettings())
    try:
        with WarmService(bench.settings, environ=os.environ, emit=lambda _event: None) as service:
            service.shared = session
            for table in TABLES:
                bench.passed(service, table)
            print_result("warm, 1,000 rows", [changed(bench, service) for _ in range(rounds)])
            print_result("idle cycle", [each for _ in range(CYCLES) for each in idle(bench, service)])
    finally:
        session.stop()


def changed(bench: Bench, service: StageService) -> float:
    bench.change()
    time.sleep(POLL_SHARED_SECONDS)  # else the last poll, older than the change, may be used
    rows, seconds = bench.passed(service, "orders")
    assert rows >= LITTLE, f"{rows} rows arrived"
    return seconds


def idle(bench: Bench, service: StageService) -> list[float]:
    """Return the seconds of each stream of a cycle that finds nothing, with its poll of the server."""
    time.sleep(IDLE_HORIZON_MAX_AGE_SECONDS)  # each cycle polls the server itself
    taken = [bench.passed(service, table) for table in TABLES]
    assert not any(rows for rows, _ in taken)
    return [seconds for _, seconds in taken]


def print_result(name: str, taken: list[float]) -> None:
    middle = statistics.median(taken)
    verdict = "met" if middle <= ALLOWED[name] else "MISSED"
    summary = f"median {middle:.3f} s, best {min(taken):.3f} s, slowest {max(taken):.3f} s of {len(taken)}"
    print(f"{name:26} {summary}; at most {ALLOWED[name]} allowed: {verdict}", flush=True)


if __name__ == "__main__":
    main()
