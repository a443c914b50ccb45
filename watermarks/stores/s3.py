"""Store on S3, or on a server with the S3 protocol that honours conditional writes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import botocore.session  # not boto3, which loads a library for transfers that is not needed here
from botocore import exceptions as boto
from botocore.config import Config
from botocore.parsers import ResponseParserError
from botocore.utils import parse_timestamp
from urllib3.exceptions import HTTPError  # a part of botocore, which lets some of them through while a body is read

from watermarks.errors import AlreadyExists, HintedError, Misuse, OutcomeUnknown, StaleRevision, StoreUnavailable
from watermarks.store import Revision, StoredObject, can_start_key, check_key, is_key

if TYPE_CHECKING:
    from collections.abc import Generator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

S3_ERRORS: Final = (boto.BotoCoreError, boto.ClientError, ResponseParserError, HTTPError, OSError)
"""All errors of boto3 in a request to S3."""

CONNECT_ERRORS: Final = (boto.EndpointConnectionError, boto.ConnectTimeoutError)
"""No connection was made, so no request was sent over it."""

CREDENTIAL_ERRORS: Final = (
    boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError,
    boto.UnknownCredentialError, boto.NoAuthTokenError, boto.TokenRetrievalError, boto.UnknownTokenProviderError,
    boto.RefreshWithMFAUnsupportedError, boto.MetadataRetrievalError, boto.SSOError,
    getattr(boto, "LoginError", boto.SSOError),  # newer than the oldest supported boto3
)  # fmt: skip
"""The request could not be signed, so it was not sent."""

REQUEST_BUILD_ERRORS: Final = (
    boto.ValidationError, boto.ParamValidationError, boto.MissingParametersError, boto.UnknownParameterError,
    boto.BaseEndpointResolverError, boto.EndpointProviderError, boto.InvalidRegionError, boto.InvalidConfigError,
    boto.ConfigNotFound, boto.ConfigParseError, boto.ProfileNotFound, boto.InvalidDNSNameError,
    boto.InvalidHostLabelError, boto.InvalidS3AddressingStyleError, boto.UnsupportedS3ArnError,
    boto.UnsupportedS3AccesspointConfigurationError, boto.UnsupportedS3ConfigurationError,
    boto.UnknownSignatureVersionError, boto.UnsupportedSignatureVersionError, boto.MissingDependencyException,
)  # fmt: skip
"""The request could not be built from its settings, so it was not sent."""

NO_CONNECTION_HINT: Final = "Check the endpoint, and that it is reachable from this machine."
CREDENTIALS_HINT: Final = "Check the credentials of this process: aws sts get-caller-identity"
REGION_HINT: Final = "The bucket is in another region: configure that region."
UNKNOWN_HINT: Final = "The object may or may not exist: read it before writing it again."
ERROR_CODE_HINTS: Final[Mapping[str, str]] = {
    "NoSuchBucket": "Create the bucket, or correct its name; a missing bucket never counts as an empty one.",
    "InvalidAccessKeyId": CREDENTIALS_HINT,
    "SignatureDoesNotMatch": "Check the secret key, and whether a proxy changes requests after they are signed.",
    "ExpiredToken": CREDENTIALS_HINT,
    "InvalidToken": CREDENTIALS_HINT,
    "TokenRefreshRequired": CREDENTIALS_HINT,
    "RequestTimeTooSkewed": "Set the clock of this machine. See: timedatectl",
    "PermanentRedirect": REGION_HINT,
    "TemporaryRedirect": REGION_HINT,
    "AuthorizationHeaderMalformed": REGION_HINT,
    "IllegalLocationConstraintException": REGION_HINT,
    "InvalidObjectState": "The object was moved to an archive: restore it, and keep documents out of lifecycle rules.",
    "SlowDown": "S3 asks for fewer requests: try again later.",
}
MISUSE_CODES: Final = frozenset(
    {"KeyTooLongError", "InvalidURI", "InvalidBucketName", "EntityTooLarge", "XMinioInvalidObjectName"}
)
REFUSAL_STATUSES: Final = {*range(300, 500), HTTPStatus.NOT_IMPLEMENTED} - {HTTPStatus.REQUEST_TIMEOUT}
"""Answers after which a write was certainly not applied."""

CONFLICT_CODES: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})
CONFLICT_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4)
"""Seconds before each further attempt after a conflict."""

PERMISSIONS: Final = {
    "reading": "s3:GetObject on the key and s3:ListBucket on the bucket (without it a missing key answers 403 too)",
    "writing": "s3:PutObject on the key (and s3:GetObject, which If-Match needs)",
    "listing": "s3:ListBucket on the bucket",
}
StoreAction = Literal["reading", "writing", "listing"]


def parse_s3_instant(value: str | float) -> datetime:
    """Parse an instant in one of the two forms of S3; leave others to botocore's own parser, which is slow."""
    if not isinstance(value, str):
        return parse_timestamp(value)  # type: ignore[arg-type]  # its stubs only know texts
    try:
        instant = datetime.fromisoformat(value) if value[:1].isdigit() else parsedate_to_datetime(value)
    except ValueError:
        return parse_timestamp(value)
    return instant if instant.tzinfo else parse_timestamp(value)


def create_s3_client(
    *,
    region: str | None = None,
    endpoint: str | None = None,
    connect_timeout: float = 5,
    read_timeout: float = 30,
    max_attempts: int = 4,
    max_connections: int = 16,
) -> "S3Client":
    """Return an S3 client with a timeout for every wait and credentials from the default chain of AWS.

    A server given by `endpoint` is addressed by path. It gets no trailing
    checksums, which many do not support, but the signature covers the body, so
    that it refuses a damaged one.

    Raises:
        Misuse: no client can be built from these settings.
    """
    config = Config(
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
        retries={"mode": "standard", "total_max_attempts": max_attempts},
        max_pool_connections=max_connections,
        tcp_keepalive=True,
    )
    if endpoint is not None:
        config = config.merge(
            Config(
                s3={"addressing_style": "path", "payload_signing_enabled": True},
                request_checksum_calculation="when_required",
            )
        )
    try:
        # A separate session: sessions are not thread-safe, their clients are.
        session = botocore.session.Session()
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_s3_instant)
        client = session.create_client("s3", region_name=region, endpoint_url=endpoint, config=config)
    except (boto.BotoCoreError, ValueError) as error:
        raise Misuse(f"cannot create an S3 client: {error}", hint="Check region, endpoint and AWS_PROFILE.") from error
    return cast("S3Client", client)


class S3Store:
    """Documents as objects under a prefix of one bucket; a revision is the object's ETag.

    botocore may repeat a write that was already applied, and then returns the
    answer to the second one: a 412 that may mean this very write, or an error that
    says nothing about the first. The store records every attempt, and never reports
    a write as not done if one attempt may have been applied.

    Equal content would have an equal ETag, but every document carries its own
    number, so none repeats.
    """

    def __init__(
        self, client: "S3Client", *, bucket: str, prefix: str = "", pause: Callable[[float], None] = time.sleep
    ) -> None:
        if prefix := prefix.strip("/"):
            check_key(prefix)
            prefix += "/"
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._pause = pause
        client.meta.events.register("needs-retry.s3.PutObject", _on_attempt, unique_id="watermarks.note-attempt")

    def __repr__(self) -> str:
        return f"S3Store(s3://{self._bucket}/{self._prefix})"

    def read(self, key: str) -> StoredObject | None:
        name = self._object_key(key)
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=name)
            with closing(answer["Body"]) as stream:
                body = stream.read()
        except S3_ERRORS as error:
            if _error_code(error) == "NoSuchKey":
                return None
            raise self._map_unchanged_error(error, key, "reading") from error
        if not _has_fields(answer, "ETag", "ContentLength"):
            raise StoreUnavailable(f"{self._url_of(key)}: answer without ETag or length", hint=NO_CONNECTION_HINT)
        return StoredObject(body=body, revision=Revision(answer["ETag"]))

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        name = self._object_key(key)
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}
        with _track_attempts() as sent:
            for pause in (*CONFLICT_PAUSES_SECONDS, None):
                try:
                    answer = self._client.put_object(
                        Bucket=self._bucket, Key=name, Body=body, ContentType="application/json", **condition
                    )
                except S3_ERRORS as error:
                    # S3 asks to repeat a write that met another one. The condition is sent again: if the
                    # other write won, the next answer is a 412.
                    if _error_code(error) in CONFLICT_CODES and pause is not None:
                        self._pause(pause)
                        continue
                    raise self._map_write_error(error, key, expected, sent) from error
                if _has_fields(answer, "ETag"):
                    return Revision(answer["ETag"])
                break
        raise OutcomeUnknown(f"{self._url_of(key)}: written, but the answer has no ETag", hint=UNKNOWN_HINT, key=key)

    def list(self, prefix: str) -> Iterator[str]:
        if not can_start_key(prefix):
            return
        last = ""
        for page in self._pages(prefix):
            for entry in page.get("Contents", []):
                name = entry["Key"]
                if name <= last:
                    raise StoreUnavailable(
                        f"{self._url_of(prefix)}: listed {name!r} after {last!r}",
                        hint="This endpoint, like a directory bucket, does not list keys in the order of code"
                        " points: use another one.",
                    )
                last = name
                key = name.removeprefix(self._prefix)
                # A folder made by the S3 console ends in a slash, and is no key.
                if name.startswith(self._prefix + prefix) and is_key(key):
                    yield key

    def _pages(self, prefix: str) -> "Generator[ListObjectsV2OutputTypeDef]":
        # Not botocore's paginator, which takes a page without a token for the last one.
        page = self._page(prefix, {})
        while page["IsTruncated"]:
            yield page
            if not _has_fields(page, "NextContinuationToken"):
                raise StoreUnavailable(
                    f"{self._url_of(prefix)}: the listing is truncated, but has no continuation token"
                )
            page = self._page(prefix, {"ContinuationToken": page["NextContinuationToken"]})
        yield page

    def _page(self, prefix: str, further: dict[str, Any]) -> "ListObjectsV2OutputTypeDef":
        try:
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **further)
        except S3_ERRORS as error:
            raise self._map_unchanged_error(error, prefix, "listing") from error
        if not _has_fields(page, "IsTruncated"):
            raise StoreUnavailable(f"{self._url_of(prefix)}: a listing does not say whether it is truncated")
        return page

    def _object_key(self, key: str) -> str:
        check_key(key)
        name = self._prefix + key
        check_key(name)
        return name

    def _url_of(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def _map_write_error(
        self, error: Exception, key: str, expected: Revision | None, sent: "_WriteAttempts"
    ) -> HintedError:
        if expected is None and _http_status(error) == HTTPStatus.PRECONDITION_FAILED:
            return AlreadyExists(f"{self._url_of(key)} exists", key=key)
        if expected is not None and (
            _http_status(error) == HTTPStatus.PRECONDITION_FAILED or _error_code(error) == "NoSuchKey"
        ):
            return StaleRevision(f"{self._url_of(key)} was changed or removed since it was read", key=key)
        if sent.may_be_applied or _may_be_applied(error):
            return OutcomeUnknown(
                f"{self._url_of(key)}: {_describe_error(error)}",
                hint=_hint_for(error, UNKNOWN_HINT),
                **_error_facts(error),
            )
        if _http_status(error) == HTTPStatus.NOT_IMPLEMENTED:
            return Misuse(
                f"{self._url_of(key)}: {_describe_error(error)}",
                hint="This endpoint does not honour conditional writes (If-Match, If-None-Match): use one that does.",
                **_error_facts(error),
            )
        return self._map_unchanged_error(error, key, "writing")

    def _map_unchanged_error(self, error: Exception, key: str, action: StoreAction) -> HintedError:
        """Map an error of a request that changed nothing."""
        where, facts = f"{self._url_of(key)}: {_describe_error(error)}", _error_facts(error)
        if isinstance(error, REQUEST_BUILD_ERRORS) or _error_code(error) in MISUSE_CODES:
            return Misuse(where, hint="Correct the key, the bucket or the settings of the client.", **facts)
        if _http_status(error) == HTTPStatus.FORBIDDEN and _error_code(error) not in ERROR_CODE_HINTS:
            return StoreUnavailable(where, hint=f"Allow {PERMISSIONS[action]}.", **facts)
        return StoreUnavailable(where, hint=_hint_for(error, NO_CONNECTION_HINT), **facts)


@dataclass(slots=True)
class _WriteAttempts:
    """Outcome of all attempts of one write."""

    may_be_applied: bool = False


_current: ContextVar[_WriteAttempts | None] = ContextVar("watermarks.stores.s3.sent", default=None)


@contextmanager
def _track_attempts() -> "Generator[_WriteAttempts]":
    sent = _WriteAttempts()
    token = _current.set(sent)
    try:
        yield sent
    finally:
        _current.reset(token)


def _on_attempt(*, response: tuple[Any, object] | None, caught_exception: Exception | None, **_: object) -> None:
    """Record the outcome of one attempt, when botocore is about to decide on a repetition."""
    sent = _current.get()
    if sent is None:
        return
    if caught_exception is not None:
        sent.may_be_applied |= _may_be_applied(caught_exception)
    elif response is not None and response[0].status_code != HTTPStatus.OK:
        sent.may_be_applied |= response[0].status_code not in REFUSAL_STATUSES


def _may_be_applied(error: Exception) -> bool:
    """Return True if a write with this error may have been applied, or may be applied later.

    503 SlowDown counts: S3 refuses before it writes, but MinIO gives the same
    answer after writing to fewer disks than it needs.
    """
    if isinstance(error, boto.ClientError):
        return _http_status(error) not in REFUSAL_STATUSES
    return not isinstance(error, (*CONNECT_ERRORS, *CREDENTIAL_ERRORS, *REQUEST_BUILD_ERRORS))


def _has_fields(answer: Mapping[str, object], *names: str) -> bool:
    """Return True if an answer has these fields, which S3 always sends and a proxy may lose."""
    return all(name in answer for name in names)


def _error_code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def _http_status(error: Exception) -> int:
    if not isinstance(error, boto.ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _describe_error(error: Exception) -> str:
    if not isinstance(error, boto.ClientError):
        return f"{type(error).__name__}: {error}"
    message = error.response.get("Error", {}).get("Message", "")
    return f"{_http_status(error)} {_error_code(error)}: {message}".rstrip(": ")


def _hint_for(error: Exception, otherwise: str) -> str:
    if isinstance(error, CREDENTIAL_ERRORS):
        return CREDENTIALS_HINT
    if isinstance(error, boto.SSLError):
        return "Make this machine trust the certificate of the endpoint: AWS_CA_BUNDLE names a file of authorities."
    return ERROR_CODE_HINTS.get(_error_code(error), otherwise)


def _error_facts(error: Exception) -> dict[str, object]:
    if not isinstance(error, boto.ClientError):
        return {}
    request = error.response.get("ResponseMetadata", {}).get("RequestId", "")
    return {"code": _error_code(error), "status": _http_status(error), "request": request}
