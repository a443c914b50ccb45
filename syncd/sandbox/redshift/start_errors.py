"""What can keep the stand-in from starting, and what to do about it."""

from syncd.errors import WarehouseDown


class CannotStart(WarehouseDown):
    """The stand-in could not be started; nothing of it is left running."""
