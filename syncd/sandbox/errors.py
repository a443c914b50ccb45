"""What can go wrong with a sandbox, grouped by what to do about it."""

from watermarks.errors import Misuse, NotOwner, Transient


class NotReady(Misuse):
    """This machine lacks something: mend it, then ask again."""


class NoJava(NotReady):
    pass


class JavaTooOld(NotReady):
    pass


class NotWritable(NotReady):
    pass


class PortBusy(NotReady):
    pass


class NoServer(NotReady):
    """No MySQL can be had here without help."""


class MissingPackage(NotReady):
    """A Python package of the extra `sandbox` is not installed."""


class WrongDigest(NotReady):
    """A file is not the one whose digest this version records."""


class NotFetched(Transient):
    """The artifact repository gave no file; nothing was kept."""


class SandboxBusy(NotOwner):
    """Another command is at work in the same directory."""
