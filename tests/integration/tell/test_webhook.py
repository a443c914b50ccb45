"""Notices over a real HTTP server that answers late, badly or not at all."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import SchemaDrift
from syncd.events import PassEnded
from syncd.observe.board import Board, configured_streams
from syncd.observe.incident_notifier import UNDELIVERED_RETRY_SECONDS, IncidentNotifier, NotificationRecipient
from syncd.observe.incidents import IncidentDetector
from syncd.observe.webhook import MAX_TRIES, NoticeRefused, NotificationQueue, Webhook, WebhookUnavailable
from syncd.settings import (
    Channel,
    DaemonSettings,
    LakeSettings,
    NotifySettings,
    Secret,
    Settings,
    SourceSettings,
    StreamSettings,
)
from tests.builders import at
from watermarks.document import Stage
from watermarks.names import StreamName
from watermarks.testing import ManualClock

pytestmark = pytest.mark.services
TOKEN = "T0K3N-of-the-address"
Answer = Callable[[BaseHTTPRequestHandler], None]


def says(status: int, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def closes(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


class Hook:
    """A server that answers as it is told, in turn, the last way for ever; and keeps what it was sent."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.arrived = threading.Condition()
        self.over = threading.Event()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with hook.arrived:
                    answer = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
                    hook.sent.append(json.loads(body))
                    hook.asked.append(self.command + " " + self.path)
                    hook.arrived.notify_all()
                answer(self)

            do_GET = do_POST  # noqa: N815  # as the library calls it

            def log_message(self, *_args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def hangs(self, _handler: BaseHTTPRequestHandler) -> None:
        self.over.wait(120)

    @property
    def url(self) -> Secret:
        return Secret(f"http://127.0.0.1:{self.server.server_port}/{TOKEN}")

    def wait_for(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.sent) >= count, 120), self.sent


@contextmanager
def running(*answers: Answer) -> Iterator[Hook]:
    hook = Hook(*answers)
    thread = threading.Thread(target=hook.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hook
    finally:
        hook.over.set()
        hook.server.shutdown()
        thread.join()
        hook.server.server_close()


@contextmanager
def mailbox(hook: Hook, *, within: float = 5.0, most: int = 100) -> Iterator[tuple[NotificationQueue, list[str]]]:
    lost: list[str] = []
    sender = Webhook(hook.url, name="recipient 1", timeout_seconds=within)
    with NotificationQueue(sender, on_lost=lost.append, pause=0.01, max_waiting=most) as box:
        yield box, lost


def test_a_document_arrives_as_json() -> None:
    with running(says(204)) as hook:
        Webhook(hook.url, name="recipient 1").send(b'{"a": 1}')

    assert (hook.sent, hook.asked) == ([{"a": 1}], [f"POST /{TOKEN}"])


def test_what_passes_is_tried_again_and_arrives_in_its_order() -> None:
    with running(says(500), says(429), closes, says(200)) as hook, mailbox(hook) as (box, lost):
        box.enqueue(b'{"n": 1}')
        box.enqueue(b'{"n": 2}')
        hook.wait_for(5)

    assert [one["n"] for one in hook.sent] == [1, 1, 1, 1, 2]
    assert lost == []


def test_a_server_that_hangs_is_given_up_in_time_and_told_without_its_address() -> None:
    with running(says(200)) as hook:
        hook.answers = [hook.hangs]

        with pytest.raises(WebhookUnavailable) as raised:
            Webhook(hook.url, name="recipient 1", timeout_seconds=0.1).send(b"{}")

    assert raised.value.message == "recipient 1 does not answer: no answer in time"
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_nobody_is_followed_elsewhere(status: int) -> None:
    with (
        running(says(200)) as elsewhere,
        running(says(status, Location=elsewhere.url.value)) as hook,
        pytest.raises(NoticeRefused) as raised,
    ):
        Webhook(hook.url, name="recipient 1").send(b"{}")

    assert elsewhere.asked == []
    assert raised.value.message == f"recipient 1 answers {status}"


def test_what_is_refused_is_not_tried_again() -> None:
    with running(says(403)) as hook:
        with mailbox(hook) as (box, lost):
            box.enqueue(b"{}")
            hook.wait_for(1)
        assert len(hook.sent) == 1

    assert lost == ["recipient 1 answers 403"]


def test_a_server_that_is_gone_costs_a_notice_and_no_secret() -> None:
    with running(says(200)) as hook:
        url = hook.url
    lost: list[str] = []
    with NotificationQueue(Webhook(url, name="recipient 1"), on_lost=lost.append, pause=0.001) as box:
        box.enqueue(b"{}")

    assert len(lost) <= 1
    assert not any(TOKEN in why for why in lost)


def test_whoever_hands_over_never_waits_and_the_oldest_go_first() -> None:
    with running(says(200)) as hook:
        hook.answers = [hook.hangs]
        with mailbox(hook, most=5) as (box, lost):
            box.enqueue(b'{"n": 0}')
            hook.wait_for(1)
            began = time.monotonic()
            for number in range(1, 21):
                box.enqueue(json.dumps({"n": number}).encode())
            took = time.monotonic() - began
            hook.answers = [says(200)]
            hook.over.set()
            hook.wait_for(7)

    assert took < 5, "as long as a notice may be on its way"
    assert len(lost) == 15
    assert [one["n"] for one in hook.sent if one["n"]][-5:] == [16, 17, 18, 19, 20]


ORDERS = StreamName(source="shop", database="shop", table="orders")


def settings_of(*notify: NotifySettings) -> Settings:
    return Settings(
        sources=(SourceSettings(name="shop", host="db", user="sync", password=Secret("secret")),),
        lake=LakeSettings(bucket="lake"),
        streams=(StreamSettings(source="shop", database="shop", table="orders"),),
        daemon=DaemonSettings(notify=notify),
    )


def test_an_incident_is_told_to_every_recipient_in_its_own_form_and_logged_without_addresses() -> None:
    with running(says(200)) as first, running(says(200)) as second:
        settings = settings_of(
            NotifySettings(url=first.url),
            NotifySettings(url=second.url, channel=Channel.SLACK, again=timedelta(hours=1)),
        )
        said: list[tuple[str, str, dict[str, object]]] = []

        def say(name: str, message: str, *, level: int = 0, **facts: object) -> None:
            said.append((name, message, facts))

        tell = Board(configured_streams(settings), clock=ManualClock())
        with IncidentNotifier(tell, settings.daemon.notify, clock=ManualClock(), report=say, interval_seconds=0.01):
            tell(ended("drifted"))
            first.wait_for(1)
            second.wait_for(1)
            tell(ended())
            first.wait_for(2)
            second.wait_for(2)

    assert [one["state"] for one in first.sent] == ["opened", "closed"]
    assert first.sent[0]["message"] == "drifted"
    assert all(set(one) == {"text"} for one in second.sent)
    assert [name for name, *_ in said] == ["incident.opened", "incident.closed"]
    assert TOKEN not in str(said)


def test_what_did_not_arrive_is_told_before_long_while_it_is_open() -> None:
    clock = ManualClock()
    board = Board(configured_streams(settings_of()), clock=clock)
    board(ended("drifted"))
    watch = IncidentDetector(board)
    lost: list[str] = []
    with running(*[says(503)] * MAX_TRIES, says(200)) as hook:
        sender = Webhook(hook.url, name="recipient 1")
        with NotificationQueue(sender, on_lost=lost.append, pause=0.001) as box:
            recipient = NotificationRecipient(NotifySettings(url=hook.url), box)
            recipient.notify(watch.detect_changes(), watch, clock)
            hook.wait_for(MAX_TRIES)
            assert wait_until(lambda: bool(lost), timeout_seconds=60.0)

            clock.advance(1)
            recipient.notify(watch.detect_changes(), watch, clock)
            clock.advance(UNDELIVERED_RETRY_SECONDS)
            recipient.notify(watch.detect_changes(), watch, clock)
            hook.wait_for(MAX_TRIES + 1)
            clock.advance(UNDELIVERED_RETRY_SECONDS)
            recipient.notify(watch.detect_changes(), watch, clock)

    assert [one["state"] for one in hook.sent] == ["opened"] * (MAX_TRIES + 1)


def test_what_is_open_when_the_daemon_ends_is_not_told_to_be_over() -> None:
    said: list[str] = []

    def say(name: str, message: str, *, level: int = 0, **facts: object) -> None:
        said.append(name)

    with running(says(200)) as hook:
        tell = Board(configured_streams(settings_of()), clock=ManualClock())
        with IncidentNotifier(
            tell, [NotifySettings(url=hook.url)], clock=ManualClock(), report=say, interval_seconds=0.01
        ):
            tell(ended("drifted"))
            hook.wait_for(1)
            tell(ended(interrupted=True))

        assert [one["state"] for one in hook.sent] == ["opened"]

    assert said == ["incident.opened"]


def ended(why: str = "", *, interrupted: bool = False) -> PassEnded:
    """The end of a pass, which failed where there is a why."""
    return PassEnded(
        stream=ORDERS,
        stage=Stage.EXTRACT,
        state="failed" if why else "waiting" if interrupted else "nothing new",
        batches=0,
        rows=0,
        seconds=0.1,
        mark=at(0),
        complete_up_to=None,
        proven=True,
        pending_batches=0,
        interrupted=interrupted,
        error=SchemaDrift(why) if why else None,
    )
