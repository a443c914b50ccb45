"""A server with a story behind it, and clients that speak to it over real sockets."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from syncd.daemon.http_server import ConnectionLimits, HttpServer, run_http_server
from syncd.daemon.routes import Routes
from syncd.settings import DaemonSettings, ListenAddress, Secret
from tests.services.board_story import Story
from watermarks.testing import ManualClock


@dataclass(frozen=True)
class Got:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def told() -> Story:
    story = Story(ManualClock())
    story.play()
    return story


@contextmanager
def served(
    answers: Routes, *, token: str | None = None, host: str = "127.0.0.1", limits: ConnectionLimits | None = None
) -> Iterator[HttpServer]:
    settings = DaemonSettings(http=ListenAddress(host=host, port=0), token=Secret(token) if token else None)
    with run_http_server(settings, answers, limits=limits) as server:
        assert server is not None
        yield server


def connected(server: HttpServer) -> socket.socket:
    return socket.create_connection((server.address.host, server.address.port), timeout=60)


def ask(server: HttpServer, path: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> Got:
    """One request, and all that comes back."""
    lines = {"Host": "localhost", **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with connected(server) as sock:
        sock.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())
        return got(sock)


def got(sock: socket.socket) -> Got:
    """What comes until the other side ends it."""
    whole = b""
    while piece := sock.recv(65_536):
        whole += piece
    head, _, body = whole.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest)
    return Got(status=int(first.split()[1]), headers=headers, body=body)
