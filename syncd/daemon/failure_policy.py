"""What an error of a pass asks for: another try, another side, a person, or nothing at all."""

from enum import StrEnum
from typing import Final

from syncd.errors import (
    LakeDown,
    LakeUnfit,
    NotKnownYet,
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
from watermarks.lease import Ended


class PassTooLong(Transient):
    """A pass took longer than `longest_run` and was ended."""


class Trouble(StrEnum):
    """Who has to do something about it."""

    LEASE = "lease"
    """This process was ended as an owner: it goes on under another name."""
    OWNER = "owner"
    """Another process has the stage: nothing failed."""
    PATIENCE = "patience"
    """Nothing failed: something at the source has to end first, or this process ends."""
    SOURCE = "source"
    LAKE = "lake"
    WAREHOUSE = "warehouse"
    PERSON = "person"
    """Trying again changes nothing: a file, a right, a table or a document has to be mended."""
    TIME = "time"
    """It may be gone with the next try."""


_TROUBLES: Final[tuple[tuple[type[HintedError], Trouble], ...]] = (
    (Ended, Trouble.LEASE),
    (Fenced, Trouble.LEASE),  # a stage is taken over from nobody but an owner that was ended
    (NotOwner, Trouble.OWNER),
    (NotKnownYet, Trouble.PATIENCE),
    (PassStopped, Trouble.PATIENCE),  # by us, at the end of everything; for its length it fails under another name
    (SourceDown, Trouble.SOURCE),
    (LakeDown, Trouble.LAKE),
    (StoreUnavailable, Trouble.LAKE),
    (WarehouseDown, Trouble.WAREHOUSE),
    (Misuse, Trouble.PERSON),
    (SourceUnfit, Trouble.PERSON),
    (LakeUnfit, Trouble.PERSON),
    (WarehouseUnfit, Trouble.PERSON),
    (SchemaDrift, Trouble.PERSON),
    (DataInDoubt, Trouble.PERSON),
    (StateUnreadable, Trouble.PERSON),
)


def is_cut(error: HintedError) -> bool:
    """Whether this process ended a pass, or has lost the right to it: what it would have come to is not known."""
    return isinstance(error, PassStopped | Ended | Fenced)


def trouble_of(error: HintedError) -> Trouble:
    """What kind of trouble an error is; whatever is not known may pass by itself."""
    return next((trouble for kind, trouble in _TROUBLES if isinstance(error, kind)), Trouble.TIME)
