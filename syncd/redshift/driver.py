"""The driver's connection over a socket of our own: encrypted, kept alive, and read in full."""

import contextlib
import socket
import ssl
import struct
from pathlib import Path
from typing import Any, Final

from redshift_connector.core import Connection

from syncd.errors import WarehouseDown, WarehouseUnfit
from syncd.redshift.answer_timeout import WATCHDOG
from syncd.redshift.error_table import SessionAddress, connection_lost
from syncd.settings import Tls, WarehouseSettings
from syncd.tls import TlsPeer, make_verifying_context, map_handshake_error

CONNECT_TIMEOUT_SECONDS: Final = 10.0
MAX_MESSAGE_BYTES: Final = 1 << 28
"""A longer message is not Redshift's."""
NULL_SOCKET_PATH: Final = "/dev/null"
_TLS_REQUEST: Final = struct.pack("!ii", 8, 80877103)
_KEEPALIVE_OPTIONS: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Load balancers drop a connection after 350 s without a byte, and a COPY is silent for longer."""


class ConnectionEnded(ConnectionError):
    """The server ended the connection, possibly in the middle of a message."""


class DriverSocket:
    """Connected socket with the interface that the driver expects of its socket and its file.

    The driver takes a short read for a complete one. A connection that ends in the
    middle of an answer could then pass for another answer, or for a success.
    """

    timeout: Final = None

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = sock.makefile("rb")
        self._unsent = bytearray()

    def connect(self, _address: object) -> None:
        """Do nothing: the socket is connected already."""

    def makefile(self, *, mode: str) -> "DriverSocket":  # noqa: ARG002  # the driver's word
        return self

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes.

        Raises:
            ConnectionEnded: fewer came, or the size cannot be a message of Redshift.
        """
        if not 0 <= size <= MAX_MESSAGE_BYTES:
            raise ConnectionEnded(
                f"the server announced a message of {size} bytes, which is not possible in Redshift's protocol"
            )
        data = self._reader.read(size)
        if len(data) != size:
            raise ConnectionEnded("the server ended the connection")
        return data

    def write(self, data: bytes) -> int:
        self._unsent += data
        return len(data)

    def flush(self) -> None:
        unsent, self._unsent = self._unsent, bytearray()
        self._sock.sendall(unsent)

    def end_connection(self) -> None:
        """Shut the connection down, from any thread; a blocked reader returns at once."""
        _shutdown(self._sock)

    def close(self) -> None:
        self._reader.close()
        self._sock.close()

    @property
    def closed(self) -> bool:
        return self._reader.closed


class RedshiftDriver(Connection):
    """The driver's connection with access to its private state.

    The driver would open its own socket: IPv4 only, without a custom authority, and without
    another host name to check behind a tunnel. So it gets the path of a Unix socket, which it
    connects to without a check, and then our socket.
    """

    def __init__(self, wire: DriverSocket, *, user: str, password: str, database: str, name: str) -> None:
        self._wire = wire
        self.transaction_status = b""
        """`I`: no transaction; `T`: one is open; `E`: one has failed."""
        self.command_tag = ""
        """The server's name for the last completed statement."""
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
        # Before any statement: later, it would leave a transaction open.
        self.autocommit = True

    @property
    def _usock(self) -> Any:  # noqa: ANN401  # whatever the driver asks a socket for
        return self._wire

    @_usock.setter
    def _usock(self, made: socket.socket) -> None:
        made.close()

    @property
    def pid(self) -> int:
        """The server process of this session, from the greeting: a query for it would take a snapshot."""
        return int(struct.unpack_from("!i", self._backend_key_data or bytes(4))[0])

    @property
    def pending_error(self) -> Exception | None:
        """The last error that the server sent in the current answer."""
        return getattr(self, "error", None)

    def reset_statement(self) -> None:
        """Drop the last statement's error, and its text, which the driver would keep forever."""
        self.error = None
        self.command_tag = ""
        self._caches.clear()

    def handle_READY_FOR_QUERY(self, data: bytes, ps: object) -> None:  # noqa: N802  # the driver's name
        self.transaction_status = bytes(data)
        super().handle_READY_FOR_QUERY(data, ps)

    def handle_COMMAND_COMPLETE(self, data: bytes, cursor: Any) -> None:  # noqa: ANN401, N802  # the driver's
        self.command_tag = data[:-1].decode("utf-8", "replace").partition(" ")[0].upper()
        super().handle_COMMAND_COMPLETE(data, cursor)


def open_socket(
    settings: WarehouseSettings, address: SessionAddress, *, tunnel_address: tuple[str, int] | None, ca_bundle: Path
) -> socket.socket:
    """Connect to the warehouse, or to the near end of its tunnel, and start TLS where it is configured.

    Raises:
        WarehouseDown: no answer, or not the answer of Redshift.
        WarehouseUnfit: the warehouse offers no encryption, or its certificate is not trusted.
        ConfigError: the file of the certificate authority holds no certificate.
    """
    context = None if settings.tls is Tls.DISABLE else make_verifying_context(settings.ca, extra_authorities=ca_bundle)
    try:
        sock = socket.create_connection(tunnel_address or (settings.host, settings.port), CONNECT_TIMEOUT_SECONDS)
    except OSError as error:
        raise connection_lost(error, address, during="during login") from error
    try:
        _configure_socket(sock)
        return sock if context is None else _start_tls(sock, context, settings, address)
    except BaseException:
        sock.close()
        raise


def _configure_socket(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    # A timeout of the socket would end a long COPY; the watchdog limits each wait as a whole.
    sock.settimeout(None)


def _start_tls(
    sock: socket.socket, context: ssl.SSLContext, settings: WarehouseSettings, address: SessionAddress
) -> socket.socket:
    peer = TlsPeer(
        kind="Redshift", host=settings.host, port=settings.port, down_error=WarehouseDown, unfit_error=WarehouseUnfit
    )
    with WATCHDOG.limit(CONNECT_TIMEOUT_SECONDS, lambda: _shutdown(sock)) as wait:
        try:
            sock.sendall(_TLS_REQUEST)
            answer = sock.recv(1)
            if not answer:
                raise ConnectionError("the server ended the connection")
            if answer == b"S":
                return context.wrap_socket(sock, server_hostname=settings.host)
        except ssl.SSLCertVerificationError as error:
            raise map_handshake_error(error, peer) from error
        except OSError as error:
            if wait.timed_out or not isinstance(error, ssl.SSLError):
                cause = TimeoutError() if wait.timed_out else error
                raise connection_lost(cause, address, during="during login") from error
            raise map_handshake_error(error, peer) from error
    if answer == b"N":
        raise WarehouseUnfit(
            f"{address} does not encrypt",
            hint="Turn TLS on there, or set `tls: disable` to send rows and password unencrypted.",
        )
    raise WarehouseDown(f"{address} does not answer as Redshift does", hint="Check host and port in `warehouse.url`.")


def _shutdown(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is shut down or closed already
        # Not the method of SSLSocket, which would let a later write go out unencrypted.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
