"""The server over real sockets: who is let in, what is answered, and what no client can do to it."""

import base64
import gzip
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from syncd.daemon.health import HealthChecker
from syncd.daemon.http_server import (
    CONNECTION_TIMEOUT_SECONDS,
    MAX_CONNECTIONS,
    ConnectionLimits,
    HttpServer,
    run_http_server,
)
from syncd.daemon.routes import HttpResponse
from syncd.errors import ConfigError, LakeDown
from syncd.observe.mark_history import MarkHistoryEntry
from syncd.settings import DaemonSettings, ListenAddress
from tests.services.board_story import Story
from tests.services.clients import eventually
from tests.services.http import ask, connected, got, served, told
from tests.unit.syncd.observe.stories import EXTRACT, ended
from watermarks.errors import StateUnreadable
from watermarks.names import StreamName

if TYPE_CHECKING:
    from syncd.daemon.routes import Routes

pytestmark = pytest.mark.services

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATHS = (
    "/",
    "/streams/orders",
    "/streams/main%2Fshop.orders/history",
    "/api/streams",
    "/api/streams/orders",
    "/metrics",
)


@pytest.fixture(scope="module")
def story() -> Story:
    return told()


@pytest.fixture(scope="module")
def server(story: Story) -> Iterator[HttpServer]:
    with served(story.answers()) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(story: Story) -> Iterator[HttpServer]:
    with served(story.answers(), token="a-token") as server:  # of a test
        yield server


@pytest.mark.parametrize("path", [*PATHS, "/healthz", "/readyz"])
def test_every_path_answers(server: HttpServer, path: str) -> None:
    found = ask(server, path)

    assert found.status == 200
    assert len(found.body) == int(found.headers["Content-Length"]) > 0
    assert found.headers["Connection"] == "close"


def test_no_answer_lets_a_browser_do_what_it_should_not(server: HttpServer) -> None:
    found = ask(server, "/")

    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["X-Frame-Options"] == "DENY"
    assert found.headers["Referrer-Policy"] == "no-referrer"
    assert found.headers["Cache-Control"] == "no-store"
    assert found.headers["Server"] == "syncd"
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", found.text), "nothing from anywhere else"
    assert " style=" not in found.text
    assert not re.search(r" on[a-z]+=", found.text)


def test_head_is_get_without_its_body(server: HttpServer) -> None:
    whole, head = ask(server, "/healthz"), ask(server, "/healthz", method="HEAD")

    assert (head.status, head.body) == (200, b"")
    assert head.headers == whole.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_but_reading_is_allowed(server: HttpServer, method: str) -> None:
    found = ask(server, "/api/streams", method=method, headers={"Content-Length": "3"})

    assert (found.status, found.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/api/streams/none", 404),
        ("/api/streams/orders/nothing", 404),
        ("/api/streams/orders/history/more", 404),
        ("/streams/..%2f..%2fetc%2fpasswd", 404),
        ("/../../etc/passwd", 404),
        ("//", 404),
        ("//[", 404),
        ("//elsewhere/healthz", 404),
        ("/streams", 404),
        ("/streams/", 404),
        ("/api/streams/", 404),
        ("/api/streams/orders/history?limit=-1", 400),
        ("/api/streams/orders/history?before=x", 400),
        ("http://elsewhere/", 400),
        (f"/{'x' * 5_000}", 414),
        (f"/?{'&'.join('a=1' for _ in range(900))}", 200),
    ],
)
def test_a_bad_path_is_refused(server: HttpServer, path: str, status: int) -> None:
    found = ask(server, path)

    assert found.status == status
    assert "/etc/passwd" not in found.text or found.headers["Content-Type"].startswith("text/plain")


def test_what_somebody_asked_for_is_told_as_text_and_no_markup(server: HttpServer) -> None:
    page, pages = ask(server, "/?find=<script>alert(1)</script>"), ask(server, "/streams/<script>alert(1)</script>")

    assert "<script>alert" not in page.text
    assert pages.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    "raw", [b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET /\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/2\r\n\r\n"]
)
def test_what_is_no_request_is_refused(server: HttpServer, raw: bytes) -> None:
    with connected(server) as sock:
        sock.sendall(raw)

        assert got(sock).status == 400


def test_endless_headers_are_refused(server: HttpServer) -> None:
    with connected(server) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n" + b"X-More: y\r\n" * 2_000)

        assert got(sock).status == 431


def test_more_headers_than_a_client_has_are_refused(server: HttpServer) -> None:
    with connected(server) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n")

        assert got(sock).status == 400


def test_who_reads_gzip_gets_it(server: HttpServer) -> None:
    plain = ask(server, "/api/streams/refunds")
    packed = ask(server, "/api/streams/refunds", headers={"Accept-Encoding": "gzip, br"})

    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.body) < len(plain.body)
    assert gzip.decompress(packed.body) == plain.body


# Who is let in.


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_told(guarded: HttpServer, path: str) -> None:
    found = ask(guarded, path)

    assert found.status == 401
    assert found.headers["WWW-Authenticate"].startswith("Basic ")
    assert "shop" not in found.text


@pytest.mark.parametrize(
    "scheme", ["Bearer a-token", "bearer a-token", f"Basic {base64.b64encode(b'any:a-token').decode()}"]
)
def test_the_token_opens(guarded: HttpServer, scheme: str) -> None:
    assert ask(guarded, "/api/streams", headers={"Authorization": scheme}).status == 200


@pytest.mark.parametrize(
    "scheme",
    ["Bearer", "Bearer a-toke", "Bearer a-token2", "Bearer ä", "Basic %%%", "Basic YTpi", "Digest a-token", "a-token"],
)
def test_a_wrong_token_does_not(guarded: HttpServer, scheme: str) -> None:
    assert ask(guarded, "/api/streams", headers={"Authorization": scheme}).status == 401


def test_a_token_in_the_address_opens_nothing(guarded: HttpServer) -> None:
    assert ask(guarded, "/api/streams?token=a-token").status == 401


def test_a_probe_needs_no_token_and_hears_no_more_than_yes_or_no(guarded: HttpServer) -> None:
    told_to_all = ask(guarded, "/healthz")
    told_to_us = ask(guarded, "/healthz", headers={"Authorization": "Bearer a-token"})

    assert (told_to_all.status, told_to_all.json) == (200, {"status": "ok"})
    assert told_to_us.json == {"status": "ok", "reason": None}


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1", "syncd.localhost", "10.0.0.7"]
)
def test_names_of_this_machine_are_known(server: HttpServer, host: str) -> None:
    assert ask(server, "/api/streams", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_a_page_whose_name_leads_here_reads_nothing(server: HttpServer, guarded: HttpServer, host: str) -> None:
    assert ask(server, "/api/streams", headers={"Host": host}).status == 421
    assert ask(guarded, "/api/streams", headers={"Host": host, "Authorization": "Bearer a-token"}).status == 200


# What no client can do to it.


def test_a_client_that_says_nothing_is_let_go(story: Story) -> None:
    with (
        served(story.answers(), limits=ConnectionLimits(client_timeout_seconds=0.2)) as server,
        connected(server) as sock,
    ):
        assert sock.recv(1) == b""


def test_a_head_that_dribbles_is_let_go_though_answers_may_take_longer(story: Story) -> None:
    with (
        served(
            story.answers(), limits=ConnectionLimits(head_timeout_seconds=0.5, connection_timeout_seconds=60)
        ) as server,
        connected(server) as sock,
    ):
        began = time.monotonic()
        _dribble(sock, for_=60)

        assert time.monotonic() - began < 30, "as long as an answer may take"
        assert ask(server, "/healthz").status == 200


def test_who_has_an_answer_and_goes_on_sending_is_let_go(story: Story) -> None:
    with served(story.answers()) as server, connected(server) as sock:
        sock.sendall(REQUEST)
        began = time.monotonic()
        _dribble(sock, for_=60)

        assert time.monotonic() - began < CONNECTION_TIMEOUT_SECONDS


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nX: y\r\n", REQUEST])
def test_a_probe_is_answered_however_many_others_hold_connections(guarded: HttpServer, begun: bytes) -> None:
    """Whoever knows no token cannot have a supervisor take the daemon for dead."""
    found: list[int] = []
    held: list[socket.socket] = []
    try:
        for _ in range(MAX_CONNECTIONS + 8):
            held.append(connected(guarded))
            held[-1].sendall(begun)
            found.append(ask(guarded, "/healthz").status)
    finally:
        for sock in held:
            sock.close()

    assert set(found) == {200}


def test_who_does_not_read_gives_way_too() -> None:
    class Long:
        def respond(self, _target: str, **_: bool) -> HttpResponse:
            return HttpResponse(body=b"x" * (20_000_000))

    with served(cast("Routes", Long()), limits=ConnectionLimits(max_connections=3)) as server:
        deaf = [connected(server) for _ in range(3)]
        for sock in deaf:
            sock.sendall(REQUEST)
            assert sock.recv(1) == b"H"
        whole = ask(server, "/").body
        for sock in deaf:
            sock.close()

    assert len(whole) == 20_000_000


def test_the_oldest_gives_way_and_none_that_is_being_answered(story: Story) -> None:
    with _answering_slowly(story, at_once=2) as (server, go_on, slow), connected(server) as silent:
        assert ask(server, "/healthz").status == 200
        assert silent.recv(1) == b""
        go_on.set()

        assert got(slow).status == 200


def test_one_more_than_can_be_answered_is_told_to_come_again(story: Story) -> None:
    with _answering_slowly(story, at_once=1) as (server, go_on, slow):
        turned_away = _asked_until(server, 503)
        go_on.set()
        done = got(slow).status
        let_in = _asked_until(server, 200)

    assert (turned_away, done, let_in) == (503, 200, 200)


@contextmanager
def _answering_slowly(story: Story, *, at_once: int) -> Iterator[tuple[HttpServer, threading.Event, socket.socket]]:
    """A server that is at work on an answer until it is let go, and who waits for that."""
    begun, go_on = threading.Event(), threading.Event()

    def history(stream: StreamName, limit: int, before: int | None) -> Sequence[MarkHistoryEntry]:
        begun.set()
        go_on.wait(120)
        return story.history(stream, limit, before)

    answers = story.answers(history=history)
    with served(answers, limits=ConnectionLimits(max_connections=at_once)) as server, connected(server) as slow:
        slow.sendall(b"GET /api/streams/orders/history HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert begun.wait(60)
        try:
            yield server, go_on, slow
        finally:
            go_on.set()


def _dribble(sock: socket.socket, *, for_: float) -> None:
    """Send a byte now and then, until the line is cut."""
    until = time.monotonic() + for_
    with suppress(OSError):
        while time.monotonic() < until:
            sock.sendall(b"G")
            threading.Event().wait(0.05)


def _asked_until(server: HttpServer, status: int) -> int:
    """The status that is wanted, as soon as it comes: connections are taken and given back by another thread."""
    deadline, found = time.monotonic() + 60, 0
    while time.monotonic() < deadline:
        with connected(server) as sock:
            try:
                sock.sendall(REQUEST)
                found = got(sock).status
            except OSError:
                continue  # turned away before the request was there
        if found == status:
            break
    return found


def test_threads_end_with_their_connections(story: Story) -> None:
    before = set(threading.enumerate())  # those of other tests may be ending still
    with served(story.answers()) as server:
        for _ in range(50):
            ask(server, "/healthz")
        held = connected(server)
    held.close()

    assert eventually(lambda: not set(threading.enumerate()) - before)


def test_nothing_of_a_request_is_written_anywhere(guarded: HttpServer, capfd: pytest.CaptureFixture[str]) -> None:
    ask(guarded, "/api/streams?token=secret", headers={"Authorization": "Bearer wrong"})
    with connected(guarded) as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        got(sock)

    assert capfd.readouterr() == ("", "")


# Where it listens.


def test_a_port_in_use_is_named_with_what_to_do(story: Story) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError) as caught,
            run_http_server(DaemonSettings(http=ListenAddress(host="127.0.0.1", port=port)), story.answers()),
        ):
            pass

    assert str(port) in caught.value.message
    assert "daemon.http" in caught.value.hint


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_others_is_refused(story: Story, host: str) -> None:
    settings = DaemonSettings(http=ListenAddress(host=host, port=0))
    with pytest.raises(ConfigError, match=host.replace(".", r"\.")), run_http_server(settings, story.answers()):
        pass


def test_it_listens_at_ipv6(story: Story) -> None:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with served(story.answers(), host="::1") as server:
        assert server.url == f"http://[::1]:{server.address.port}/"
        assert ask(server, "/healthz").status == 200


def test_off_is_off(story: Story) -> None:
    with run_http_server(DaemonSettings(http=None), story.answers()) as server:
        assert server is None


def test_whoever_listens_to_all_without_a_token_is_told(story: Story) -> None:
    said: list[str] = []

    with run_http_server(
        DaemonSettings(http=ListenAddress(host="0.0.0.0", port=0)), story.answers(), report=said.append
    ):
        pass

    assert any("daemon.token" in line for line in said)


# History and health.


def test_a_lake_that_is_away_is_told_and_harms_nothing_else(story: Story) -> None:
    def away(*_: object) -> list[object]:
        raise StateUnreadable("entry 7 is gone", hint="Audit the history: syncd audit")

    with served(story.answers(history=away)) as server:  # type: ignore[arg-type]  # it gives nothing
        api, page = ask(server, "/api/streams/orders/history"), ask(server, "/streams/orders/history")

        assert (api.status, api.json) == (503, {"error": "entry 7 is gone", "hint": "Audit the history: syncd audit"})
        assert (page.status, "entry 7 is gone" in page.text) == (503, True)
        assert ask(server, "/").status == 200


def test_a_bug_in_reading_history_is_told_without_what_it_says(story: Story) -> None:
    def broken(*_: object) -> list[object]:
        raise RuntimeError("password=hunter2")

    with served(story.answers(history=broken)) as server:  # type: ignore[arg-type]  # as above
        found = ask(server, "/api/streams/orders/history")

    assert found.status == 503
    assert "hunter2" not in found.text


def test_history_is_asked_for_in_bounds(server: HttpServer) -> None:
    newest = ask(server, "/api/streams/orders/history?limit=3").json["entries"]
    older = ask(server, f"/api/streams/orders/history?limit=500&before={newest[-1]['revision']}").json["entries"]

    assert [entry["revision"] for entry in newest] == [44, 43, 42]
    assert (older[0]["revision"], len(older)) == (41, 41)


def test_a_loop_that_hangs_is_not_alive(story: Story) -> None:
    health = HealthChecker(
        clock=story.clock, last_iteration_at=lambda: story.clock.monotonic() - 61, probe_lake=lambda: None
    )
    answers = story.answers()
    answers._health = health
    with served(answers) as server:
        found = ask(server, "/healthz")

        assert (found.status, found.json) == (503, {"status": "not ok", "reason": "the loop has not run for 61 s"})
        assert ask(server, "/readyz").status == 503


def test_a_pass_that_was_cut_says_nothing_of_the_lake(story: Story) -> None:
    health = HealthChecker(clock=story.clock, last_iteration_at=story.clock.monotonic, probe_lake=lambda: None)
    answers = story.answers()
    answers._health = health
    health(ended(EXTRACT, error=LakeDown("the lake is away")))
    health(ended(EXTRACT, interrupted=True))
    with served(answers) as server:
        found = ask(server, "/readyz")

    assert (found.status, found.json["reason"]) == (503, "the lake did not answer: the lake is away")
