"""The daemon's HTTP server: a bounded number of connections, each with one request and not much time."""

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from syncd.config.value_parsers import is_loopback
from syncd.daemon.auth import Gate
from syncd.daemon.http_connection import Phase, serve, written
from syncd.daemon.routes import Answers, refusal
from syncd.errors import ConfigError
from syncd.settings import Address, DaemonSettings

AT_ONCE: Final = 32
"""Connections; for who comes on top of them one gives way that waits for its client."""
HEAD: Final = 3.0
"""Seconds that a request's head may take, however busily it comes."""
SILENCE: Final = 10.0
"""Seconds that a client may not read."""
WITHIN: Final = 30.0
"""Seconds that a whole connection may take: after that it is ended, from outside."""
LOOKED_EVERY: Final = 0.5
_BUSY: Final = refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many ask at once", "Ask again in a second.", as_json=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much the server lets itself be asked."""

    at_once: int = AT_ONCE
    head: float = HEAD
    silence: float = SILENCE
    within: float = WITHIN


@dataclass(slots=True)
class _Open:
    came: float
    phase: Phase = Phase.ASKING


class Server:
    """Listens at one address, and answers from threads of its own."""

    def __init__(self, listener: socket.socket, answers: Answers, gate: Gate, limits: Limits) -> None:
        self._listener = listener
        self._answers = answers
        self._gate = gate
        self._limits = limits
        self._guard = threading.Lock()
        self._open: dict[socket.socket, _Open] = {}
        """Connections, those that came first at the front."""
        self._over = threading.Event()

    @property
    def address(self) -> Address:
        """Where it listens: the port is known even where any was asked for."""
        host, port = self._listener.getsockname()[:2]
        return Address(host=host, port=port)

    @property
    def url(self) -> str:
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"http://{host}:{self.address.port}/"

    def run(self) -> None:
        """Take connections until `stop`."""
        self._listener.settimeout(LOOKED_EVERY)
        while not self._over.is_set():
            self._end_late()
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError as error:
                if self._over.is_set():
                    return
                # Out of handles, or a client that left at the door: neither ends a server.
                if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                    self._over.wait(LOOKED_EVERY)
                continue
            self._take(sock)

    def stop(self) -> None:
        """Take no more connections, and end those that are open."""
        self._over.set()
        with self._guard:
            for sock in self._open:
                _shut(sock)

    def _take(self, sock: socket.socket) -> None:
        sock.settimeout(self._limits.silence)
        with self._guard:
            has_place = len(self._open) < self._limits.at_once or self._gives_way()
            if has_place:
                self._open[sock] = _Open(time.monotonic())
        if not has_place:
            _turned_away(sock)
            return
        try:
            threading.Thread(target=self._serve, args=(sock,), name="http", daemon=True).start()
        except RuntimeError:  # the host gives no more threads
            self._forget(sock)

    def _gives_way(self) -> bool:
        """End the oldest connection that waits for its client; whether there was one.

        So whoever only holds connections ends their own, and no probe is refused for their sake. One
        whose answer is on its way goes last, one whose answer is being made never.
        """
        for phases in ({Phase.ASKING, Phase.TOLD}, {Phase.TELLING}):
            for sock, one in self._open.items():
                if one.phase in phases:
                    del self._open[sock]
                    _shut(sock)
                    return True
        return False

    def _serve(self, sock: socket.socket) -> None:
        try:
            serve(sock, self._answers, self._gate, lambda phase: self._entered(sock, phase))
        finally:
            self._forget(sock)

    def _entered(self, sock: socket.socket, phase: Phase) -> None:
        with self._guard:
            if sock in self._open:
                self._open[sock].phase = phase

    def _forget(self, sock: socket.socket) -> None:
        with self._guard:
            self._open.pop(sock, None)
        sock.close()

    def _end_late(self) -> None:
        """End connections that take too long, however busily they send a byte now and then."""
        now, limits = time.monotonic(), self._limits
        with self._guard:
            for sock, one in self._open.items():
                if now - one.came > (limits.head if one.phase is Phase.ASKING else limits.within):
                    _shut(sock)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):  # it is ended already
        sock.shutdown(socket.SHUT_RDWR)


def _turned_away(sock: socket.socket) -> None:
    with closing(sock), suppress(OSError):
        sock.settimeout(0)  # nobody waits here for a client
        sock.send(written(_BUSY, None).replace(b"\r\n", b"\r\nRetry-After: 1\r\n", 1))
        sock.shutdown(socket.SHUT_WR)


def listening(address: Address) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigError: the address is another program's, or not this machine's, or not to be had.
    """
    place = f"{address.host}:{address.port}"
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        return socket.create_server(where[:2], family=family, backlog=64, reuse_port=False)
    except OSError as error:
        raise _not_to_be_had(error, place, address) from error


def _not_to_be_had(error: OSError, place: str, address: Address) -> ConfigError:
    match error.errno:
        case errno.EADDRINUSE:
            return ConfigError(
                f"port {address.port} at {address.host} is in use: `daemon.http` cannot listen there",
                hint=f"See who has it: ss -ltnp 'sport = :{address.port}'  Or name another in `daemon.http`, or `off`.",
                port=address.port,
            )
        case errno.EACCES:
            why, hint = "this user may not listen there", "Name a port from 1024 on in `daemon.http`."
        case _:
            why, hint = (
                "this machine has no such address",
                "Name one of its own in `daemon.http`, such as 127.0.0.1:8080.",
            )
    return ConfigError(f"`daemon.http` cannot listen at {place}: {why}", hint=hint, port=address.port)


@contextmanager
def serving(
    settings: DaemonSettings,
    answers: Answers,
    *,
    say: Callable[[str], None] = lambda _line: None,
    limits: Limits | None = None,
) -> Iterator[Server | None]:
    """The server, at work inside the `with`; none where the configuration wants none.

    Raises:
        ConfigError: the address is not to be had.
    """
    if settings.http is None:
        yield None
        return
    host = settings.http.host
    gate = Gate(token=settings.token, loopback=is_loopback(host))
    with closing(listening(settings.http)) as listener:
        server = Server(listener, answers, gate, limits or Limits())
        if settings.token is None and not is_loopback(host):
            say(f"whoever reaches {server.url} may read it: set `daemon.token`")
        thread = threading.Thread(target=server.run, name="http-listener", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()
