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
    settings = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as scratch:
            began = time.perf_counter()
            copy(settings, line.strip(), scratch)
            print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


def copy(settings: dict[str, str], prefix: str, scratch: str) -> None:
    """Run a pipeline without state; it reads its schema anew, as in every scheduled run."""
    mysql = settings["mysql"]
    split = {"partition_on": settings["split"], "partition_num": 2} if "split" in settings else {}
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
        "endpoint_url": settings["endpoint"],
        "region_name": settings["region"],
    }
    pipeline = dlt.pipeline(
        pipeline_name=f"bench_{prefix.replace('/', '_')}",
        pipelines_dir=scratch,
        destination=filesystem(bucket_url=f"s3://{settings['bucket']}/{prefix}", credentials=credentials),
        dataset_name="shop",
    )
    pipeline.run(orders, loader_file_format="parquet", write_disposition="append")


if __name__ == "__main__":
    main()
