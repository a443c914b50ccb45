"""What a lake has to offer before the first run, tried below a key of one's own that is removed again."""

import json
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from botocore import exceptions as boto

from syncd.errors import LakeDown
from syncd.ports.preflight import Sheet
from syncd.s3.lake_client import Lake
from syncd.settings import LakeSettings
from watermarks.clock import SystemClock

ROOM: Final = "doctor/"
"""Where what is tried lies."""
LEFT_FOR: Final = timedelta(hours=1)
"""What a killed doctor left is removed by the next one after so long: another may be at work."""
RACES: Final = 4
_REFUSED: Final = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT})


def policy(settings: LakeSettings) -> str:
    """The IAM policy that is enough for this lake."""
    bucket = f"arn:aws:s3:::{settings.bucket}"
    below = f"{bucket}/{settings.prefix}/*" if settings.prefix else f"{bucket}/*"
    objects = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    whole = ["s3:ListBucket", "s3:ListBucketMultipartUploads"]
    statements = [
        {"Effect": "Allow", "Action": whole, "Resource": bucket},
        {"Effect": "Allow", "Action": objects, "Resource": below},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def examine(lake: Lake, sheet: Sheet, *, nonce: str) -> None:
    """Look at one lake."""
    look = _Look(lake, sheet, f"{ROOM}{nonce}/")
    with sheet.checking("bucket", remedy=""):
        look.bucket()
    if not sheet.fits("bucket"):
        return
    try:
        with sheet.checking("write"):
            look.write()
        if sheet.fits("write"):
            with sheet.checking("create once"):
                look.create_once()
            with sheet.checking("replace if unchanged"):
                look.replace_if_unchanged()
            with sheet.checking("unfinished uploads"):
                look.uploads()
    finally:
        with sheet.checking("remove", remedy=policy(lake.settings)):
            look.remove()


class _Look:
    """One look around a lake."""

    def __init__(self, lake: Lake, sheet: Sheet, room: str) -> None:
        self._lake = lake
        self._sheet = sheet
        self._room = room

    def bucket(self) -> None:
        settings = self._lake.settings
        now = SystemClock().now
        with self._lake.mapped("", f"s3:ListBucket on the bucket. All that is needed: {policy(settings)}"):
            before = now()
            answer: Any = self._lake.client.list_objects_v2(
                Bucket=settings.bucket, Prefix=self._lake.name(ROOM), MaxKeys=1
            )
        self._sheet.good("bucket", f"{self._lake.at('')} is there, and may be listed")
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        if "date" in headers:
            asked = iter((before, now()))
            shown = parsedate_to_datetime(headers["date"]).astimezone(UTC)
            self._sheet.clock(lambda: shown, step=timedelta(seconds=1), now=lambda: next(asked))
        self._region(str(headers.get("x-amz-bucket-region", "")))

    def _region(self, told: str) -> None:
        ours = self._lake.client.meta.region_name
        if told and told != ours:
            return self._sheet.bad(
                "region", f"the bucket is in {told}, and {ours} is asked", f"lake: {{region: {told}}}"
            )
        return self._sheet.good("region", told or f"{ours}, as far as the server tells")

    def write(self) -> None:
        where = f"All that is needed: {policy(self._lake.settings)}"
        body = b"syncd doctor"
        with self._lake.mapped(self._room, f"s3:PutObject and s3:GetObject on the keys. {where}"):
            self._put("written", body)
            found = self._lake.client.get_object(**self._at("written"))["Body"].read()
        if found != body:
            raise LakeDown(f"{self._lake.at(self._room)}written: other bytes came back than were written")
        self._sheet.good("write", "what is written is read back")

    def create_once(self) -> None:
        """I: of two that create one object, one does; and nobody does where one stands."""
        self._put("once", b"first", IfNoneMatch="*")
        if self._won(lambda: self._put("once", b"second", IfNoneMatch="*")):
            return self._ignored("create once", "If-None-Match")
        for number in range(RACES):
            wins = self._raced(partial(self._put, f"race{number}", IfNoneMatch="*"))
            if wins != 1:
                return self._lost("create once", wins)
        return self._sheet.good("create once", f"of two that race to create an object one does, {RACES} times")

    def replace_if_unchanged(self) -> None:
        first = self._put("document", b"0")
        seen = self._put("document", b"1", IfMatch=first)
        if self._won(lambda: self._put("document", b"2", IfMatch=first)):
            return self._ignored("replace if unchanged", "If-Match")
        for _ in range(RACES):
            wins = self._raced(partial(self._put, "document", IfMatch=seen))
            if wins != 1:
                return self._lost("replace if unchanged", wins)
            seen = self._lake.client.head_object(**self._at("document"))["ETag"]
        return self._sheet.good(
            "replace if unchanged", f"of two that race to replace an object one does, {RACES} times"
        )

    def uploads(self) -> None:
        self._lake.abandon(self._room, mine=lambda _key: False)
        self._sheet.good("unfinished uploads", "they can be seen, and given up")

    def remove(self) -> None:
        """Remove what was tried, and what one that was killed has left."""
        now = datetime.now(UTC)
        found = self._lake.stray(ROOM)
        keys = [key for key, at in found if key.startswith(self._room) or now - at > LEFT_FOR]
        self._lake.drop(keys)
        self._sheet.good("remove", "what was tried is removed again")

    def _ignored(self, check: str, header: str) -> None:
        told = f"the server takes a write that {header} forbids: two processes could both think that they own a batch"
        self._sheet.bad(check, told, "Use AWS S3, or a server that honours conditional writes (MinIO from 2024-09).")

    def _lost(self, check: str, wins: int) -> None:
        told = f"of two that raced {'both were told that they had won' if wins else 'neither won'}"
        self._sheet.bad(check, told, "Use AWS S3, or a server whose conditional writes are one step.")

    def _raced(self, put: Callable[[bytes], str]) -> int:
        """How many of two that put at the same moment were told that they did."""
        start = threading.Barrier(2, timeout=10)

        def one(body: bytes) -> bool:
            start.wait()
            return self._won(lambda: put(body))

        with ThreadPoolExecutor(2, thread_name_prefix="race") as racers:
            # A tag is a digest: only bodies that never stood before give a tag that nobody has seen.
            return sum(racers.map(one, (secrets.token_bytes(16), secrets.token_bytes(16))))

    def _won(self, put: Callable[[], str]) -> bool:
        try:
            put()
        except boto.ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in _REFUSED:
                return False
            raise
        return True

    def _put(self, name: str, body: bytes, **condition: str) -> str:
        asked: dict[str, Any] = {**self._at(name), **condition}
        return str(self._lake.client.put_object(**asked, Body=body)["ETag"])

    def _at(self, name: str) -> dict[str, Any]:
        return {"Bucket": self._lake.settings.bucket, "Key": self._lake.name(self._room + name)}
