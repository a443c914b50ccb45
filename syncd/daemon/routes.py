"""Routes of the HTTP server: health, metrics, JSON and pages, all of them read-only."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote

from syncd.daemon.health import HealthChecker, HealthStatus
from syncd.errors import to_hinted_error
from syncd.observe.board import Board
from syncd.observe.board_view import StreamView
from syncd.observe.dashboard.overview_page import overview_page
from syncd.observe.dashboard.page_frame import POLICY
from syncd.observe.dashboard.stream_page import history_error_page, history_page, stream_page
from syncd.observe.json_fields import board_to_json, stream_detail_to_json, stream_name_to_json
from syncd.observe.mark_history import MarkHistoryEntry
from syncd.observe.metrics import CONTENT_TYPE, Metrics
from watermarks.errors import HintedError, Misuse
from watermarks.names import StreamName

JSON_CONTENT_TYPE: Final = "application/json"
HTML_CONTENT_TYPE: Final = "text/html; charset=utf-8"
TEXT_CONTENT_TYPE: Final = "text/plain; charset=utf-8"
DEFAULT_HISTORY_ENTRIES: Final = 20
MAX_HISTORY_ENTRIES: Final = 100
MAX_HISTORY_READS: Final = 2
"""Requests that may read history at once: each entry costs a request to S3."""
HISTORY_WAIT_SECONDS: Final = 5.0
"""Time that another one waits for its turn."""
PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Paths that need no token."""

ReadHistory: TypeAlias = Callable[[StreamName, int, int | None], Sequence[MarkHistoryEntry]]
"""Reads at most so many entries of a stream's history before a revision, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """HTTP response."""

    status: HTTPStatus = HTTPStatus.OK
    content_type: str = JSON_CONTENT_TYPE
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class UnknownPath(Misuse):
    """The path does not exist."""


class InvalidParameter(Misuse):
    """A parameter of the request is invalid."""


class Routes:
    """All paths of the server."""

    def __init__(self, *, board: Board, metrics: Metrics, health: HealthChecker, read_history: ReadHistory) -> None:
        self._board = board
        self._metrics = metrics
        self._health = health
        self._read_history = read_history
        self._history_slots = threading.Semaphore(MAX_HISTORY_READS)

    def respond(self, target: str, *, trusted: bool) -> HttpResponse:
        """Answer a GET of a path with its query; clients that are not `trusted` get no reasons of health checks."""
        # Not by urlsplit: it would take a path that begins with two slashes for a host.
        path, _, query = target.partition("#")[0].partition("?")
        wants_json = path.startswith("/api/")
        try:
            return self._route(path, _Query(query), trusted=trusted)
        except UnknownPath as error:
            return error_response(HTTPStatus.NOT_FOUND, error.message, error.hint, as_json=wants_json)
        except InvalidParameter as error:
            return error_response(HTTPStatus.BAD_REQUEST, error.message, error.hint, as_json=wants_json)

    def _route(self, path: str, query: "_Query", *, trusted: bool) -> HttpResponse:  # noqa: PLR0911  # a path each
        match path.split("/")[1:]:
            case ["healthz"]:
                return _health_response(self._health.check_alive(), trusted=trusted)
            case ["readyz"]:
                return _health_response(self._health.check_ready(), trusted=trusted)
            case ["metrics"]:
                return HttpResponse(content_type=CONTENT_TYPE, body=self._metrics.render())
            case ["api", "streams"]:
                return _json_response(board_to_json(self._board.view()))
            case ["api", "streams", name, *rest]:
                return self._stream_api(name, rest, query)
            case [""]:
                return _html_response(overview_page(self._board.view(), search=query.text("find")))
            case ["streams", name, *rest]:
                return self._stream_pages(name, rest, query)
            case _:
                raise UnknownPath(
                    "this path does not exist", hint="Available paths: / /api/streams /metrics /healthz /readyz"
                )

    def _stream_api(self, name: str, rest: list[str], query: "_Query") -> HttpResponse:
        view, at = self._find_stream(name)
        match rest:
            case []:
                return _json_response(stream_detail_to_json(view, at=at))
            case ["history"]:
                try:
                    entries = self._read_history_page(view.stream, query)
                except HintedError as error:
                    if isinstance(error, InvalidParameter):
                        raise
                    return error_response(HTTPStatus.SERVICE_UNAVAILABLE, error.message, error.hint, as_json=True)
                return _json_response(
                    {**stream_name_to_json(view.stream), "entries": [entry.to_json() for entry in entries]}
                )
            case _:
                raise UnknownPath(
                    "this path does not exist", hint="Available paths: /api/streams/NAME and /api/streams/NAME/history"
                )

    def _stream_pages(self, name: str, rest: list[str], query: "_Query") -> HttpResponse:
        view, at = self._find_stream(name)
        match rest:
            case []:
                return _html_response(stream_page(view, now=at))
            case ["history"]:
                try:
                    return _html_response(
                        history_page(view.stream, self._read_history_page(view.stream, query), now=at)
                    )
                except HintedError as error:
                    if isinstance(error, InvalidParameter):
                        raise
                    page = history_error_page(view.stream, error.message, error.hint)
                    return _html_response(page, status=HTTPStatus.SERVICE_UNAVAILABLE)
            case _:
                raise UnknownPath(
                    "this path does not exist", hint="Available paths: /streams/NAME and /streams/NAME/history"
                )

    def _find_stream(self, quoted_name: str) -> tuple[StreamView, datetime]:
        board, name = self._board.view(), unquote(quoted_name)
        stream = board.find(name)
        if stream is None:
            raise UnknownPath(f"there is no stream {name!r}", hint="See: /api/streams")
        return stream, board.at

    def _read_history_page(self, stream: StreamName, query: "_Query") -> Sequence[MarkHistoryEntry]:
        limit = min(query.number("limit", DEFAULT_HISTORY_ENTRIES), MAX_HISTORY_ENTRIES)
        before = query.number("before", 0) or None
        if not self._history_slots.acquire(timeout=HISTORY_WAIT_SECONDS):
            raise HintedError("other requests are reading history from the lake", hint="Try again in a moment.")
        try:
            return self._read_history(stream, limit, before)
        except Exception as error:  # the response names every error of the lake
            raise to_hinted_error(error) from error
        finally:
            self._history_slots.release()


class _Query:
    """The parameters of a request."""

    def __init__(self, text: str) -> None:
        self._values = parse_qs(text, max_num_fields=20) if text.count("&") < 20 else {}  # noqa: PLR2004  # the same number

    def text(self, name: str) -> str:
        return self._values.get(name, [""])[0]

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 18 and int(text)):  # noqa: PLR2004  # more than any revision
            raise InvalidParameter(f"{name} must be a whole number above 0", hint=f"For example: ?{name}=20")
        return int(text)


def error_response(status: HTTPStatus, message: str, hint: str = "", *, as_json: bool) -> HttpResponse:
    """Return the response for an error."""
    if as_json:
        return _json_response({"error": message, "hint": hint or None}, status=status)
    lines = f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")
    return HttpResponse(status=status, content_type=TEXT_CONTENT_TYPE, body=lines.encode())


def _health_response(health: HealthStatus, *, trusted: bool) -> HttpResponse:
    status = HTTPStatus.OK if health.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
    fields: dict[str, Any] = {"status": "ok" if health.is_healthy else "not ok"}
    if trusted:
        fields["reason"] = health.reason or None
    return _json_response(fields, status=status)


def _json_response(fields: Mapping[str, Any], *, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return HttpResponse(status=status, content_type=JSON_CONTENT_TYPE, body=body + b"\n")


def _html_response(page: str, *, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    headers = {"Content-Security-Policy": POLICY}
    return HttpResponse(
        status=status, content_type=HTML_CONTENT_TYPE, body=page.encode(errors="replace"), headers=headers
    )
