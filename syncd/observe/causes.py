"""Causes of incidents: their texts, whom they concern, and how a late stream's cause is found."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from syncd.error_classes import IncidentCause
from syncd.events import WaitKind, wait_kind

if TYPE_CHECKING:
    from syncd.events import ClockReading
    from syncd.observe.stream_state import StreamTracker

CAUSE_SENTENCES: Final[Mapping[IncidentCause, str]] = {
    IncidentCause.HELD_TRANSACTION: "a transaction at the source is open and may still commit older rows",
    IncidentCause.THROTTLED: "the source is too busy to be read, or its replica lags too far behind",
    IncidentCause.EXTRACT_QUEUE: "reading from the source does not keep up, or waits for a free slot",
    IncidentCause.LOAD_QUEUE: "batches wait to be loaded",
    IncidentCause.WAREHOUSE_LOCKED: "another transaction in the warehouse blocks the load",
    IncidentCause.SOURCE_DOWN: "the source does not answer",
    IncidentCause.READER_DOWN: "Spark does not run",
    IncidentCause.LAKE_DOWN: "the lake does not answer",
    IncidentCause.WAREHOUSE_DOWN: "the warehouse does not answer",
    IncidentCause.OTHER_OWNER: "another process owns the stream",
    IncidentCause.SOURCE_UNFIT: "the source lacks a right, object or setting",
    IncidentCause.LAKE_UNFIT: "the lake lacks a right, object or setting",
    IncidentCause.WAREHOUSE_UNFIT: "the warehouse lacks a right, object or setting",
    IncidentCause.SCHEMA_DRIFT: "the table has changed and an operator has to decide",
    IncidentCause.DATA_IN_DOUBT: "continuing could lose or duplicate rows",
    IncidentCause.STATE_UNREADABLE: "a document of the lake cannot be trusted",
    IncidentCause.CONFIGURATION: "the configuration asks for something impossible",
    IncidentCause.BUG: "a bug in syncd",
    IncidentCause.UNKNOWN: "unknown cause",
}

TRANSIENT_CAUSES: Final = frozenset(
    {
        IncidentCause.SOURCE_DOWN,
        IncidentCause.READER_DOWN,
        IncidentCause.LAKE_DOWN,
        IncidentCause.WAREHOUSE_DOWN,
        IncidentCause.WAREHOUSE_LOCKED,
        IncidentCause.HELD_TRANSACTION,
        IncidentCause.THROTTLED,
        IncidentCause.EXTRACT_QUEUE,
        IncidentCause.LOAD_QUEUE,
    }
)
"""Causes that may pass by themselves: a notice is sent only after a grace period."""
_SOURCE_CAUSES: Final = frozenset(
    {IncidentCause.SOURCE_DOWN, IncidentCause.HELD_TRANSACTION, IncidentCause.THROTTLED, IncidentCause.EXTRACT_QUEUE}
)
_WAREHOUSE_CAUSES: Final = frozenset(
    {IncidentCause.WAREHOUSE_DOWN, IncidentCause.WAREHOUSE_LOCKED, IncidentCause.LOAD_QUEUE}
)
_CAUSE_OF_WAIT: Final = {
    WaitKind.HELD_TRANSACTION: IncidentCause.HELD_TRANSACTION,
    WaitKind.THROTTLED: IncidentCause.THROTTLED,
    WaitKind.LOAD_BACKLOG: IncidentCause.LOAD_QUEUE,
    WaitKind.OTHER_OWNER: IncidentCause.OTHER_OWNER,
}


def classify_reason(reason: str) -> IncidentCause | None:
    """Return the cause that a waiting reason names; None for a text without a kind."""
    kind = wait_kind(reason)
    return None if kind is None else _CAUSE_OF_WAIT[kind]


def affected_component(cause: IncidentCause, *, source: str, warehouse: str, stream: str) -> str:
    """Return whom a cause concerns: a server that many streams share, or one stream."""
    if cause in _SOURCE_CAUSES:
        return f"source {source}"
    if cause in _WAREHOUSE_CAUSES and warehouse:
        return f"warehouse {warehouse}"
    if cause in {IncidentCause.LAKE_DOWN, IncidentCause.LAKE_UNFIT}:
        return "lake"
    return "spark" if cause is IncidentCause.READER_DOWN else stream


def find_stale_cause(tracker: "StreamTracker", *, within: timedelta, now: "ClockReading") -> IncidentCause:
    """Return why a target is later than promised: a failing stage, else the stage that is behind."""
    stages = (tracker.load, tracker.extract)
    for stage in stages:
        if stage.failure is not None and not stage.is_owned_elsewhere:
            return stage.failure.cause
    if any(stage.is_owned_elsewhere for stage in stages):
        return IncidentCause.OTHER_OWNER
    lake = tracker.extract.completeness
    is_lake_fresh = lake is not None and lake.lag(now) <= within
    load_cause, extract_cause = _load_cause(tracker), _extract_cause(tracker)
    return (load_cause if is_lake_fresh else None) or extract_cause or load_cause or IncidentCause.UNKNOWN


def _load_cause(tracker: "StreamTracker") -> IncidentCause | None:
    if not tracker.has_target:
        return None
    if tracker.is_warehouse_locked:
        return IncidentCause.WAREHOUSE_LOCKED
    return IncidentCause.LOAD_QUEUE if tracker.pending_batches or tracker.load.held_reason else None


def _extract_cause(tracker: "StreamTracker") -> IncidentCause | None:
    extract = tracker.extract
    named = classify_reason(extract.pass_reason) or classify_reason(extract.held_reason)
    if named is not None:
        return named
    return IncidentCause.EXTRACT_QUEUE if extract.held_reason or extract.is_running else None
