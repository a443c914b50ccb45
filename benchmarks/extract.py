"""Speed of extracting orders from MySQL to Parquet on S3, against other tools in the same run; memory; time of batches.

python -m benchmarks.extract [--rows N] [--tools A,B,...] [--times N] [--memory ROWS] [--driver mysql | mariadb]

Every figure is the best of three. The tools take turns, so that other load of the machine meets all of them.
An external server, whose table may be filled already, is named as for the sandbox: SYNCD_SANDBOX_MYSQL,
SYNCD_SANDBOX_S3.
"""

import argparse
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow.parquet as pq

from benchmarks.machine import print_machine
from benchmarks.others.tools import TOOLS, NotRun, Place
from benchmarks.stage import FEW, FIRST_RUN, INCREMENTS, Stage, warm_session
from benchmarks.tree import peak_of_tree, serving, work_of, work_since
from syncd.extract.plan_rules import ExtractRequest
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.seed import seed_orders
from syncd.settings import SparkSettings

if TYPE_CHECKING:
    from syncd.sandbox.s3 import S3Address

ROWS = 2_000_000
STEP = 25_000  # microseconds: 40 rows a second
TIMES = 3
BATCH = 1_000_000
"""Rows of a batch where the times of batches are compared: the default of a stream."""
OURS = {"syncd": INCREMENTS, "syncd-first": FIRST_RUN}
"""The extract stage: as increments by time of change, and as a first run by key."""
WANTED = {"dump": 1 / 1.6, "ingestr": 0.6, "connectorx": 0.55, "dlt": 1.0, "sling": 3.0, "spark": 2.5}
"""Required speed of the stage, as a multiple of each tool's speed."""
ELSEWHERE = ("dump", "spark", "warm-spark")
"""Tools whose copy does not go to S3."""


Begin: TypeAlias = Callable[[str], AbstractContextManager[Callable[[], float]]]
"""Prepares a copy of the orders to a prefix; the yielded function copies them and returns the seconds."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One copy of the orders."""

    seconds: float
    work: float
    """Seconds of processor time, with the servers'; other load of the machine affects it less."""


def main() -> None:
    arguments = parse_options()
    print_machine()
    with tempfile.TemporaryDirectory() as scratch, Sandbox(Path(scratch) / "box", services=["mysql", "s3"]) as box:
        os.environ |= box.s3.environ
        if arguments.tools:
            mysql = filled(box.mysql, arguments.rows)
            print(f"MySQL is {mysql.ask_version()}", flush=True)
            compare(Place(mysql=mysql, s3=box.s3, scratch=Path(scratch)), arguments)
        for rows in arguments.memory:
            mysql = filled(box.mysql, rows)
            measure_memory(Place(mysql=mysql, s3=box.s3, scratch=Path(scratch)), rows, arguments.driver)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extract", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the table in the comparison")
    parser.add_argument("--tools", default=",".join(TOOLS), help="the other tools of the comparison, or `none`")
    parser.add_argument("--times", type=int, default=TIMES, help="turns of each tool")
    parser.add_argument("--memory", default="", help="table sizes for measuring memory, such as 2000000,20000000")
    parser.add_argument("--driver", default=SparkSettings().driver, choices=["mysql", "mariadb"])
    arguments = parser.parse_args()
    arguments.tools = [] if arguments.tools == "none" else arguments.tools.split(",")
    arguments.memory = [int(rows) for rows in arguments.memory.split(",") if rows]
    return arguments


def filled(server: MySqlAddress, rows: int) -> MySqlAddress:
    """Return a database with so many orders; an existing one is used as it is."""
    mysql = replace(server, database=f"orders_of_{rows}")
    with server.connect(database="") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {mysql.database} CHARACTER SET utf8mb4")
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES LIKE 'orders'")
        if not cursor.fetchall():
            seed_orders(connection, rows, step=STEP)
        # The pages of the table are in memory and its statistics known, for all tools alike.
        cursor.execute("ANALYZE TABLE orders")
        cursor.execute("SELECT COUNT(*), SUM(LENGTH(details)) FROM orders")
        assert cursor.fetchone()[0] == rows, f"{mysql.database}.orders holds another number of rows"
    return mysql


def compare(place: Place, arguments: argparse.Namespace) -> None:
    """Run the tools in turns, three times, and print how they compare."""
    took: dict[str, list[Turn]] = {}
    servers = [*serving(place.mysql.port), *serving(urlsplit(place.s3.endpoint).port or 0)]
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        stage = stage_of(place, arguments.driver, stack)
        lines = {name: begun_stage(stage, arguments.rows, first_run) for name, first_run in OURS.items()} | {
            name: made for name in arguments.tools if (made := begun_tool(name, place, stack, missing))
        }
        for name in OURS:
            with emptied(place.s3) as prefix, lines[name](prefix) as run:
                run()  # warms up the session; the other resident programs use their first turn for that
        for turn in range(arguments.times):
            for name, begin in lines.items():
                if name in missing:
                    continue
                try:
                    with emptied(place.s3) as prefix, begin(prefix) as run:
                        done = measured(run, servers)
                        assert name in ELSEWHERE or rows_in(place.s3, prefix) == arguments.rows, (
                            f"{name} left rows behind"
                        )
                except NotRun as error:
                    missing[name] = str(error)
                    continue
                took.setdefault(name, []).append(done)
                print(f"  {turn + 1}. {name}: {done.seconds:.2f} s, {done.work:.2f} s of processors", flush=True)
    print_results(took, missing, arguments.rows)


def rows_in(s3: "S3Address", prefix: str) -> int:
    """Count the rows of the Parquet files under a prefix."""
    client, rows = s3.make_client(), 0
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket, Prefix=f"{prefix}/"):
        for found in page.get("Contents", []):
            if found["Key"].endswith(".parquet"):
                body = client.get_object(Bucket=s3.bucket, Key=found["Key"])["Body"].read()
                rows += pq.read_metadata(io.BytesIO(body)).num_rows
    client.close()
    return rows


def measured(run: Callable[[], float], servers: list[int]) -> Turn:
    before = work_of(servers)
    seconds = run()
    return Turn(seconds=seconds, work=work_since(before, servers))


def stage_of(place: Place, driver: str, stack: ExitStack) -> Stage:
    session = stack.enter_context(warm_session(driver))
    return Stage(mysql=place.mysql, s3=place.s3, scratch=place.scratch, session=session)


def begun_stage(stage: Stage, rows: int, first_run: object) -> Begin:
    """Extract all rows but the first few in one batch."""

    @contextmanager
    def begin(prefix: str) -> Iterator[Callable[[], float]]:
        with stage.begun(prefix, batch_rows=rows, first_run=first_run) as run:
            yield run
        assert stage.rows == rows - FEW

    return begin


def begun_tool(name: str, place: Place, stack: ExitStack, missing: dict[str, str]) -> Begin | None:
    try:
        copy = TOOLS[name](place, stack)
    except NotRun as error:
        missing[name] = str(error)
        return None
    return lambda prefix: nullcontext(partial(copy, prefix))


@contextmanager
def emptied(s3: "S3Address") -> Iterator[str]:
    """Yield a new prefix and empty it afterwards: the sandbox's S3 keeps everything in memory."""
    client, prefix = s3.make_client(), f"bench{uuid4().hex}"
    try:
        yield prefix
    finally:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket, Prefix=f"{prefix}/"):
            for found in page.get("Contents", []):
                client.delete_object(Bucket=s3.bucket, Key=found["Key"])
        client.close()


def print_results(took: dict[str, list[Turn]], missing: dict[str, str], rows: int) -> None:
    best = {name: min(turn.seconds for turn in turns) for name, turns in took.items()}
    for name, turns in took.items():
        every = ", ".join(f"{turn.seconds:.2f}" for turn in turns)
        work = min(turn.work for turn in turns)
        line = f"{name}: {best[name]:.2f} s (of {every}), {rows / best[name]:,.0f} rows/s, {work:.1f} s of processors"
        if name not in OURS:
            stands = [f"{ours} is {best[name] / best[ours]:.2f} times as fast" for ours in OURS]
            line += f"; {', '.join(stands)}"
        if name in WANTED:
            met = "met" if best[name] / best["syncd"] >= WANTED[name] else "MISSED"
            line += f" (at least {WANTED[name]:.2f} wanted: {met})"
        print(line)
    for name, reason in missing.items():
        print(f"{name}: not run: {reason}")


def measure_memory(place: Place, rows: int, driver: str) -> None:
    """Extract the whole table in equal batches; print the memory of the process tree and the batch times."""
    with ExitStack() as stack:
        stage = stage_of(place, driver, stack)
        with emptied(place.s3) as prefix, peak_of_tree() as peak:
            with stage.begun(f"{prefix}/warm", batch_rows=BATCH) as run:
                run(ExtractRequest(limit=BATCH))
            with stage.begun(f"{prefix}/measured", batch_rows=BATCH) as run:
                seconds = run()
    assert stage.rows == rows - FEW
    print(f"{rows:,} rows: {seconds:.1f} s, {rows / seconds:,.0f} rows/s; peak memory of the tree:", end=" ")
    print(f"{peak.mib:,.0f} MiB PSS (at most 2,048)")
    # The last batch has a few rows less than the others.
    times = [batch.seconds * BATCH / batch.rows for batch in stage.batches]
    print(f"seconds for {BATCH:,} rows, batch by batch: {', '.join(f'{each:.2f}' for each in times)}")
    print(f"the last batch against the first: {times[-1] / times[0]:.2f} (at most 1.2)")


if __name__ == "__main__":
    main()
