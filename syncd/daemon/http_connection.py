"""One connection: one request is read within bounds, answered, and the connection ended."""

import gzip
import io
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from enum import Enum, auto
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from typing import Final

from syncd.daemon.auth import Gate
from syncd.daemon.routes import OPEN, Answer, Answers, refusal
from syncd.errors import hinted

LONGEST_HEAD: Final = 16_384
"""Bytes of a request's line and headers."""
LONGEST_TARGET: Final = 4_096
WORTH_PACKING: Final = 1_024
"""Bytes from which on a body is compressed for whoever can read that."""
WORDS: Final = 3
"""Of a request's first line."""
LEFT: Final = 65_536
"""Bytes of a body that nobody wanted and that are read away, so that the answer arrives."""
LEFT_FOR: Final = 1.0
"""Seconds for which they are."""

_ALWAYS: Final = {
    "Server": "syncd",
    "Connection": "close",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class BadRequest(Exception):
    """What came is no request that is answered; the refusal says why."""

    def __init__(self, status: HTTPStatus, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.answer = refusal(status, message, hint, as_json=False)


class Phase(Enum):
    """How far a connection has come."""

    ASKING = auto()
    """The head of its request is awaited."""
    AT_WORK = auto()
    """Its answer is being made."""
    TELLING = auto()
    """Its answer is on its way, as fast as the client reads."""
    TOLD = auto()
    """Nothing more is to be said, and the client is to end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The head of a request."""

    method: str
    target: str
    headers: Message

    @property
    def packs(self) -> bool:
        """Whether the client can read what is compressed."""
        return "gzip" in (self.headers.get("Accept-Encoding") or "")


def serve(sock: socket.socket, answers: Answers, gate: Gate, entered: Callable[[Phase], None]) -> None:
    """Answer the one request that comes over a connection; a client that goes away is no error.

    `entered` hears of every phase but the first.
    """
    with suppress(OSError):
        request = None
        try:
            request = read_request(sock)
            if request is None:
                return
            entered(Phase.AT_WORK)
            answer = _answered(request, answers, gate)
        except BadRequest as error:
            answer = error.answer
        whole = written(answer, request)
        entered(Phase.TELLING)
        sock.sendall(whole)
        entered(Phase.TOLD)
        _drain(sock)


def read_request(sock: socket.socket) -> Request | None:
    """The head of a request; None where the client said nothing.

    Raises:
        BadRequest: it is too long, or none.
    """
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        if len(head) > LONGEST_HEAD:
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head has at most {LONGEST_HEAD} bytes")
        found = sock.recv(4_096)
        if not found:
            return None
        head += found
    return _request_of(head)


def _request_of(head: bytes) -> Request:
    reader = io.BytesIO(head)
    words = reader.readline().decode("latin-1").split()
    if len(words) != WORDS or not words[2].startswith("HTTP/1."):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1")
    if len(words[1]) > LONGEST_TARGET:
        raise BadRequest(HTTPStatus.REQUEST_URI_TOO_LONG, f"a path has at most {LONGEST_TARGET} characters")
    try:
        headers = parse_headers(reader)
    except HTTPException as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "these headers cannot be read") from error
    return Request(method=words[0], target=words[1], headers=headers)


def _answered(request: Request, answers: Answers, gate: Gate) -> Answer:
    if request.method not in {"GET", "HEAD"}:
        answer = refusal(HTTPStatus.METHOD_NOT_ALLOWED, "everything here is read-only", as_json=False)
        return _with(answer, {"Allow": "GET, HEAD"})
    if not request.target.startswith("/"):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "this is no path", "This is no proxy.")
    if not gate.knows(request.headers.get("Host")):
        hint = "Call it localhost, or set `daemon.token`."
        raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, "nothing here has this name", hint)
    trusted = gate.admits(request.headers.get("Authorization"))
    if not trusted and request.target.partition("?")[0] not in OPEN:
        hint = "Send it as `Authorization: Bearer ...`; a browser asks for it as a password, of any user."
        answer = refusal(HTTPStatus.UNAUTHORIZED, "a token is wanted", hint, as_json=False)
        return _with(answer, {"WWW-Authenticate": 'Basic realm="syncd", charset="UTF-8"'})
    try:
        return answers.to(request.target, trusted=trusted)
    except Exception as error:  # noqa: BLE001  # a bug of ours is told in a line, and ends no thread of the server
        return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, hinted(error).message, as_json=False)


def _with(answer: Answer, headers: dict[str, str]) -> Answer:
    return Answer(status=answer.status, type=answer.type, body=answer.body, headers={**answer.headers, **headers})


def written(answer: Answer, request: Request | None) -> bytes:
    """An answer as bytes; of a HEAD, all but its body."""
    headers = {**_ALWAYS, **answer.headers, "Content-Type": answer.type}
    body = answer.body
    if request is not None and request.packs and len(body) >= WORTH_PACKING:
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    headers["Content-Length"] = str(len(body))
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        *(f"{name}: {headers[name]}" for name in headers),
    ]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if request is not None and request.method == "HEAD" else head + body


def _drain(sock: socket.socket) -> None:
    """Say that nothing more comes, and read away what was sent unasked: else the answer could be lost with it."""
    sock.shutdown(socket.SHUT_WR)
    sock.settimeout(0.2)
    left, until = LEFT, time.monotonic() + LEFT_FOR
    while left > 0 and time.monotonic() < until and (found := sock.recv(8_192)):
        left -= len(found)
