"""What can go wrong with state, grouped by what to do about it."""


class HintedError(Exception):
    """The root of every error: what happened, and a hint at what to do next.

    The message is lower case, without a full stop, and names what and which,
    expected and found; the hint is a sentence. Neither ever holds a secret.
    `facts` are the same things for machines.
    """

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts


class Misuse(HintedError):
    """The caller asked for something that cannot be: mend the call."""


class Transient(HintedError):
    """It may work in a moment: try again."""


class Stale(HintedError):
    """The world moved on since it was read: read again, decide again."""


class OutcomeUnknown(HintedError):
    """The request was sent and no answer came: look, then decide."""


class NotOwner(HintedError):
    """Another process has this work: leave it."""


class StateUnreadable(HintedError):
    """A document cannot be trusted: stop, never start from zero."""


class DataInDoubt(HintedError):
    """Continuing could lose or double rows: stop the stream."""


class StoreUnavailable(Transient):
    """The store gave no usable answer, and nothing was changed by this call."""


class AlreadyExists(Stale):
    """Something stands at a key that was to be created."""


class StaleRevision(Stale):
    """A document is not the one that was read, or is gone."""
