"""What S3 promises and the sandbox's keeps: one winner, whole uploads, nothing acknowledged lost."""

import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.s3 import S3Address

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.services
BUCKET = "lake"
MANY = 16


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("s3"), services=["s3"], environ=environ) as sandbox:
        yield sandbox


@pytest.fixture
def client(box: Sandbox) -> "S3Client":
    return box.s3.make_client()


def at_once(address: S3Address, key: str, *, replaces: str | None = None) -> list[int]:
    """The status that each of many writers got who wrote in the same moment."""
    start, statuses = threading.Barrier(MANY), [0] * MANY

    def write(place: int) -> None:
        client = address.make_client(attempts=1)
        start.wait()
        try:
            body = str(place).encode() * 5000
            if replaces is None:
                answer = client.put_object(Bucket=BUCKET, Key=key, Body=body, IfNoneMatch="*")
            else:
                answer = client.put_object(Bucket=BUCKET, Key=key, Body=body, IfMatch=replaces)
            statuses[place] = answer["ResponseMetadata"]["HTTPStatusCode"]
        except ClientError as error:
            statuses[place] = error.response["ResponseMetadata"]["HTTPStatusCode"]
        finally:
            client.close()

    threads = [threading.Thread(target=write, args=(place,)) for place in range(MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


@pytest.mark.parametrize("turn", range(5))
def test_of_many_creators_one_wins(box: Sandbox, client: "S3Client", turn: int) -> None:
    statuses = at_once(box.s3, f"create/{turn}")

    assert sorted(statuses) == [200] + [412] * (MANY - 1)
    stored = client.get_object(Bucket=BUCKET, Key=f"create/{turn}")["Body"].read()
    assert stored == str(statuses.index(200)).encode() * 5000


def test_of_many_replacers_one_wins(box: Sandbox, client: "S3Client") -> None:
    etag = client.put_object(Bucket=BUCKET, Key="replace", Body=b"first")["ETag"]

    statuses = at_once(box.s3, "replace", replaces=etag)

    assert sorted(statuses) == [200] + [412] * (MANY - 1)


def test_an_upload_that_breaks_off_stores_nothing(box: Sandbox, client: "S3Client") -> None:
    host, port = box.s3.endpoint.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as wire:
        wire.sendall(
            f"PUT /{BUCKET}/torn HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n".encode() + b"x" * 100
        )
        wire.shutdown(socket.SHUT_WR)
        assert b" 400 " in wire.recv(1000)

    with pytest.raises(ClientError, match="404"):
        client.head_object(Bucket=BUCKET, Key="torn")


KEYS = ("plain", "a/b/c.json", "ü 漢 🎁", "a+b%20c?d=e&f", "x" * 900, "trailing/")


def test_what_was_acknowledged_survives_a_kill(box: Sandbox, client: "S3Client") -> None:
    for key in KEYS:
        client.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), Metadata={"nonce": "n1"}, ContentType="text/x")
    client.put_object(Bucket=BUCKET, Key="large", Body=bytes(6_000_000))
    client.put_object(Bucket=BUCKET, Key="empty", Body=b"")
    client.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "plain"})
    before = {key: client.head_object(Bucket=BUCKET, Key=key) for key in (*KEYS, "large", "empty", "copy")}

    box.restart("s3", kill=True)

    for key, head in before.items():
        after = client.head_object(Bucket=BUCKET, Key=key)
        for fact in ("ETag", "LastModified", "ContentLength", "ContentType", "Metadata"):
            assert after[fact] == head[fact]
    assert client.get_object(Bucket=BUCKET, Key="ü 漢 🎁")["Body"].read() == "ü 漢 🎁".encode()
    assert client.get_object(Bucket=BUCKET, Key="large", Range="bytes=5999998-")["Body"].read() == bytes(2)


def test_what_was_deleted_stays_deleted_after_a_kill(box: Sandbox, client: "S3Client") -> None:
    for number in range(4):
        client.put_object(Bucket=BUCKET, Key=f"gone/{number}", Body=b"x")
    client.delete_object(Bucket=BUCKET, Key="gone/0")
    client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "gone/1"}, {"Key": "gone/2"}]})

    box.restart("s3", kill=True)

    listed = client.list_objects_v2(Bucket=BUCKET, Prefix="gone/")["Contents"]
    assert [item["Key"] for item in listed] == ["gone/3"]


def test_an_upload_in_parts_survives_a_kill_once_completed(box: Sandbox, client: "S3Client") -> None:
    def upload(key: str) -> tuple[str, list[Any]]:
        upload_id = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        parts = []
        for number, body in ((1, b"a" * 5_242_880), (2, b"b")):
            part = client.upload_part(Bucket=BUCKET, Key=key, UploadId=upload_id, PartNumber=number, Body=body)
            parts.append({"PartNumber": number, "ETag": part["ETag"]})
        return upload_id, parts

    done, parts = upload("parts/done")
    etag = client.complete_multipart_upload(
        Bucket=BUCKET, Key="parts/done", UploadId=done, MultipartUpload={"Parts": parts}
    )["ETag"]
    upload("parts/never")

    box.restart("s3", kill=True)

    after = client.get_object(Bucket=BUCKET, Key="parts/done")
    assert etag.endswith('-2"')
    assert after["ETag"] == etag
    assert after["Body"].read() == b"a" * 5_242_880 + b"b"
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix="parts/")["Contents"]
    assert [item["Key"] for item in listed] == ["parts/done"]


def test_a_bucket_that_was_made_or_removed_stays_so(box: Sandbox, client: "S3Client") -> None:
    for name in ("made", "removed"):
        client.create_bucket(Bucket=name)
    client.put_object(Bucket="removed", Key="k", Body=b"")
    client.delete_object(Bucket="removed", Key="k")
    client.delete_bucket(Bucket="removed")

    box.restart("s3", kill=True)

    assert {bucket["Name"] for bucket in client.list_buckets()["Buckets"]} == {BUCKET, "made"}


def test_a_draft_that_a_kill_left_is_swept(box: Sandbox, client: "S3Client") -> None:
    client.put_object(Bucket=BUCKET, Key="swept", Body=b"whole")
    objects = box.directory / "s3" / "objects" / BUCKET
    kept = next(path for path in objects.glob("*/*") if path.read_bytes().endswith(b"whole"))
    draft = kept.with_suffix(".new")
    draft.write_bytes(b"half")

    box.restart("s3", kill=True)

    assert not draft.exists()
    assert client.get_object(Bucket=BUCKET, Key="swept")["Body"].read() == b"whole"
