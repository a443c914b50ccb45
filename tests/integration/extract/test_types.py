"""Each type and edge value through Spark, on both servers and both drivers, against what the server itself prints."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from syncd.datatypes.columns import Policies, Policy
from syncd.lake.read_requests import Part, WindowQuery
from syncd.mysql.connection import session_setup_statement
from syncd.mysql.sql import MARIADB_IDENTITY_PREFIX
from syncd.s3.lake_client import S3Lake
from syncd.settings import StreamSettings
from syncd.spark.reader import SparkReader
from syncd.tables.column_mapping import map_columns
from tests.services.orders import Orders
from tests.services.type_table import CASES, Case, canonical, create, described, expected, loadable

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def cursor(orders: Orders) -> Iterator[Any]:
    with orders.address.connect() as connection, connection.cursor() as opened:
        opened.execute(session_setup_statement(60))
        yield opened


def file_of(lake: S3Lake, part: Part) -> pq.ParquetFile:
    body = lake.client.get_object(Bucket=lake.settings.bucket, Key=lake.object_name(part.key))["Body"].read()
    return pq.ParquetFile(io.BytesIO(body))


@pytest.mark.parametrize("driver", ["mysql", pytest.param("mariadb", marks=pytest.mark.long)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_arrives_through_spark_as_the_server_prints_it(
    case: Case,
    driver: str,
    reader_of: Callable[..., SparkReader],
    orders: Orders,
    cursor: Any,
    lake: S3Lake,
    nonce: str,
) -> None:
    server = "mariadb" if orders.identity.startswith(MARIADB_IDENTITY_PREFIX) else "mysql"
    if server not in case.on:
        pytest.skip(f"{server} has no such type or value")
    create(cursor, case)
    boolean = ("c",) if case.boolean else ()
    settings = StreamSettings(source="main", database="shop", table=case.table, boolean=boolean)
    ways = map_columns(described(cursor, case.table), settings)
    selects = ", ".join(f"{way.select} AS `{way.name}`" for way in ways)
    query = WindowQuery(window=None, sql=f"SELECT {selects} FROM `{orders.address.database}`.{case.table}")
    policies = Policies(invalid_text=Policy.QUARANTINE)
    reading = orders.reading(nonce, queries=(query,), columns=ways, order=(), policies=policies)

    read = reader_of(driver=driver).read(reading)

    files = [file_of(lake, part) for part in read.parts]
    arrived = [file.read() for file in files]
    found = [canonical(part["n"].to_pylist(), part["c"]) for part in arrived]
    assert dict(each for one in found for each in one.items()) == expected(cursor, case)
    assert read.problem_counts == case.troubles
    assert {n for part in read.quarantined_parts for n in file_of(lake, part).read()["n"].to_pylist()} == case.refused
    for place, way in enumerate(ways):
        assert all(loadable(way.redshift, file.schema.column(place)) for file in files), way
