"""Orders to Parquet on the local disk with Spark, as tutorials write it: one run for every line on standard input."""

import json
import sys
import time

from pyspark.sql import SparkSession

ORDERED = "(SELECT * FROM orders WHERE update_at > '2000-01-01' ORDER BY update_at, id) AS t"


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraClassPath", settings["jar"])
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    for _ in sys.stdin:
        began = time.perf_counter()
        copy(spark, settings)
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


def copy(spark: SparkSession, settings: dict[str, str]) -> None:
    frame = (
        spark.read.format("jdbc")
        .option("url", settings["jdbc"])
        .option("user", settings["user"])
        .option("password", settings["password"])
        .option("driver", "com.mysql.cj.jdbc.Driver")
        .option("dbtable", ORDERED)
        .load()
    )
    frame.write.mode("overwrite").parquet(settings["out"])


if __name__ == "__main__":
    main()
