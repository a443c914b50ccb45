"""Objects in the lake against a real S3 server: whole or not at all, and in little memory."""

import os
import tracemalloc
from collections.abc import Iterator

import pytest

from syncd.errors import LakeDown, LakeUnfit
from syncd.ports.request_stats import Call, LakeAsked
from syncd.s3.lake_client import IN_FLIGHT, PIECE, Lake
from syncd.sandbox.faults.s3 import Fault, Request, S3Proxy, Wrong
from syncd.sandbox.s3 import S3Address
from syncd.settings import LakeSettings

pytestmark = pytest.mark.services


@pytest.fixture
def proxy(s3: S3Address) -> Iterator[S3Proxy]:
    with S3Proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def lake(proxy: S3Proxy, s3: S3Address, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(s3.access_key))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(s3.secret_key))
    return Lake.of(LakeSettings(bucket=s3.bucket, prefix="p", region=s3.region, endpoint=proxy.endpoint))


def body_of(lake: Lake, key: str) -> bytes:
    return lake.client.get_object(Bucket=lake.settings.bucket, Key=lake.name(key))["Body"].read()


@pytest.mark.parametrize("length", [0, 5, PIECE, PIECE + 1, 3 * PIECE])
def test_an_object_is_what_was_written(lake: Lake, nonce: str, length: int) -> None:
    wanted = os.urandom(length)
    new = lake.new(f"a/{nonce}")
    for start in range(0, length, 1_000_001):
        new.write(wanted[start : start + 1_000_001])

    stood = new.finish()

    assert stood.bytes == length
    assert body_of(lake, f"a/{nonce}") == wanted


@pytest.mark.parametrize("length", [5, PIECE + 1])
def test_nothing_is_written_over_what_stands(lake: Lake, nonce: str, length: int) -> None:
    first, second = lake.new(f"a/{nonce}"), lake.new(f"a/{nonce}")
    first.write(b"first")
    first.finish()
    second.write(bytes(length + 1))

    with pytest.raises(LakeDown):
        second.finish()

    assert body_of(lake, f"a/{nonce}") == b"first"
    assert lake.abandon("a/", mine=lambda key: nonce in key) == 0


@pytest.mark.parametrize("length", [5, PIECE + 1])
@pytest.mark.parametrize("wrong", [Wrong.LOST, Wrong.ERROR_AFTER])
def test_an_unknown_answer_is_settled_by_looking(
    lake: Lake, proxy: S3Proxy, nonce: str, length: int, wrong: Wrong
) -> None:
    def last(request: Request) -> bool:
        return request.method == ("PUT" if length < PIECE else "POST") and "uploads" not in request.query

    fault = proxy.tell(Fault(wrong=wrong, applies=last, times=1, status=503, code="SlowDown"))
    new = lake.new(f"a/{nonce}")
    new.write(bytes(length))

    stood = new.finish()

    assert fault.met
    assert stood.bytes == len(body_of(lake, f"a/{nonce}")) == length


def test_every_attempt_of_a_request_is_counted(lake: Lake, proxy: S3Proxy, nonce: str) -> None:
    calls = list[Call]()
    lake.metered(calls.append)
    proxy.tell(Fault(wrong=Wrong.ERROR, applies=lambda r: r.method == "PUT", times=1, status=503, code="SlowDown"))
    proxy.tell(Fault(wrong=Wrong.CUT, applies=lambda r: r.method == "GET", times=1))

    lake.put(f"a/{nonce}", b"x")
    lake.read(f"a/{nonce}")

    told = [(call.operation, call.status) for call in calls if isinstance(call, LakeAsked)]
    assert told == [("PutObject", 503), ("PutObject", 200), ("GetObject", 0), ("GetObject", 200)]


def test_a_piece_that_cannot_be_sent_leaves_nothing(lake: Lake, proxy: S3Proxy, nonce: str) -> None:
    proxy.tell(
        Fault(wrong=Wrong.ERROR, applies=lambda r: "partNumber" in r.query, times=99, status=403, code="AccessDenied")
    )
    new = lake.new(f"a/{nonce}")

    with pytest.raises(LakeUnfit, match="AccessDenied") as caught:
        new.write(bytes(4 * PIECE))
    new.abort()

    assert "s3:PutObject" in caught.value.hint
    assert lake.abandon("a/", mine=lambda key: nonce in key) == 0
    assert lake.stray(f"a/{nonce}") == []


def test_memory_does_not_grow_with_the_object(lake: Lake, nonce: str) -> None:
    new = lake.new(f"a/{nonce}")
    new.write(bytes(2 * PIECE))  # what the client loads at first use is not the object's
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
    assert max(peaks) < (IN_FLIGHT + 6) * PIECE
    assert peaks[1] < 1.3 * peaks[0]


@pytest.mark.long
def test_more_than_a_thousand_objects_are_listed_and_dropped(lake: Lake, proxy: S3Proxy, nonce: str) -> None:
    keys = [f"many/{nonce}/{number:04d}" for number in range(1_003)]
    for key in keys:
        lake.client.put_object(Bucket=lake.settings.bucket, Key=lake.name(key), Body=b"")

    listed = lake.stray(f"many/{nonce}/")
    lake.drop([*keys, f"many/{nonce}/gone"])

    assert [key for key, _ in listed] == keys
    assert all(str(changed.tzinfo) == "UTC" for _, changed in listed)
    assert lake.stray(f"many/{nonce}/") == []
