"""The line to a warehouse: a socket that is open, encrypted as far as it shall be, and kept alive."""

import socket
import ssl
import struct
from pathlib import Path
from typing import Final

from syncd.errors import WarehouseDown, WarehouseUnfit
from syncd.redshift.error_table import Site, lost
from syncd.redshift.watchdog import WATCHDOG
from syncd.settings import Tls, WarehouseSettings
from syncd.tls import Peer, checking, handshake_error

CONNECTED_WITHIN: Final = 10.0
_ASK_FOR_TLS: Final = struct.pack("!ii", 8, 80877103)
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Balancers forget a line after 350 s without a byte, and a COPY is silent for longer."""


def open_line(
    settings: WarehouseSettings, site: Site, *, at: tuple[str, int] | None, authorities: Path
) -> socket.socket:
    """A line to the warehouse, or through the near end of its tunnel; the certificate is that of the host beyond.

    Raises:
        WarehouseDown: nobody answers, or not as Redshift does.
        WarehouseUnfit: it does not encrypt, or is not believed.
        ConfigError: the file of the certificate authority is none.
    """
    context = None if settings.tls is Tls.DISABLE else checking(settings.ca, also=authorities)
    try:
        sock = socket.create_connection(at or (settings.host, settings.port), CONNECTED_WITHIN)
    except OSError as error:
        raise lost(error, site, during="before it stood") from error
    try:
        _prepare(sock)
        return sock if context is None else _encrypted(sock, context, settings, site)
    except BaseException:
        sock.close()
        raise


def _prepare(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    # A time limit of the socket would end a long COPY; the watchdog bounds each wait as a whole.
    sock.settimeout(None)


def _encrypted(sock: socket.socket, context: ssl.SSLContext, settings: WarehouseSettings, site: Site) -> socket.socket:
    peer = Peer(kind="Redshift", host=settings.host, port=settings.port, down=WarehouseDown, unfit=WarehouseUnfit)
    with WATCHDOG.bound(CONNECTED_WITHIN, lambda: _shut(sock)) as bound:
        try:
            sock.sendall(_ASK_FOR_TLS)
            answer = sock.recv(1)
            if not answer:
                raise ConnectionError("the other side ended the connection")
            if answer == b"S":
                return context.wrap_socket(sock, server_hostname=settings.host)
        except ssl.SSLCertVerificationError as error:
            raise handshake_error(error, peer) from error
        except OSError as error:
            if bound.passed or not isinstance(error, ssl.SSLError):
                raise lost(TimeoutError() if bound.passed else error, site, during="before it stood") from error
            raise handshake_error(error, peer) from error
    if answer == b"N":
        raise WarehouseUnfit(
            f"{site} does not encrypt",
            hint="Nothing is sent in the clear: turn TLS on there, or ask for none with `tls: disable`.",
        )
    raise WarehouseDown(f"{site} does not answer as Redshift does", hint="Are host and port right in `warehouse.url`?")


def _shut(sock: socket.socket) -> None:
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return  # it is ended already
