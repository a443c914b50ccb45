"""Exit codes: one for each thing that a scheduler would do differently."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from syncd.errors import (
    Collided,
    CommitUnknown,
    LakeDown,
    LakeUnfit,
    PassStopped,
    ReaderDown,
    SchemaDrift,
    SourceDown,
    SourceUnfit,
    TableAltered,
    WarehouseBehind,
    WarehouseDown,
    WarehouseUnfit,
)
from syncd.host.host_errors import NotFetched
from watermarks.errors import (
    DataInDoubt,
    HintedError,
    Misuse,
    NotOwner,
    OutcomeUnknown,
    Stale,
    StateUnreadable,
    Transient,
)


class Exit(IntEnum):
    """The contract with whoever called."""

    DONE = 0
    BUG = 1
    USAGE = 2
    SOURCE = 4
    LAKE = 5
    WAREHOUSE = 6
    DOUBT = 7
    DRIFT = 8
    OTHER_OWNER = 11
    STATE = 12
    INTERRUPTED = 130


_GROUPS: tuple[tuple[type[HintedError], Exit], ...] = (
    (PassStopped, Exit.INTERRUPTED),
    (StateUnreadable, Exit.STATE),
    (DataInDoubt, Exit.DOUBT),
    (NotOwner, Exit.OTHER_OWNER),
    (Misuse, Exit.USAGE),
    (NotFetched, Exit.SOURCE),  # archives are what reads the source
    (ReaderDown, Exit.SOURCE),
    (SchemaDrift, Exit.DRIFT),
    (SourceDown, Exit.SOURCE),
    (SourceUnfit, Exit.SOURCE),
    (TableAltered, Exit.SOURCE),
    (LakeDown, Exit.LAKE),
    (LakeUnfit, Exit.LAKE),
    (WarehouseBehind, Exit.WAREHOUSE),
    (WarehouseDown, Exit.WAREHOUSE),
    (WarehouseUnfit, Exit.WAREHOUSE),
    (Collided, Exit.WAREHOUSE),
    (CommitUnknown, Exit.WAREHOUSE),
    (Transient, Exit.LAKE),
    (Stale, Exit.LAKE),
    (OutcomeUnknown, Exit.LAKE),
)


def exit_for(error: BaseException) -> Exit:
    """The code of an error; whatever has no group is a bug."""
    return next((code for group, code in _GROUPS if isinstance(error, group)), Exit.BUG)


_WORST_FIRST: Final = (
    Exit.BUG,
    Exit.STATE,
    Exit.DOUBT,
    Exit.DRIFT,
    Exit.USAGE,
    Exit.WAREHOUSE,
    Exit.LAKE,
    Exit.SOURCE,
    Exit.OTHER_OWNER,
    Exit.INTERRUPTED,
    Exit.DONE,
)


def worst(codes: Iterable[Exit]) -> Exit:
    """Of several streams the worst decides."""
    return min(codes, key=_WORST_FIRST.index)
