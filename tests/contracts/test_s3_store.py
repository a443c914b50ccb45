from collections.abc import Generator
from itertools import count
from typing import TYPE_CHECKING

import pytest
from moto import mock_aws

from tests.services.minio import PASSWORD, USER, find_minio, minio
from tests.services.moto_server import moto_server
from watermarks.store import Store
from watermarks.stores.s3 import S3Store, create_s3_client
from watermarks.testing import StoreContract

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

numbers = count(1)
MOTO_IS_NOT_ATOMIC = "moto compares and then writes, with nothing between threads: a race would prove nothing"


def fresh(client: "S3Client", bucket: str = "lake") -> Store:
    """An empty store that shares its bucket with the leavings of the tests before."""
    return S3Store(client, bucket=bucket, prefix=f"tests/{next(numbers)}")


@pytest.fixture(scope="class")
def credentials() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", USER)
        patched.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
        patched.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


def client_with_bucket(endpoint: str | None) -> "S3Client":
    client = create_s3_client(endpoint=endpoint)
    client.create_bucket(Bucket="lake")
    return client


@pytest.fixture(scope="class")
def mocked(credentials: None) -> "Generator[S3Client]":
    with mock_aws():
        yield client_with_bucket(None)


@pytest.fixture(scope="class")
def on_moto_server(credentials: None) -> "Generator[S3Client]":
    with moto_server() as endpoint:
        yield client_with_bucket(endpoint)


@pytest.fixture(scope="class")
def on_minio(credentials: None) -> "Generator[S3Client]":
    if (program := find_minio()) is None:
        pytest.skip("no minio on PATH or in SYNCD_TEST_MINIO: make .cache/bin/minio builds one where Go is")
    with minio(program) as endpoint:
        yield client_with_bucket(endpoint)


class TestS3StoreOnMotoInProcess(StoreContract):
    race_skip_reason = MOTO_IS_NOT_ATOMIC
    threads = 1  # the mock stands in this process and is not made for more

    @pytest.fixture
    def store(self, mocked: "S3Client") -> Store:
        return fresh(mocked)


@pytest.mark.services
class TestS3StoreOnMotoServer(StoreContract):
    race_skip_reason = MOTO_IS_NOT_ATOMIC
    listed_key_count = 60  # its pages are those of moto in process, which is asked for more than one

    @pytest.fixture
    def store(self, on_moto_server: "S3Client") -> Store:
        return fresh(on_moto_server)


@pytest.mark.services
class TestS3StoreOnMinio(StoreContract):
    @pytest.fixture
    def store(self, on_minio: "S3Client") -> Store:
        return fresh(on_minio)
