"""Choice of the loopback port for a server."""

import socket
from typing import Final

from syncd.host.host_errors import NotReady

LOOPBACK: Final = "127.0.0.1"


class PortBusy(NotReady):
    pass


def choose_port(*, requested: int | None, previous: int | None) -> int:
    """Return the requested port, else the previous one if it is free, else any free one.

    Raises:
        PortBusy: the requested port is taken.
    """
    if requested is not None:
        if not is_port_free(requested):
            raise PortBusy(
                f"port {requested} on {LOOPBACK} is used by another program",
                hint="Choose another port, or none for any free one.",
            )
        return requested
    if previous is not None and is_port_free(previous):
        return previous
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_port_free(port: int) -> bool:
    """Return True if a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do: connections that linger after the end of their server do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
