"""The lake on S3: objects that are written once, piece by piece, and what becomes of those that nobody names."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from botocore import exceptions as boto

from syncd.concurrency.response_monitor import Silences
from syncd.errors import LakeDown, LakeUnfit
from syncd.lake.removal_records import Lying
from syncd.lake.window_reads import Part
from syncd.ports.request_stats import LakeAsked, Meter
from syncd.settings import LakeSettings
from watermarks.errors import HintedError
from watermarks.stores.s3 import (
    CREDENTIALS,
    CREDENTIALS_HINT,
    FOREIGN,
    HINTS,
    MISUSES,
    NO_CONNECTION_HINT,
    UNSENDABLE,
    s3_client,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectTypeDef

PIECE: Final = 8 << 20
"""How much is sent at once; S3 takes at most 10,000 pieces, and none but the last under 5 MiB."""
IN_FLIGHT: Final = 2
"""How many pieces may be on their way; one more is being filled."""
CONNECTIONS: Final = 16
"""How many requests may be on their way at once, unless more are asked for."""
LOOKED_WITHIN: Final = 7.0
LOOKED_AT_MOST: Final = 3
"""Seconds that somebody who looks waits for an answer, and how often."""
MOST_AT_ONCE: Final = 1000
"""How many keys S3 removes with one request."""

_OF_OTHERS: Final = (boto.ClientError, *CREDENTIALS, *UNSENDABLE)
"""What is no silence of the lake: it answered, or was not even asked."""
_ASKED: Final = "syncd.asked"
"""What a request's context has the number of its question under."""
_UNFIT: Final = frozenset(
    {
        *("NoSuchBucket", "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId"),
        *("SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "PermanentRedirect", "TemporaryRedirect"),
        *("AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "KMS.DisabledException"),
        *("RequestTimeTooSkewed", "MethodNotAllowed", "NotImplemented"),
        *MISUSES,
    }
)
"""What does not pass by itself."""


class NotAsked(boto.EndpointConnectionError):
    """A request that was not sent: of all errors its kind says for certain that nothing was done."""

    fmt = "{endpoint_url} kept silent a moment ago, and was not asked again so soon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """An object that stands whole."""

    etag: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Lake:
    """One bucket and prefix; keys are told without the prefix, as those of documents are."""

    settings: LakeSettings
    client: "S3Client"

    @classmethod
    def of(cls, settings: LakeSettings, *, connections: int = CONNECTIONS) -> "Lake":
        """The lake with a client of its own; safe for several threads, each over one of so many connections.

        Raises:
            Misuse: no client can be built from the settings.
        """
        return cls(settings, s3_client(region=settings.region, endpoint=settings.endpoint, connections=connections))

    @classmethod
    def for_looks(cls, settings: LakeSettings, *, connections: int = CONNECTIONS) -> "Lake":
        """The same for people who look, and wait: what does not answer is soon said to be away.

        Raises:
            Misuse: no client can be built from the settings.
        """
        return cls.quick(settings, within=LOOKED_WITHIN, attempts=LOOKED_AT_MOST, connections=connections)

    @classmethod
    def quick(cls, settings: LakeSettings, *, within: float, attempts: int, connections: int = CONNECTIONS) -> "Lake":
        """The same in a hurry: no request waits longer for a connection or an answer, nor is sent oftener.

        Raises:
            Misuse: no client can be built from the settings.
        """
        client = s3_client(
            region=settings.region,
            endpoint=settings.endpoint,
            connect_timeout=within,
            read_timeout=within,
            attempts=attempts,
            connections=connections,
        )
        return cls(settings, client)

    def metered(self, meter: Meter) -> "Lake":
        """The same lake, of whose requests somebody keeps count, each attempt by itself."""

        def count(event_name: str, response_dict: Mapping[str, Any] | None = None, **_: object) -> None:
            status = response_dict.get("status_code", 0) if response_dict else 0
            meter(LakeAsked(operation=event_name.rpartition(".")[2], status=int(status)))

        self.client.meta.events.register("response-received.s3", count, unique_id="syncd.count")
        return self

    def heeded(self, silences: Silences) -> "Lake":
        """The same lake, with an eye on how long it takes to answer: one that kept silent is not asked for a while."""
        side = self.at("").rstrip("/")

        def begins(params: Mapping[str, Any], context: dict[str, Any], **_: object) -> None:
            if silences.leaves(side):
                raise NotAsked(endpoint_url=params["url"], error="")
            context[_ASKED] = silences.asks(side)

        def ends(context: dict[str, Any], exception: Exception | None = None, **_: object) -> None:
            if (number := context.pop(_ASKED, None)) is not None:
                silences.answered(number, well=exception is None or isinstance(exception, _OF_OTHERS))

        events = self.client.meta.events
        events.register("before-call.s3", begins, unique_id="syncd.begins")
        events.register("after-call.s3", ends, unique_id="syncd.ends")
        events.register("after-call-error.s3", ends, unique_id="syncd.fails")
        return self

    def name(self, key: str) -> str:
        """The name of an object in the bucket."""
        prefix = self.settings.prefix.strip("/")
        return f"{prefix}/{key}" if prefix else key

    def at(self, key: str) -> str:
        return f"s3://{self.settings.bucket}/{self.name(key)}"

    def new(self, key: str) -> "NewObject":
        """An object to be written at a key that no other attempt has."""
        return NewObject(self, key)

    def put(self, key: str, body: bytes) -> Stood:
        """Write an object that is at hand as a whole, at a key that nothing else has."""
        made = self.new(key)
        made.write(body)
        return made.finish()

    def read(self, key: str) -> bytes:
        """All of an object."""
        with self.mapped(key, "s3:GetObject on the key"):
            return self.client.get_object(Bucket=self.settings.bucket, Key=self.name(key))["Body"].read()

    def piece(self, key: str, first: int, end: int) -> bytes:
        """The bytes of an object from one place up to, not including, another."""
        with self.mapped(key, "s3:GetObject on the key"):
            answer = self.client.get_object(
                Bucket=self.settings.bucket, Key=self.name(key), Range=f"bytes={first}-{end - 1}"
            )
            found = answer["Body"].read()
        if len(found) != end - first:
            raise LakeDown(f"{self.at(key)}: {len(found)} of {end - first} bytes came", hint=NO_CONNECTION_HINT)
        return found

    def holds(self, part: Part) -> bool:
        """Whether a part stands as it was written, byte for byte.

        Its tag tells without reading it; where that is another one, as after a copy of the
        bucket, the bytes do.
        """
        place: Any = {"Bucket": self.settings.bucket, "Key": self.name(part.key)}
        with self.mapped(part.key, "s3:GetObject on the key"):
            try:
                found = self.client.head_object(**place)
            except boto.ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == HTTPStatus.NOT_FOUND:
                    return False
                raise
            if found["ContentLength"] != part.bytes:
                return False
            if found["ETag"] == part.etag:
                return True
            digest = hashlib.sha256()
            for piece in self.client.get_object(**place)["Body"].iter_chunks(PIECE):
                digest.update(piece)
        return digest.hexdigest() == part.sha256

    def drop(self, keys: Sequence[str]) -> None:
        """Remove objects; one that is gone already is removed."""
        for first in range(0, len(keys), MOST_AT_ONCE):
            some = keys[first : first + MOST_AT_ONCE]
            with self.mapped(some[0], "s3:DeleteObject on the keys"):
                answer = self.client.delete_objects(
                    Bucket=self.settings.bucket,
                    Delete={"Objects": [{"Key": self.name(key)} for key in some], "Quiet": True},
                )
            if failed := answer.get("Errors"):
                one = failed[0]
                told = f"s3://{self.settings.bucket}/{one.get('Key')}: {one.get('Code')}: {one.get('Message')}"
                raise _group(str(one.get("Code")))(told, hint="Allow s3:DeleteObject on the keys.", left=len(failed))

    def stray(self, prefix: str) -> Sequence[tuple[str, datetime]]:
        """Every object below a prefix with the instant of its last change."""
        start = len(self.name(""))
        found = self._listed(prefix)
        return [(each["Key"][start:], each["LastModified"].astimezone(UTC)) for each in found]

    def lying(self, prefix: str) -> Sequence[Lying]:
        """Every object below a prefix, with its size and the instant of its last change."""
        start = len(self.name(""))
        found = self._listed(prefix)
        return [
            Lying(key=each["Key"][start:], bytes=each["Size"], at=each["LastModified"].astimezone(UTC))
            for each in found
        ]

    def standing(self, prefix: str) -> Mapping[str, tuple[int, str]]:
        """Size and tag of every object below a prefix, a thousand with each request."""
        start = len(self.name(""))
        return {each["Key"][start:]: (each["Size"], each["ETag"]) for each in self._listed(prefix)}

    def abandon(self, prefix: str, *, mine: Callable[[str], bool]) -> int:
        """Give up uploads that were begun below a prefix, at keys that are mine, and never finished; how many."""
        with self.mapped(prefix, "s3:ListBucketMultipartUploads on the bucket"):
            pages = self.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.settings.bucket, Prefix=self.name(prefix)
            )
            begun = [(each["Key"], each["UploadId"]) for page in pages for each in page.get("Uploads", [])]
        start = len(self.name(""))
        ours = [(name, upload) for name, upload in begun if mine(name[start:])]
        for name, upload in ours:
            with self.mapped(prefix, "s3:AbortMultipartUpload on the key"):
                self.client.abort_multipart_upload(Bucket=self.settings.bucket, Key=name, UploadId=upload)
        return len(ours)

    def _listed(self, prefix: str) -> "Iterator[ObjectTypeDef]":
        further: dict[str, Any] = {}
        while True:
            with self.mapped(prefix, "s3:ListBucket on the bucket"):
                page = self.client.list_objects_v2(Bucket=self.settings.bucket, Prefix=self.name(prefix), **further)
            yield from page.get("Contents", [])
            if not page.get("IsTruncated"):
                return
            if "NextContinuationToken" not in page:
                raise LakeDown(f"{self.at(prefix)}: the listing goes on, but does not say where")
            further = {"ContinuationToken": page["NextContinuationToken"]}

    @contextmanager
    def mapped(self, key: str, permission: str) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        try:
            yield
        except FOREIGN as error:
            raise lake_error(error, self.at(key), permission) from error


class NewObject:
    """One object on its way: bytes in their order, then it stands whole, or nothing does.

    Holds a few pieces in memory, however long it grows.
    """

    def __init__(self, lake: Lake, key: str) -> None:
        self.key = key
        self._lake = lake
        self._place: dict[str, Any] = {"Bucket": lake.settings.bucket, "Key": lake.name(key)}
        self._filling = bytearray()
        self._length = 0
        self._upload: str | None = None
        self._senders: ThreadPoolExecutor | None = None
        self._sent: list[Future[str]] = []

    def write(self, data: bytes, /) -> int:
        """Take bytes; waits while too many pieces are on their way.

        Raises:
            LakeDown, LakeUnfit: a piece could not be sent.
        """
        self._filling += data
        self._length += len(data)
        while len(self._filling) >= PIECE:
            self._send(bytes(memoryview(self._filling)[:PIECE]))
            del self._filling[:PIECE]
        return len(data)

    def finish(self) -> Stood:
        """Make the object stand.

        An unknown answer is settled by looking: the key is of this attempt alone, so
        that what stands there with this length is ours.

        Raises:
            LakeDown, LakeUnfit: it does not stand.
        """
        rest = bytes(self._filling)
        self._filling.clear()
        try:
            etag = self._put(rest) if self._upload is None else self._complete(rest)
        except HintedError:
            self.abort()
            raise
        finally:
            self._release()
        return Stood(etag=etag, bytes=self._length)

    def abort(self) -> None:
        """Leave nothing behind, as far as S3 lets us; what stays is swept by its age."""
        upload, self._upload = self._upload, None
        self._release()
        if upload is not None:
            try:
                self._lake.client.abort_multipart_upload(**self._place, UploadId=upload)
            except FOREIGN:
                return  # the error that led here is the one to tell

    def _send(self, piece: bytes) -> None:
        if self._upload is None:
            with self._mapped():
                self._upload = self._lake.client.create_multipart_upload(**self._place)["UploadId"]
            self._senders = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="upload")
        assert self._senders is not None
        if len(self._sent) >= IN_FLIGHT:
            self._wait(self._sent[-IN_FLIGHT])
        self._sent.append(self._senders.submit(self._send_one, self._upload, len(self._sent) + 1, piece))

    def _send_one(self, upload: str, number: int, piece: bytes) -> str:
        answer = self._lake.client.upload_part(**self._place, UploadId=upload, PartNumber=number, Body=piece)
        return answer["ETag"]

    def _wait(self, sent: Future[str]) -> str:
        with self._mapped():
            return sent.result()

    def _put(self, body: bytes) -> str:
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        try:
            with self._mapped():
                answer = self._lake.client.put_object(**self._place, Body=body, ContentMD5=digest, IfNoneMatch="*")
        except LakeDown as error:
            return self._look(error)
        return answer["ETag"]

    def _complete(self, rest: bytes) -> str:
        if rest:
            self._send(rest)
        parts = [{"ETag": self._wait(sent), "PartNumber": number} for number, sent in enumerate(self._sent, 1)]
        assert self._upload is not None
        try:
            with self._mapped():
                answer = self._lake.client.complete_multipart_upload(
                    **self._place,
                    UploadId=self._upload,
                    MultipartUpload={"Parts": cast("Any", parts)},
                    IfNoneMatch="*",
                )
        except LakeDown as error:
            return self._look(error)
        return answer["ETag"]

    def _look(self, error: LakeDown) -> str:
        """The tag of the object if it stands after all."""
        try:
            found = self._lake.client.head_object(**self._place)
        except FOREIGN:
            raise error from None
        if found.get("ContentLength") != self._length:
            raise error
        return found["ETag"]

    def _release(self) -> None:
        senders, self._senders = self._senders, None
        if senders is not None:
            senders.shutdown(cancel_futures=True)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        with self._lake.mapped(self.key, "s3:PutObject on the key"):
            yield


def lake_error(error: Exception, where: str, permission: str) -> HintedError:
    """What an error of the driver says about the lake."""
    if isinstance(error, boto.ClientError):
        told = error.response.get("Error", {})
        code, status = str(told.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"{where}: {status} {code}: {told.get('Message', '')}".rstrip(": ")
        if status == HTTPStatus.FORBIDDEN and code not in HINTS:
            return LakeUnfit(message, hint=f"Allow {permission}.", code=code)
        return _group(code)(message, hint=HINTS.get(code, NO_CONNECTION_HINT), code=code)
    message = f"{where}: {type(error).__name__}: {error}"
    if isinstance(error, CREDENTIALS):
        return LakeUnfit(message, hint=CREDENTIALS_HINT)
    if isinstance(error, UNSENDABLE):
        return LakeUnfit(message, hint="Mend the lake's address, its region or the profile in the environment.")
    return LakeDown(message, hint=NO_CONNECTION_HINT)


def _group(code: str) -> type[LakeDown] | type[LakeUnfit]:
    return LakeUnfit if code in _UNFIT else LakeDown
