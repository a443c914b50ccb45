"""Durable positions of streams: documents, history, batches, leases. Standard library only."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from watermarks.batch import (
        BatchDraft,
        BatchId,
        BatchKind,
        BatchLink,
        BatchOutput,
        Plan,
        PlanBasis,
        SnapshotProgress,
    )
    from watermarks.cursor import START_CURSOR, Cursor, CursorValue
    from watermarks.document import FailureRecord, Stage, StageStatus, Watermark
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
    from watermarks.extraction import BatchChain, BatchProducer, Extraction, ExtractResult
    from watermarks.history import ChangeKind, ChangeNote, HistoryEntry, Journal
    from watermarks.lease import HeldClaim, ProcessLease
    from watermarks.loading import BatchLoadResult, LedgerKey, LoadCycle, Loading, Target, require_fence
    from watermarks.names import StreamName
    from watermarks.operator import Operator
    from watermarks.progress import ExtractProgress, LoadProgress, Run, RunStrategy
    from watermarks.store import Store
    from watermarks.system_default import SystemDefault
    from watermarks.window import Window

__all__ = [
    "START_CURSOR", "BatchChain", "BatchDraft", "BatchId", "BatchKind", "BatchLink", "BatchLoadResult",
    "BatchOutput", "BatchProducer", "ChangeKind", "ChangeNote", "Cursor", "CursorValue", "DataInDoubt",
    "ExtractProgress", "ExtractResult", "Extraction", "FailureRecord", "HeldClaim", "HintedError", "HistoryEntry",
    "Journal", "LedgerKey", "LoadCycle", "LoadProgress", "Loading", "Misuse", "NotOwner", "Operator",
    "OutcomeUnknown", "Plan", "PlanBasis", "ProcessLease", "Run", "RunStrategy", "SnapshotProgress", "Stage",
    "StageStatus", "Stale", "StateUnreadable", "Store", "StreamName", "SystemDefault", "Target", "Transient",
    "Watermark", "Window", "require_fence",
]  # fmt: skip

_NAMES_BY_MODULE: Final = {
    "watermarks.batch": "BatchDraft BatchId BatchKind BatchLink BatchOutput Plan PlanBasis SnapshotProgress",
    "watermarks.cursor": "Cursor CursorValue START_CURSOR",
    "watermarks.document": "FailureRecord Stage StageStatus Watermark",
    "watermarks.errors": "DataInDoubt HintedError Misuse NotOwner OutcomeUnknown Stale StateUnreadable Transient",
    "watermarks.extraction": "BatchChain BatchProducer ExtractResult Extraction",
    "watermarks.progress": "ExtractProgress LoadProgress Run RunStrategy",
    "watermarks.history": "ChangeKind ChangeNote HistoryEntry Journal",
    "watermarks.loading": "BatchLoadResult LedgerKey LoadCycle Loading Target require_fence",
    "watermarks.lease": "HeldClaim ProcessLease",
    "watermarks.names": "StreamName",
    "watermarks.operator": "Operator",
    "watermarks.store": "Store",
    "watermarks.system_default": "SystemDefault",
    "watermarks.window": "Window",
}
_MODULE_OF: Final = {name: home for home, names in _NAMES_BY_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a name from its module on first use, so that one name does not load the whole library."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
