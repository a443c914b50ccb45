"""Reasons for which a pass waits: a sentence for people, and its kind for programs."""

from enum import StrEnum
from typing import Self


class WaitKind(StrEnum):
    """Kind of wait that incidents tell apart."""

    HELD_TRANSACTION = "held_transaction"
    """An open transaction at the source may still commit older rows."""
    THROTTLED = "throttled"
    """The source is busy, or its replica lags, beyond the configured bound."""
    LOAD_BACKLOG = "load_backlog"
    """As many batches as `max_pending` allows wait to be loaded."""
    OTHER_OWNER = "other_owner"


class WaitReason(str):
    """Sentence that says why a pass waits.

    It is a `str`, so that log, documents and pages take it as the text it is.
    """

    __slots__ = ("kind",)
    kind: WaitKind

    def __new__(cls, text: str, kind: WaitKind) -> Self:
        """Make a reason of this kind."""
        reason = super().__new__(cls, text)
        reason.kind = kind
        return reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, WaitKind]]:
        return type(self), (str(self), self.kind)


def wait_kind(reason: str) -> WaitKind | None:
    """Return the kind of a reason; None for a text without one."""
    return reason.kind if isinstance(reason, WaitReason) else None


def with_context(context: str, reason: str, *, separator: str = ": ") -> str:
    """Return `context: reason` with the kind of the reason; the context alone where there is no reason."""
    kind, text = wait_kind(reason), f"{context}{separator}{reason}" if reason else context
    return text if kind is None else WaitReason(text, kind)
