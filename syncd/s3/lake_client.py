"""S3 client of the lake: objects that are written once, in pieces, and listed, read and deleted."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from botocore import exceptions as boto

from syncd.concurrency.response_monitor import ResponseMonitor
from syncd.errors import LakeDown, LakeUnfit
from syncd.lake.read_requests import Part
from syncd.lake.removal_records import ListedObject
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
    from mypy_boto3_s3.type_defs import (
        CompleteMultipartUploadOutputTypeDef,
        ErrorTypeDef,
        ObjectIdentifierTypeDef,
        PutObjectOutputTypeDef,
    )

PIECE_BYTES: Final = 8 << 20
"""Size of one upload request; S3 takes at most 10,000 pieces, and only the last may be under 5 MiB."""
MAX_PIECES_IN_FLIGHT: Final = 2
"""Upload requests of one object at a time; one more piece is being filled."""
MAX_CONNECTIONS: Final = 16
"""Connections of one client, unless the caller asks for more."""
READ_ONLY_TIMEOUT_SECONDS: Final = 7.0
READ_ONLY_ATTEMPTS: Final = 3
"""How often a read-only command sends a request."""
MAX_KEYS_PER_DELETE: Final = 1000
"""Limit of S3 for one request."""

_ANSWERED_ERRORS: Final = (boto.ClientError, *CREDENTIAL_ERRORS, *REQUEST_BUILD_ERRORS)
"""Errors that do not count as silence: the lake answered, or no request was sent."""
_REQUEST_NUMBER_KEY: Final = "syncd.asked"
"""Key of the monitor's request number in the context of a request."""
_PERMANENT_CODES: Final = frozenset(
    {
        *("NoSuchBucket", "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId"),
        *("SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "PermanentRedirect", "TemporaryRedirect"),
        *("AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "KMS.DisabledException"),
        *("RequestTimeTooSkewed", "MethodNotAllowed", "NotImplemented"),
        *MISUSE_CODES,
    }
)
"""Codes that no retry mends."""


class RequestSkipped(boto.EndpointConnectionError):
    """A request that was not sent. A connection error says for certain that nothing was done."""

    fmt = "{endpoint_url} gave no answer a moment ago; the request was not sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenObject:
    """An object that is stored completely."""

    etag: str
    bytes: int


@dataclass(frozen=True, slots=True)
class S3Lake:
    """One bucket and prefix; keys are without the prefix, like the keys of documents."""

    settings: LakeSettings
    client: "S3Client"

    @classmethod
    def from_settings(cls, settings: LakeSettings, *, connections: int = MAX_CONNECTIONS) -> "S3Lake":
        """Return the lake with a client of its own, which threads may share. It retries through outages of two minutes.

        Raises:
            Misuse: no client can be built from the settings.
        """
        return cls(
            settings, create_s3_client(region=settings.region, endpoint=settings.endpoint, max_connections=connections)
        )

    @classmethod
    def for_read_only_commands(cls, settings: LakeSettings, *, connections: int = MAX_CONNECTIONS) -> "S3Lake":
        """Return the lake with a client that fails fast.

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
        """Return the lake with a client whose requests wait this long, and are sent this often.

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
        """Report each attempt of each request to the meter; return the same lake."""

        def count(event_name: str, response_dict: Mapping[str, Any] | None = None, **_: object) -> None:
            status = response_dict.get("status_code", 0) if response_dict else 0
            meter(LakeRequested(operation=event_name.rpartition(".")[2], status=int(status)))

        self.client.meta.events.register("response-received.s3", count, unique_id="syncd.count")
        return self

    def register_monitor(self, monitor: ResponseMonitor) -> "S3Lake":
        """Skip requests while the monitor takes the lake for silent; return the same lake."""
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
        """Return the name of an object in the bucket."""
        prefix = self.settings.prefix.strip("/")
        return f"{prefix}/{key}" if prefix else key

    def key_of(self, object_name: str) -> str:
        """Return the key of an object by its name in the bucket."""
        return object_name[len(self.object_name("")) :]

    def address_of(self, key: str) -> str:
        return f"s3://{self.settings.bucket}/{self.object_name(key)}"

    def new_object(self, key: str) -> "ObjectUpload":
        """Begin an object at a key that no other attempt writes."""
        return ObjectUpload(self, key)

    def put(self, key: str, body: bytes) -> WrittenObject:
        """Write a whole object at a key that does not exist yet."""
        made = self.new_object(key)
        made.write(body)
        return made.finish()

    def read(self, key: str) -> bytes:
        with self.map_errors(key, "s3:GetObject on the key"):
            return self.client.get_object(Bucket=self.settings.bucket, Key=self.object_name(key))["Body"].read()

    def read_range(self, key: str, first: int, end: int) -> bytes:
        """Read the bytes of an object from `first` up to, but not including, `end`."""
        with self.map_errors(key, "s3:GetObject on the key"):
            answer = self.client.get_object(
                Bucket=self.settings.bucket, Key=self.object_name(key), Range=f"bytes={first}-{end - 1}"
            )
            found = answer["Body"].read()
        if len(found) != end - first:
            raise LakeDown(
                f"{self.address_of(key)}: received {len(found)} of {end - first} bytes", hint=NO_CONNECTION_HINT
            )
        return found

    def has_part(self, part: Part) -> bool:
        """Return whether a part is stored as it was written, byte for byte.

        Its ETag tells without reading it; where that differs, as after a copy of the bucket, the bytes are compared.
        """
        location: Any = {"Bucket": self.settings.bucket, "Key": self.object_name(part.key)}
        with self.map_errors(part.key, "s3:GetObject on the key"):
            try:
                found = self.client.head_object(**location)
            except boto.ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == HTTPStatus.NOT_FOUND:
                    return False
                raise
            if found["ContentLength"] != part.bytes:
                return False
            if found["ETag"] == part.etag:
                return True
            digest = hashlib.sha256()
            for piece in self.client.get_object(**location)["Body"].iter_chunks(PIECE_BYTES):
                digest.update(piece)
        return digest.hexdigest() == part.sha256

    def delete_objects(self, keys: Sequence[str]) -> None:
        """Delete objects; an object that does not exist counts as deleted."""
        for refusals in self.delete_in_chunks([{"Key": self.object_name(key)} for key in keys], "s3:DeleteObject"):
            if refusals:
                first = refusals[0]
                raise _error_class(str(first.get("Code")))(
                    f"s3://{self.settings.bucket}/{first.get('Key')}: {first.get('Code')}: {first.get('Message')}",
                    hint="Allow s3:DeleteObject on the keys.",
                    left=len(refusals),
                )

    def delete_in_chunks(
        self, objects: "Sequence[ObjectIdentifierTypeDef]", permission: str
    ) -> "Iterator[list[ErrorTypeDef]]":
        """Delete objects or versions by their names in the bucket; yield the refusals of each request."""
        for first in range(0, len(objects), MAX_KEYS_PER_DELETE):
            chunk = objects[first : first + MAX_KEYS_PER_DELETE]
            with self.map_errors(self.key_of(chunk[0]["Key"]), f"{permission} on the keys"):
                answer = self.client.delete_objects(
                    Bucket=self.settings.bucket, Delete={"Objects": chunk, "Quiet": True}
                )
            yield answer.get("Errors", [])

    def list_objects(self, prefix: str) -> Sequence[ListedObject]:
        """List every object below a prefix."""
        permission, markers = "s3:ListBucket on the bucket", {"ContinuationToken": "NextContinuationToken"}
        return [
            ListedObject(
                key=self.key_of(found["Key"]),
                bytes=found["Size"],
                at=found["LastModified"].astimezone(UTC),
                etag=found["ETag"],
            )
            for page in self.iter_pages(self.client.list_objects_v2, prefix, permission, markers)
            for found in page.get("Contents", [])
        ]

    def iter_pages(
        self, request: Callable[..., Any], prefix: str, permission: str, markers: Mapping[str, str]
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the pages of a listing; `markers` maps the arguments of the next request to fields of the last page."""
        further: dict[str, str] = {}
        while True:
            with self.map_errors(prefix, permission):
                page = request(Bucket=self.settings.bucket, Prefix=self.object_name(prefix), **further)
            yield page
            if not page.get("IsTruncated"):
                return
            if next(iter(markers.values())) not in page:
                raise LakeDown(f"{self.address_of(prefix)}: a listing is truncated, but has no marker of its next page")
            further = {argument: page.get(name, "") for argument, name in markers.items()}

    def abort_uploads(self, prefix: str, *, mine: Callable[[str], bool]) -> int:
        """Abort unfinished uploads below a prefix, at keys that are `mine`; return their number."""
        with self.map_errors(prefix, "s3:ListBucketMultipartUploads on the bucket"):
            pages = self.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.settings.bucket, Prefix=self.object_name(prefix)
            )
            begun = [(each["Key"], each["UploadId"]) for page in pages for each in page.get("Uploads", [])]
        ours = [(name, upload) for name, upload in begun if mine(self.key_of(name))]
        for name, upload in ours:
            with self.map_errors(prefix, "s3:AbortMultipartUpload on the key"):
                self.client.abort_multipart_upload(Bucket=self.settings.bucket, Key=name, UploadId=upload)
        return len(ours)

    @contextmanager
    def map_errors(self, key: str, permission: str) -> Iterator[None]:
        """Map errors of the driver; `permission` is named if the lake refuses access."""
        try:
            yield
        except S3_ERRORS as error:
            raise map_lake_error(error, self.address_of(key), permission) from error


class ObjectUpload:
    """Upload of one object: either all of its bytes are stored, or nothing is.

    It holds a few pieces in memory, whatever the object's size.
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
        """Add bytes; wait while too many pieces are being sent.

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
        """Store the object.

        An unknown outcome is settled by reading the object's head: only this attempt writes the key, so
        that an object of this length is this one.

        Raises:
            LakeDown, LakeUnfit: it is not stored.
        """
        rest = bytes(self._filling)
        self._filling.clear()
        try:
            store = self._put_request(rest) if self._upload_id is None else self._completion_request(rest)
            try:
                with self._map_errors():
                    etag = store()["ETag"]
            except LakeDown as error:
                etag = self._confirm_stored(error)
        except HintedError:
            self.abort()
            raise
        finally:
            self._stop_senders()
        return WrittenObject(etag=etag, bytes=self._length)

    def abort(self) -> None:
        """Abort the upload, as far as S3 lets us; pieces that stay are removed by the bucket's own rule."""
        upload, self._upload_id = self._upload_id, None
        self._stop_senders()
        if upload is not None:
            try:
                self._lake.client.abort_multipart_upload(**self._object_args, UploadId=upload)
            except S3_ERRORS:
                return  # the caller has an error already

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

    def _put_request(self, body: bytes) -> "Callable[[], PutObjectOutputTypeDef]":
        """Return the request that stores the object in one piece."""
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        return partial(self._lake.client.put_object, **self._object_args, Body=body, ContentMD5=digest, IfNoneMatch="*")

    def _completion_request(self, rest: bytes) -> "Callable[[], CompleteMultipartUploadOutputTypeDef]":
        """Send the rest and wait for all pieces; return the request that makes them one object."""
        if rest:
            self._send_piece(rest)
        parts = [
            {"ETag": self._wait_for_piece(sent), "PartNumber": number} for number, sent in enumerate(self._pieces, 1)
        ]
        assert self._upload_id is not None
        return partial(
            self._lake.client.complete_multipart_upload,
            **self._object_args,
            UploadId=self._upload_id,
            MultipartUpload={"Parts": cast("Any", parts)},
            IfNoneMatch="*",
        )

    def _confirm_stored(self, error: LakeDown) -> str:
        """Return the ETag of the object if it is stored after all."""
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
    """Return the error of syncd for an error of the driver."""
    if isinstance(error, boto.ClientError):
        answer = error.response.get("Error", {})
        code, status = str(answer.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        message = f"{where}: {status} {code}: {answer.get('Message', '')}".rstrip(": ")
        if status == HTTPStatus.FORBIDDEN and code not in ERROR_CODE_HINTS:
            return LakeUnfit(message, hint=f"Allow {permission}.", code=code)
        return _error_class(code)(message, hint=ERROR_CODE_HINTS.get(code, NO_CONNECTION_HINT), code=code)
    message = f"{where}: {type(error).__name__}: {error}"
    if isinstance(error, CREDENTIAL_ERRORS):
        return LakeUnfit(message, hint=CREDENTIALS_HINT)
    if isinstance(error, REQUEST_BUILD_ERRORS):
        return LakeUnfit(message, hint="Correct the lake's address, its region or the profile in the environment.")
    return LakeDown(message, hint=NO_CONNECTION_HINT)


def _error_class(code: str) -> type[LakeDown] | type[LakeUnfit]:
    return LakeUnfit if code in _PERMANENT_CODES else LakeDown
