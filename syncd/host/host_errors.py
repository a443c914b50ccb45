"""What this machine may lack, for syncd and for its sandbox alike."""

from syncd.errors import ReaderDown
from watermarks.errors import Misuse, NotOwner


class NotReady(Misuse):
    """This machine lacks something: mend it, then ask again."""


class NoJava(NotReady):
    pass


class JavaTooOld(NotReady):
    pass


class NotWritable(NotReady):
    pass


class MissingPackage(NotReady):
    """A Python package that is needed is not installed."""


class WrongDigest(NotReady):
    """A file is not the one whose digest this version records."""


class NotFetched(ReaderDown):
    """The artifact repository gave no file; nothing was kept."""


class DirectoryBusy(NotOwner):
    """Another command is at work in the same directory."""
