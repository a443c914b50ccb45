"""A server that takes every connection and never says a word."""

import socket
import threading
from contextlib import suppress


class Mute:
    """Accepts and never answers."""

    def __init__(self) -> None:
        self.calls = 0
        self._held: list[socket.socket] = []
        self._at = socket.create_server(("127.0.0.1", 0))
        self.port = self._at.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._at.accept()
                self.calls += 1
                self._held.append(connection)

    def close(self) -> None:
        self._at.shutdown(socket.SHUT_RDWR)
        self._at.close()
        self._thread.join()
        for connection in self._held:
            connection.close()
