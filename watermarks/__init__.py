"""Positions of streams that cannot be lost: documents, history, batches, leases. Standard library only."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
    from watermarks.history import Change, Entry, Journal, Note
    from watermarks.lease import Held, Process
    from watermarks.loading import Brought, Cycle, Landing, LedgerKey, Target, require_fence
    from watermarks.names import StreamName
    from watermarks.operator import Operator
    from watermarks.progress import Extracted, Loaded, Run, Strategy
    from watermarks.store import Store
    from watermarks.system_default import SystemDefault
    from watermarks.window import Window

__all__ = [
    "START",
    "BatchId",
    "Brought",
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

_NAMES: Final = {
    "watermarks.batch": "BatchId Draft Filled Kind Link Plan Snapshot World",
    "watermarks.cursor": "START Cursor Value",
    "watermarks.document": "Failure Stage Status Watermark",
    "watermarks.errors": "DataInDoubt HintedError Misuse NotOwner OutcomeUnknown Stale StateUnreadable Transient",
    "watermarks.extraction": "Chain Extraction Producer Turn",
    "watermarks.progress": "Extracted Loaded Run Strategy",
    "watermarks.history": "Change Entry Journal Note",
    "watermarks.loading": "Brought Cycle Landing LedgerKey Target require_fence",
    "watermarks.lease": "Held Process",
    "watermarks.names": "StreamName",
    "watermarks.operator": "Operator",
    "watermarks.store": "Store",
    "watermarks.system_default": "SystemDefault",
    "watermarks.window": "Window",
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """A name of the library, from the module that has it: who needs one does not wait for all of them to load."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
