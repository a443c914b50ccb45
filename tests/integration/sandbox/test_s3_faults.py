"""Each fault of S3: what the client sees, and what the server holds afterwards."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    HTTPClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from syncd.concurrency.thread_helpers import wait_until
from syncd.sandbox.faults.s3 import S3Fault, S3FaultKind, S3Proxy, S3Request
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.s3 import S3Address

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.services
BUCKET = "lake"
BODY = bytes(range(256)) * 400


@pytest.fixture
def proxy(shared: Sandbox) -> Iterator[S3Proxy]:
    with S3Proxy(shared.s3.endpoint) as standing:
        yield standing


@pytest.fixture
def server(shared: Sandbox) -> Iterator["S3Client"]:
    """The server itself, asked behind the proxy's back."""
    client = shared.s3.make_client()
    yield client
    client.close()


@pytest.fixture
def connect(proxy: S3Proxy, shared: Sandbox) -> Iterator[Callable[..., "S3Client"]]:
    made: list[S3Client] = []

    def through_the_proxy(attempts: int = 1, silence: float = 30.0) -> "S3Client":
        address = S3Address(endpoint=proxy.endpoint, access_key="sandbox", secret_key="sandbox")
        made.append(address.make_client(attempts=attempts, timeout_seconds=silence))
        return made[-1]

    yield through_the_proxy
    for client in made:
        client.close()


def holds(server: "S3Client", key: str) -> bytes | None:
    try:
        return server.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    except server.exceptions.NoSuchKey:
        return None


def put(request: S3Request) -> bool:
    return request.method == "PUT"


def get(request: S3Request) -> bool:
    return request.method == "GET"


def status_of(error: ClientError) -> int:
    return error.response["ResponseMetadata"]["HTTPStatusCode"]


def test_without_faults_everything_passes_unchanged(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    client = connect()

    client.put_object(Bucket=BUCKET, Key="pass/ü +%", Body=BODY, Metadata={"a": "b"})

    assert holds(server, "pass/ü +%") == BODY
    answer = client.get_object(Bucket=BUCKET, Key="pass/ü +%")
    assert answer["Body"].read() == BODY
    assert answer["Metadata"] == {"a": "b"}
    assert client.head_object(Bucket=BUCKET, Key="pass/ü +%")["ContentLength"] == len(BODY)
    assert [item["Key"] for item in client.list_objects_v2(Bucket=BUCKET, Prefix="pass/")["Contents"]] == ["pass/ü +%"]
    assert [request.method for request in proxy.requests] == ["PUT", "GET", "HEAD", "GET"]
    assert proxy.requests[0].key == "pass/ü +%"


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (503, "SlowDown")])
def test_an_error_answer_changes_nothing(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client", status: int, code: str
) -> None:
    key = f"error/{status}"
    proxy.inject(S3Fault(kind=S3FaultKind.ERROR, status=status, code=code, matches=put))

    with pytest.raises(ClientError) as caught:
        connect().put_object(Bucket=BUCKET, Key=key, Body=BODY)

    assert (status_of(caught.value), caught.value.response["Error"]["Code"]) == (status, code)
    assert holds(server, key) is None


def test_a_client_that_tries_again_gets_through(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    fault = proxy.inject(S3Fault(kind=S3FaultKind.ERROR, status=503, code="SlowDown", matches=put, times=2))

    connect(attempts=3).put_object(Bucket=BUCKET, Key="error/again", Body=BODY)

    assert len(fault.matched_requests) == 2
    assert holds(server, "error/again") == BODY


def test_an_error_after_the_write_leaves_the_write(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    proxy.inject(S3Fault(kind=S3FaultKind.ERROR_AFTER, matches=put))

    with pytest.raises(ClientError) as caught:
        connect().put_object(Bucket=BUCKET, Key="after", Body=BODY)

    assert status_of(caught.value) == 500
    assert holds(server, "after") == BODY


def test_a_lost_answer_leaves_the_write(proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client") -> None:
    proxy.inject(S3Fault(kind=S3FaultKind.LOST, matches=put))

    with pytest.raises((ConnectionClosedError, HTTPClientError)):
        connect().put_object(Bucket=BUCKET, Key="lost", Body=BODY)

    assert holds(server, "lost") == BODY


def test_a_lost_answer_makes_a_conditional_write_meet_itself(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    """Why every write-once object carries its writer's nonce: this 412 is about our own object."""
    proxy.inject(S3Fault(kind=S3FaultKind.LOST, matches=put))

    with pytest.raises(ClientError) as caught:
        connect(attempts=3).put_object(Bucket=BUCKET, Key="once", Body=b"mine", IfNoneMatch="*")

    assert status_of(caught.value) == 412
    assert holds(server, "once") == b"mine"


def test_a_cut_connection_changes_nothing(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    proxy.inject(S3Fault(kind=S3FaultKind.CUT, matches=put))

    with pytest.raises((ConnectionClosedError, HTTPClientError)):
        connect().put_object(Bucket=BUCKET, Key="cut", Body=BODY)

    assert holds(server, "cut") is None


def test_a_slow_answer_arrives(proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client") -> None:
    proxy.inject(S3Fault(kind=S3FaultKind.SLOW, seconds=0.3, matches=put))

    connect().put_object(Bucket=BUCKET, Key="slow", Body=BODY)

    assert holds(server, "slow") == BODY


def test_a_write_lands_after_its_client_gave_up(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    proxy.inject(S3Fault(kind=S3FaultKind.SLOW, seconds=60, matches=put))

    with pytest.raises(ReadTimeoutError):
        connect(silence=0.3).put_object(Bucket=BUCKET, Key="late", Body=BODY)

    assert holds(server, "late") is None
    proxy.clear_faults()
    assert wait_until(lambda: holds(server, "late") == BODY, timeout_seconds=60)


def test_a_truncated_read_is_noticed_and_the_object_is_whole(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    server.put_object(Bucket=BUCKET, Key="short", Body=BODY)
    proxy.inject(S3Fault(kind=S3FaultKind.TRUNCATED, body_bytes=1000, matches=get))

    with pytest.raises((IncompleteReadError, ResponseStreamingError)):
        connect().get_object(Bucket=BUCKET, Key="short")["Body"].read()

    assert holds(server, "short") == BODY


def test_a_fault_meets_only_what_it_applies_to(
    proxy: S3Proxy, connect: Callable[..., "S3Client"], server: "S3Client"
) -> None:
    fault = proxy.inject(
        S3Fault(kind=S3FaultKind.ERROR, matches=lambda request: put(request) and request.key.endswith(".json"))
    )
    client = connect()

    client.put_object(Bucket=BUCKET, Key="only/a.parquet", Body=BODY)
    with pytest.raises(ClientError):
        client.put_object(Bucket=BUCKET, Key="only/a.json", Body=BODY)
    client.put_object(Bucket=BUCKET, Key="only/b.json", Body=BODY)

    assert [request.key for request in fault.matched_requests] == ["only/a.json"]
    assert holds(server, "only/a.json") is None
    assert holds(server, "only/b.json") == BODY
