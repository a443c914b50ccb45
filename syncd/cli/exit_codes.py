"""Exit codes: one for each thing that a scheduler would do differently."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from syncd.errors import (
    CommitUnknown,
    LakeDown,
    LakeUnfit,
    PassStopped,
    ReaderDown,
    SchemaDrift,
    SourceDown,
    SourceUnfit,
    TableAltered,
    TransactionConflict,
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


class ExitCode(IntEnum):
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


_EXIT_CODE_BY_ERROR: tuple[tuple[type[HintedError], ExitCode], ...] = (
    (PassStopped, ExitCode.INTERRUPTED),
    (StateUnreadable, ExitCode.STATE),
    (DataInDoubt, ExitCode.DOUBT),
    (NotOwner, ExitCode.OTHER_OWNER),
    (Misuse, ExitCode.USAGE),
    (NotFetched, ExitCode.SOURCE),  # archives are what reads the source
    (ReaderDown, ExitCode.SOURCE),
    (SchemaDrift, ExitCode.DRIFT),
    (SourceDown, ExitCode.SOURCE),
    (SourceUnfit, ExitCode.SOURCE),
    (TableAltered, ExitCode.SOURCE),
    (LakeDown, ExitCode.LAKE),
    (LakeUnfit, ExitCode.LAKE),
    (WarehouseBehind, ExitCode.WAREHOUSE),
    (WarehouseDown, ExitCode.WAREHOUSE),
    (WarehouseUnfit, ExitCode.WAREHOUSE),
    (TransactionConflict, ExitCode.WAREHOUSE),
    (CommitUnknown, ExitCode.WAREHOUSE),
    (Transient, ExitCode.LAKE),
    (Stale, ExitCode.LAKE),
    (OutcomeUnknown, ExitCode.LAKE),
)


def exit_code_for(error: BaseException) -> ExitCode:
    """The code of an error; whatever has no group is a bug."""
    return next((code for group, code in _EXIT_CODE_BY_ERROR if isinstance(error, group)), ExitCode.BUG)


_SEVERITY_ORDER: Final = (
    ExitCode.BUG,
    ExitCode.STATE,
    ExitCode.DOUBT,
    ExitCode.DRIFT,
    ExitCode.USAGE,
    ExitCode.WAREHOUSE,
    ExitCode.LAKE,
    ExitCode.SOURCE,
    ExitCode.OTHER_OWNER,
    ExitCode.INTERRUPTED,
    ExitCode.DONE,
)


def worst_exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    """Of several streams the worst decides."""
    return min(codes, key=_SEVERITY_ORDER.index)
