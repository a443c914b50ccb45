"""Which loopback port a server gets."""

import socket
from typing import Final

from syncd.sandbox.sandbox_errors import PortBusy

LOOPBACK: Final = "127.0.0.1"


def choose_port(*, requested: int | None, previous: int | None) -> int:
    """The port asked for, else the one of last time if it is free, else any free one.

    Raises:
        PortBusy: the port asked for is taken.
    """
    if requested is not None:
        if not is_port_free(requested):
            raise PortBusy(
                f"port {requested} on {LOOPBACK} is taken by another program",
                hint="Ask for another port, or for none: a free one is found then.",
            )
        return requested
    if previous is not None and is_port_free(previous):
        return previous
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_port_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        # As servers do: connections that linger after their server's end do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
