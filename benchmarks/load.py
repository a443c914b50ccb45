"""Cost of loading: statements, commits and requests of many small batches, and seconds of one large batch.

    python -m benchmarks.load [PART ...]     small, streams, large; all of them by default

The stand-in and S3 run in processes of their own; batches are prepared without Spark. `large` times the loader, in a
process of its own, against the same statements sent by hand.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import boto3
import numpy as np
import pyarrow as pa

from benchmarks.servers import BUCKET, connect_stand_in, run_s3, run_stand_in
from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.config.check import read_settings
from syncd.lake.batch_number import batch_to_number
from syncd.lake.object_keys import batch_prefix, part_key
from syncd.lake.read_requests import Part
from syncd.parquet.batch_conversion import file_schema
from syncd.parquet.part_writer import PartWriter
from syncd.redshift.session import WarehouseSession
from syncd.s3.lake_client import S3Lake
from syncd.settings import LakeSettings
from tests.services.prepared import Prepared, Row, position, row
from watermarks.batch import BatchDraft, BatchKind, Plan
from watermarks.cursor import START_CURSOR
from watermarks.document import Watermark
from watermarks.history import Journal
from watermarks.stores.s3 import S3Store
from watermarks.window import Window

KEYS: Final = {"AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox"}
FILES: Final = 1_000
STREAMS: Final = int(os.environ.get("SYNCD_BENCH_STREAMS", "500"))
ROWS: Final = (200_000, 2_000_000)
ROUNDS: Final = 2
PART: Final = 250_000
ROLE: Final = "arn:aws:iam::123456789012:role/load"


class Place:
    """A lake, a warehouse, and the configuration for both."""

    def __init__(self, endpoint: str, warehouse: dict[str, Any], directory: Path) -> None:
        self.endpoint = endpoint
        self.warehouse = warehouse
        self.directory = directory
        self.lake = S3Lake.from_settings(
            LakeSettings(bucket=BUCKET, prefix="bench", region="us-east-1", endpoint=endpoint)
        )
        store = S3Store(self.lake.client, bucket=BUCKET, prefix="bench")
        self.journal: Journal[Watermark] = Journal(store, Watermark)

    def config(self, *tables: str) -> Path:
        path = self.directory / "syncd.yaml"
        url = f"redshift://loader:Sandbox1@127.0.0.1:{self.warehouse['port']}/dev"
        named = ", ".join(f"shop.{table}: {{metadata: [batch]}}" for table in tables)
        path.write_text(
            "sources: {shop: {url: 'mysql://user:x@127.0.0.1:9/shop', zone: UTC}}\n"
            f"lake: {{url: 's3://{BUCKET}/bench', endpoint: '{self.endpoint}', region: us-east-1}}\n"
            f"warehouse: {{url: '{url}', iam_role: '{ROLE}'}}\n"
            f"tables: {{{named}}}\n"
        )
        return path


@contextmanager
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as directory, run_s3() as endpoint:
        boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=BUCKET)
        with run_stand_in(endpoint) as warehouse:
            yield Place(endpoint, warehouse, Path(directory))


class Count:
    """Statements and requests that were sent to the warehouse and to S3."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.requests: Counter[str] = Counter()

    def of(self, word: str) -> int:
        return sum(sql.startswith(word) for sql in self.statements)

    def describe(self, streams: int, seconds: float) -> str:
        requests = self.requests.total() / streams
        return (
            f"{self.of('COPY')} COPYs, {self.of('COMMIT')} commits, {len(self.statements)} statements,"
            f" {requests:.1f} requests to S3 a stream, {seconds:.1f} s"
        )


@contextmanager
def counted(service: StageService) -> Iterator[Count]:
    count = Count()
    execute = WarehouseSession._execute  # noqa: SLF001  # every statement goes through it

    def counting(session: WarehouseSession, sql: str, *rest: Any, **options: Any) -> Any:  # noqa: ANN401  # as it is given
        count.statements.append(sql)
        return execute(session, sql, *rest, **options)

    def sent(*, operation_name: str, **_: object) -> None:
        count.requests[operation_name] += 1

    events = service.lake.client.meta.events
    events.register("request-created.s3", sent)
    setattr(WarehouseSession, "_execute", counting)  # noqa: B010  # a plain assignment is for types that match
    try:
        yield count
    finally:
        setattr(WarehouseSession, "_execute", execute)  # noqa: B010  # as above
        events.unregister("request-created.s3", sent)


def tick(service: StageService) -> None:
    """Run one load pass over every stream."""
    for stream in service.settings.streams:
        outcome = service.load(stream, PassOptions())
        if outcome.error is not None:
            raise outcome.error


def small(at: Place) -> None:
    """Load a thousand waiting batches of one small file each into one stream."""
    stream = Prepared(at.lake, at.journal)
    for number in range(1, FILES + 1):
        stream.increment(row(number, number))
    with StageService(read_settings(at.config(stream.table), {}), environ=os.environ, emit=lambda _: None) as service:
        timed(f"{FILES:,} files of one stream", service, streams=1)


def streams(at: Place) -> None:
    """Load one small batch in each of many streams, twice; then run a pass with nothing due."""
    made = [Prepared(at.lake, at.journal) for _ in range(STREAMS)]
    settings = read_settings(at.config(*(one.table for one in made)), {})
    with StageService(settings, environ=os.environ, emit=lambda _: None) as service:
        for number, what in enumerate(("into new tables", "with claims held"), start=1):
            for one in made:
                one.increment(row(number, number))
            timed(f"{STREAMS} streams, a batch each, {what}", service, streams=STREAMS)
        timed(f"{STREAMS} streams, nothing due", service, streams=STREAMS)
    with StageService(settings, environ=os.environ, emit=lambda _: None) as service:
        for one in made:
            one.increment(row(9, 9))
        timed(f"{STREAMS} streams, a batch each, first pass of a process", service, streams=STREAMS)


def timed(what: str, service: StageService, *, streams: int) -> None:
    with counted(service) as count:
        began = time.perf_counter()
        tick(service)
        seconds = time.perf_counter() - began
    print_line(f"{what}: {count.describe(streams, seconds)}")


class Large(Prepared):
    """A stream whose batches are made of columns instead of rows."""

    def batch(self, rows: int, second: float) -> None:
        """Prepare a batch of all rows, stamped so many seconds into the day."""
        high = position(row(rows, second))

        def draft(state: Watermark) -> BatchDraft:
            low = state.required_extract_progress.cursor
            return BatchDraft(kind=BatchKind.INCREMENT, basis=self._world(low), windows=(Window(low, high),), high=high)

        self._made(draft, [row(key, second) for key in (1, rows)], rows)

    def write(self, plan: Plan, rows: Sequence[Row], parts: int) -> Iterator[Part]:
        """Write the rows from 1 to `parts`, in files of a quarter of a million."""
        stamp = rows[0]["update_at"]
        ways = self.passages()
        for number, first in enumerate(range(1, parts + 1, PART)):
            ids = np.arange(first, min(first + PART, parts + 1))
            table = pa.table(
                {
                    "id": pa.array(ids),
                    "name": pa.array([f"row {key} at {stamp:%H%M%S}" for key in ids]),
                    "update_at": pa.array([stamp] * len(ids), pa.timestamp("us", "UTC")),
                }
            ).cast(file_schema(ways))
            key = part_key(batch_prefix(plan), window=0, number=number, attempt="bench")
            made = self.lake.new_object(key)
            writer = PartWriter(made, ways, batch=batch_to_number(plan.id))
            for some in table.to_batches(max_chunksize=4_096):
                writer.write(some)
            written, stood = writer.close(), made.finish()
            yield Part(
                key=key, etag=stood.etag, bytes=written.bytes, rows=written.rows, sha256=written.sha256,
                low=START_CURSOR, high=START_CURSOR, widths=written.widths,
            )  # fmt: skip


def large(at: Place) -> None:
    """Replace every row of a table by one batch: with the loader, and with its statements by hand."""
    for rows in ROWS:
        stream = Large(at.lake, at.journal)
        config = at.config(stream.table)
        stream.batch(rows, 1)
        loaded(config)
        with connect_stand_in(at.warehouse["port"]) as connection:
            cursor = connection.cursor()
            cursor.execute(f"CREATE TABLE by_hand_{rows} AS SELECT * FROM {stream.table}")  # noqa: S608  # names of ours
            for number in range(ROUNDS):
                stream.batch(rows, 2 + number)
                result = loaded(config)
                statements = [
                    sql.replace(f'"{stream.table}"', f'"by_hand_{rows}"') for sql in of_rows(result["statements"])
                ]
                hand = seconds_of(lambda: [cursor.execute(sql) for sql in statements])  # noqa: B023  # used at once
                for table in (stream.table, f"by_hand_{rows}"):
                    cursor.execute(f"SELECT COUNT(*) FROM {table}")  # noqa: S608  # as above
                    assert list(cursor.fetchone()) == [rows]
                print_line(
                    f"{rows:,} rows by upsert: loader {result['seconds']:.1f} s, by hand {hand:.1f} s,"
                    f" {result['seconds'] / hand:.2f} times; loader's processor {result['cpu']:.2f} s"
                    f" ({result['start']:.2f} s before it began), peak memory {result['peak']:.0f} MiB"
                )


def of_rows(statements: list[str]) -> list[str]:
    """Return the statements that a person would write by hand: those without fence, ledger and catalog queries."""
    ours = ("LOCK", "SELECT", 'DELETE FROM "public"."syncd_', 'INSERT INTO "public"."syncd_')
    return [sql for sql in statements if not sql.startswith(ours)]


def loaded(config: Path) -> dict[str, Any]:
    """Run one pass in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.one_load", str(config)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own program
    return dict(json.loads(done.stdout))


def seconds_of(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def print_line(line: str) -> None:
    print(f"{line}; load {os.getloadavg()[0]:.1f}", flush=True)  # a benchmark's result


PARTS: Final = {"small": small, "streams": streams, "large": large}

if __name__ == "__main__":
    os.environ.update(KEYS)
    print(f"{platform.machine()}, {os.cpu_count()} cores")
    with place() as here:
        for name in sys.argv[1:] or PARTS:
            PARTS[name](here)
