"""Latency from a commit in MySQL to its visibility in the warehouse, while the daemon syncs five tables.

python -m benchmarks.latency [SECONDS]

A thousand rows a second change, 100 of one table with each commit. A client queries the warehouse all the time.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redshift_connector

from syncd.sandbox.running_sandbox import Sandbox

TABLES = 5
ROWS = 20_000
"""Rows of each table."""
CHANGED = 100
"""Rows of a commit."""
EVERY = 0.1
"""Seconds between two commits."""
SECONDS = 60.0
MEDIAN, P99 = 5.0, 15.0


@dataclass
class Table:
    """The times at which its commits were made and seen."""

    name: str
    commits: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    seen: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    def latencies(self) -> list[float]:
        """Return the seconds from each commit to the first query that showed it."""
        versions = [version for version, _ in self.seen]
        found = list[float]()
        for version, made in self.commits:
            at = bisect_right(versions, version - 1)
            assert at < len(self.seen), f"{self.name}: commit {version} was never seen"
            found.append(self.seen[at][1] - made)
        return found


def configured(box: Sandbox, directory: Path, tables: list[Table]) -> Path:
    with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS lab")
        for table in tables:
            cursor.execute(
                f"CREATE TABLE lab.{table.name} (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, body VARCHAR(200),"
                " update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
                " KEY (update_at, id))"
            )
            rows = [(number, 0, f"row {number}") for number in range(ROWS)]
            statement = f"INSERT INTO lab.{table.name} (id, v, body) VALUES (%s, %s, %s)"  # noqa: S608  # our own names
            cursor.executemany(statement, rows)
        connection.commit()
    config = directory / "latency.yaml"
    named = "\n".join(f"  lab.{table.name}:" for table in tables)
    config.write_text(
        f"source: {{url: '{box.mysql.url}', zone: UTC}}\n"
        f"lake: {{url: 's3://{box.s3.bucket}/latency', endpoint: '{box.s3.endpoint}', region: '{box.s3.region}'}}\n"
        f"warehouse: {{url: '{box.redshift.url}'}}\ndaemon: {{http: off}}\ndefaults: {{every: 2s}}\ntables:\n{named}\n"
    )
    return config


class Watcher:
    """Thread that queries the warehouse, table after table, until it is stopped."""

    def __init__(self, box: Sandbox, tables: list[Table]) -> None:
        self._connection: Any = box.redshift.connect()
        self._tables = tables
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def newest(self, table: Table) -> int | None:
        """Return the newest visible change, or None if the table does not exist yet."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(f'SELECT MAX(v) FROM public."{table.name}"')  # noqa: S608  # our own names
        except redshift_connector.error.ProgrammingError:
            return None
        newest: int | None = cursor.fetchone()[0]
        return newest

    def _watch(self) -> None:
        while not self.over.wait(0.1):
            for table in self._tables:
                newest = self.newest(table)
                if newest is not None and (not table.seen or newest > table.seen[-1][0]):
                    table.seen.append((newest, time.monotonic()))


def changed(box: Sandbox, tables: list[Table], seconds: float) -> None:
    """Change rows at an even pace."""
    version, began = 0, time.monotonic()
    with box.mysql.connect(database="lab") as connection, connection.cursor() as cursor:
        while time.monotonic() < began + seconds:
            table = tables[version % TABLES]
            version += 1
            low = random.randrange(ROWS - CHANGED)  # noqa: S311  # no secret
            statement = f"UPDATE {table.name} SET v = %s WHERE id >= %s AND id < %s"  # noqa: S608  # our own names
            cursor.execute(statement, (version, low, low + CHANGED))
            connection.commit()
            table.commits.append((version, time.monotonic()))
            time.sleep(max(0.0, began + version * EVERY - time.monotonic()))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    tables = [Table(f"t{number}") for number in range(TABLES)]
    with tempfile.TemporaryDirectory() as scratch, Sandbox(Path(scratch) / "box") as box:
        config = configured(box, Path(scratch), tables)
        command = [sys.executable, "-m", "syncd", "daemon", "--config", str(config)]
        with (Path(scratch) / "log").open("w") as out:
            daemon = subprocess.Popen(command, stderr=out, env={**os.environ, **box.s3.environ})  # noqa: S603  # our own command
        watcher = Watcher(box, tables)
        try:
            while any(watcher.newest(table) is None for table in tables):
                assert daemon.poll() is None, (Path(scratch) / "log").read_text()[-2000:]
                time.sleep(0.5)
            watcher.thread.start()
            changed(box, tables, seconds)
            while any(table.seen[-1][0] < table.commits[-1][0] for table in tables):
                assert daemon.poll() is None, (Path(scratch) / "log").read_text()[-2000:]
                time.sleep(0.5)
        finally:
            watcher.over.set()
            if watcher.thread.is_alive():
                watcher.thread.join()
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
    found = sorted(one for table in tables for one in table.latencies())
    median, p99 = statistics.median(found), found[int(len(found) * 0.99)]
    print(f"{len(found)} commits of {CHANGED} rows over {TABLES} tables, every 2s, load {os.getloadavg()[0]:.1f}")
    print(f"median {median:6.1f} s (allowed: {MEDIAN:.0f})")
    print(f"p99    {p99:6.1f} s (allowed: {P99:.0f})")
    print(f"worst  {found[-1]:6.1f} s")
    sys.exit(median > MEDIAN or p99 > P99)


if __name__ == "__main__":
    main()
