"""TLS before a server that has none, agreed upon as Redshift does: asked for first, in eight bytes of the clear."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from syncd.sandbox.process import LOOPBACK

ASKED: Final = bytes.fromhex("00000008 04d2162f")
PIECE: Final = 65_536


class TlsFront:
    """Passes connections on, decrypted; shows `server.pem` of its folder, or gives another `answer` than yes."""

    def __init__(self, port: int, folder: Path, *, answer: bytes = b"S") -> None:
        self.answer = answer
        self.greeted: list[str | None] = []
        self._server = (LOOPBACK, port)
        self._folder = folder
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for sock in (self._listener, *self._sockets):
            sock.close()

    @property
    def at(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)  # type: ignore[arg-type]  # each thread has its own arguments
        self._threads.append(thread)
        thread.start()

    def _take(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if client.recv(len(ASKED), socket.MSG_WAITALL) != ASKED:
                client.close()
                return
            client.sendall(self.answer)
            if self.answer != b"S":
                client.recv(1)
                client.close()
                return
            self._pass_on(self._encrypted(client))

    def _encrypted(self, client: socket.socket) -> ssl.SSLSocket:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "server.pem", self._folder / "server.key")
        context.sni_callback = lambda _sock, name, _context: self.greeted.append(name)
        try:
            wrapped = context.wrap_socket(client, server_side=True)
        except OSError:
            client.close()
            raise
        self._sockets.append(wrapped)
        return wrapped

    def _pass_on(self, near: ssl.SSLSocket) -> None:
        far = socket.create_connection(self._server)
        self._sockets.append(far)
        self._start(_carry, far, near)
        _carry(near, far)


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            sink.sendall(piece)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            socket.socket.shutdown(end, socket.SHUT_RDWR)
