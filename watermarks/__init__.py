"""Positions of streams that cannot be lost: documents, history, batches, leases. Standard library only."""

from watermarks.batch import BatchId, Draft, Filled, Kind, Link, Plan, Snapshot, World
from watermarks.cursor import START, Cursor, Value
from watermarks.document import Failure, Stage, Status, Watermark
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
from watermarks.extraction import Chain, Extraction, Producer, Turn
from watermarks.halves import Extracted, Loaded, Run, Strategy
from watermarks.history import Change, Entry, Journal, Note
from watermarks.landing import Cycle, Landing, LedgerKey, Target, require_fence
from watermarks.lease import Held, Process
from watermarks.names import StreamName
from watermarks.operate import Operator
from watermarks.store import Store
from watermarks.system import SystemDefault
from watermarks.window import Window

__all__ = [
    "START",
    "BatchId",
    "Chain",
    "Change",
    "Cursor",
    "Cycle",
    "DataInDoubt",
    "Draft",
    "Entry",
    "Extracted",
    "Extraction",
    "Failure",
    "Filled",
    "Held",
    "HintedError",
    "Journal",
    "Kind",
    "Landing",
    "LedgerKey",
    "Link",
    "Loaded",
    "Misuse",
    "NotOwner",
    "Note",
    "Operator",
    "OutcomeUnknown",
    "Plan",
    "Process",
    "Producer",
    "Run",
    "Snapshot",
    "Stage",
    "Stale",
    "StateUnreadable",
    "Status",
    "Store",
    "Strategy",
    "StreamName",
    "SystemDefault",
    "Target",
    "Transient",
    "Turn",
    "Value",
    "Watermark",
    "Window",
    "World",
    "require_fence",
]
