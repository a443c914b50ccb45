"""A TCP proxy in front of any server that can cut, freeze and refuse connections."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final, Self

from syncd.sandbox.process import LOOPBACK

CHUNK_BYTES: Final = 65_536
_LINGER_RESET: Final = struct.pack("ii", 1, 0)  # close by reset instead of FIN


class _ProxiedConnection:
    """One client's connection, with the one made to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.was_cut = False
        self.open_directions = 2

    def cut(self) -> None:
        self.was_cut = True
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            # Wakes the thread that reads; the close that follows sends the reset.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)
            end.close()

    def is_closed(self) -> bool:
        return self.client.fileno() < 0 and self.server.fileno() < 0


class TcpProxy:
    """Proxy that passes bytes between clients and one server until a test stops it.

    Cut connections end with a reset, as when a router forgets them. A frozen proxy takes
    bytes and delivers none until it thaws: a dead tunnel that only a time limit notices.
    """

    def __init__(self, port: int, *, host: str = LOOPBACK) -> None:
        self._server = (host, port)
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._connections: list[_ProxiedConnection] = []
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self._bytes_until_cut: int | None = None
        self._on_limit: Callable[[], object] = self.cut
        self.port = 0
        self.delivered_bytes = 0
        """Bytes that clients got from the server."""

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self.cut()
        self.thaw()
        for thread in self._threads:
            thread.join()

    def accept(self) -> None:
        """Take connections, on the same port as before."""
        listener = socket.create_server((LOOPBACK, self.port))
        self.port = int(listener.getsockname()[1])
        self._listener = listener
        self._start(lambda: self._accept_clients(listener))

    def refuse(self) -> None:
        """Refuse new connections; established ones stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # Wakes the thread that waits in accept(); closing alone would not.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def cut(self) -> int:
        """Reset every connection on both sides and return their number."""
        with self._lock:
            open_connections = [connection for connection in self._connections if not connection.is_closed()]
            self._connections = []
        for connection in open_connections:
            connection.cut()
        return len(open_connections)

    def cut_after(self, count: int, then: Callable[[], object] | None = None) -> None:
        """Reset every connection after clients got so many more bytes and none beyond, or call `then` at that point."""
        with self._lock:
            self._bytes_until_cut, self._on_limit = count, then or self.cut

    def freeze(self) -> None:
        """Deliver nothing in either direction until `thaw`."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Deliver again, first the bytes that were held back."""
        self._flowing.set()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept_clients(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._connect_upstream(client)

    def _connect_upstream(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._server, timeout=10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        connection = _ProxiedConnection(client, server)
        with self._lock:
            self._connections.append(connection)
        self._start(lambda: self._copy_bytes(connection, client, server))
        self._start(lambda: self._copy_bytes(connection, server, client))

    def _deliver(self, piece: bytes, sink: socket.socket, *, counted: bool) -> None:
        if not counted:
            sink.sendall(piece)
            return
        with self._lock:
            left = self._bytes_until_cut
            now = piece[:left]
            self.delivered_bytes += len(now)
            if left is not None:
                self._bytes_until_cut = left - len(now)
            if due := self._bytes_until_cut == 0:
                self._bytes_until_cut = None
        sink.sendall(now)
        if due:
            self._on_limit()
            sink.sendall(piece[len(now) :])

    def _copy_bytes(self, connection: _ProxiedConnection, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(CHUNK_BYTES):
                self._flowing.wait()
                self._deliver(piece, sink, counted=source is connection.server)
        except OSError:
            pass  # cut by the proxy or by one of the sides: nothing more comes
        if connection.was_cut:
            return
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with self._lock:
            connection.open_directions -= 1
            if connection.open_directions == 0:
                connection.client.close()
                connection.server.close()
