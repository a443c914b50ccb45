"""What S3Store makes of a line that loses, cuts and damages: a real client, a real server, and a meddler between."""

import socket
from collections.abc import Generator
from contextlib import closing
from itertools import count

import pytest

from tests.services.meddler import Meddler, Spoil, meddler
from tests.services.moto_server import moto_server
from watermarks.errors import AlreadyExists, OutcomeUnknown, StaleRevision, StoreUnavailable
from watermarks.store import Store, StoredObject, put_once
from watermarks.stores.s3 import S3Store, create_s3_client

pytestmark = pytest.mark.services
numbers = count(1)


@pytest.fixture(scope="module")
def line() -> Generator[Meddler]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "any")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "any")
        with moto_server() as server, meddler(server) as line:
            create_s3_client(endpoint=line.endpoint).create_bucket(Bucket="lake")
            yield line


@pytest.fixture
def key(line: Meddler) -> str:
    line.spoil()
    return f"doc-{next(numbers)}"


@pytest.fixture(scope="module")
def once(line: Meddler) -> Store:
    """A store whose client sends everything once, and waits no longer than an answer takes on a busy machine."""
    return S3Store(create_s3_client(endpoint=line.endpoint, max_attempts=1, read_timeout=3), bucket="lake")


@pytest.fixture(scope="module")
def twice(line: Meddler) -> Store:
    """A store whose client sends everything again that got no answer."""
    return S3Store(create_s3_client(endpoint=line.endpoint, max_attempts=2), bucket="lake")


def body(store: Store, key: str) -> bytes | None:
    there = store.read(key)
    return None if there is None else there.body


@pytest.mark.parametrize("spoil", [Spoil.ANSWER_LOST, Spoil.ANSWER_WITHHELD])
def test_a_write_without_an_answer_is_in_doubt(line: Meddler, once: Store, key: str, spoil: Spoil) -> None:
    line.spoil(spoil)

    with pytest.raises(OutcomeUnknown):
        once.put(key, b"mine", expected=None)

    assert body(once, key) == b"mine"


def test_a_write_that_never_arrived_is_in_doubt_too(line: Meddler, once: Store, key: str) -> None:
    line.spoil(Spoil.REQUEST_LOST)

    with pytest.raises(OutcomeUnknown):
        once.put(key, b"mine", expected=None)

    assert once.read(key) is None


def test_a_write_sent_again_below_us_may_be_refused_for_itself(line: Meddler, twice: Store, key: str) -> None:
    line.spoil(Spoil.ANSWER_LOST)

    with pytest.raises(AlreadyExists):
        twice.put(key, b"mine", expected=None)

    assert line.seen == [("PUT", Spoil.ANSWER_LOST), ("PUT", Spoil.NOTHING)]
    assert body(twice, key) == b"mine"


def test_put_once_recognises_a_write_sent_again_below_us(line: Meddler, twice: Store, key: str) -> None:
    line.spoil(Spoil.ANSWER_LOST)

    assert put_once(twice, key, b"mine, by its nonce").is_ours


def test_a_replacement_sent_again_below_us_may_be_stale_for_itself(line: Meddler, twice: Store, key: str) -> None:
    seen = twice.put(key, b"first", expected=None)
    line.spoil(Spoil.ANSWER_LOST)

    with pytest.raises(StaleRevision):
        twice.put(key, b"second", expected=seen)

    assert body(twice, key) == b"second"


def test_a_lost_request_is_sent_again_below_us(line: Meddler, twice: Store, key: str) -> None:
    line.spoil(Spoil.REQUEST_LOST)

    revision = twice.put(key, b"mine", expected=None)

    assert twice.read(key) == StoredObject(body=b"mine", revision=revision)


@pytest.mark.parametrize("spoil", [Spoil.ANSWER_LOST, Spoil.BODY_CUT, Spoil.BODY_DAMAGED, Spoil.ANSWER_WITHHELD])
def test_an_answer_that_is_not_whole_is_not_read(line: Meddler, once: Store, key: str, spoil: Spoil) -> None:
    once.put(key, b"a document of some length", expected=None)
    line.spoil(spoil)

    with pytest.raises(StoreUnavailable):
        once.read(key)

    assert body(once, key) == b"a document of some length"


@pytest.mark.parametrize("spoil", [Spoil.ANSWER_LOST, Spoil.BODY_CUT, Spoil.BODY_EMPTY])
def test_a_listing_that_is_not_whole_is_no_listing(line: Meddler, once: Store, key: str, spoil: Spoil) -> None:
    once.put(key, b"x", expected=None)
    line.spoil(spoil)

    with pytest.raises(StoreUnavailable):
        list(once.list(key))

    assert [*once.list(key)] == [key]


def test_nobody_at_the_port_means_that_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    store = S3Store(create_s3_client(endpoint=f"http://127.0.0.1:{port}", max_attempts=2), bucket="lake")

    with pytest.raises(StoreUnavailable, match="EndpointConnectionError") as caught:
        store.put("doc", b"x", expected=None)

    assert "Check the endpoint" in caught.value.hint
