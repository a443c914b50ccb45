"""HTTP server of the daemon: a bounded number of connections, each with one request and a time limit."""

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from syncd.daemon.http_connection import ConnectionPhase, RequestAuth, render_response, serve_connection
from syncd.daemon.routes import Routes, error_response
from syncd.errors import ConfigError
from syncd.ports.preflight import is_loopback_host
from syncd.settings import DaemonSettings, ListenAddress

MAX_CONNECTIONS: Final = 32
"""One connection more closes one that waits for its client."""
HEAD_TIMEOUT_SECONDS: Final = 3.0
"""Timeout for the whole head of a request."""
CLIENT_TIMEOUT_SECONDS: Final = 10.0
"""Timeout for a client that does not read."""
CONNECTION_TIMEOUT_SECONDS: Final = 30.0
"""Timeout for a whole connection."""
ACCEPT_POLL_SECONDS: Final = 0.5
_BUSY_RESPONSE: Final = error_response(
    HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once", "Try again in a second.", as_json=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of the server."""

    max_connections: int = MAX_CONNECTIONS
    head_timeout_seconds: float = HEAD_TIMEOUT_SECONDS
    client_timeout_seconds: float = CLIENT_TIMEOUT_SECONDS
    connection_timeout_seconds: float = CONNECTION_TIMEOUT_SECONDS


@dataclass(slots=True)
class _OpenConnection:
    accepted_at: float
    phase: ConnectionPhase = ConnectionPhase.READING


class HttpServer:
    """Listens at one address and answers from threads of its own."""

    def __init__(self, listener: socket.socket, routes: Routes, auth: RequestAuth, limits: ConnectionLimits) -> None:
        self._listener = listener
        self._routes = routes
        self._auth = auth
        self._limits = limits
        self._guard = threading.Lock()
        self._connections: dict[socket.socket, _OpenConnection] = {}
        """Open connections, the oldest first."""
        self._over = threading.Event()

    @property
    def address(self) -> ListenAddress:
        """Address with the actual port, also if the configuration asks for any port."""
        host, port = self._listener.getsockname()[:2]
        return ListenAddress(host=host, port=port)

    @property
    def url(self) -> str:
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"http://{host}:{self.address.port}/"

    def run(self) -> None:
        """Accept connections until `stop`."""
        self._listener.settimeout(ACCEPT_POLL_SECONDS)
        while not self._over.is_set():
            self._close_overdue()
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError as error:
                if self._over.is_set():
                    return
                # Out of descriptors, or a client that has gone: neither ends the server.
                if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                    self._over.wait(ACCEPT_POLL_SECONDS)
                continue
            self._accept_connection(sock)

    def stop(self) -> None:
        """Stop accepting and close the open connections."""
        self._over.set()
        with self._guard:
            for sock in self._connections:
                _shut_down(sock)

    def _accept_connection(self, sock: socket.socket) -> None:
        sock.settimeout(self._limits.client_timeout_seconds)
        with self._guard:
            is_accepted = len(self._connections) < self._limits.max_connections or self._evict_connection()
            if is_accepted:
                self._connections[sock] = _OpenConnection(time.monotonic())
        if not is_accepted:
            _refuse_busy(sock)
            return
        try:
            threading.Thread(target=self._serve, args=(sock,), name="http", daemon=True).start()
        except RuntimeError:  # the host allows no more threads
            self._close_connection(sock)

    def _evict_connection(self) -> bool:
        """Close the oldest connection that waits for its client; return whether there was one.

        So a client that only holds connections loses its own, and health probes get in. A connection whose response
        is being sent goes last, one whose response is being made never.
        """
        for phases in ({ConnectionPhase.READING, ConnectionPhase.SENT}, {ConnectionPhase.SENDING}):
            for sock, connection in self._connections.items():
                if connection.phase in phases:
                    del self._connections[sock]
                    _shut_down(sock)
                    return True
        return False

    def _serve(self, sock: socket.socket) -> None:
        try:
            serve_connection(sock, self._routes, self._auth, lambda phase: self._set_phase(sock, phase))
        finally:
            self._close_connection(sock)

    def _set_phase(self, sock: socket.socket, phase: ConnectionPhase) -> None:
        with self._guard:
            if sock in self._connections:
                self._connections[sock].phase = phase

    def _close_connection(self, sock: socket.socket) -> None:
        with self._guard:
            self._connections.pop(sock, None)
        sock.close()

    def _close_overdue(self) -> None:
        """Close connections that take too long, even if they send a byte now and then."""
        now, limits = time.monotonic(), self._limits
        with self._guard:
            for sock, connection in self._connections.items():
                is_reading = connection.phase is ConnectionPhase.READING
                timeout = limits.head_timeout_seconds if is_reading else limits.connection_timeout_seconds
                if now - connection.accepted_at > timeout:
                    _shut_down(sock)


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        sock.shutdown(socket.SHUT_RDWR)


def _refuse_busy(sock: socket.socket) -> None:
    with closing(sock), suppress(OSError):
        sock.settimeout(0)  # the accepting thread must not wait for a client
        sock.send(render_response(_BUSY_RESPONSE, None).replace(b"\r\n", b"\r\nRetry-After: 1\r\n", 1))
        sock.shutdown(socket.SHUT_WR)


def open_listener(address: ListenAddress) -> socket.socket:
    """Open a listening socket.

    Raises:
        ConfigError: the address is in use, forbidden, or not one of this machine.
    """
    location = f"{address.host}:{address.port}"
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, socket_address = found[0]
        return socket.create_server(socket_address[:2], family=family, backlog=64, reuse_port=False)
    except OSError as error:
        raise _listen_error(error, location, address) from error


def _listen_error(error: OSError, location: str, address: ListenAddress) -> ConfigError:
    match error.errno:
        case errno.EADDRINUSE:
            return ConfigError(
                f"port {address.port} at {address.host} is in use: `daemon.http` cannot listen there",
                hint=f"Find the process: ss -ltnp 'sport = :{address.port}'  Or set another address, or `off`, in"
                " `daemon.http`.",
                port=address.port,
            )
        case errno.EACCES:
            why, hint = "this user may not listen there", "Set a port from 1024 on in `daemon.http`."
        case _:
            why, hint = (
                "this machine has no such address",
                "Set one of its addresses in `daemon.http`, such as 127.0.0.1:8080.",
            )
    return ConfigError(f"`daemon.http` cannot listen at {location}: {why}", hint=hint, port=address.port)


@contextmanager
def run_http_server(
    settings: DaemonSettings,
    routes: Routes,
    *,
    report: Callable[[str], None] = lambda _line: None,
    limits: ConnectionLimits | None = None,
) -> Iterator[HttpServer | None]:
    """Run the server inside the `with`; without `daemon.http` there is none.

    Raises:
        ConfigError: it cannot listen at the address.
    """
    if settings.http is None:
        yield None
        return
    host = settings.http.host
    auth = RequestAuth(token=settings.token, is_loopback_only=is_loopback_host(host))
    with closing(open_listener(settings.http)) as listener:
        server = HttpServer(listener, routes, auth, limits or ConnectionLimits())
        if settings.token is None and not is_loopback_host(host):
            report(f"everyone who reaches {server.url} may read it: set `daemon.token`")
        thread = threading.Thread(target=server.run, name="http-listener", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()
