"""A relay that ends a connection after a number of bytes, wherever in a message that is."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Final, Literal, Self

from syncd.sandbox.process import LOOPBACK

Way = Literal["up", "down"]
PIECE: Final = 65_536


class Cutter:
    """Passes one connection to a server at a time, and ends it when so many bytes went `up` to it or came `down`."""

    def __init__(self, port: int, *, way: Way = "up", after: int | None = None) -> None:
        self._server = (LOOPBACK, port)
        self._way = way
        self._after = after
        self._listener = socket.create_server((LOOPBACK, 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = int(self._listener.getsockname()[1])
        self.passed: dict[Way, int] = {"up": 0, "down": 0}
        self.was_cut = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    @property
    def at(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            with client, socket.create_connection(self._server) as server:
                ways = [
                    threading.Thread(target=self._pass, args=("up", client, server), daemon=True),
                    threading.Thread(target=self._pass, args=("down", server, client), daemon=True),
                ]
                for way in ways:
                    way.start()
                for way in ways:
                    way.join()

    def _pass(self, way: Way, source: socket.socket, sink: socket.socket) -> None:
        limit = self._after if way == self._way else None
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                if limit is not None and self.passed[way] + len(piece) >= limit:
                    sink.sendall(piece[: limit - self.passed[way]])
                    self.passed[way] = limit
                    self.was_cut = True
                    break
                self.passed[way] += len(piece)
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
