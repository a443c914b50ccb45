import os
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from syncd.s3.lake_client import S3Lake
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.shop.seed import seed_orders
from syncd.settings import LakeSettings, SparkSettings
from syncd.spark.reader import SparkReader
from syncd.spark.spark_session import WarmSparkSession
from tests.services.orders import Orders, find_orders
from tests.services.servers import ENVIRON, ONE, environ_of

ROWS = 200_000


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Address]:
    with Sandbox(tmp_path_factory.mktemp("lake"), services=["s3"], environ=ENVIRON) as box:
        yield box.s3


@pytest.fixture(scope="session")
def session(s3: S3Address) -> Iterator[WarmSparkSession]:
    """One warm session for all; its tasks find the key of the lake where every process does."""
    os.environ |= {"AWS_ACCESS_KEY_ID": str(s3.access_key), "AWS_SECRET_ACCESS_KEY": str(s3.secret_key)}
    session = WarmSparkSession(SparkSettings())
    yield session
    session.stop()


@pytest.fixture(scope="session", params=ONE)
def orders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    """The shop's orders on MariaDB, then on MySQL itself where it can be had."""
    environ = environ_of(request.param)
    options = ["--max-allowed-packet=64M"]
    directory = tmp_path_factory.mktemp(request.param)
    with Sandbox(directory, services=["mysql"], environ=environ, mysql_options=options) as box:
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        with box.mysql.connect() as connection:
            seed_orders(connection, ROWS)
        yield find_orders(box.mysql, windows=2)


@pytest.fixture
def nonce() -> str:
    return uuid4().hex[:12]


@pytest.fixture
def settings(s3: S3Address) -> LakeSettings:
    return LakeSettings(bucket=s3.bucket, prefix="under/it", region=s3.region, endpoint=s3.endpoint)


@pytest.fixture
def lake(settings: LakeSettings, session: WarmSparkSession) -> S3Lake:
    return S3Lake.from_settings(settings)


@pytest.fixture
def reader_of(session: WarmSparkSession, orders: Orders, lake: S3Lake) -> Callable[..., SparkReader]:
    """Makes a reader of the orders; what is given is another driver or lake, or a setting of the source."""

    def make(*, driver: str = "mysql", lake: S3Lake = lake, **source: Any) -> SparkReader:
        return SparkReader(session, orders.source(**source), lake, driver=driver)

    return make


@pytest.fixture
def reader(reader_of: Callable[..., SparkReader]) -> SparkReader:
    return reader_of()
