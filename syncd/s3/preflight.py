"""Checks of a lake before the first run, tried below a prefix that is removed again."""

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
from syncd.ports.preflight import CheckSheet
from syncd.s3.lake_client import S3Lake
from syncd.settings import LakeSettings
from watermarks.clock import SystemClock

TRIAL_PREFIX: Final = "doctor/"
"""Prefix of the trial objects."""
LEFTOVER_AGE: Final = timedelta(hours=1)
"""Age at which trial objects of a killed doctor are removed; another doctor may be at work."""
RACE_COUNT: Final = 4
_CONDITION_FAILED_STATUSES: Final = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT})


def iam_policy(settings: LakeSettings) -> str:
    """Return the least IAM policy for this lake."""
    bucket = f"arn:aws:s3:::{settings.bucket}"
    below = f"{bucket}/{settings.prefix}/*" if settings.prefix else f"{bucket}/*"
    objects = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    whole = ["s3:ListBucket", "s3:ListBucketMultipartUploads"]
    statements = [
        {"Effect": "Allow", "Action": whole, "Resource": bucket},
        {"Effect": "Allow", "Action": objects, "Resource": below},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def check_lake(lake: S3Lake, sheet: CheckSheet, *, nonce: str) -> None:
    """Check one lake."""
    check = _LakeCheck(lake, sheet, f"{TRIAL_PREFIX}{nonce}/")
    with sheet.record_errors("bucket", remedy=""):
        check.check_bucket()
    if not sheet.has_passed("bucket"):
        return
    try:
        with sheet.record_errors("write"):
            check.check_write()
        if sheet.has_passed("write"):
            with sheet.record_errors("create once"):
                check.check_create_once()
            with sheet.record_errors("replace if unchanged"):
                check.check_replace_if_unchanged()
            with sheet.record_errors("unfinished uploads"):
                check.check_uploads()
    finally:
        with sheet.record_errors("remove", remedy=iam_policy(lake.settings)):
            check.remove_trial_objects()


class _LakeCheck:
    """Checks of one lake, in their order."""

    def __init__(self, lake: S3Lake, sheet: CheckSheet, prefix: str) -> None:
        self._lake = lake
        self._sheet = sheet
        self._prefix = prefix

    def check_bucket(self) -> None:
        settings = self._lake.settings
        now = SystemClock().now
        with self._lake.map_errors("", f"s3:ListBucket on the bucket. All that is needed: {iam_policy(settings)}"):
            before = now()
            answer: Any = self._lake.client.list_objects_v2(
                Bucket=settings.bucket, Prefix=self._lake.object_name(TRIAL_PREFIX), MaxKeys=1
            )
        self._sheet.add_pass("bucket", f"{self._lake.address_of('')} exists, and may be listed")
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        if "date" in headers:
            readings = iter((before, now()))
            server_time = parsedate_to_datetime(headers["date"]).astimezone(UTC)
            self._sheet.check_clock(lambda: server_time, step=timedelta(seconds=1), now=lambda: next(readings))
        self._check_region(str(headers.get("x-amz-bucket-region", "")))

    def _check_region(self, actual: str) -> None:
        configured = self._lake.client.meta.region_name
        if actual and actual != configured:
            return self._sheet.add_failure(
                "region", f"the bucket is in {actual}, but requests go to {configured}", f"lake: {{region: {actual}}}"
            )
        return self._sheet.add_pass("region", actual or f"{configured}; the server does not report its region")

    def check_write(self) -> None:
        policy = f"All that is needed: {iam_policy(self._lake.settings)}"
        body = b"syncd doctor"
        with self._lake.map_errors(self._prefix, f"s3:PutObject and s3:GetObject on the keys. {policy}"):
            self._put("written", body)
            found = self._lake.client.get_object(**self._object_args("written"))["Body"].read()
        if found != body:
            raise LakeDown(f"{self._lake.address_of(self._prefix)}written: the bytes read differ from those written")
        self._sheet.add_pass("write", "a written object reads back unchanged")

    def check_create_once(self) -> None:
        """Check that one of two racing creations succeeds, and none if the object exists."""
        self._put("once", b"first", IfNoneMatch="*")
        if self._is_accepted(lambda: self._put("once", b"second", IfNoneMatch="*")):
            return self._report_ignored_condition("create once", "If-None-Match")
        for number in range(RACE_COUNT):
            wins = self._count_race_wins(partial(self._put, f"race{number}", IfNoneMatch="*"))
            if wins != 1:
                return self._report_race("create once", wins)
        return self._sheet.add_pass("create once", f"exactly one of two racing creations succeeds, {RACE_COUNT} times")

    def check_replace_if_unchanged(self) -> None:
        first = self._put("document", b"0")
        seen = self._put("document", b"1", IfMatch=first)
        if self._is_accepted(lambda: self._put("document", b"2", IfMatch=first)):
            return self._report_ignored_condition("replace if unchanged", "If-Match")
        for _ in range(RACE_COUNT):
            wins = self._count_race_wins(partial(self._put, "document", IfMatch=seen))
            if wins != 1:
                return self._report_race("replace if unchanged", wins)
            seen = self._lake.client.head_object(**self._object_args("document"))["ETag"]
        return self._sheet.add_pass(
            "replace if unchanged", f"exactly one of two racing replacements succeeds, {RACE_COUNT} times"
        )

    def check_uploads(self) -> None:
        self._lake.abort_uploads(self._prefix, mine=lambda _key: False)
        self._sheet.add_pass("unfinished uploads", "they can be listed, and aborted")

    def remove_trial_objects(self) -> None:
        """Remove the trial objects, and those that a killed doctor has left."""
        now = datetime.now(UTC)
        found = self._lake.list_objects(TRIAL_PREFIX)
        keys = [one.key for one in found if one.key.startswith(self._prefix) or now - one.at > LEFTOVER_AGE]
        self._lake.delete_objects(keys)
        self._sheet.add_pass("remove", "the trial objects are removed")

    def _report_ignored_condition(self, check: str, header: str) -> None:
        message = f"the server accepts a write that {header} forbids: two processes could own the same batch"
        self._sheet.add_failure(
            check, message, "Use AWS S3, or a server that honours conditional writes (MinIO from 2024-09)."
        )

    def _report_race(self, check: str, wins: int) -> None:
        message = f"{'both' if wins else 'none'} of two racing writes succeeded"
        self._sheet.add_failure(check, message, "Use AWS S3, or a server whose conditional writes are atomic.")

    def _count_race_wins(self, put: Callable[[bytes], str]) -> int:
        """Return how many of two simultaneous writes succeeded."""
        start = threading.Barrier(2, timeout=10)

        def race(body: bytes) -> bool:
            start.wait()
            return self._is_accepted(lambda: put(body))

        with ThreadPoolExecutor(2, thread_name_prefix="race") as racers:
            # An ETag is a digest: only new bodies have an ETag that no writer has seen.
            return sum(racers.map(race, (secrets.token_bytes(16), secrets.token_bytes(16))))

    def _is_accepted(self, put: Callable[[], str]) -> bool:
        try:
            put()
        except boto.ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in _CONDITION_FAILED_STATUSES:
                return False
            raise
        return True

    def _put(self, name: str, body: bytes, **condition: str) -> str:
        arguments: dict[str, Any] = {**self._object_args(name), **condition}
        return str(self._lake.client.put_object(**arguments, Body=body)["ETag"])

    def _object_args(self, name: str) -> dict[str, Any]:
        return {"Bucket": self._lake.settings.bucket, "Key": self._lake.object_name(self._prefix + name)}
