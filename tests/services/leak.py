"""A wire that breaks after so many bytes."""

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Final, Self

from syncd.sandbox.process import LOOPBACK

_RESET: Final = struct.pack("ii", 1, 0)


class LeakyWire:
    """Passes bytes to one server; what comes back ends after `after` bytes of each connection, politely or by reset."""

    def __init__(self, port: int, *, after: int, reset: bool) -> None:
        self._server = port
        self._after = after
        self._reset = reset
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((LOOPBACK, self._server), 10)
            self._threads += [
                threading.Thread(target=self._forth, args=(client, server)),
                threading.Thread(target=self._back, args=(server, client)),
            ]
            for thread in self._threads[-2:]:
                thread.start()

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(65_536):
                server.sendall(piece)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        left = self._after
        with contextlib.suppress(OSError):
            while left and (piece := server.recv(left)):
                client.sendall(piece)
                left -= len(piece)
        if self._reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # Wakes the thread that reads; the close that follows ends both.
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RD)
        client.close()
        server.close()
