"""One stand-in and one S3 for all cases here; each case has tables and keys of its own."""

import subprocess
import sys
from collections.abc import Iterator

import boto3
import pytest

from syncd.sandbox.redshift import CopyStorage, RedshiftStandIn
from tests.standin.clients import BUCKET, Bucket, Client, Clients

MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server._server.server_port, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    command = [sys.executable, "-c", MOTO]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.fixture(scope="session")
def bucket(s3_url: str) -> Bucket:
    client = boto3.client(
        "s3",
        endpoint_url=s3_url,
        aws_access_key_id="sandbox",
        aws_secret_access_key="sandbox",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    return Bucket(client)


@pytest.fixture(scope="session")
def server(s3_url: str) -> Iterator[RedshiftStandIn]:
    with RedshiftStandIn(lake=CopyStorage(endpoint=s3_url), other_users={"other": "Other1"}) as running:
        yield running


@pytest.fixture(autouse=True)
def no_fault_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").faults.clear()


@pytest.fixture
def clients(server: RedshiftStandIn) -> Iterator[Clients]:
    opener = Clients(server)
    yield opener
    opener.close()


@pytest.fixture
def client(clients: Clients) -> Client:
    return clients()
