"""Errors, grouped by the action that they call for."""


class HintedError(Exception):
    """Root of all errors: a message, and a hint at what to do next.

    The message is lower case without a full stop and says what happened to which
    object and what was expected; the hint is a sentence. Neither holds a secret.
    `facts` are the same for programs.
    """

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts


class Misuse(HintedError):
    """An impossible request: correct the call."""


class Transient(HintedError):
    """A temporary failure: try again."""


class Stale(HintedError):
    """State that changed after it was read: read it again and decide again."""


class OutcomeUnknown(HintedError):
    """A request without an answer: find out whether it took effect."""


class NotOwner(HintedError):
    """Work that another process owns: leave it."""


class StateUnreadable(HintedError):
    """A document that cannot be trusted: stop, never start from zero."""


class DataInDoubt(HintedError):
    """A state in which continuing could lose or double rows: stop the stream."""


class StoreUnavailable(Transient):
    """No usable answer from the store; this call changed nothing."""


class AlreadyExists(Stale):
    """A key to be created that already exists."""


class StaleRevision(Stale):
    """A document that was changed or removed after it was read."""
