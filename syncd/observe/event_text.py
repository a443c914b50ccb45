"""Events as one line of text."""

from syncd.events import (
    BatchAbandoned,
    BatchesLoaded,
    BatchExtracted,
    BatchPlanned,
    ColumnIncomplete,
    LedgerBehind,
    LoadRetried,
    OrphansRemoved,
    PassDue,
    PassEnded,
    PassHeldBack,
    PassStarted,
    RowsArrived,
    RowsQuarantined,
    StreamEvent,
    StreamFailed,
    StreamWaited,
    TableReplaced,
)
from syncd.observe.formatting import format_bytes, format_count, format_instant


def summarize_event(event: StreamEvent) -> str:  # noqa: PLR0911  # a case each
    """Return an event in one line; empty for an event that only marks progress."""
    match event:
        case BatchExtracted():
            return _describe_extracted(event)
        case BatchesLoaded():
            return _describe_loaded(event)
        case LoadRetried():
            return f"{event.error.message}; trying again in {event.seconds:.1f} s"
        case RowsQuarantined():
            refused = f"{format_count(event.rows, 'row')} of batch {event.batch}"
            return f"{refused} {'is' if event.rows == 1 else 'are'} in quarantine: {event.reason}"
        case ColumnIncomplete() | TableReplaced():
            return event.description
        case BatchAbandoned():
            return f"batch {event.batch} no longer fits its source and is planned again"
        case OrphansRemoved():
            return f"removed {format_count(event.files, 'file')} of interrupted attempts"
        case PassEnded() | PassHeldBack():
            return describe_pass(event)
        case StreamWaited():
            return event.reason
        case _:
            return ""


def describe_event(event: StreamEvent) -> str:  # noqa: PLR0911  # a case each
    """Return any event in one line."""
    match event:
        case BatchPlanned():
            return f"planned {event.kind} {event.batch} in {format_count(event.windows, 'window')}"
        case RowsArrived():
            return f"read {format_count(event.rows, 'row')} of batch {event.batch}"
        case LedgerBehind():
            return f"the warehouse lost {format_count(event.batches, 'batch')}: loading them again"
        case StreamFailed():
            return f"failed: {event.error}"
        case PassDue():
            return f"{event.stage} is due at {format_instant(event.at)}"
        case PassStarted():
            return f"{event.stage} began, {event.strategy}"
        case _:
            return summarize_event(event) or event.name


def describe_pass(event: PassEnded | PassHeldBack) -> str:
    """Return the outcome of a pass, or why it did not run."""
    if isinstance(event, PassHeldBack):
        until = f", until {format_instant(event.until)}" if event.until else ""
        return f"{event.stage} is held back: {event.reason}{until}"
    pending = f"{format_count(event.pending_batches, 'batch')} to be loaded" if event.pending_batches else ""
    return "; ".join(filter(None, (_describe_result(event), _describe_completeness(event), pending, event.reason)))


def _describe_result(event: PassEnded) -> str:
    done = f"{format_count(event.batches, 'batch')}, {format_count(event.rows, 'row')}" if event.batches else ""
    if event.error is not None:
        after = f" after {done}" if done else ""
        return f"{event.stage} failed{after} in {event.seconds:.1f} s: {event.error.message}"
    return f"{event.stage}: {done} in {event.seconds:.1f} s" if done else f"{event.stage}: nothing new"


def _describe_completeness(event: PassEnded) -> str:
    if event.complete_up_to is None:
        return ""
    return f"complete up to {format_instant(event.complete_up_to)}{'' if event.proven else ', not proven'}"


def _describe_extracted(event: BatchExtracted) -> str:
    refused = f", {event.quarantined:,} in quarantine" if event.quarantined else ""
    files = f"{format_count(event.files, 'file')}, {format_bytes(event.bytes)}"
    return f"{event.kind} {event.batch}: {format_count(event.rows, 'row')} in {files}{refused}, {event.seconds:.1f} s"


def _describe_loaded(event: BatchesLoaded) -> str:
    batches = f"batch {event.first}" if event.first == event.last else f"batches {event.first} to {event.last}"
    what = f"{format_count(event.rows, 'row')} from {format_count(event.files, 'file')}"
    return f"loaded {batches}: {what}, {event.seconds:.1f} s"
