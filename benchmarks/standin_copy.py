"""Cost of COPY in the Redshift stand-in: rows a second after warm-up, and memory as the file grows.

    python -m benchmarks.standin_copy

The stand-in and S3 run in processes of their own; the file has twelve columns, as the shop's orders have.
"""

import io
import json
import time
from pathlib import Path

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.servers import BUCKET, connect_stand_in, run_s3, run_stand_in

SIZES = (100_000, 1_000_000, 4_000_000)
ROUNDS = 5
GROUP_ROWS = 250_000
TABLE = """
create table orders (id bigint, customer_id bigint, status varchar(20), total decimal(18,2), currency char(3),
note varchar(200), quantity integer, priority smallint, paid boolean, weight double precision, placed_on date,
updated_at timestamp)
"""


def orders(rows: int) -> pa.Table:
    random = np.random.default_rng(20)
    cents = pa.array(random.integers(100, 1_000_000, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "customer_id": pa.array(random.integers(1, 1_000_000, rows)),
            "status": pa.array(np.array(["new", "paid", "shipped", "lost"])[random.integers(0, 4, rows)]),
            "total": cents.cast(pa.decimal128(18, 2)),
            "currency": pa.array(["EUR"] * rows),
            "note": pa.array([f"note {i} é" if i % 3 else None for i in range(rows)]),
            "quantity": pa.array(random.integers(1, 9, rows).astype("int32")),
            "priority": pa.array(random.integers(1, 9, rows).astype("int16")),
            "paid": pa.array(random.integers(0, 2, rows).astype(bool)),
            "weight": pa.array(random.random(rows)),
            "placed_on": pa.array(random.integers(10_000, 20_000, rows).astype("int32")).cast(pa.date32()),
            "updated_at": pa.array(random.integers(int(1.6e15), int(1.7e15), rows)).cast(pa.timestamp("us", "UTC")),
        }
    )


def upload(endpoint: str) -> dict[int, tuple[str, int]]:
    """Upload one file of each size; return its manifest and its bytes."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="sandbox",
        aws_secret_access_key="sandbox",  # noqa: S106  # the emulator accepts any key
    )
    client.create_bucket(Bucket=BUCKET)
    placed = {}
    for rows in SIZES:
        sink = io.BytesIO()
        pq.write_table(orders(rows), sink, row_group_size=GROUP_ROWS)
        size = sink.tell()
        client.put_object(Bucket=BUCKET, Key=f"{rows}.parquet", Body=sink.getvalue())
        url = f"s3://{BUCKET}/{rows}.parquet"
        entry = {"url": url, "mandatory": True, "meta": {"content_length": size}}
        client.put_object(Bucket=BUCKET, Key=f"{rows}.manifest", Body=json.dumps({"entries": [entry]}).encode())
        placed[rows] = (f"s3://{BUCKET}/{rows}.manifest", size)
    return placed


def peak_megabytes(pid: int, *, reset: bool = False) -> float:
    """Return the peak memory of a process since the last reset (Linux)."""
    if reset:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    words = Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()
    return int(words[0]) / 1024


def measure(ready: dict[str, int], placed: dict[int, tuple[str, int]]) -> None:
    connection = connect_stand_in(ready["port"])
    cursor = connection.cursor()
    cursor.execute(TABLE)
    for rows, (manifest, size) in placed.items():
        seconds = []
        for _ in range(ROUNDS if rows <= SIZES[1] else 2):
            peak_megabytes(ready["pid"], reset=True)
            began = time.perf_counter()
            cursor.execute(f"copy orders from '{manifest}' iam_role default format as parquet manifest")
            seconds.append(time.perf_counter() - began)
            cursor.execute("truncate orders")
        rates = ", ".join(f"{rows / s:,.0f}" for s in seconds)
        peak = peak_megabytes(ready["pid"])
        print(f"{rows:>9,} rows, {size / 1e6:6.1f} MB: {rates} rows/s; peak memory of the stand-in {peak:.0f} MB")
    connection.close()


def main() -> None:
    with run_s3() as endpoint:
        placed = upload(endpoint)
        with run_stand_in(endpoint) as ready:
            measure(ready, placed)


if __name__ == "__main__":
    main()
