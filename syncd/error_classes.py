"""Classes of errors: one table gives each error its exit code, its retry rule and its incident cause."""

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from syncd.errors import (
    CommitUnknown,
    HorizonNotKnown,
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
from watermarks.errors import (
    DataInDoubt,
    HintedError,
    Misuse,
    NotOwner,
    OutcomeUnknown,
    Stale,
    StateUnreadable,
    StoreUnavailable,
    Transient,
)
from watermarks.history import Fenced
from watermarks.lease import LeaseEnded


class ExitCode(IntEnum):
    """Exit code of a command: one for each thing that a scheduler would do differently."""

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


class FailureKind(StrEnum):
    """What the daemon does after a failed pass; SOURCE, LAKE and WAREHOUSE also count for that system's breaker."""

    LEASE_LOST = "lease"
    """Another process ended this process's lease: the daemon goes on under a new name."""
    OTHER_OWNER = "owner"
    """Another process has the stage: nothing failed."""
    WAITING = "patience"
    """Nothing failed: a transaction at the source has to end first, or this process is stopping."""
    SOURCE = "source"
    LAKE = "lake"
    WAREHOUSE = "warehouse"
    NEEDS_OPERATOR = "person"
    """A retry changes nothing: an operator has to mend a file, a right, a table or a document."""
    RETRYABLE = "time"
    """The next try may succeed."""


class IncidentCause(StrEnum):
    """Cause of a failing or late stream, as incidents name it."""

    HELD_TRANSACTION = "held_transaction"
    THROTTLED = "throttled"
    EXTRACT_QUEUE = "extract_queue"
    LOAD_QUEUE = "load_queue"
    WAREHOUSE_LOCKED = "warehouse_locked"
    SOURCE_DOWN = "source_down"
    READER_DOWN = "reader_down"
    LAKE_DOWN = "lake_down"
    WAREHOUSE_DOWN = "warehouse_down"
    OTHER_OWNER = "other_owner"
    SOURCE_UNFIT = "source_unfit"
    LAKE_UNFIT = "lake_unfit"
    WAREHOUSE_UNFIT = "warehouse_unfit"
    SCHEMA_DRIFT = "schema_drift"
    DATA_IN_DOUBT = "data_in_doubt"
    STATE_UNREADABLE = "state_unreadable"
    CONFIGURATION = "configuration"
    BUG = "bug"
    UNKNOWN = "unknown"


class _ErrorClass(NamedTuple):
    error: type[HintedError]
    exit_code: ExitCode
    failure: FailureKind
    cause: IncidentCause


_E, _F, _C = ExitCode, FailureKind, IncidentCause
_ERROR_CLASSES: Final = (
    # A pass that the daemon ended at shutdown; one that took too long fails as PassTooLong, which is Transient.
    _ErrorClass(PassStopped, _E.INTERRUPTED, _F.WAITING, _C.LAKE_DOWN),
    _ErrorClass(StateUnreadable, _E.STATE, _F.NEEDS_OPERATOR, _C.STATE_UNREADABLE),
    _ErrorClass(DataInDoubt, _E.DOUBT, _F.NEEDS_OPERATOR, _C.DATA_IN_DOUBT),
    _ErrorClass(LeaseEnded, _E.OTHER_OWNER, _F.LEASE_LOST, _C.OTHER_OWNER),
    # A process takes a stage over only from an owner whose lease was ended.
    _ErrorClass(Fenced, _E.OTHER_OWNER, _F.LEASE_LOST, _C.OTHER_OWNER),
    _ErrorClass(NotOwner, _E.OTHER_OWNER, _F.OTHER_OWNER, _C.OTHER_OWNER),
    _ErrorClass(Misuse, _E.USAGE, _F.NEEDS_OPERATOR, _C.CONFIGURATION),
    _ErrorClass(SchemaDrift, _E.DRIFT, _F.NEEDS_OPERATOR, _C.SCHEMA_DRIFT),
    _ErrorClass(ReaderDown, _E.SOURCE, _F.RETRYABLE, _C.READER_DOWN),
    _ErrorClass(SourceDown, _E.SOURCE, _F.SOURCE, _C.SOURCE_DOWN),
    _ErrorClass(TableAltered, _E.SOURCE, _F.RETRYABLE, _C.SOURCE_UNFIT),
    _ErrorClass(HorizonNotKnown, _E.SOURCE, _F.WAITING, _C.SOURCE_UNFIT),
    _ErrorClass(SourceUnfit, _E.SOURCE, _F.NEEDS_OPERATOR, _C.SOURCE_UNFIT),
    _ErrorClass(LakeDown, _E.LAKE, _F.LAKE, _C.LAKE_DOWN),
    _ErrorClass(StoreUnavailable, _E.LAKE, _F.LAKE, _C.LAKE_DOWN),
    _ErrorClass(LakeUnfit, _E.LAKE, _F.NEEDS_OPERATOR, _C.LAKE_UNFIT),
    _ErrorClass(WarehouseBehind, _E.WAREHOUSE, _F.RETRYABLE, _C.LOAD_QUEUE),
    _ErrorClass(WarehouseDown, _E.WAREHOUSE, _F.WAREHOUSE, _C.WAREHOUSE_DOWN),
    _ErrorClass(WarehouseUnfit, _E.WAREHOUSE, _F.NEEDS_OPERATOR, _C.WAREHOUSE_UNFIT),
    _ErrorClass(TransactionConflict, _E.WAREHOUSE, _F.RETRYABLE, _C.WAREHOUSE_LOCKED),
    _ErrorClass(CommitUnknown, _E.WAREHOUSE, _F.RETRYABLE, _C.WAREHOUSE_DOWN),
    _ErrorClass(OutcomeUnknown, _E.LAKE, _F.RETRYABLE, _C.LAKE_DOWN),
    _ErrorClass(Transient, _E.LAKE, _F.RETRYABLE, _C.LAKE_DOWN),
    _ErrorClass(Stale, _E.LAKE, _F.RETRYABLE, _C.LAKE_DOWN),
)
"""The first row whose class the error is an instance of counts."""
_UNCLASSIFIED: Final = _ErrorClass(HintedError, _E.BUG, _F.RETRYABLE, _C.BUG)


def exit_code_for(error: BaseException) -> ExitCode:
    return _find_class(error).exit_code


def classify_failure(error: HintedError) -> FailureKind:
    return _find_class(error).failure


def classify_error(error: HintedError) -> IncidentCause:
    return _find_class(error).cause


def is_interrupted_or_fenced(error: HintedError) -> bool:
    """Return whether this process ended the pass or lost the right to it, so that its outcome is unknown."""
    return isinstance(error, PassStopped | LeaseEnded | Fenced)


def _find_class(error: BaseException) -> _ErrorClass:
    return next((row for row in _ERROR_CLASSES if isinstance(error, row.error)), _UNCLASSIFIED)


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
    return min(codes, key=_SEVERITY_ORDER.index)
