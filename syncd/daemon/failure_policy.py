"""What an error of a pass asks for: another try, another side, a person, or nothing at all."""

from enum import StrEnum
from typing import Final

from syncd.errors import (
    HorizonNotKnown,
    LakeDown,
    LakeUnfit,
    PassStopped,
    SchemaDrift,
    SourceDown,
    SourceUnfit,
    WarehouseDown,
    WarehouseUnfit,
)
from watermarks.errors import (
    DataInDoubt,
    HintedError,
    Misuse,
    NotOwner,
    StateUnreadable,
    StoreUnavailable,
    Transient,
)
from watermarks.history import Fenced
from watermarks.lease import LeaseEnded


class PassTooLong(Transient):
    """A pass took longer than `longest_run` and was ended."""


class FailureKind(StrEnum):
    """Who has to do something about it."""

    LEASE_LOST = "lease"
    """This process was ended as an owner: it goes on under another name."""
    OTHER_OWNER = "owner"
    """Another process has the stage: nothing failed."""
    WAITING = "patience"
    """Nothing failed: something at the source has to end first, or this process ends."""
    SOURCE = "source"
    LAKE = "lake"
    WAREHOUSE = "warehouse"
    NEEDS_OPERATOR = "person"
    """Trying again changes nothing: a file, a right, a table or a document has to be mended."""
    RETRYABLE = "time"
    """It may be gone with the next try."""


_FAILURE_KINDS: Final[tuple[tuple[type[HintedError], FailureKind], ...]] = (
    (LeaseEnded, FailureKind.LEASE_LOST),
    (Fenced, FailureKind.LEASE_LOST),  # a stage is taken over from nobody but an owner that was ended
    (NotOwner, FailureKind.OTHER_OWNER),
    (HorizonNotKnown, FailureKind.WAITING),
    (PassStopped, FailureKind.WAITING),  # by us, at the end of everything; for its length it fails under another name
    (SourceDown, FailureKind.SOURCE),
    (LakeDown, FailureKind.LAKE),
    (StoreUnavailable, FailureKind.LAKE),
    (WarehouseDown, FailureKind.WAREHOUSE),
    (Misuse, FailureKind.NEEDS_OPERATOR),
    (SourceUnfit, FailureKind.NEEDS_OPERATOR),
    (LakeUnfit, FailureKind.NEEDS_OPERATOR),
    (WarehouseUnfit, FailureKind.NEEDS_OPERATOR),
    (SchemaDrift, FailureKind.NEEDS_OPERATOR),
    (DataInDoubt, FailureKind.NEEDS_OPERATOR),
    (StateUnreadable, FailureKind.NEEDS_OPERATOR),
)


def is_interrupted_or_fenced(error: HintedError) -> bool:
    """Whether this process ended a pass, or has lost the right to it: what it would have come to is not known."""
    return isinstance(error, PassStopped | LeaseEnded | Fenced)


def classify_failure(error: HintedError) -> FailureKind:
    """What kind of trouble an error is; whatever is not known may pass by itself."""
    return next((trouble for kind, trouble in _FAILURE_KINDS if isinstance(error, kind)), FailureKind.RETRYABLE)
