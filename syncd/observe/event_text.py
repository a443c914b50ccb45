"""What an event says in one line, to whoever reads along."""

from datetime import datetime

from syncd.events import (
    BatchAbandoned,
    BatchesLanded,
    BatchExtracted,
    BatchPlanned,
    ColumnIncomplete,
    Event,
    LandingRetried,
    LedgerBehind,
    OrphansSwept,
    PassBegan,
    PassDue,
    PassEnded,
    PassHeldBack,
    RowsArrived,
    RowsPutAside,
    StreamFailed,
    StreamWaited,
    TableRemade,
)


def told(event: Event) -> str:  # noqa: PLR0911  # a case each
    """An event in one line; empty where it only marks progress."""
    match event:
        case BatchExtracted():
            return _extracted(event)
        case BatchesLanded():
            return _landed(event)
        case LandingRetried() | RowsPutAside() | ColumnIncomplete() | TableRemade():
            return _trouble(event)
        case BatchAbandoned():
            return f"batch {event.batch} was planned for a world that is gone: abandoned, planned anew"
        case OrphansSwept():
            return f"{counted(event.files, 'file')} of earlier attempts removed"
        case PassEnded() | PassHeldBack():
            return story(event)
        case _:
            return event.reason if isinstance(event, StreamWaited) else ""


def sentence(event: Event) -> str:  # noqa: PLR0911  # a case each
    """An event in one line, also where it only marks progress."""
    match event:
        case BatchPlanned():
            return f"{event.kind} {event.batch} is planned in {counted(event.windows, 'window')}"
        case RowsArrived():
            return f"{counted(event.rows, 'row')} of batch {event.batch} have come"
        case LedgerBehind():
            return f"the warehouse had lost {counted(event.batches, 'batch')}: landed again"
        case StreamFailed():
            return f"failed: {event.error}"
        case PassDue():
            return f"{event.stage} is looked at next at {clock(event.at)}"
        case PassBegan():
            return f"{event.stage} began, {event.strategy}"
        case _:
            return told(event) or event.name


def story(event: PassEnded | PassHeldBack) -> str:
    """How a pass went, or why there was none."""
    if isinstance(event, PassHeldBack):
        until = f", until {clock(event.until)}" if event.until else ""
        return f"{event.stage} is held back: {event.reason}{until}"
    return "; ".join(filter(None, (_went(event), _reached(event), _left(event))))


def _went(event: PassEnded) -> str:
    done = f"{counted(event.batches, 'batch')}, {counted(event.rows, 'row')}" if event.batches else ""
    if event.error is not None:
        after = f" after {done}" if done else ""
        return f"{event.stage} failed{after} in {event.seconds:.1f} s: {event.error.message}"
    if done:
        return f"{event.stage}: {done} in {event.seconds:.1f} s"
    return f"{event.stage}: nothing new"


def _reached(event: PassEnded) -> str:
    if event.complete is None:
        return ""
    return f"complete up to {clock(event.complete)}{'' if event.proven else ', not proven'}"


def _left(event: PassEnded) -> str:
    waiting = f"{counted(event.pending, 'batch')} to be loaded" if event.pending else ""
    return "; ".join(filter(None, (waiting, event.reason)))


def _extracted(event: BatchExtracted) -> str:
    refused = f", {event.quarantined:,} in quarantine" if event.quarantined else ""
    files = f"{counted(event.files, 'file')}, {size(event.bytes)}"
    return f"{event.kind} {event.batch}: {counted(event.rows, 'row')} in {files}{refused}, {event.seconds:.1f} s"


def _landed(event: BatchesLanded) -> str:
    batches = f"batch {event.first}" if event.first == event.last else f"batches {event.first} to {event.last}"
    what = f"{counted(event.rows, 'row')} from {counted(event.files, 'file')}"
    return f"{batches} landed: {what}, {event.seconds:.1f} s"


def _trouble(event: LandingRetried | RowsPutAside | ColumnIncomplete | TableRemade) -> str:
    if isinstance(event, ColumnIncomplete | TableRemade):
        return event.said
    if isinstance(event, LandingRetried):
        return f"{event.error}; tried again in {event.seconds:.1f} s"
    many = "cannot land and is" if event.rows == 1 else "cannot land and are"
    return f"{counted(event.rows, 'row')} of batch {event.batch} {many} in quarantine: {event.reason}"


def counted(number: int, word: str) -> str:
    """`1 batch`, `2 batches`."""
    plural = "es" if word.endswith("ch") else "s"
    return f"{number:,} {word}{plural * (number != 1)}"


def size(number: float) -> str:
    """`812 B`, `3.4 kB`, `12.0 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004  # so much a unit is of the next
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def clock(moment: datetime) -> str:
    """An instant as people read it."""
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"
