"""Time of `syncd verify` over 2,000,000 equal orders: the whole command, beside a plain sum of digests.

python -m benchmarks.verify [ORDERS]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.extract import filled
from benchmarks.machine import print_machine
from syncd.sandbox.running_sandbox import Sandbox

ORDERS = 2_000_000
ROUNDS = 3
ALLOWED = 7.5
"""Limit as a multiple of a plain sum of digests: 15 s where that takes 2 s."""
SYNCD = [sys.executable, "-m", "syncd"]
COLUMNS = "id, customer_id, status, total, placed_at, update_at"


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ORDERS
    print_machine()
    with tempfile.TemporaryDirectory() as scratch, Sandbox(Path(scratch) / "box") as box:
        mysql = filled(box.mysql, rows)
        config = Path(scratch) / "syncd.yaml"
        config.write_text(json.dumps(configured(box, mysql.url)))
        environ = {**os.environ, **box.s3.environ}
        run_command("run", "-t", "orders", config=config, environ=environ)
        taken, sums, fetched = list[float](), list[float](), 0
        for _ in range(ROUNDS):
            began = time.perf_counter()
            [found] = run_command("verify", "-t", "orders", config=config, environ=environ)["streams"]
            taken.append(time.perf_counter() - began)
            assert (found["state"], found["rows"]) == ("equal", rows), found
            fetched = found["fetched_rows"]
            began = time.perf_counter()
            with mysql.connect() as connection, connection.cursor() as cursor:
                digest = f"CONV(LEFT(SHA2(CONCAT_WS(',', {COLUMNS}), 256), 15), 16, 10)"
                cursor.execute(f"SELECT COUNT(*), SUM(CAST({digest} AS UNSIGNED)) FROM orders")  # noqa: S608  # our own names
                assert cursor.fetchone()[0] == rows
            sums.append(time.perf_counter() - began)
    middle, plain = statistics.median(taken), statistics.median(sums)
    print(f"verify, {rows:,} equal rows: median {middle:.1f} s, best {min(taken):.1f} s of {ROUNDS}", end="; ")
    print(f"{fetched:,} rows fetched; a plain sum of digests in MySQL {plain:.1f} s", end="; ")
    print(f"{middle / plain:.1f} times that, {ALLOWED} allowed: {'met' if middle <= ALLOWED * plain else 'MISSED'}")


def configured(box: Sandbox, url: str) -> dict[str, Any]:
    s3 = box.s3
    return {
        "source": {"url": url, "zone": "UTC"},
        "lake": {"url": s3.url, "endpoint": s3.endpoint, "region": s3.region},
        "warehouse": {"url": box.redshift.url},
        "tables": {"orders": None},
    }


def run_command(*arguments: str, config: Path, environ: dict[str, str]) -> dict[str, Any]:
    """Run a command and return its JSON; an error ends the benchmark."""
    done = subprocess.run(  # noqa: S603  # the command that is measured
        [*SYNCD, *arguments, "--json", "-c", str(config)], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
