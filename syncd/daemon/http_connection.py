"""HTTP connection: one bounded request, one response, and the end of the connection."""

import base64
import binascii
import gzip
import hmac
import io
import ipaddress
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

from syncd.daemon.routes import PUBLIC_PATHS, HttpResponse, Routes, error_response
from syncd.errors import to_hinted_error
from syncd.settings import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuth:
    """Rule of access: the token, or without one a loopback address called by a loopback name."""

    token: Secret | None
    is_loopback_only: bool
    """True if only this machine can reach the address."""

    def is_authorized(self, authorization: str | None) -> bool:
        """Return whether a request has the token, as a bearer or as the password of a browser's login."""
        if self.token is None:
            return True
        token = _extract_token(authorization or "")
        return hmac.compare_digest(token.encode(), self.token.value.encode())

    def is_host_allowed(self, host: str | None) -> bool:
        """Return whether a request may use this host name.

        A foreign page can make its own name resolve to this machine and read the answers (DNS rebinding). So without
        a token only names of this machine are allowed.
        """
        if self.token is not None or not self.is_loopback_only or host is None:
            return True
        name = host.rpartition(":")[0] if _has_port(host) else host
        name = name.strip("[]").rstrip(".").casefold()
        return name == "localhost" or name.endswith(".localhost") or _is_address(name)


def _extract_token(authorization: str) -> str:
    scheme, _, rest = authorization.partition(" ")
    if scheme.casefold() == "bearer":
        return rest.strip()
    if scheme.casefold() != "basic":
        return ""
    try:
        return base64.b64decode(rest.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _has_port(host: str) -> bool:
    """Return whether a host ends in a port; an IPv6 address with a port is in brackets."""
    return host.rpartition(":")[2].isdecimal() and ("]" in host or host.count(":") == 1)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


MAX_HEAD_BYTES: Final = 16_384
"""Bound for the request line and the headers."""
MAX_TARGET_CHARS: Final = 4_096
MIN_GZIP_BYTES: Final = 1_024
"""Size from which on a body is compressed for clients that accept it."""
REQUEST_LINE_WORDS: Final = 3
MAX_DRAINED_BYTES: Final = 65_536
"""Bytes of an unexpected body that are read and dropped, so that the response arrives."""
DRAIN_SECONDS: Final = 1.0

_COMMON_HEADERS: Final = {
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
    """Request that cannot be answered; holds the response that says why."""

    def __init__(self, status: HTTPStatus, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.response = error_response(status, message, hint, as_json=False)


class ConnectionPhase(Enum):
    """Phase of a connection."""

    READING = auto()
    """Waiting for the head of the request."""
    HANDLING = auto()
    """Making the response."""
    SENDING = auto()
    """Sending the response, as fast as the client reads."""
    SENT = auto()
    """Done; the client is expected to close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Head of a request."""

    method: str
    target: str
    headers: Message

    @property
    def accepts_gzip(self) -> bool:
        return "gzip" in (self.headers.get("Accept-Encoding") or "")


def serve_connection(
    sock: socket.socket, routes: Routes, auth: RequestAuth, on_phase: Callable[[ConnectionPhase], None]
) -> None:
    """Answer the request of a connection; a client that disconnects is no error.

    `on_phase` is called with every phase after the first.
    """
    with suppress(OSError):
        request = None
        try:
            request = read_request(sock)
            if request is None:
                return
            on_phase(ConnectionPhase.HANDLING)
            answer = _respond(request, routes, auth)
        except BadRequest as error:
            answer = error.response
        whole = render_response(answer, request)
        on_phase(ConnectionPhase.SENDING)
        sock.sendall(whole)
        on_phase(ConnectionPhase.SENT)
        _drain(sock)


def read_request(sock: socket.socket) -> HttpRequest | None:
    """Read the head of a request; None if the client sent nothing.

    Raises:
        BadRequest: it is too long or malformed.
    """
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        if len(head) > MAX_HEAD_BYTES:
            raise BadRequest(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the request head is longer than {MAX_HEAD_BYTES} bytes"
            )
        received = sock.recv(4_096)
        if not received:
            return None
        head += received
    return _parse_request(head)


def _parse_request(head: bytes) -> HttpRequest:
    reader = io.BytesIO(head)
    words = reader.readline().decode("latin-1").split()
    if len(words) != REQUEST_LINE_WORDS or not words[2].startswith("HTTP/1."):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the request is not HTTP/1")
    if len(words[1]) > MAX_TARGET_CHARS:
        raise BadRequest(HTTPStatus.REQUEST_URI_TOO_LONG, f"the path is longer than {MAX_TARGET_CHARS} characters")
    try:
        headers = parse_headers(reader)
    except HTTPException as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the request headers cannot be parsed") from error
    return HttpRequest(method=words[0], target=words[1], headers=headers)


def _respond(request: HttpRequest, routes: Routes, auth: RequestAuth) -> HttpResponse:
    if request.method not in {"GET", "HEAD"}:
        answer = error_response(
            HTTPStatus.METHOD_NOT_ALLOWED, "this server is read-only: use GET or HEAD", as_json=False
        )
        return _with_headers(answer, {"Allow": "GET, HEAD"})
    if not request.target.startswith("/"):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the request target must be a path", "This server is not a proxy.")
    if not auth.is_host_allowed(request.headers.get("Host")):
        hint = "Use the host name localhost, or set `daemon.token`."
        raise BadRequest(
            HTTPStatus.MISDIRECTED_REQUEST, "this server does not accept the host name of the request", hint
        )
    trusted = auth.is_authorized(request.headers.get("Authorization"))
    if not trusted and request.target.partition("?")[0] not in PUBLIC_PATHS:
        hint = "Send it as `Authorization: Bearer ...`; in a browser, enter it as the password, with any user name."
        answer = error_response(HTTPStatus.UNAUTHORIZED, "a token is required", hint, as_json=False)
        return _with_headers(answer, {"WWW-Authenticate": 'Basic realm="syncd", charset="UTF-8"'})
    try:
        return routes.respond(request.target, trusted=trusted)
    except Exception as error:  # noqa: BLE001  # a bug is reported in one line and ends no thread of the server
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, to_hinted_error(error).message, as_json=False)


def _with_headers(response: HttpResponse, headers: dict[str, str]) -> HttpResponse:
    return HttpResponse(
        status=response.status,
        content_type=response.content_type,
        body=response.body,
        headers={**response.headers, **headers},
    )


def render_response(response: HttpResponse, request: HttpRequest | None) -> bytes:
    """Return the bytes of a response, without the body for a HEAD request."""
    headers = {**_COMMON_HEADERS, **response.headers, "Content-Type": response.content_type}
    body = response.body
    if request is not None and request.accepts_gzip and len(body) >= MIN_GZIP_BYTES:
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    headers["Content-Length"] = str(len(body))
    lines = [
        f"HTTP/1.1 {response.status.value} {response.status.phrase}",
        *(f"{name}: {headers[name]}" for name in headers),
    ]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if request is not None and request.method == "HEAD" else head + body


def _drain(sock: socket.socket) -> None:
    """Close our side and drop what the client still sends: unread bytes could make it lose the response."""
    sock.shutdown(socket.SHUT_WR)
    sock.settimeout(0.2)
    left, until = MAX_DRAINED_BYTES, time.monotonic() + DRAIN_SECONDS
    while left > 0 and time.monotonic() < until and (received := sock.recv(8_192)):
        left -= len(received)
