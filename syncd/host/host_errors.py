"""Errors about this machine, for syncd and for its sandbox."""

from syncd.errors import ReaderDown
from watermarks.errors import Misuse, NotOwner


class NotReady(Misuse):
    """This machine lacks something that the operator has to provide."""


class NoJava(NotReady):
    pass


class JavaTooOld(NotReady):
    pass


class NotWritable(NotReady):
    pass


class MissingPackage(NotReady):
    """A required Python package is not installed."""


class WrongDigest(NotReady):
    """A file does not have the digest that this version records."""


class NotFetched(ReaderDown):
    """The artifact repository returned no file; nothing was stored."""


class DirectoryBusy(NotOwner):
    """Another command works in the same directory."""
