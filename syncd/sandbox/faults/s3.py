"""A proxy in front of a real S3 endpoint that injects faults, request by request.

Signatures stay valid, because headers and bytes are passed on unchanged.
"""

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

from syncd.sandbox.process import LOOPBACK

_LINGER_RESET: Final = struct.pack("ii", 1, 0)
_HOP_BY_HOP_HEADERS: Final = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "expect"})
UPSTREAM_TIMEOUT_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Request:
    """The properties of a request that a fault can match."""

    method: str
    bucket: str
    key: str
    query: dict[str, list[str]]
    body: bytes = b""
    """Of a POST: the keys to delete, or the parts of an upload."""


class S3FaultKind(StrEnum):
    ERROR = "error"  # an error answer; the request is not passed on
    ERROR_AFTER = "error after"  # passed on, then an error answer
    LOST = "lost"  # passed on, then the connection is reset without an answer
    CUT = "cut"  # the connection is reset; the request is not passed on
    SLOW = "slow"  # everything works, after a delay
    TRUNCATED = "truncated"  # the answer's body breaks off


@dataclass(slots=True, kw_only=True)
class S3Fault:
    """One fault, for the next `times` requests that match."""

    kind: S3FaultKind
    matches: Callable[[S3Request], bool] = lambda _request: True
    times: int = 1
    status: int = 500
    code: str = "InternalError"
    seconds: float = 0.0
    body_bytes: int = 0
    matched_requests: list[S3Request] = field(default_factory=list)


class S3Proxy:
    """Proxy that passes requests to an S3 endpoint and injects the requested faults."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self._server = (parts.hostname or LOOPBACK, parts.port or 80)
        self._lock = threading.Lock()
        self._faults: list[S3Fault] = []
        self._released = threading.Event()
        self._http = _ProxyServer((LOOPBACK, 0), self._make_handler())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.requests: list[S3Request] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._http.server_address[1]}"

    def inject(self, fault: S3Fault) -> S3Fault:
        """Add a fault; it records the requests that it met."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear_faults(self) -> None:
        """Remove every fault, and let waiting requests go on."""
        with self._lock:
            self._faults.clear()
        self._released.set()
        self._released.clear()

    def take_fault(self, request: S3Request) -> S3Fault | None:
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if len(fault.matched_requests) < fault.times and fault.matches(request):
                    fault.matched_requests.append(request)
                    return fault
        return None

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (_ProxyHandler,), {"upstream": self._server, "released": self._released, "proxy": self})


class _ProxyServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore it: clients that leave in the middle are part of these tests."""


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: tuple[str, int]
    released: threading.Event
    proxy: S3Proxy

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the standard library
        """Log nothing: the proxy records the requests."""

    def do_GET(self) -> None:
        body = b"".join(self._read_body())
        request = _read_request(self.command, self.path, body)
        fault = self.proxy.take_fault(request)
        if fault is None:
            self._answer(self._forward(body))
            return
        if fault.kind is S3FaultKind.SLOW:
            self.released.wait(fault.seconds)
        if fault.kind is S3FaultKind.ERROR:
            self._refuse(fault, request)
        elif fault.kind is S3FaultKind.CUT:
            self._reset()
        else:
            self._answer_with_fault(fault, request, self._forward(body))

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815  # the names that the standard library calls

    def _answer_with_fault(self, fault: S3Fault, request: S3Request, answer: "_Answer") -> None:
        if fault.kind is S3FaultKind.LOST:
            self._reset()
        elif fault.kind is S3FaultKind.ERROR_AFTER:
            self._refuse(fault, request)
        elif fault.kind is S3FaultKind.TRUNCATED:
            self._answer(answer, at_most=fault.body_bytes)
            self._reset()
        else:
            self._answer(answer)

    def _read_body(self) -> Iterator[bytes]:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return
        yield self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forward(self, body: bytes) -> "_Answer":
        host, port = self.upstream
        upstream = http.client.HTTPConnection(host, port, timeout=UPSTREAM_TIMEOUT_SECONDS)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _HOP_BY_HOP_HEADERS | {"content-length"}:
                    upstream.putheader(name, value)
            if body or self.command in ("PUT", "POST"):
                upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body or None)
            got = upstream.getresponse()
            return _Answer(status=got.status, reason=got.reason, headers=got.getheaders(), body=got.read())
        finally:
            upstream.close()

    def _answer(self, answer: "_Answer", *, at_most: int | None = None) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers:
            if name.lower() not in _HOP_BY_HOP_HEADERS | {"content-length"}:
                self.send_header(name, value)
        length = {name.lower(): value for name, value in answer.headers}.get("content-length")
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body if at_most is None else answer.body[:at_most])
        self.wfile.flush()

    def _refuse(self, fault: S3Fault, request: S3Request) -> None:
        text = f"<Error><Code>{fault.code}</Code><Message>injected fault</Message><Key>{request.key}</Key></Error>"
        body = b"" if self.command == "HEAD" else text.encode()
        self.send_response_only(fault.status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self.connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


def _read_request(method: str, target: str, body: bytes) -> S3Request:
    parts = urlsplit(target)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    return S3Request(method=method, bucket=bucket, key=key, query=query, body=body if method == "POST" else b"")
