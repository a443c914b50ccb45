"""The store on S3, or on a server that speaks S3 and honours conditional writes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import botocore.session  # without boto3 around it, which loads a library of transfers that nothing here uses
from botocore import exceptions as boto
from botocore.config import Config
from botocore.parsers import ResponseParserError
from botocore.utils import parse_timestamp
from urllib3.exceptions import HTTPError  # comes with botocore, which lets some of them through while a body is read

from watermarks.errors import AlreadyExists, HintedError, Misuse, OutcomeUnknown, Stale, StaleRevision, StoreUnavailable
from watermarks.store import Revision, Stored
from watermarks.stores.keys import check_key, is_key, may_start_key

if TYPE_CHECKING:
    from collections.abc import Generator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

FOREIGN: Final = (boto.BotoCoreError, boto.ClientError, ResponseParserError, HTTPError, OSError)
"""All that boto3 raises while it speaks to S3."""

UNSENT: Final = (boto.EndpointConnectionError, boto.ConnectTimeoutError)
"""No connection was made, so no request was sent over it."""

CREDENTIALS: Final = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.UnknownCredentialError,
    boto.NoAuthTokenError,
    boto.TokenRetrievalError,
    boto.UnknownTokenProviderError,
    boto.RefreshWithMFAUnsupportedError,
    boto.MetadataRetrievalError,
    boto.SSOError,
    getattr(boto, "LoginError", boto.SSOError),  # newer than the oldest boto3 that will do
)
"""The request could not be signed, so it was not sent."""

UNSENDABLE: Final = (
    boto.ValidationError,
    boto.ParamValidationError,
    boto.MissingParametersError,
    boto.UnknownParameterError,
    boto.BaseEndpointResolverError,
    boto.EndpointProviderError,
    boto.InvalidRegionError,
    boto.InvalidConfigError,
    boto.ConfigNotFound,
    boto.ConfigParseError,
    boto.ProfileNotFound,
    boto.InvalidDNSNameError,
    boto.InvalidHostLabelError,
    boto.InvalidS3AddressingStyleError,
    boto.UnsupportedS3ArnError,
    boto.UnsupportedS3AccesspointConfigurationError,
    boto.UnsupportedS3ConfigurationError,
    boto.UnknownSignatureVersionError,
    boto.UnsupportedSignatureVersionError,
    boto.MissingDependencyException,
)
"""The request could not be built from its settings, so it was not sent."""

NO_CONNECTION_HINT: Final = "Is the endpoint right, and is there a way to it from this machine?"
CREDENTIALS_HINT: Final = "Who does AWS say that this process is? See: aws sts get-caller-identity"
REGION_HINT: Final = "The bucket is in another region: name its own."
UNKNOWN_HINT: Final = "It may stand there or not: read it before writing again."
HINTS: Final[Mapping[str, str]] = {
    "NoSuchBucket": "Make the bucket, or mend its name; a missing bucket is never taken for an empty one.",
    "InvalidAccessKeyId": CREDENTIALS_HINT,
    "SignatureDoesNotMatch": "Is the secret key right? Some proxies change a request after it was signed.",
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
MISUSES: Final = frozenset(
    {"KeyTooLongError", "InvalidURI", "InvalidBucketName", "EntityTooLarge", "XMinioInvalidObjectName"}
)
REFUSALS: Final = {*range(300, 500), HTTPStatus.NOT_IMPLEMENTED} - {HTTPStatus.REQUEST_TIMEOUT}
"""The answers after which a write was certainly not applied."""

CONFLICTS: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})
CONFLICT_PAUSES: Final = (0.05, 0.1, 0.2, 0.4)
"""Seconds before each further attempt after a conflict."""

PERMISSIONS: Final = {
    "reading": "s3:GetObject on the key and s3:ListBucket on the bucket (without it a missing key answers 403 too)",
    "writing": "s3:PutObject on the key (and s3:GetObject, which If-Match needs)",
    "listing": "s3:ListBucket on the bucket",
}
Doing = Literal["reading", "writing", "listing"]


def instant(told: str | float) -> datetime:
    """S3 writes instants in two ways. botocore's own parser takes any, and very long; it has the last word."""
    if not isinstance(told, str):
        return parse_timestamp(told)  # type: ignore[arg-type]  # its stubs know texts alone
    try:
        found = datetime.fromisoformat(told) if told[:1].isdigit() else parsedate_to_datetime(told)
    except ValueError:
        return parse_timestamp(told)
    return found if found.tzinfo else parse_timestamp(told)


def s3_client(
    *,
    region: str | None = None,
    endpoint: str | None = None,
    connect_timeout: float = 5,
    read_timeout: float = 30,
    attempts: int = 4,
    connections: int = 16,
) -> "S3Client":
    """A client of S3 whose every wait ends, with credentials from the default chain of AWS.

    A server named by `endpoint` is addressed by path. It gets no trailing
    checksums, which many do not know, but the signature covers the body, so
    that what arrives damaged is refused.

    Raises:
        Misuse: no client can be built from this.
    """
    config = Config(
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=connections,
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
        # A session of its own: sessions are not made for several threads, their clients are.
        session = botocore.session.Session()
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=instant)
        client = session.create_client("s3", region_name=region, endpoint_url=endpoint, config=config)
    except (boto.BotoCoreError, ValueError) as error:
        raise Misuse(f"no client of S3: {error}", hint="Check region, endpoint and AWS_PROFILE.") from error
    return cast("S3Client", client)


class S3Store:
    """Documents as objects under a prefix of one bucket; a revision is the object's ETag.

    botocore may send a write again that was applied already, and then hands
    on the answer to the second one: a 412 that may mean this very write, or
    an error that says nothing about the first. The store notes every attempt,
    and calls nothing undone of which one attempt may have been applied.

    An ETag would come back with the same content, but every document carries
    its own number and so never does.
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
        client.meta.events.register("needs-retry.s3.PutObject", _note, unique_id="watermarks.note-attempt")

    def __repr__(self) -> str:
        return f"S3Store(s3://{self._bucket}/{self._prefix})"

    def read(self, key: str) -> Stored | None:
        name = self._name(key)
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=name)
            with closing(answer["Body"]) as stream:
                body = stream.read()
        except FOREIGN as error:
            if _code(error) == "NoSuchKey":
                return None
            raise self._unanswered(error, key, "reading") from error
        if not _holds(answer, "ETag", "ContentLength"):
            raise StoreUnavailable(f"{self._at(key)}: answered without ETag or length", hint=NO_CONNECTION_HINT)
        return Stored(body=body, revision=Revision(answer["ETag"]))

    def create(self, key: str, body: bytes) -> Revision:
        return self._put(key, body, {"IfNoneMatch": "*"}, AlreadyExists(f"{self._at(key)} exists", key=key))

    def replace(self, key: str, body: bytes, *, seen: Revision) -> Revision:
        refusal = StaleRevision(f"{self._at(key)} is not the one that was read, or is gone", key=key)
        return self._put(key, body, {"IfMatch": seen}, refusal)

    def list(self, prefix: str) -> Iterator[str]:
        if not may_start_key(prefix):
            return
        last = ""
        for page in self._pages(prefix):
            for entry in page.get("Contents", []):
                name = entry["Key"]
                if name <= last:
                    raise StoreUnavailable(
                        f"{self._at(prefix)}: listed {name!r} after {last!r}",
                        hint="This endpoint does not list in order of code points (a directory bucket does not).",
                    )
                last = name
                key = name.removeprefix(self._prefix)
                # What the console of S3 leaves as a folder ends in a slash, and is no key.
                if name.startswith(self._prefix + prefix) and is_key(key):
                    yield key

    def _pages(self, prefix: str) -> "Generator[ListObjectsV2OutputTypeDef]":
        # Not botocore's paginator, which takes a page without its token for the last one.
        page = self._page(prefix, {})
        while page["IsTruncated"]:
            yield page
            if not _holds(page, "NextContinuationToken"):
                raise StoreUnavailable(f"{self._at(prefix)}: the listing goes on, but does not say where")
            page = self._page(prefix, {"ContinuationToken": page["NextContinuationToken"]})
        yield page

    def _page(self, prefix: str, further: dict[str, Any]) -> "ListObjectsV2OutputTypeDef":
        try:
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **further)
        except FOREIGN as error:
            raise self._unanswered(error, prefix, "listing") from error
        if not _holds(page, "IsTruncated"):
            raise StoreUnavailable(f"{self._at(prefix)}: a listing does not say whether it goes on")
        return page

    def _put(self, key: str, body: bytes, condition: dict[str, Any], refusal: Stale) -> Revision:
        name = self._name(key)
        with _noting() as sent:
            for pause in (*CONFLICT_PAUSES, None):
                try:
                    answer = self._client.put_object(
                        Bucket=self._bucket, Key=name, Body=body, ContentType="application/json", **condition
                    )
                except FOREIGN as error:
                    # S3 asks to send again what met another write on its way. The condition goes with
                    # it: where that other write won, the next answer is a 412.
                    if _code(error) in CONFLICTS and pause is not None:
                        self._pause(pause)
                        continue
                    raise self._unwritten(error, key, refusal, sent) from error
                if _holds(answer, "ETag"):
                    return Revision(answer["ETag"])
                break
        raise OutcomeUnknown(f"{self._at(key)}: written, but the answer names no ETag", hint=UNKNOWN_HINT, key=key)

    def _name(self, key: str) -> str:
        check_key(key)
        name = self._prefix + key
        check_key(name)
        return name

    def _at(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def _unwritten(self, error: Exception, key: str, refusal: Stale, sent: "_Sent") -> HintedError:
        if _status(error) == HTTPStatus.PRECONDITION_FAILED:
            return refusal
        if _code(error) == "NoSuchKey" and isinstance(refusal, StaleRevision):
            return refusal
        if sent.in_doubt or _in_doubt(error):
            return OutcomeUnknown(f"{self._at(key)}: {_said(error)}", hint=_hint(error, UNKNOWN_HINT), **_facts(error))
        if _status(error) == HTTPStatus.NOT_IMPLEMENTED:
            return Misuse(
                f"{self._at(key)}: {_said(error)}",
                hint="This endpoint does not honour conditional writes (If-Match, If-None-Match): use one that does.",
                **_facts(error),
            )
        return self._unanswered(error, key, "writing")

    def _unanswered(self, error: Exception, key: str, doing: Doing) -> HintedError:
        """What an error means when nothing was changed."""
        where, facts = f"{self._at(key)}: {_said(error)}", _facts(error)
        if isinstance(error, UNSENDABLE) or _code(error) in MISUSES:
            return Misuse(where, hint="Mend the key, the bucket or the settings of the client.", **facts)
        if _status(error) == HTTPStatus.FORBIDDEN and _code(error) not in HINTS:
            return StoreUnavailable(where, hint=f"Allow {PERMISSIONS[doing]}.", **facts)
        return StoreUnavailable(where, hint=_hint(error, NO_CONNECTION_HINT), **facts)


@dataclass(slots=True)
class _Sent:
    """What is known of the attempts of one write."""

    in_doubt: bool = False


_current: ContextVar[_Sent | None] = ContextVar("watermarks.stores.s3.sent", default=None)


@contextmanager
def _noting() -> "Generator[_Sent]":
    sent = _Sent()
    token = _current.set(sent)
    try:
        yield sent
    finally:
        _current.reset(token)


def _note(*, response: tuple[Any, object] | None, caught_exception: Exception | None, **_: object) -> None:
    """Be told by botocore how one attempt ended, before it decides whether to send again."""
    sent = _current.get()
    if sent is None:
        return
    if caught_exception is not None:
        sent.in_doubt |= _in_doubt(caught_exception)
    elif response is not None and response[0].status_code != HTTPStatus.OK:
        sent.in_doubt |= response[0].status_code not in REFUSALS


def _in_doubt(error: Exception) -> bool:
    """Whether a write that ended so may have been applied, or may yet be.

    503 SlowDown counts: S3 refuses before it writes, but MinIO gives the same
    answer after writing to fewer disks than it needs.
    """
    if isinstance(error, boto.ClientError):
        return _status(error) not in REFUSALS
    return not isinstance(error, (*UNSENT, *CREDENTIALS, *UNSENDABLE))


def _holds(answer: Mapping[str, object], *names: str) -> bool:
    """Whether an answer has what S3 always sends, and others between may have lost."""
    return all(name in answer for name in names)


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def _status(error: Exception) -> int:
    if not isinstance(error, boto.ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _said(error: Exception) -> str:
    if not isinstance(error, boto.ClientError):
        return f"{type(error).__name__}: {error}"
    message = error.response.get("Error", {}).get("Message", "")
    return f"{_status(error)} {_code(error)}: {message}".rstrip(": ")


def _hint(error: Exception, otherwise: str) -> str:
    if isinstance(error, CREDENTIALS):
        return CREDENTIALS_HINT
    if isinstance(error, boto.SSLError):
        return "Does this machine trust the certificate of the endpoint? AWS_CA_BUNDLE names further authorities."
    return HINTS.get(_code(error), otherwise)


def _facts(error: Exception) -> dict[str, object]:
    if not isinstance(error, boto.ClientError):
        return {}
    request = error.response.get("ResponseMetadata", {}).get("RequestId", "")
    return {"code": _code(error), "status": _status(error), "request": request}
