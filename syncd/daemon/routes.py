"""What is answered to a request: health, metrics, JSON and pages; all of it is read, none of it changes anything."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote

from syncd.daemon.health import Health, Verdict
from syncd.errors import hinted
from syncd.observe.board import Board
from syncd.observe.board_view import StreamSeen
from syncd.observe.dashboard.history_page import history_page, no_history_page
from syncd.observe.dashboard.overview_page import overview
from syncd.observe.dashboard.page_frame import POLICY
from syncd.observe.dashboard.stream_page import stream_page
from syncd.observe.json_fields import board_fields, named, one_fields
from syncd.observe.mark_history import Move
from syncd.observe.metrics import CONTENT_TYPE, Metrics
from watermarks.errors import HintedError, Misuse
from watermarks.names import StreamName

JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
ENTRIES: Final = 20
"""So many entries of history at once, unless more are asked for."""
MOST_ENTRIES: Final = 100
AT_ONCE: Final = 2
"""So many requests may read history from the lake at once: it costs a request to S3 for each entry."""
PATIENCE: Final = 5.0
"""Seconds that another one waits for its turn."""
OPEN: Final = frozenset({"/healthz", "/readyz"})
"""What a probe may ask without a token."""

History: TypeAlias = Callable[[StreamName, int, int | None], Sequence[Move]]
"""Reads so many entries of a stream's history, those before a revision, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status, and what goes with it."""

    status: HTTPStatus = HTTPStatus.OK
    type: str = JSON
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class NotThere(Misuse):
    """Nothing is at this path."""


class AskedWrongly(Misuse):
    """A parameter of the request means nothing."""


class Answers:
    """Everything that can be asked."""

    def __init__(self, *, board: Board, metrics: Metrics, health: Health, history: History) -> None:
        self._board = board
        self._metrics = metrics
        self._health = health
        self._history = history
        self._turn = threading.Semaphore(AT_ONCE)

    def to(self, target: str, *, trusted: bool) -> Answer:
        """The answer to a GET of a path with its query; who is not `trusted` hears of health yes or no, and no more."""
        # Not as an address is split: what begins with two slashes would have a host, and maybe none that there can be.
        path, _, query = target.partition("#")[0].partition("?")
        wants_json = path.startswith("/api/")
        try:
            return self._found(path, _Query(query), trusted=trusted)
        except NotThere as error:
            return refusal(HTTPStatus.NOT_FOUND, error.message, error.hint, as_json=wants_json)
        except AskedWrongly as error:
            return refusal(HTTPStatus.BAD_REQUEST, error.message, error.hint, as_json=wants_json)

    def _found(self, path: str, query: "_Query", *, trusted: bool) -> Answer:  # noqa: PLR0911  # a path each
        match path.split("/")[1:]:
            case ["healthz"]:
                return _verdict(self._health.alive(), trusted=trusted)
            case ["readyz"]:
                return _verdict(self._health.ready(), trusted=trusted)
            case ["metrics"]:
                return Answer(type=CONTENT_TYPE, body=self._metrics.text())
            case ["api", "streams"]:
                return _json(board_fields(self._board.view()))
            case ["api", "streams", name, *rest]:
                return self._api(name, rest, query)
            case [""]:
                return _page(overview(self._board.view(), find=query.text("find")))
            case ["streams", name, *rest]:
                return self._pages(name, rest, query)
            case _:
                raise NotThere("there is nothing here", hint="There are: / /api/streams /metrics /healthz /readyz")

    def _api(self, name: str, rest: list[str], query: "_Query") -> Answer:
        one, at = self._stream(name)
        match rest:
            case []:
                return _json(one_fields(one, at=at))
            case ["history"]:
                try:
                    moves = self._moves(one.stream, query)
                except HintedError as error:
                    if isinstance(error, AskedWrongly):
                        raise
                    return refusal(HTTPStatus.SERVICE_UNAVAILABLE, error.message, error.hint, as_json=True)
                return _json({**named(one.stream), "entries": [move.fields() for move in moves]})
            case _:
                raise NotThere(
                    "there is nothing here", hint="There are: /api/streams/NAME and /api/streams/NAME/history"
                )

    def _pages(self, name: str, rest: list[str], query: "_Query") -> Answer:
        one, at = self._stream(name)
        match rest:
            case []:
                return _page(stream_page(one, now=at))
            case ["history"]:
                try:
                    return _page(history_page(one.stream, self._moves(one.stream, query), now=at))
                except HintedError as error:
                    if isinstance(error, AskedWrongly):
                        raise
                    page = no_history_page(one.stream, error.message, error.hint)
                    return _page(page, status=HTTPStatus.SERVICE_UNAVAILABLE)
            case _:
                raise NotThere("there is nothing here", hint="There are: /streams/NAME and /streams/NAME/history")

    def _stream(self, piece: str) -> tuple[StreamSeen, datetime]:
        seen, name = self._board.view(), unquote(piece)
        one = seen.find(name)
        if one is None:
            raise NotThere(f"no stream is called {name!r}", hint="See: /api/streams")
        return one, seen.at

    def _moves(self, stream: StreamName, query: "_Query") -> Sequence[Move]:
        limit = min(query.number("limit", ENTRIES), MOST_ENTRIES)
        before = query.number("before", 0) or None
        if not self._turn.acquire(timeout=PATIENCE):
            raise HintedError("others are reading history from the lake", hint="Try again in a moment.")
        try:
            return self._history(stream, limit, before)
        except Exception as error:  # whatever befalls a look at the lake, the answer says so
            raise hinted(error) from error
        finally:
            self._turn.release()


class _Query:
    """The parameters of a request."""

    def __init__(self, text: str) -> None:
        self._found = parse_qs(text, max_num_fields=20) if text.count("&") < 20 else {}  # noqa: PLR2004  # as there

    def text(self, name: str) -> str:
        return self._found.get(name, [""])[0]

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 18 and int(text)):  # noqa: PLR2004  # of revisions
            raise AskedWrongly(f"{name} is a number from 1 on", hint=f"Such as: ?{name}=20")
        return int(text)


def refusal(status: HTTPStatus, message: str, hint: str = "", *, as_json: bool) -> Answer:
    """An answer that says why there is no other."""
    if as_json:
        return _json({"error": message, "hint": hint or None}, status=status)
    lines = f"error: {message}\n" + (f"hint: {hint}\n" if hint else "")
    return Answer(status=status, type=TEXT, body=lines.encode())


def _verdict(verdict: Verdict, *, trusted: bool) -> Answer:
    status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
    told: dict[str, Any] = {"status": "ok" if verdict.good else "not ok"}
    if trusted:
        told["why"] = verdict.why or None
    return _json(told, status=status)


def _json(told: Mapping[str, Any], *, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return Answer(status=status, type=JSON, body=body + b"\n")


def _page(page: str, *, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    headers = {"Content-Security-Policy": POLICY}
    return Answer(status=status, type=HTML, body=page.encode(errors="replace"), headers=headers)
