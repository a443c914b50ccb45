"""What stands in a stream's way, in one word, from what events tell."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from syncd.errors import (
    CommitUnknown,
    LakeDown,
    LakeUnfit,
    ReaderDown,
    SchemaDrift,
    SourceDown,
    SourceUnfit,
    TableAltered,
    TransactionConflict,
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
    Transient,
)


class IncidentCause(StrEnum):
    """Why a stream fails, or is behind."""

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


CAUSE_SENTENCES: Final[Mapping[IncidentCause, str]] = {
    IncidentCause.HELD_TRANSACTION: "a transaction at the source is open and may still commit older rows",
    IncidentCause.THROTTLED: "the source is too busy, or its replica too far behind, to be read",
    IncidentCause.EXTRACT_QUEUE: "reading from the source does not keep up, or waits for its turn",
    IncidentCause.LOAD_QUEUE: "batches wait to be loaded",
    IncidentCause.WAREHOUSE_LOCKED: "another transaction in the warehouse is in the way",
    IncidentCause.SOURCE_DOWN: "the source does not answer",
    IncidentCause.READER_DOWN: "Spark does not run",
    IncidentCause.LAKE_DOWN: "the lake does not answer",
    IncidentCause.WAREHOUSE_DOWN: "the warehouse does not answer",
    IncidentCause.OTHER_OWNER: "another process works on it",
    IncidentCause.SOURCE_UNFIT: "something is missing at the source",
    IncidentCause.LAKE_UNFIT: "something is missing at the lake",
    IncidentCause.WAREHOUSE_UNFIT: "something is missing at the warehouse",
    IncidentCause.SCHEMA_DRIFT: "the table is not the one it was",
    IncidentCause.DATA_IN_DOUBT: "going on could lose or double rows",
    IncidentCause.STATE_UNREADABLE: "a document of the lake cannot be trusted",
    IncidentCause.CONFIGURATION: "the configuration asks for what cannot be",
    IncidentCause.BUG: "a bug of syncd",
    IncidentCause.UNKNOWN: "nobody knows why",
}

_CAUSE_OF_ERROR: Final[tuple[tuple[type[HintedError], IncidentCause], ...]] = (
    (StateUnreadable, IncidentCause.STATE_UNREADABLE),
    (DataInDoubt, IncidentCause.DATA_IN_DOUBT),
    (NotOwner, IncidentCause.OTHER_OWNER),
    (Misuse, IncidentCause.CONFIGURATION),
    (SchemaDrift, IncidentCause.SCHEMA_DRIFT),
    (ReaderDown, IncidentCause.READER_DOWN),
    (SourceDown, IncidentCause.SOURCE_DOWN),
    (TableAltered, IncidentCause.SOURCE_UNFIT),
    (SourceUnfit, IncidentCause.SOURCE_UNFIT),
    (LakeDown, IncidentCause.LAKE_DOWN),
    (LakeUnfit, IncidentCause.LAKE_UNFIT),
    (WarehouseDown, IncidentCause.WAREHOUSE_DOWN),
    (WarehouseUnfit, IncidentCause.WAREHOUSE_UNFIT),
    (TransactionConflict, IncidentCause.WAREHOUSE_LOCKED),
    (CommitUnknown, IncidentCause.WAREHOUSE_DOWN),
    (OutcomeUnknown, IncidentCause.LAKE_DOWN),
    (Transient, IncidentCause.LAKE_DOWN),
    (Stale, IncidentCause.LAKE_DOWN),
)

TRANSIENT_CAUSES: Final = frozenset(
    {
        *(
            IncidentCause.SOURCE_DOWN,
            IncidentCause.READER_DOWN,
            IncidentCause.LAKE_DOWN,
            IncidentCause.WAREHOUSE_DOWN,
            IncidentCause.WAREHOUSE_LOCKED,
        ),
        *(
            IncidentCause.HELD_TRANSACTION,
            IncidentCause.THROTTLED,
            IncidentCause.EXTRACT_QUEUE,
            IncidentCause.LOAD_QUEUE,
        ),
    }
)
"""What may be over in a moment: nobody is told of it at once."""

_SOURCE_CAUSES: Final = frozenset(
    {IncidentCause.SOURCE_DOWN, IncidentCause.HELD_TRANSACTION, IncidentCause.THROTTLED, IncidentCause.EXTRACT_QUEUE}
)
_WAREHOUSE_CAUSES: Final = frozenset(
    {IncidentCause.WAREHOUSE_DOWN, IncidentCause.WAREHOUSE_LOCKED, IncidentCause.LOAD_QUEUE}
)

_HELD: Final = re.compile(r"\bheld by\b|\bwaits for\b.*\bopen since\b")
_BUSY: Final = re.compile(r"\bthreads run at\b|\bthe replica \S+ (?:is .* behind|does not know how far)")
_BACKLOG: Final = re.compile(r"\bwait to be loaded\b")
_OTHER_OWNER: Final = re.compile(
    r"\bholds (?:extract|load) of\b|\bclaimed (?:extract|load) of\b|\bhas just renewed its lease\b"
)
_LOCKED: Final = re.compile(r"\block(?:ed|s)?\b|serializable isolation|deadlock|concurrent", re.IGNORECASE)


def classify_error(error: HintedError) -> IncidentCause:
    """The cause that an error is; whatever has no group is a bug."""
    return next((cause for group, cause in _CAUSE_OF_ERROR if isinstance(error, group)), IncidentCause.BUG)


def classify_reason(reason: str) -> IncidentCause | None:
    """The cause that a pass names for reading no further; None where it names none of these."""
    if _BACKLOG.search(reason):
        return IncidentCause.LOAD_QUEUE
    if _BUSY.search(reason):
        return IncidentCause.THROTTLED
    if _OTHER_OWNER.search(reason):
        return IncidentCause.OTHER_OWNER
    return IncidentCause.HELD_TRANSACTION if _HELD.search(reason) else None


def is_lock_conflict(message: str) -> bool:
    """Whether a landing came to nothing because another transaction was in the way."""
    return bool(_LOCKED.search(message))


def affected_party(cause: IncidentCause, *, source: str, warehouse: str, stream: str) -> str:
    """Whose affair a cause is: that of a server, which many streams share, or of one stream alone."""
    if cause in _SOURCE_CAUSES:
        return f"source {source}"
    if cause in _WAREHOUSE_CAUSES and warehouse:
        return f"warehouse {warehouse}"
    if cause in {IncidentCause.LAKE_DOWN, IncidentCause.LAKE_UNFIT}:
        return "lake"
    return "spark" if cause is IncidentCause.READER_DOWN else stream
