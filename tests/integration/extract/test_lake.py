"""Objects in the lake against a real S3 server: whole or not at all, and in little memory."""

import os
import tracemalloc
from collections.abc import Iterator

import pytest

from syncd.errors import LakeDown, LakeUnfit
from syncd.ports.request_stats import ExternalCall, LakeRequested
from syncd.s3.lake_client import MAX_PIECES_IN_FLIGHT, PIECE_BYTES, S3Lake
from syncd.sandbox.faults.s3 import S3Fault, S3FaultKind, S3Proxy, S3Request
from syncd.sandbox.s3 import S3Address
from syncd.settings import LakeSettings

pytestmark = pytest.mark.services


@pytest.fixture
def proxy(s3: S3Address) -> Iterator[S3Proxy]:
    with S3Proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def lake(proxy: S3Proxy, s3: S3Address, monkeypatch: pytest.MonkeyPatch) -> S3Lake:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(s3.access_key))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(s3.secret_key))
    return S3Lake.from_settings(LakeSettings(bucket=s3.bucket, prefix="p", region=s3.region, endpoint=proxy.endpoint))


def body_of(lake: S3Lake, key: str) -> bytes:
    return lake.client.get_object(Bucket=lake.settings.bucket, Key=lake.object_name(key))["Body"].read()


@pytest.mark.parametrize("length", [0, 5, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_an_object_is_what_was_written(lake: S3Lake, nonce: str, length: int) -> None:
    wanted = os.urandom(length)
    new = lake.new_object(f"a/{nonce}")
    for start in range(0, length, 1_000_001):
        new.write(wanted[start : start + 1_000_001])

    stood = new.finish()

    assert stood.bytes == length
    assert body_of(lake, f"a/{nonce}") == wanted


@pytest.mark.parametrize("length", [5, PIECE_BYTES + 1])
def test_nothing_is_written_over_what_stands(lake: S3Lake, nonce: str, length: int) -> None:
    first, second = lake.new_object(f"a/{nonce}"), lake.new_object(f"a/{nonce}")
    first.write(b"first")
    first.finish()
    second.write(bytes(length + 1))

    with pytest.raises(LakeDown):
        second.finish()

    assert body_of(lake, f"a/{nonce}") == b"first"
    assert lake.abort_uploads("a/", mine=lambda key: nonce in key) == 0


@pytest.mark.parametrize("length", [5, PIECE_BYTES + 1])
@pytest.mark.parametrize("wrong", [S3FaultKind.LOST, S3FaultKind.ERROR_AFTER])
def test_an_unknown_answer_is_settled_by_looking(
    lake: S3Lake, proxy: S3Proxy, nonce: str, length: int, wrong: S3FaultKind
) -> None:
    def last(request: S3Request) -> bool:
        return request.method == ("PUT" if length < PIECE_BYTES else "POST") and "uploads" not in request.query

    fault = proxy.inject(S3Fault(kind=wrong, matches=last, times=1, status=503, code="SlowDown"))
    new = lake.new_object(f"a/{nonce}")
    new.write(bytes(length))

    stood = new.finish()

    assert fault.matched_requests
    assert stood.bytes == len(body_of(lake, f"a/{nonce}")) == length


def test_every_attempt_of_a_request_is_counted(lake: S3Lake, proxy: S3Proxy, nonce: str) -> None:
    calls = list[ExternalCall]()
    lake.register_meter(calls.append)
    proxy.inject(
        S3Fault(kind=S3FaultKind.ERROR, matches=lambda r: r.method == "PUT", times=1, status=503, code="SlowDown")
    )
    proxy.inject(S3Fault(kind=S3FaultKind.CUT, matches=lambda r: r.method == "GET", times=1))

    lake.put(f"a/{nonce}", b"x")
    lake.read(f"a/{nonce}")

    told = [(call.operation, call.status) for call in calls if isinstance(call, LakeRequested)]
    assert told == [("PutObject", 503), ("PutObject", 200), ("GetObject", 0), ("GetObject", 200)]


def test_a_piece_that_cannot_be_sent_leaves_nothing(lake: S3Lake, proxy: S3Proxy, nonce: str) -> None:
    proxy.inject(
        S3Fault(
            kind=S3FaultKind.ERROR, matches=lambda r: "partNumber" in r.query, times=99, status=403, code="AccessDenied"
        )
    )
    new = lake.new_object(f"a/{nonce}")

    with pytest.raises(LakeUnfit, match="AccessDenied") as caught:
        new.write(bytes(4 * PIECE_BYTES))
    new.abort()

    assert "s3:PutObject" in caught.value.hint
    assert lake.abort_uploads("a/", mine=lambda key: nonce in key) == 0
    assert lake.list_objects(f"a/{nonce}") == []


def test_memory_does_not_grow_with_the_object(lake: S3Lake, nonce: str) -> None:
    new = lake.new_object(f"a/{nonce}")
    new.write(bytes(2 * PIECE_BYTES))  # what the client loads at first use is not the object's
    tracemalloc.start()
    peaks = []
    for length in (32, 128):
        tracemalloc.reset_peak()
        for _ in range(length):
            new.write(bytes(1 << 20))
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    new.finish()

    # One that is filled, its copy on the way out, those in flight, and what boto3 makes of them.
    assert max(peaks) < (MAX_PIECES_IN_FLIGHT + 6) * PIECE_BYTES
    assert peaks[1] < 1.3 * peaks[0]


@pytest.mark.long
def test_more_than_a_thousand_objects_are_listed_and_dropped(lake: S3Lake, proxy: S3Proxy, nonce: str) -> None:
    keys = [f"many/{nonce}/{number:04d}" for number in range(1_003)]
    for key in keys:
        lake.client.put_object(Bucket=lake.settings.bucket, Key=lake.object_name(key), Body=b"")

    listed = lake.list_objects(f"many/{nonce}/")
    lake.delete_objects([*keys, f"many/{nonce}/gone"])

    assert [found.key for found in listed] == keys
    assert all(str(found.at.tzinfo) == "UTC" for found in listed)
    assert lake.list_objects(f"many/{nonce}/") == []
