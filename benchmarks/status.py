"""Time of `syncd status` over 500 streams: the whole command, in a process of its own, against local S3.

make bench-status
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import boto3
from botocore.config import Config

from benchmarks.servers import BUCKET, run_s3
from benchmarks.watermarks import RUN, STREAM, link_after
from syncd.operations.status_query import PARALLEL_READS
from watermarks.document import Watermark
from watermarks.names import StreamName, document_key

STREAMS = 500
BATCHES = 20
ROUNDS = 5
KEYS = {"AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox", "AWS_DEFAULT_REGION": "us-east-1"}
SYNCD = "from syncd.cli.main import entry; entry()"


def a_watermark() -> Watermark:
    """Return the watermark of an old stream whose last batch is not loaded."""
    now = datetime.now(UTC)
    state = Watermark.new(STREAM, created_at=now)
    for number in range(BATCHES):
        link = link_after(state)
        state = state.with_link(link, run=RUN, now=now)
        if number < BATCHES - 1:
            state = state.with_loaded_batch(link, rows=link.rows, run=RUN, now=now)
    return state


def fill(endpoint: str) -> None:
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket=BUCKET)
    state = a_watermark()
    for number in range(STREAMS):
        stream = StreamName(source="shop", database="shop", table=f"t{number}")
        body = replace(state, stream=stream, revision=1).to_bytes()
        client.put_object(Bucket=BUCKET, Key=document_key(stream.stem), Body=body)


def configured(endpoint: str, directory: Path) -> Path:
    path = directory / "syncd.yaml"
    tables = "\n".join(f"  shop.t{number}:" for number in range(STREAMS))
    path.write_text(
        "sources: {shop: {url: 'mysql://user:x@127.0.0.1:9/shop', zone: UTC}}\n"
        f"lake: {{url: 's3://{BUCKET}', endpoint: '{endpoint}', region: us-east-1}}\n"
        "warehouse: {url: 'redshift://user:x@127.0.0.1:9/dev', iam_role: default}\n"
        f"tables:\n{tables}\n"
    )
    return path


def seconds(config: Path, *arguments: str) -> float:
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603  # the command that is measured
        [sys.executable, "-c", SYNCD, *arguments, "--config", str(config)], capture_output=True, text=True, check=True
    )
    took = time.monotonic() - began
    assert done.stdout.count("loading") >= STREAMS
    return took


def bare_gets(endpoint: str) -> float:
    """Fetch the same documents with boto3 alone, as many at once: the least time of `status` over this S3."""
    client = boto3.client("s3", endpoint_url=endpoint, config=Config(max_pool_connections=PARALLEL_READS))
    keys = [document_key(StreamName(source="shop", database="shop", table=f"t{n}").stem) for n in range(STREAMS)]
    began = time.monotonic()
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        bodies = list(pool.map(lambda key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read(), keys))
    assert all(bodies)
    return time.monotonic() - began


def main() -> None:
    os.environ.update(KEYS)
    with run_s3() as endpoint:
        fill(endpoint)
        with tempfile.TemporaryDirectory() as directory:
            config = configured(endpoint, Path(directory))
            took = [seconds(config, "status") for _ in range(ROUNDS)]
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            bare = statistics.median(bare_gets(endpoint) for _ in range(ROUNDS))
    load = os.getloadavg()[0]
    cpu = (used.ru_utime + used.ru_stime) / ROUNDS
    print(f"{STREAMS} streams: {statistics.median(took):.2f} s (of {ROUNDS}: {min(took):.2f} to {max(took):.2f} s)")
    print(f"processor time of the command: {cpu:.2f} s; the rest is the S3 emulator")
    print(f"the same {STREAMS} documents, fetched by boto3 alone: {bare:.2f} s")
    print(f"load of the machine at the end: {load:.1f}")


if __name__ == "__main__":
    main()
