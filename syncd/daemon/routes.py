"""What is answered to a request: health, metrics, JSON and pages; all of it is read, none of it changes anything."""

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
from syncd.observe.dashboard.history_page import history_error_page, history_page
from syncd.observe.dashboard.overview_page import overview_page
from syncd.observe.dashboard.page_frame import POLICY
from syncd.observe.dashboard.stream_page import stream_page
from syncd.observe.json_fields import board_to_json, stream_detail_to_json, stream_name_to_json
from syncd.observe.mark_history import MarkHistoryEntry
from syncd.observe.metrics import CONTENT_TYPE, Metrics
from watermarks.errors import HintedError, Misuse
from watermarks.names import StreamName

JSON_CONTENT_TYPE: Final = "application/json"
HTML_CONTENT_TYPE: Final = "text/html; charset=utf-8"
TEXT_CONTENT_TYPE: Final = "text/plain; charset=utf-8"
DEFAULT_HISTORY_ENTRIES: Final = 20
"""So many entries of history at once, unless more are asked for."""
MAX_HISTORY_ENTRIES: Final = 100
MAX_HISTORY_READS: Final = 2
"""So many requests may read history from the lake at once: it costs a request to S3 for each entry."""
HISTORY_WAIT_SECONDS: Final = 5.0
"""Seconds that another one waits for its turn."""
PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What a probe may ask without a token."""

ReadHistory: TypeAlias = Callable[[StreamName, int, int | None], Sequence[MarkHistoryEntry]]
"""Reads so many entries of a stream's history, those before a revision, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A status, and what goes with it."""

    status: HTTPStatus = HTTPStatus.OK
    content_type: str = JSON_CONTENT_TYPE
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class UnknownPath(Misuse):
    """Nothing is at this path."""


class InvalidParameter(Misuse):
    """A parameter of the request means nothing."""


class Routes:
    """Everything that can be asked."""

    def __init__(self, *, board: Board, metrics: Metrics, health: HealthChecker, read_history: ReadHistory) -> None:
        self._board = board
        self._metrics = metrics
        self._health = health
        self._read_history = read_history
        self._history_slots = threading.Semaphore(MAX_HISTORY_READS)

    def respond(self, target: str, *, trusted: bool) -> HttpResponse:
        """The answer to a GET of a path with its query; who is not `trusted` hears of health yes or no, and no more."""
        # Not as an address is split: what begins with two slashes would have a host, and maybe none that there can be.
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
                raise UnknownPath("there is nothing here", hint="There are: / /api/streams /metrics /healthz /readyz")

    def _stream_api(self, name: str, rest: list[str], query: "_Query") -> HttpResponse:
        one, at = self._find_stream(name)
        match rest:
            case []:
                return _json_response(stream_detail_to_json(one, at=at))
            case ["history"]:
                try:
                    moves = self._read_history_page(one.stream, query)
                except HintedError as error:
                    if isinstance(error, InvalidParameter):
                        raise
                    return error_response(HTTPStatus.SERVICE_UNAVAILABLE, error.message, error.hint, as_json=True)
                return _json_response(
                    {**stream_name_to_json(one.stream), "entries": [move.to_json() for move in moves]}
                )
            case _:
                raise UnknownPath(
                    "there is nothing here", hint="There are: /api/streams/NAME and /api/streams/NAME/history"
                )

    def _stream_pages(self, name: str, rest: list[str], query: "_Query") -> HttpResponse:
        one, at = self._find_stream(name)
        match rest:
            case []:
                return _html_response(stream_page(one, now=at))
            case ["history"]:
                try:
                    return _html_response(history_page(one.stream, self._read_history_page(one.stream, query), now=at))
                except HintedError as error:
                    if isinstance(error, InvalidParameter):
                        raise
                    page = history_error_page(one.stream, error.message, error.hint)
                    return _html_response(page, status=HTTPStatus.SERVICE_UNAVAILABLE)
            case _:
                raise UnknownPath("there is nothing here", hint="There are: /streams/NAME and /streams/NAME/history")

    def _find_stream(self, quoted_name: str) -> tuple[StreamView, datetime]:
        seen, name = self._board.view(), unquote(quoted_name)
        one = seen.find(name)
        if one is None:
            raise UnknownPath(f"no stream is called {name!r}", hint="See: /api/streams")
        return one, seen.at

    def _read_history_page(self, stream: StreamName, query: "_Query") -> Sequence[MarkHistoryEntry]:
        limit = min(query.number("limit", DEFAULT_HISTORY_ENTRIES), MAX_HISTORY_ENTRIES)
        before = query.number("before", 0) or None
        if not self._history_slots.acquire(timeout=HISTORY_WAIT_SECONDS):
            raise HintedError("others are reading history from the lake", hint="Try again in a moment.")
        try:
            return self._read_history(stream, limit, before)
        except Exception as error:  # whatever befalls a look at the lake, the answer says so
            raise to_hinted_error(error) from error
        finally:
            self._history_slots.release()


class _Query:
    """The parameters of a request."""

    def __init__(self, text: str) -> None:
        self._values = parse_qs(text, max_num_fields=20) if text.count("&") < 20 else {}  # noqa: PLR2004  # as there

    def text(self, name: str) -> str:
        return self._values.get(name, [""])[0]

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 18 and int(text)):  # noqa: PLR2004  # of revisions
            raise InvalidParameter(f"{name} is a number from 1 on", hint=f"Such as: ?{name}=20")
        return int(text)


def error_response(status: HTTPStatus, message: str, hint: str = "", *, as_json: bool) -> HttpResponse:
    """An answer that says why there is no other."""
    if as_json:
        return _json_response({"error": message, "hint": hint or None}, status=status)
    lines = f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")
    return HttpResponse(status=status, content_type=TEXT_CONTENT_TYPE, body=lines.encode())


def _health_response(health: HealthStatus, *, trusted: bool) -> HttpResponse:
    status = HTTPStatus.OK if health.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
    told: dict[str, Any] = {"status": "ok" if health.is_healthy else "not ok"}
    if trusted:
        told["why"] = health.reason or None
    return _json_response(told, status=status)


def _json_response(fields: Mapping[str, Any], *, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return HttpResponse(status=status, content_type=JSON_CONTENT_TYPE, body=body + b"\n")


def _html_response(page: str, *, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    headers = {"Content-Security-Policy": POLICY}
    return HttpResponse(
        status=status, content_type=HTML_CONTENT_TYPE, body=page.encode(errors="replace"), headers=headers
    )
