"""Every answer and every error of S3, by its meaning; botocore is real, only the wire is answered from here."""

import inspect
import io
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from botocore import exceptions as boto
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.parsers import ResponseParserError
from urllib3 import exceptions as urllib3

from watermarks.errors import (
    AlreadyExists,
    HintedError,
    Misuse,
    OutcomeUnknown,
    StaleRevision,
    StoreUnavailable,
)
from watermarks.store import Revision
from watermarks.stores.s3 import CONFLICT_PAUSES_SECONDS, S3Store, create_s3_client

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

    from watermarks.store import Store

Answer = AWSResponse | Exception
SEEN = Revision('"0123"')


class Wire(io.BytesIO):
    def stream(self, *_: object) -> Iterator[bytes]:
        yield self.read()


class Broken(Wire):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def read(self, *_: object, **__: object) -> bytes:
        raise self.error


class Case:
    """A store whose requests get the given answers, in turn, the last one again and again."""

    def __init__(self, *, attempts: int = 1, prefix: str = "") -> None:
        client = create_s3_client(region="eu-west-1", max_attempts=attempts)
        client.meta.events.register("before-send.s3", self._answer)  # type: ignore[arg-type] # this event takes an answer
        self.paused: list[float] = []
        self.asked = 0
        self.answers: list[Answer] = []
        self.store: Store = S3Store(client, bucket="lake", prefix=prefix, pause=self.paused.append)

    def will(self, *answers: Answer) -> "Case":
        self.asked = 0
        self.answers = [*answers]
        return self

    def _answer(self, **_: object) -> AWSResponse:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(scope="module")
def environment() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "any")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "any")
        yield


@pytest.fixture(scope="module")
def case(environment: None) -> Case:
    return Case()


@pytest.fixture(scope="module")
def retrying(environment: None) -> Case:
    return Case(attempts=2)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between botocore's own attempts."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)


def answer(status: int, body: str = "", raw: Wire | None = None, **headers: str) -> AWSResponse:
    sent = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    return AWSResponse(
        "https://lake.s3.amazonaws.com/", status, HTTPHeaders.from_dict(sent), raw or Wire(body.encode())
    )


def refusal(status: int, code: str) -> AWSResponse:
    body = f"<Error><Code>{code}</Code><Message>why</Message></Error>"
    return answer(status, body, x_amz_bucket_region="us-east-1")


WRITTEN = answer(200, ETag='"4567"')


def create(case: Case) -> object:
    return case.store.put("doc", b"{}", expected=None)


def replace(case: Case) -> object:
    return case.store.put("doc", b"{}", expected=SEEN)


def read(case: Case) -> object:
    return case.store.read("doc")


def listing(case: Case) -> object:
    return [*case.store.list("")]


ACTS = [create, replace, read, listing]
WRITES = [create, replace]
READS = [read, listing]
Act = Callable[[Case], object]


def foreign_errors() -> list[Exception]:
    """One of every exception class of botocore, and of what shines through it; warnings are not raised."""
    classes = {
        found
        for module in (boto, urllib3)
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, (boto.BotoCoreError, boto.ClientError, urllib3.HTTPError))
    }
    assert len(classes) > 100
    return [blank(found) for found in sorted(classes, key=lambda found: found.__qualname__)] + [
        ResponseParserError("no XML"),
        ConnectionResetError("reset"),
        TimeoutError("timed out"),
    ]


def blank(found: type[Exception]) -> Exception:
    """An error of a class whose way of being made does not matter here."""
    error = found.__new__(found)
    Exception.__init__(error, found.__name__)
    vars(error).update(url="", partial=1, expected=2, length=b"1", response=Wire())  # what some need to be printed
    if isinstance(error, boto.ClientError):
        error.response = {"Error": {"Code": "Odd", "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": 400}}  # type: ignore[typeddict-item]  # an answer without the fields that a server may leave out
    return error


@pytest.mark.parametrize("error", foreign_errors(), ids=lambda error: type(error).__name__)
def test_no_foreign_error_leaks(case: Case, error: Exception) -> None:
    for act in ACTS:
        with pytest.raises(HintedError) as caught:
            act(case.will(error))

        assert type(caught.value) in {StoreUnavailable, Misuse, *([OutcomeUnknown] if act in WRITES else [])}
        assert caught.value.hint
        assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", foreign_errors(), ids=lambda error: type(error).__name__)
def test_no_foreign_error_leaks_from_a_body(case: Case, error: Exception) -> None:
    with pytest.raises(HintedError):
        read(case.will(answer(200, raw=Broken(error), ETag='"1"', Content_Length="5")))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (boto.EndpointConnectionError(endpoint_url="e", error="e"), StoreUnavailable),
        (boto.ConnectTimeoutError(endpoint_url="e", error="e"), StoreUnavailable),
        (boto.NoCredentialsError(), StoreUnavailable),
        (boto.SSOTokenLoadError(error_msg="e"), StoreUnavailable),
        (boto.NoRegionError(), Misuse),
        (boto.ParamValidationError(report="e"), Misuse),
        (boto.ReadTimeoutError(endpoint_url="e", error="e"), OutcomeUnknown),
        (boto.ConnectionClosedError(endpoint_url="e", error="e"), OutcomeUnknown),
        (boto.ProxyConnectionError(proxy_url="e", error="e"), OutcomeUnknown),
        (boto.SSLError(endpoint_url="e", error=OSError()), OutcomeUnknown),
        (boto.HTTPClientError(error="e"), OutcomeUnknown),
        (ResponseParserError("no XML"), OutcomeUnknown),
    ],
)
def test_a_write_that_was_certainly_not_sent_is_told_from_one_that_may_have_been(
    case: Case, error: Exception, expected: type[HintedError]
) -> None:
    for act in WRITES:
        with pytest.raises(HintedError) as caught:
            act(case.will(error))
        assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("status", "code", "on_create", "on_replace", "hint"),
    [
        (412, "PreconditionFailed", AlreadyExists, StaleRevision, ""),
        (404, "NoSuchKey", StoreUnavailable, StaleRevision, ""),
        (404, "NoSuchBucket", StoreUnavailable, StoreUnavailable, "Create the bucket"),
        (403, "AccessDenied", StoreUnavailable, StoreUnavailable, "s3:PutObject"),
        (403, "SignatureDoesNotMatch", StoreUnavailable, StoreUnavailable, "secret key"),
        (403, "RequestTimeTooSkewed", StoreUnavailable, StoreUnavailable, "clock"),
        (400, "ExpiredToken", StoreUnavailable, StoreUnavailable, "get-caller-identity"),
        (400, "KeyTooLongError", Misuse, Misuse, "Correct the key"),
        (400, "RequestTimeout", StoreUnavailable, StoreUnavailable, ""),
        (301, "PermanentRedirect", StoreUnavailable, StoreUnavailable, "another region"),
        (501, "NotImplemented", Misuse, Misuse, "conditional writes"),
        (408, "", OutcomeUnknown, OutcomeUnknown, "read it"),
        (500, "InternalError", OutcomeUnknown, OutcomeUnknown, "read it"),
        (502, "", OutcomeUnknown, OutcomeUnknown, "read it"),
        (503, "SlowDown", OutcomeUnknown, OutcomeUnknown, "fewer requests"),
        (503, "ServiceUnavailable", OutcomeUnknown, OutcomeUnknown, "read it"),
        (504, "", OutcomeUnknown, OutcomeUnknown, "read it"),
    ],
)
def test_each_answer_to_a_write_has_one_meaning(  # noqa: PLR0917 - one row, one answer
    case: Case,
    status: int,
    code: str,
    on_create: type[HintedError],
    on_replace: type[HintedError],
    hint: str,
) -> None:
    for act, expected in ((create, on_create), (replace, on_replace)):
        with pytest.raises(HintedError) as caught:
            act(case.will(refusal(status, code)))

        assert type(caught.value) is expected
        assert hint in caught.value.hint


def test_only_no_such_key_means_that_nothing_is_there(case: Case) -> None:
    assert read(case.will(refusal(404, "NoSuchKey"))) is None


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (403, "AccessDenied", "s3:ListBucket"),
        (403, "", "s3:ListBucket"),
        (404, "NoSuchBucket", "never counts as an empty one"),
        (404, "", "Check the endpoint"),
        (403, "InvalidAccessKeyId", "get-caller-identity"),
        (403, "InvalidObjectState", "archive"),
        (500, "InternalError", ""),
        (503, "SlowDown", "fewer requests"),
    ],
)
@pytest.mark.parametrize("act", READS)
def test_no_other_answer_to_a_question_means_that_nothing_is_there(
    case: Case, act: Act, status: int, code: str, hint: str
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        act(case.will(refusal(status, code)))

    assert hint in caught.value.hint


def test_what_failed_is_named_for_people_and_machines(case: Case) -> None:
    with pytest.raises(StoreUnavailable, match=r"s3://lake/doc: 403 AccessDenied: why") as caught:
        read(case.will(refusal(403, "AccessDenied")))

    assert (caught.value.facts["code"], caught.value.facts["status"]) == ("AccessDenied", 403)


REFUSED = refusal(403, "AccessDenied")
UNANSWERED = boto.ReadTimeoutError(endpoint_url="e", error="e")
UNREACHED = boto.EndpointConnectionError(endpoint_url="e", error="e")
BROKEN = refusal(500, "InternalError")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (UNANSWERED, UNREACHED, OutcomeUnknown),
        (UNANSWERED, REFUSED, OutcomeUnknown),
        (BROKEN, UNREACHED, OutcomeUnknown),
        (BROKEN, REFUSED, OutcomeUnknown),
        (BROKEN, refusal(412, "PreconditionFailed"), AlreadyExists),
        (UNREACHED, UNREACHED, StoreUnavailable),
        (UNREACHED, REFUSED, StoreUnavailable),
    ],
)
def test_an_attempt_below_us_that_may_have_been_applied_is_not_forgotten(
    retrying: Case, first: Answer, second: Answer, expected: type[HintedError]
) -> None:
    """The last answer alone would call a write undone that an earlier attempt may have done."""
    with pytest.raises(HintedError) as caught:
        create(retrying.will(first, second))

    assert type(caught.value) is expected
    assert retrying.asked == 2


@pytest.mark.usefixtures("impatient")
def test_a_doubt_ends_with_its_write(retrying: Case) -> None:
    with pytest.raises(OutcomeUnknown):
        create(retrying.will(UNANSWERED, REFUSED))

    with pytest.raises(StoreUnavailable):
        create(retrying.will(REFUSED))


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
@pytest.mark.parametrize("act", WRITES)
def test_a_conflict_is_sent_again(environment: None, act: Act, code: str) -> None:
    case = Case().will(refusal(409, code), refusal(409, code), WRITTEN)

    assert act(case) == Revision('"4567"')

    assert case.paused == [*CONFLICT_PAUSES_SECONDS[:2]]


@pytest.mark.parametrize(("act", "expected"), [(create, AlreadyExists), (replace, StaleRevision)])
def test_a_conflict_that_another_write_won_is_its_refusal(
    environment: None, act: Act, expected: type[HintedError]
) -> None:
    with pytest.raises(expected):
        act(Case().will(refusal(409, "ConditionalRequestConflict"), refusal(412, "PreconditionFailed")))


def test_a_conflict_without_end_is_given_up(environment: None) -> None:
    case = Case().will(refusal(409, "ConditionalRequestConflict"))

    with pytest.raises(StoreUnavailable, match="ConditionalRequestConflict"):
        create(case)

    assert case.paused == [*CONFLICT_PAUSES_SECONDS]
    assert case.asked == len(CONFLICT_PAUSES_SECONDS) + 1


def test_a_write_whose_answer_names_no_etag_is_in_doubt(case: Case) -> None:
    with pytest.raises(OutcomeUnknown, match="no ETag"):
        create(case.will(answer(200)))


def test_a_body_without_etag_or_length_is_not_read(case: Case) -> None:
    with pytest.raises(StoreUnavailable, match="without ETag or length"):
        read(case.will(answer(200, "{}")))


def page(*keys: str, more: str = "<IsTruncated>false</IsTruncated>") -> AWSResponse:
    contents = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
    return answer(200, f"<ListBucketResult><Name>lake</Name>{contents}{more}</ListBucketResult>")


GOES_ON = "<IsTruncated>true</IsTruncated>"


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        ([page("a", more=GOES_ON)], "has no continuation token"),
        ([page("a", more="")], "whether it is truncated"),
        ([answer(200)], "whether it is truncated"),
        ([page("b", "a")], "after 'b'"),
        ([page("a", more=GOES_ON + "<NextContinuationToken>t</NextContinuationToken>")], "after 'a'"),
    ],
    ids=["no token", "no word of more", "empty answer", "out of order", "the same page again"],
)
def test_a_listing_with_a_hole_is_no_listing(case: Case, pages: list[AWSResponse], reason: str) -> None:
    with pytest.raises(StoreUnavailable, match=reason):
        listing(case.will(*pages))


def test_what_is_no_document_of_this_store_is_not_listed(environment: None) -> None:
    """The console of S3 leaves folders behind, and a careless server its neighbours."""
    case = Case(prefix="/mine/").will(page("mine", "mine/", "mine/a", "mine/b/", "mine/b/c", "other/a"))

    assert listing(case) == ["a", "b/c"]


def test_a_prefix_takes_part_in_the_length_of_a_key(environment: None) -> None:
    with pytest.raises(Misuse, match="1024"):
        Case(prefix="p" * 20).store.put("k" * 1010, b"x", expected=None)


@pytest.mark.parametrize("prefix", ["../up", "a//b", "a/./b"])
def test_a_prefix_is_a_key_itself(environment: None, prefix: str) -> None:
    with pytest.raises(Misuse):
        Case(prefix=prefix)


def test_a_store_shows_where_it_is(environment: None) -> None:
    assert repr(Case(prefix="syncd").store) == "S3Store(s3://lake/syncd/)"


def test_documents_are_json_and_conditional(environment: None) -> None:
    case = Case().will(WRITTEN)
    sent: list[dict[str, Any]] = []

    def note(request: "AWSPreparedRequest", **_: object) -> None:
        sent.append({name: request.headers.get(name) for name in ("Content-Type", "If-None-Match", "If-Match")})

    store: Any = case.store
    store._client.meta.events.register("before-sign.s3.PutObject", note)
    create(case)
    replace(case)

    assert [{name: value for name, value in headers.items() if value} for headers in sent] == [
        {"Content-Type": "application/json", "If-None-Match": "*"},
        {"Content-Type": "application/json", "If-Match": SEEN},
    ]


def test_every_wait_of_a_client_ends(environment: None) -> None:
    config: Any = create_s3_client(region="eu-west-1", connect_timeout=1, read_timeout=2, max_connections=3).meta.config

    assert (config.connect_timeout, config.read_timeout, config.max_pool_connections) == (1, 2, 3)
    assert config.retries == {"mode": "standard", "total_max_attempts": 4}
    assert config.s3 is None
    assert config.request_checksum_calculation == "when_supported"


def test_a_server_of_ones_own_gets_plain_requests(environment: None) -> None:
    config: Any = create_s3_client(endpoint="http://127.0.0.1:9000").meta.config

    assert config.s3 == {"addressing_style": "path", "payload_signing_enabled": True}
    assert config.request_checksum_calculation == "when_required"


@pytest.mark.parametrize(("region", "endpoint"), [("no region!", None), (None, "no url")])
def test_a_client_that_cannot_be_is_a_misuse(environment: None, region: str | None, endpoint: str | None) -> None:
    with pytest.raises(Misuse, match="cannot create an S3 client"):
        create_s3_client(region=region, endpoint=endpoint)
