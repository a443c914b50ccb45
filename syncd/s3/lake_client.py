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

from syncd.concurrency.response_monitor import ResponseMonitor
from syncd.errors import LakeDown, LakeUnfit
from syncd.lake.removal_records import ListedObject
from syncd.lake.window_reads import Part
from syncd.ports.request_stats import CallObserver, LakeRequested
from syncd.settings import LakeSettings
from watermarks.errors import HintedError
from watermarks.stores.s3 import (
    CREDENTIAL_ERRORS,
    CREDENTIALS_HINT,
    ERROR_CODE_HINTS,
    MISUSE_CODES,
    NO_CONNECTION_HINT,
    REQUEST_BUILD_ERRORS,
    S3_ERRORS,
    create_s3_client,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectTypeDef

PIECE_BYTES: Final = 8 << 20
"""How much is sent at once; S3 takes at most 10,000 pieces, and none but the last under 5 MiB."""
MAX_PIECES_IN_FLIGHT: Final = 2
"""How many pieces may be on their way; one more is being filled."""
MAX_CONNECTIONS: Final = 16
"""How many requests may be on their way at once, unless more are asked for."""
READ_ONLY_TIMEOUT_SECONDS: Final = 7.0
READ_ONLY_ATTEMPTS: Final = 3
"""Seconds that somebody who looks waits for an answer, and how often."""
MAX_KEYS_PER_DELETE: Final = 1000
"""How many keys S3 removes with one request."""

_ANSWERED_ERRORS: Final = (boto.ClientError, *CREDENTIAL_ERRORS, *REQUEST_BUILD_ERRORS)
"""What is no silence of the lake: it answered, or was not even asked."""
_REQUEST_NUMBER_KEY: Final = "syncd.asked"
"""What a request's context has the number of its question under."""
_PERMANENT_CODES: Final = frozenset(
    {
        *("NoSuchBucket", "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId"),
        *("SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "PermanentRedirect", "TemporaryRedirect"),
        *("AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "KMS.DisabledException"),
        *("RequestTimeTooSkewed", "MethodNotAllowed", "NotImplemented"),
        *MISUSE_CODES,
    }
)
"""What does not pass by itself."""


class RequestSkipped(boto.EndpointConnectionError):
    """A request that was not sent: of all errors its kind says for certain that nothing was done."""

    fmt = "{endpoint_url} kept silent a moment ago, and was not asked again so soon"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenObject:
    """An object that stands whole."""

    etag: str
    bytes: int


@dataclass(frozen=True, slots=True)
class S3Lake:
    """One bucket and prefix; keys are told without the prefix, as those of documents are."""

    settings: LakeSettings
    client: "S3Client"

    @classmethod
    def from_settings(cls, settings: LakeSettings, *, connections: int = MAX_CONNECTIONS) -> "S3Lake":
        """The lake with a client of its own; safe for several threads, each over one of so many connections.

        Raises:
            Misuse: no client can be built from the settings.
        """
        return cls(
            settings, create_s3_client(region=settings.region, endpoint=settings.endpoint, max_connections=connections)
        )

    @classmethod
    def for_read_only_commands(cls, settings: LakeSettings, *, connections: int = MAX_CONNECTIONS) -> "S3Lake":
        """The same for people who look, and wait: what does not answer is soon said to be away.

        Raises:
            Misuse: no client can be built from the settings.
        """
        return cls.from_settings_with_timeout(
            settings, timeout_seconds=READ_ONLY_TIMEOUT_SECONDS, attempts=READ_ONLY_ATTEMPTS, connections=connections
        )

    @classmethod
    def from_settings_with_timeout(
        cls, settings: LakeSettings, *, timeout_seconds: float, attempts: int, connections: int = MAX_CONNECTIONS
    ) -> "S3Lake":
        """The same in a hurry: no request waits longer for a connection or an answer, nor is sent oftener.

        Raises:
            Misuse: no client can be built from the settings.
        """
        client = create_s3_client(
            region=settings.region,
            endpoint=settings.endpoint,
            connect_timeout=timeout_seconds,
            read_timeout=timeout_seconds,
            max_attempts=attempts,
            max_connections=connections,
        )
        return cls(settings, client)

    def register_meter(self, meter: CallObserver) -> "S3Lake":
        """The same lake, of whose requests somebody keeps count, each attempt by itself."""

        def count(event_name: str, response_dict: Mapping[str, Any] | None = None, **_: object) -> None:
            status = response_dict.get("status_code", 0) if response_dict else 0
            meter(LakeRequested(operation=event_name.rpartition(".")[2], status=int(status)))

        self.client.meta.events.register("response-received.s3", count, unique_id="syncd.count")
        return self

    def register_monitor(self, monitor: ResponseMonitor) -> "S3Lake":
        """The same lake, with an eye on how long it takes to answer: one that kept silent is not asked for a while."""
        side = self.address_of("").rstrip("/")

        def begins(params: Mapping[str, Any], context: dict[str, Any], **_: object) -> None:
            if monitor.is_skipping(side):
                raise RequestSkipped(endpoint_url=params["url"], error="")
            context[_REQUEST_NUMBER_KEY] = monitor.begin_request(side)

        def ends(context: dict[str, Any], exception: Exception | None = None, **_: object) -> None:
            if (number := context.pop(_REQUEST_NUMBER_KEY, None)) is not None:
                monitor.end_request(number, succeeded=exception is None or isinstance(exception, _ANSWERED_ERRORS))

        events = self.client.meta.events
        events.register("before-call.s3", begins, unique_id="syncd.begins")
        events.register("after-call.s3", ends, unique_id="syncd.ends")
        events.register("after-call-error.s3", ends, unique_id="syncd.fails")
        return self

    def object_name(self, key: str) -> str:
        """The name of an object in the bucket."""
        prefix = self.settings.prefix.strip("/")
        return f"{prefix}/{key}" if prefix else key

    def address_of(self, key: str) -> str:
        return f"s3://{self.settings.bucket}/{self.object_name(key)}"

    def new_object(self, key: str) -> "ObjectUpload":
        """An object to be written at a key that no other attempt has."""
        return ObjectUpload(self, key)

    def put(self, key: str, body: bytes) -> WrittenObject:
        """Write an object that is at hand as a whole, at a key that nothing else has."""
        made = self.new_object(key)
        made.write(body)
        return made.finish()

    def read(self, key: str) -> bytes:
        """All of an object."""
        with self.map_errors(key, "s3:GetObject on the key"):
            return self.client.get_object(Bucket=self.settings.bucket, Key=self.object_name(key))["Body"].read()

    def read_range(self, key: str, first: int, end: int) -> bytes:
        """The bytes of an object from one place up to, not including, another."""
        with self.map_errors(key, "s3:GetObject on the key"):
            answer = self.client.get_object(
                Bucket=self.settings.bucket, Key=self.object_name(key), Range=f"bytes={first}-{end - 1}"
            )
            found = answer["Body"].read()
        if len(found) != end - first:
            raise LakeDown(f"{self.address_of(key)}: {len(found)} of {end - first} bytes came", hint=NO_CONNECTION_HINT)
        return found

    def has_part(self, part: Part) -> bool:
        """Whether a part stands as it was written, byte for byte.

        Its tag tells without reading it; where that is another one, as after a copy of the
        bucket, the bytes do.
        """
        place: Any = {"Bucket": self.settings.bucket, "Key": self.object_name(part.key)}
        with self.map_errors(part.key, "s3:GetObject on the key"):
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
            for piece in self.client.get_object(**place)["Body"].iter_chunks(PIECE_BYTES):
                digest.update(piece)
        return digest.hexdigest() == part.sha256

    def delete_objects(self, keys: Sequence[str]) -> None:
        """Remove objects; one that is gone already is removed."""
        for first in range(0, len(keys), MAX_KEYS_PER_DELETE):
            some = keys[first : first + MAX_KEYS_PER_DELETE]
            with self.map_errors(some[0], "s3:DeleteObject on the keys"):
                answer = self.client.delete_objects(
                    Bucket=self.settings.bucket,
                    Delete={"Objects": [{"Key": self.object_name(key)} for key in some], "Quiet": True},
                )
            if failed := answer.get("Errors"):
                one = failed[0]
                told = f"s3://{self.settings.bucket}/{one.get('Key')}: {one.get('Code')}: {one.get('Message')}"
                raise _error_class(str(one.get("Code")))(
                    told, hint="Allow s3:DeleteObject on the keys.", left=len(failed)
                )

    def list_objects(self, prefix: str) -> Sequence[tuple[str, datetime]]:
        """Every object below a prefix with the instant of its last change."""
        start = len(self.object_name(""))
        found = self._list_objects(prefix)
        return [(each["Key"][start:], each["LastModified"].astimezone(UTC)) for each in found]

    def list_objects_with_size(self, prefix: str) -> Sequence[ListedObject]:
        """Every object below a prefix, with its size and the instant of its last change."""
        start = len(self.object_name(""))
        found = self._list_objects(prefix)
        return [
            ListedObject(key=each["Key"][start:], bytes=each["Size"], at=each["LastModified"].astimezone(UTC))
            for each in found
        ]

    def list_files(self, prefix: str) -> Mapping[str, tuple[int, str]]:
        """Size and tag of every object below a prefix, a thousand with each request."""
        start = len(self.object_name(""))
        return {each["Key"][start:]: (each["Size"], each["ETag"]) for each in self._list_objects(prefix)}

    def abort_uploads(self, prefix: str, *, mine: Callable[[str], bool]) -> int:
        """Give up uploads that were begun below a prefix, at keys that are mine, and never finished; how many."""
        with self.map_errors(prefix, "s3:ListBucketMultipartUploads on the bucket"):
            pages = self.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.settings.bucket, Prefix=self.object_name(prefix)
            )
            begun = [(each["Key"], each["UploadId"]) for page in pages for each in page.get("Uploads", [])]
        start = len(self.object_name(""))
        ours = [(name, upload) for name, upload in begun if mine(name[start:])]
        for name, upload in ours:
            with self.map_errors(prefix, "s3:AbortMultipartUpload on the key"):
                self.client.abort_multipart_upload(Bucket=self.settings.bucket, Key=name, UploadId=upload)
        return len(ours)

    def _list_objects(self, prefix: str) -> "Iterator[ObjectTypeDef]":
        further: dict[str, Any] = {}
        while True:
            with self.map_errors(prefix, "s3:ListBucket on the bucket"):
                page = self.client.list_objects_v2(
                    Bucket=self.settings.bucket, Prefix=self.object_name(prefix), **further
                )
            yield from page.get("Contents", [])
            if not page.get("IsTruncated"):
                return
            if "NextContinuationToken" not in page:
                raise LakeDown(f"{self.address_of(prefix)}: the listing goes on, but does not say where")
            further = {"ContinuationToken": page["NextContinuationToken"]}

    @contextmanager
    def map_errors(self, key: str, permission: str) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        try:
            yield
        except S3_ERRORS as error:
            raise map_lake_error(error, self.address_of(key), permission) from error


class ObjectUpload:
    """One object on its way: bytes in their order, then it stands whole, or nothing does.

    Holds a few pieces in memory, however long it grows.
    """

    def __init__(self, lake: S3Lake, key: str) -> None:
        self.key = key
        self._lake = lake
        self._object_args: dict[str, Any] = {"Bucket": lake.settings.bucket, "Key": lake.object_name(key)}
        self._filling = bytearray()
        self._length = 0
        self._upload_id: str | None = None
        self._senders: ThreadPoolExecutor | None = None
        self._pieces: list[Future[str]] = []

    def write(self, data: bytes, /) -> int:
        """Take bytes; waits while too many pieces are on their way.

        Raises:
            LakeDown, LakeUnfit: a piece could not be sent.
        """
        self._filling += data
        self._length += len(data)
        while len(self._filling) >= PIECE_BYTES:
            self._send_piece(bytes(memoryview(self._filling)[:PIECE_BYTES]))
            del self._filling[:PIECE_BYTES]
        return len(data)

    def finish(self) -> WrittenObject:
        """Make the object stand.

        An unknown answer is settled by looking: the key is of this attempt alone, so
        that what stands there with this length is ours.

        Raises:
            LakeDown, LakeUnfit: it does not stand.
        """
        rest = bytes(self._filling)
        self._filling.clear()
        try:
            etag = self._put_whole(rest) if self._upload_id is None else self._complete(rest)
        except HintedError:
            self.abort()
            raise
        finally:
            self._stop_senders()
        return WrittenObject(etag=etag, bytes=self._length)

    def abort(self) -> None:
        """Leave nothing behind, as far as S3 lets us; what stays is swept by its age."""
        upload, self._upload_id = self._upload_id, None
        self._stop_senders()
        if upload is not None:
            try:
                self._lake.client.abort_multipart_upload(**self._object_args, UploadId=upload)
            except S3_ERRORS:
                return  # the error that led here is the one to tell

    def _send_piece(self, piece: bytes) -> None:
        if self._upload_id is None:
            with self._map_errors():
                self._upload_id = self._lake.client.create_multipart_upload(**self._object_args)["UploadId"]
            self._senders = ThreadPoolExecutor(MAX_PIECES_IN_FLIGHT, thread_name_prefix="upload")
        assert self._senders is not None
        if len(self._pieces) >= MAX_PIECES_IN_FLIGHT:
            self._wait_for_piece(self._pieces[-MAX_PIECES_IN_FLIGHT])
        self._pieces.append(self._senders.submit(self._upload_piece, self._upload_id, len(self._pieces) + 1, piece))

    def _upload_piece(self, upload: str, number: int, piece: bytes) -> str:
        answer = self._lake.client.upload_part(**self._object_args, UploadId=upload, PartNumber=number, Body=piece)
        return answer["ETag"]

    def _wait_for_piece(self, sent: Future[str]) -> str:
        with self._map_errors():
            return sent.result()

    def _put_whole(self, body: bytes) -> str:
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        try:
            with self._map_errors():
                answer = self._lake.client.put_object(
                    **self._object_args, Body=body, ContentMD5=digest, IfNoneMatch="*"
                )
        except LakeDown as error:
            return self._confirm_stored(error)
        return answer["ETag"]

    def _complete(self, rest: bytes) -> str:
        if rest:
            self._send_piece(rest)
        parts = [
            {"ETag": self._wait_for_piece(sent), "PartNumber": number} for number, sent in enumerate(self._pieces, 1)
        ]
        assert self._upload_id is not None
        try:
            with self._map_errors():
                answer = self._lake.client.complete_multipart_upload(
                    **self._object_args,
                    UploadId=self._upload_id,
                    MultipartUpload={"Parts": cast("Any", parts)},
                    IfNoneMatch="*",
                )
        except LakeDown as error:
            return self._confirm_stored(error)
        return answer["ETag"]

    def _confirm_stored(self, error: LakeDown) -> str:
        """The tag of the object if it stands after all."""
        try:
            found = self._lake.client.head_object(**self._object_args)
        except S3_ERRORS:
            raise error from None
        if found.get("ContentLength") != self._length:
            raise error
        return found["ETag"]

    def _stop_senders(self) -> None:
        senders, self._senders = self._senders, None
        if senders is not None:
            senders.shutdown(cancel_futures=True)

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        with self._lake.map_errors(self.key, "s3:PutObject on the key"):
            yield


def map_lake_error(error: Exception, where: str, permission: str) -> HintedError:
    """What an error of the driver says about the lake."""
    if isinstance(error, boto.ClientError):
        told = error.response.get("Error", {})
        code, status = str(told.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"{where}: {status} {code}: {told.get('Message', '')}".rstrip(": ")
        if status == HTTPStatus.FORBIDDEN and code not in ERROR_CODE_HINTS:
            return LakeUnfit(message, hint=f"Allow {permission}.", code=code)
        return _error_class(code)(message, hint=ERROR_CODE_HINTS.get(code, NO_CONNECTION_HINT), code=code)
    message = f"{where}: {type(error).__name__}: {error}"
    if isinstance(error, CREDENTIAL_ERRORS):
        return LakeUnfit(message, hint=CREDENTIALS_HINT)
    if isinstance(error, REQUEST_BUILD_ERRORS):
        return LakeUnfit(message, hint="Mend the lake's address, its region or the profile in the environment.")
    return LakeDown(message, hint=NO_CONNECTION_HINT)


def _error_class(code: str) -> type[LakeDown] | type[LakeUnfit]:
    return LakeUnfit if code in _PERMANENT_CODES else LakeDown
