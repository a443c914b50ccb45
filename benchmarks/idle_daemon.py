"""Cost of idle streams in the daemon: processor time and memory of its Python process.

python -m benchmarks.idle_daemon [STREAMS [SECONDS]]

Streams begin `now`, so that no JVM starts; the process is measured after the first pass of each stream.
The allowed share of a core refers to the machine of `benchmarks.machine`.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import slower
from syncd.sandbox.running_sandbox import Sandbox

STREAMS = 500
SECONDS = 120.0
CORE = 0.05
MEGABYTES = 400
BEGUN = "batch.extracted"
"""The event that each stream emits once at its start."""


@dataclass(frozen=True, kw_only=True)
class Used:
    """Processor time and memory that a process had used at one moment."""

    at: float
    cpu: float
    megabytes: float

    @classmethod
    def of(cls, pid: int) -> "Used":
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        page = os.sysconf("SC_PAGE_SIZE") / 1e6
        return cls(at=time.monotonic(), cpu=ticks / os.sysconf("SC_CLK_TCK"), megabytes=pages * page)


def configured(box: Sandbox, directory: Path, streams: int) -> Path:
    """Create the tables and the configuration for them."""
    with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS idle")
        for number in range(streams):
            cursor.execute(
                f"CREATE TABLE idle.t{number} (id BIGINT PRIMARY KEY AUTO_INCREMENT, body VARCHAR(200),"
                " update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
                " KEY (update_at, id))"
            )
    config = directory / "idle.yaml"
    tables = "\n".join(f"  idle.t{number}:" for number in range(streams))
    config.write_text(
        f"source: {{url: '{box.mysql.url}', zone: UTC}}\n"
        f"lake: {{url: 's3://{box.s3.bucket}/idle', endpoint: '{box.s3.endpoint}', region: '{box.s3.region}'}}\n"
        f"daemon: {{http: off}}\ndefaults: {{every: 1m, first_run: now}}\ntables:\n{tables}\n"
    )
    return config


def begun(log: Path) -> int:
    return log.read_text().count(f'"event": "{BEGUN}"')


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS  # noqa: PLR2004  # the second argument
    with tempfile.TemporaryDirectory() as scratch, Sandbox(Path(scratch) / "box", services=["mysql", "s3"]) as box:
        config, log = configured(box, Path(scratch), streams), Path(scratch) / "log"
        command = [sys.executable, "-m", "syncd", "daemon", "--config", str(config)]
        with log.open("w") as out:
            daemon = subprocess.Popen(command, stderr=out, env={**os.environ, **box.s3.environ})  # noqa: S603  # our own command
        try:
            while begun(log) < streams:
                assert daemon.poll() is None, log.read_text()[-2000:]
                time.sleep(1)
            time.sleep(60)  # late first passes are spread by then
            times = slower()
            before = Used.of(daemon.pid)
            time.sleep(seconds)
            after = Used.of(daemon.pid)
            times = (times + slower()) / 2
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
    share = (after.cpu - before.cpu) / (after.at - before.at)
    print(f"{streams} idle streams, every 1m, for {seconds:.0f} s")
    print(f"processor  {share:6.1%} of one core, which is {times:.1f} times slower than the reference core:")
    print(f"           {share / times:6.1%} of the reference core (allowed: {CORE:.0%})")
    print(f"memory     {after.megabytes:6.0f} MB (allowed: {MEGABYTES} MB)")
    sys.exit(share / times > CORE or after.megabytes > MEGABYTES)


if __name__ == "__main__":
    main()
