"""What can go wrong with a sandbox, beyond what its machine may lack."""

from syncd.host.host_errors import NotReady


class PortBusy(NotReady):
    pass


class NoMySqlServer(NotReady):
    """No MySQL can be had here without help."""
