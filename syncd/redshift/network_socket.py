"""The line to a warehouse: a socket that is open, encrypted as far as it shall be, and kept alive."""

import socket
import ssl
import struct
from pathlib import Path
from typing import Final

from syncd.errors import WarehouseDown, WarehouseUnfit
from syncd.redshift.error_table import SessionAddress, connection_lost
from syncd.redshift.watchdog import WATCHDOG
from syncd.settings import Tls, WarehouseSettings
from syncd.tls import TlsPeer, make_verifying_context, map_handshake_error

CONNECT_TIMEOUT_SECONDS: Final = 10.0
_TLS_REQUEST: Final = struct.pack("!ii", 8, 80877103)
_KEEPALIVE_OPTIONS: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Balancers forget a line after 350 s without a byte, and a COPY is silent for longer."""


def open_socket(
    settings: WarehouseSettings, address: SessionAddress, *, tunnel_address: tuple[str, int] | None, ca_bundle: Path
) -> socket.socket:
    """A line to the warehouse, or through the near end of its tunnel; the certificate is that of the host beyond.

    Raises:
        WarehouseDown: nobody answers, or not as Redshift does.
        WarehouseUnfit: it does not encrypt, or is not believed.
        ConfigError: the file of the certificate authority is none.
    """
    context = None if settings.tls is Tls.DISABLE else make_verifying_context(settings.ca, extra_authorities=ca_bundle)
    try:
        sock = socket.create_connection(tunnel_address or (settings.host, settings.port), CONNECT_TIMEOUT_SECONDS)
    except OSError as error:
        raise connection_lost(error, address, during="before it stood") from error
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
    # A time limit of the socket would end a long COPY; the watchdog bounds each wait as a whole.
    sock.settimeout(None)


def _start_tls(
    sock: socket.socket, context: ssl.SSLContext, settings: WarehouseSettings, address: SessionAddress
) -> socket.socket:
    peer = TlsPeer(
        kind="Redshift", host=settings.host, port=settings.port, down_error=WarehouseDown, unfit_error=WarehouseUnfit
    )
    with WATCHDOG.limit(CONNECT_TIMEOUT_SECONDS, lambda: _shutdown(sock)) as bound:
        try:
            sock.sendall(_TLS_REQUEST)
            answer = sock.recv(1)
            if not answer:
                raise ConnectionError("the other side ended the connection")
            if answer == b"S":
                return context.wrap_socket(sock, server_hostname=settings.host)
        except ssl.SSLCertVerificationError as error:
            raise map_handshake_error(error, peer) from error
        except OSError as error:
            if bound.timed_out or not isinstance(error, ssl.SSLError):
                raise connection_lost(
                    TimeoutError() if bound.timed_out else error, address, during="before it stood"
                ) from error
            raise map_handshake_error(error, peer) from error
    if answer == b"N":
        raise WarehouseUnfit(
            f"{address} does not encrypt",
            hint="Nothing is sent in the clear: turn TLS on there, or ask for none with `tls: disable`.",
        )
    raise WarehouseDown(
        f"{address} does not answer as Redshift does", hint="Are host and port right in `warehouse.url`?"
    )


def _shutdown(sock: socket.socket) -> None:
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return  # it is ended already
