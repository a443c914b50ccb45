"""Orders to Parquet on S3 with ConnectorX, pyarrow and boto3: one run for every line on standard input."""

import json
import sys
import tempfile
import time
from pathlib import Path

import boto3
import connectorx
import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    client = boto3.client("s3", endpoint_url=settings["endpoint"], region_name=settings["region"])
    for line in sys.stdin:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "orders.parquet"
            pq.write_table(read(settings["mysql"]), path, compression="zstd")
            client.upload_file(str(path), settings["bucket"], f"{line.strip()}/orders.parquet")
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


def read(mysql: str) -> pa.Table:
    """Read the whole table, over as many connections as the machine of the comparison has cores."""
    return connectorx.read_sql(
        mysql, "SELECT * FROM orders", partition_on="id", partition_num=2, return_type="arrow", protocol="binary"
    )


if __name__ == "__main__":
    main()
