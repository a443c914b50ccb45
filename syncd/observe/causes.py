"""What stands in a stream's way, in one word, from what events tell."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from syncd.errors import (
    Collided,
    CommitUnknown,
    LakeDown,
    LakeUnfit,
    ReaderDown,
    SchemaDrift,
    SourceDown,
    SourceUnfit,
    TableAltered,
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


class Cause(StrEnum):
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


SENTENCES: Final[Mapping[Cause, str]] = {
    Cause.HELD_TRANSACTION: "a transaction at the source is open and may still commit older rows",
    Cause.THROTTLED: "the source is too busy, or its replica too far behind, to be read",
    Cause.EXTRACT_QUEUE: "reading from the source does not keep up, or waits for its turn",
    Cause.LOAD_QUEUE: "batches wait to be loaded",
    Cause.WAREHOUSE_LOCKED: "another transaction in the warehouse is in the way",
    Cause.SOURCE_DOWN: "the source does not answer",
    Cause.READER_DOWN: "Spark does not run",
    Cause.LAKE_DOWN: "the lake does not answer",
    Cause.WAREHOUSE_DOWN: "the warehouse does not answer",
    Cause.OTHER_OWNER: "another process works on it",
    Cause.SOURCE_UNFIT: "something is missing at the source",
    Cause.LAKE_UNFIT: "something is missing at the lake",
    Cause.WAREHOUSE_UNFIT: "something is missing at the warehouse",
    Cause.SCHEMA_DRIFT: "the table is not the one it was",
    Cause.DATA_IN_DOUBT: "going on could lose or double rows",
    Cause.STATE_UNREADABLE: "a document of the lake cannot be trusted",
    Cause.CONFIGURATION: "the configuration asks for what cannot be",
    Cause.BUG: "a bug of syncd",
    Cause.UNKNOWN: "nobody knows why",
}

_GROUPS: Final[tuple[tuple[type[HintedError], Cause], ...]] = (
    (StateUnreadable, Cause.STATE_UNREADABLE),
    (DataInDoubt, Cause.DATA_IN_DOUBT),
    (NotOwner, Cause.OTHER_OWNER),
    (Misuse, Cause.CONFIGURATION),
    (SchemaDrift, Cause.SCHEMA_DRIFT),
    (ReaderDown, Cause.READER_DOWN),
    (SourceDown, Cause.SOURCE_DOWN),
    (TableAltered, Cause.SOURCE_UNFIT),
    (SourceUnfit, Cause.SOURCE_UNFIT),
    (LakeDown, Cause.LAKE_DOWN),
    (LakeUnfit, Cause.LAKE_UNFIT),
    (WarehouseDown, Cause.WAREHOUSE_DOWN),
    (WarehouseUnfit, Cause.WAREHOUSE_UNFIT),
    (Collided, Cause.WAREHOUSE_LOCKED),
    (CommitUnknown, Cause.WAREHOUSE_DOWN),
    (OutcomeUnknown, Cause.LAKE_DOWN),
    (Transient, Cause.LAKE_DOWN),
    (Stale, Cause.LAKE_DOWN),
)

PASSING: Final = frozenset(
    {
        *(Cause.SOURCE_DOWN, Cause.READER_DOWN, Cause.LAKE_DOWN, Cause.WAREHOUSE_DOWN, Cause.WAREHOUSE_LOCKED),
        *(Cause.HELD_TRANSACTION, Cause.THROTTLED, Cause.EXTRACT_QUEUE, Cause.LOAD_QUEUE),
    }
)
"""What may be over in a moment: nobody is told of it at once."""

_OF_SOURCE: Final = frozenset({Cause.SOURCE_DOWN, Cause.HELD_TRANSACTION, Cause.THROTTLED, Cause.EXTRACT_QUEUE})
_OF_WAREHOUSE: Final = frozenset({Cause.WAREHOUSE_DOWN, Cause.WAREHOUSE_LOCKED, Cause.LOAD_QUEUE})

_HELD: Final = re.compile(r"\bheld by\b|\bwaits for\b.*\bopen since\b")
_BUSY: Final = re.compile(r"\bthreads run at\b|\bthe replica \S+ (?:is .* behind|does not know how far)")
_BACKLOG: Final = re.compile(r"\bwait to be loaded\b")
_OTHERS: Final = re.compile(r"\bholds (?:extract|load) of\b|\bwas first at\b|\bhas just renewed its lease\b")
_LOCKED: Final = re.compile(r"\block(?:ed|s)?\b|serializable isolation|deadlock|concurrent", re.IGNORECASE)


def of_error(error: HintedError) -> Cause:
    """The cause that an error is; whatever has no group is a bug."""
    return next((cause for group, cause in _GROUPS if isinstance(error, group)), Cause.BUG)


def of_reason(reason: str) -> Cause | None:
    """The cause that a pass names for reading no further; None where it names none of these."""
    if _BACKLOG.search(reason):
        return Cause.LOAD_QUEUE
    if _BUSY.search(reason):
        return Cause.THROTTLED
    if _OTHERS.search(reason):
        return Cause.OTHER_OWNER
    return Cause.HELD_TRANSACTION if _HELD.search(reason) else None


def is_lock(message: str) -> bool:
    """Whether a landing came to nothing because another transaction was in the way."""
    return bool(_LOCKED.search(message))


def party_of(cause: Cause, *, source: str, warehouse: str, stream: str) -> str:
    """Whose affair a cause is: that of a server, which many streams share, or of one stream alone."""
    if cause in _OF_SOURCE:
        return f"source {source}"
    if cause in _OF_WAREHOUSE and warehouse:
        return f"warehouse {warehouse}"
    if cause in {Cause.LAKE_DOWN, Cause.LAKE_UNFIT}:
        return "lake"
    return "spark" if cause is Cause.READER_DOWN else stream
