"""Orders to Parquet on S3 with dlt on ConnectorX: one run for every line on standard input."""

import json
import os
import sys
import tempfile
import time

import dlt
from dlt.destinations import filesystem
from dlt.sources.sql_database import sql_table


def main() -> None:
    told = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as scratch:
            began = time.perf_counter()
            copy(told, line.strip(), scratch)
            print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


def copy(told: dict[str, str], prefix: str, scratch: str) -> None:
    """A pipeline without a past; its schema is read anew, as in every run of a scheduled one."""
    mysql = told["mysql"]
    split = {"partition_on": told["split"], "partition_num": 2} if "split" in told else {}
    orders = sql_table(
        credentials=mysql.replace("mysql://", "mysql+pymysql://"),
        table="orders",
        backend="connectorx",
        reflection_level="minimal",
        backend_kwargs={"conn": mysql, **split},
    )
    credentials = {
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "endpoint_url": told["endpoint"],
        "region_name": told["region"],
    }
    pipeline = dlt.pipeline(
        pipeline_name=f"bench_{prefix.replace('/', '_')}",
        pipelines_dir=scratch,
        destination=filesystem(bucket_url=f"s3://{told['bucket']}/{prefix}", credentials=credentials),
        dataset_name="shop",
    )
    pipeline.run(orders, loader_file_format="parquet", write_disposition="append")


if __name__ == "__main__":
    main()
