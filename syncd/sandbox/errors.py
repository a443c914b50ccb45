"""What can go wrong with a sandbox, beyond what its machine may lack."""

from syncd.adapters.machine import NotReady


class PortBusy(NotReady):
    pass


class NoServer(NotReady):
    """No MySQL can be had here without help."""
