"""What an event says in one line, to whoever reads along."""

from datetime import datetime

from syncd.events import (
    BatchAbandoned,
    BatchesLoaded,
    BatchExtracted,
    BatchPlanned,
    ColumnIncomplete,
    LedgerBehind,
    LoadRetried,
    OrphansSwept,
    PassBegan,
    PassDue,
    PassEnded,
    PassHeldBack,
    RowsArrived,
    RowsQuarantined,
    StreamEvent,
    StreamFailed,
    StreamWaited,
    TableReplaced,
)


def summarize_event(event: StreamEvent) -> str:  # noqa: PLR0911  # a case each
    """An event in one line; empty where it only marks progress."""
    match event:
        case BatchExtracted():
            return _describe_extracted(event)
        case BatchesLoaded():
            return _describe_loaded(event)
        case LoadRetried() | RowsQuarantined() | ColumnIncomplete() | TableReplaced():
            return _describe_problem(event)
        case BatchAbandoned():
            return f"batch {event.batch} was planned for a world that is gone: abandoned, planned anew"
        case OrphansSwept():
            return f"{format_count(event.files, 'file')} of earlier attempts removed"
        case PassEnded() | PassHeldBack():
            return describe_pass(event)
        case _:
            return event.reason if isinstance(event, StreamWaited) else ""


def describe_event(event: StreamEvent) -> str:  # noqa: PLR0911  # a case each
    """An event in one line, also where it only marks progress."""
    match event:
        case BatchPlanned():
            return f"{event.kind} {event.batch} is planned in {format_count(event.windows, 'window')}"
        case RowsArrived():
            return f"{format_count(event.rows, 'row')} of batch {event.batch} have come"
        case LedgerBehind():
            return f"the warehouse had lost {format_count(event.batches, 'batch')}: landed again"
        case StreamFailed():
            return f"failed: {event.error}"
        case PassDue():
            return f"{event.stage} is looked at next at {format_instant(event.at)}"
        case PassBegan():
            return f"{event.stage} began, {event.strategy}"
        case _:
            return summarize_event(event) or event.name


def describe_pass(event: PassEnded | PassHeldBack) -> str:
    """How a pass went, or why there was none."""
    if isinstance(event, PassHeldBack):
        until = f", until {format_instant(event.until)}" if event.until else ""
        return f"{event.stage} is held back: {event.reason}{until}"
    return "; ".join(filter(None, (_describe_result(event), _describe_completeness(event), _describe_remaining(event))))


def _describe_result(event: PassEnded) -> str:
    done = f"{format_count(event.batches, 'batch')}, {format_count(event.rows, 'row')}" if event.batches else ""
    if event.error is not None:
        after = f" after {done}" if done else ""
        return f"{event.stage} failed{after} in {event.seconds:.1f} s: {event.error.message}"
    if done:
        return f"{event.stage}: {done} in {event.seconds:.1f} s"
    return f"{event.stage}: nothing new"


def _describe_completeness(event: PassEnded) -> str:
    if event.complete is None:
        return ""
    return f"complete up to {format_instant(event.complete)}{'' if event.proven else ', not proven'}"


def _describe_remaining(event: PassEnded) -> str:
    waiting = f"{format_count(event.pending, 'batch')} to be loaded" if event.pending else ""
    return "; ".join(filter(None, (waiting, event.reason)))


def _describe_extracted(event: BatchExtracted) -> str:
    refused = f", {event.quarantined:,} in quarantine" if event.quarantined else ""
    files = f"{format_count(event.files, 'file')}, {format_bytes(event.bytes)}"
    return f"{event.kind} {event.batch}: {format_count(event.rows, 'row')} in {files}{refused}, {event.seconds:.1f} s"


def _describe_loaded(event: BatchesLoaded) -> str:
    batches = f"batch {event.first}" if event.first == event.last else f"batches {event.first} to {event.last}"
    what = f"{format_count(event.rows, 'row')} from {format_count(event.files, 'file')}"
    return f"{batches} landed: {what}, {event.seconds:.1f} s"


def _describe_problem(event: LoadRetried | RowsQuarantined | ColumnIncomplete | TableReplaced) -> str:
    if isinstance(event, ColumnIncomplete | TableReplaced):
        return event.description
    if isinstance(event, LoadRetried):
        return f"{event.error}; tried again in {event.seconds:.1f} s"
    many = "cannot land and is" if event.rows == 1 else "cannot land and are"
    return f"{format_count(event.rows, 'row')} of batch {event.batch} {many} in quarantine: {event.reason}"


def format_count(number: int, word: str) -> str:
    """`1 batch`, `2 batches`."""
    plural = "es" if word.endswith("ch") else "s"
    return f"{number:,} {word}{plural * (number != 1)}"


def format_bytes(number: float) -> str:
    """`812 B`, `3.4 kB`, `12.0 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004  # so much a unit is of the next
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def format_instant(moment: datetime) -> str:
    """An instant as people read it."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"
