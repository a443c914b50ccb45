"""The driver's connection over a socket of ours, and every read of it whole."""

import contextlib
import socket
import struct
from typing import Any, Final

from redshift_connector.core import Connection

MAX_MESSAGE_BYTES: Final = 1 << 28
"""Bytes; what claims to be longer is not Redshift."""
NULL_SOCKET_PATH: Final = "/dev/null"


class ConnectionEnded(ConnectionError):
    """The other side ended the line, in the middle of a message too."""


class DriverSocket:
    """A connected socket as the driver uses one: as its socket and as its file.

    The driver takes a read that came short for a whole one. A line that ends in the
    middle of an answer could then pass for another answer, or for a success.
    """

    timeout: Final = None

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = sock.makefile("rb")
        self._unsent = bytearray()

    def connect(self, _place: object) -> None:
        """Nothing: it is connected."""

    def makefile(self, *, mode: str) -> "DriverSocket":  # noqa: ARG002  # the driver's word
        return self

    def read(self, size: int) -> bytes:
        """So many bytes.

        Raises:
            LineLost: they did not come, or nobody means so many.
        """
        if not 0 <= size <= MAX_MESSAGE_BYTES:
            raise ConnectionEnded(f"a message of {size} bytes was announced: this is not how Redshift speaks")
        found = self._reader.read(size)
        if len(found) != size:
            raise ConnectionEnded("the other side ended the connection")
        return found

    def write(self, data: bytes) -> int:
        self._unsent += data
        return len(data)

    def flush(self) -> None:
        unsent, self._unsent = self._unsent, bytearray()
        self._sock.sendall(unsent)

    def end_connection(self) -> None:
        """End the line, from any thread: whoever waits on it sees its end at once."""
        with contextlib.suppress(OSError):  # it is ended, or closed
            # Not the method of an SSLSocket, which would let a write that follows go out in the clear.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        self._reader.close()
        self._sock.close()

    @property
    def closed(self) -> bool:
        return self._reader.closed


class RedshiftDriver(Connection):
    """The driver's connection, with what it keeps to itself.

    It would make its socket by itself: IPv4 only, no authority of one's own, no other
    name to check behind a tunnel. So it is told of a Unix socket, which it connects to
    without a look, and given ours.
    """

    def __init__(self, wire: DriverSocket, *, user: str, password: str, database: str, name: str) -> None:
        self._wire = wire
        self.transaction_status = b""
        """Of the transaction: `I` there is none, `T` there is one, `E` it has failed."""
        self.command_tag = ""
        """What the server calls the last statement that it carried out."""
        super().__init__(
            user=user,
            password=password,
            database=database,
            application_name=name,
            unix_sock=NULL_SOCKET_PATH,
            ssl=False,
            tcp_keepalive=False,
            max_prepared_statements=0,
        )
        # Before any statement: set later it would leave a transaction open.
        self.autocommit = True

    @property
    def _usock(self) -> Any:  # noqa: ANN401  # whatever the driver asks a socket for
        return self._wire

    @_usock.setter
    def _usock(self, made: socket.socket) -> None:
        made.close()

    @property
    def pid(self) -> int:
        """The process that serves us, known from the greeting: asking by SQL would take a snapshot."""
        return int(struct.unpack_from("!i", self._backend_key_data or bytes(4))[0])

    @property
    def pending_error(self) -> Exception | None:
        """The error that the server told last in the answer under way, if it told one."""
        return getattr(self, "error", None)

    def reset_statement(self) -> None:
        """Drop what is left of the statement before: its error, and its text, which the driver would keep for good."""
        self.error = None
        self.command_tag = ""
        self._caches.clear()

    def handle_READY_FOR_QUERY(self, data: bytes, ps: object) -> None:  # noqa: N802  # the driver's name
        self.transaction_status = bytes(data)
        super().handle_READY_FOR_QUERY(data, ps)

    def handle_COMMAND_COMPLETE(self, data: bytes, cursor: Any) -> None:  # noqa: ANN401, N802  # the driver's
        self.command_tag = data[:-1].decode("utf-8", "replace").partition(" ")[0].upper()
        super().handle_COMMAND_COMPLETE(data, cursor)
