"""Proxy in front of a MariaDB server that answers questions about its identity as another server would.

The product identifies a MariaDB server by its host name, its port, its server number and its data directory
(`docs/decisions/0004-who-a-mariadb-is.md`), and a table among other things by its creation time, for which MariaDB
takes the change time of a file. A data directory that is restored on another machine would therefore be another server
with other tables. The proxy replaces these names in the text of each statement by constants. It expects connections
without TLS and without compression, and statements of less than 16 MB.
"""

import contextlib
import re
import socket
import threading
from types import TracebackType
from typing import Final, Self

LOOPBACK: Final = "127.0.0.1"
HEADER_BYTES: Final = 4
LENGTH_BYTES: Final = 3
CHUNK_BYTES: Final = 65_536
CONSTANTS: Final = {
    re.compile(rb"@@hostname\b"): b"'old-host'",
    re.compile(rb"@@port\b"): b"3306",
    re.compile(rb"@@server_id\b"): b"1",
    re.compile(rb"@@datadir\b"): b"'/mysql/'",
    re.compile(rb"(?<![.`])\bCREATE_TIME\b"): b"TIMESTAMP'2026-01-01 00:00:00'",
}


class SameIdentity:
    """Listener on loopback that forwards each connection to the server on `port`."""

    def __init__(self, port: int) -> None:
        self._server = (LOOPBACK, port)
        self._listener = socket.create_server((LOOPBACK, 0))
        self._connections: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._guard = threading.Lock()
        self.replaced = 0
        """Number of statements in which a name was replaced."""
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._guard:
            self._closed = True
            connections = list(self._connections)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pair in connections:
            _close(*pair)
        for thread in self._threads:
            thread.join()

    def _start(self, target: object, *args: socket.socket) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            with self._guard:
                if self._closed:
                    _close(client, server)
                    return
                self._connections.append((client, server))
            self._start(self._forward_statements, client, server)
            self._start(_forward_answers, server, client)

    def _forward_statements(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while header := _read(client, HEADER_BYTES):
                packet = self._with_constants(_read(client, int.from_bytes(header[:LENGTH_BYTES], "little")))
                server.sendall(len(packet).to_bytes(LENGTH_BYTES, "little") + header[LENGTH_BYTES:] + packet)
        except OSError:
            pass
        finally:
            _close(client, server)

    def _with_constants(self, packet: bytes) -> bytes:
        replaced = packet
        for name, constant in CONSTANTS.items():
            replaced = name.sub(constant, replaced)
        if replaced != packet:
            with self._guard:
                self.replaced += 1
        return replaced


def _forward_answers(server: socket.socket, client: socket.socket) -> None:
    try:
        while chunk := server.recv(CHUNK_BYTES):
            client.sendall(chunk)
    except OSError:
        pass
    finally:
        _close(client, server)


def _read(connection: socket.socket, count: int) -> bytes:
    """Read exactly `count` bytes, or nothing where the connection has ended."""
    found = bytearray()
    while len(found) < count:
        chunk = connection.recv(count - len(found))
        if not chunk:
            return b""
        found += chunk
    return bytes(found)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
