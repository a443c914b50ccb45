"""How one stream stands, kept up by events; memory for it is bounded, however long it runs."""

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from syncd.events import (
    BatchAbandoned,
    BatchesLoaded,
    BatchExtracted,
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
    TableReplaced,
)
from syncd.observe.board_view import (
    BatchRecord,
    PassRecord,
    StageState,
    StageView,
    StreamNotice,
    StreamState,
    StreamView,
)
from syncd.observe.rate import ThroughputMeter
from syncd.observe.stage_state import ObservationTime, StageTracker, truncate_text
from watermarks.document import Stage
from watermarks.names import StreamName

MAX_RECORDS_PER_STREAM: Final = 20
"""So many runs and batches of a stream are remembered."""
MAX_NOTICES_PER_STREAM: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredStream:
    """A stream that is configured."""

    stream: StreamName
    target: str = ""
    """The table in the warehouse; empty where there is none."""
    schedule: str = ""
    promised_lag: timedelta | None = None


class StreamTracker:
    """One stream."""

    def __init__(self, configured: ConfiguredStream, now: ObservationTime) -> None:
        self.configured = configured
        stages = (Stage.EXTRACT, Stage.LOAD)
        self._stages = {stage: StageTracker(stage, ThroughputMeter(now.monotonic)) for stage in stages}
        self._pending_batches = 0
        self._quarantined_rows = 0
        self._passes = deque[PassRecord](maxlen=MAX_RECORDS_PER_STREAM)
        self._batches = deque[BatchRecord](maxlen=MAX_RECORDS_PER_STREAM)
        self._notices = deque[StreamNotice](maxlen=MAX_NOTICES_PER_STREAM)

    def on_event(self, event: StreamEvent, now: ObservationTime) -> PassRecord | BatchRecord | None:
        """Take an event in; what all streams' list of what went on should have of it is given back."""
        match event:
            case PassDue():
                self._stages[event.stage].on_pass_due(event.at)
            case PassHeldBack():
                self._stages[event.stage].on_held_back(event)
            case PassBegan():
                self._stages[event.stage].on_pass_began(event, now)
            case RowsArrived():
                self._stages[Stage.EXTRACT].rows_so_far = event.rows
            case PassEnded():
                return self._on_pass_ended(event, now)
            case BatchExtracted() | BatchesLoaded():
                return self._on_batch(event, now)
            case _:
                self._on_other_event(event, now)
        return None

    def sample_lag(self, now: ObservationTime) -> None:
        for each in self._active_stages():
            each.sample_lag(now)

    def view(self, now: ObservationTime) -> StreamView:
        stages = tuple(each.view(now) for each in self._active_stages())
        return StreamView(
            stream=self.configured.stream,
            target=self.configured.target,
            schedule=self.configured.schedule,
            promised_lag=self.configured.promised_lag,
            state=derive_stream_state(stages, self.configured.promised_lag),
            stages=stages,
            pending_batches=self._pending_batches if self.configured.target else 0,
            quarantined_rows=self._quarantined_rows,
            runs=tuple(reversed(self._passes)),
            batches=tuple(reversed(self._batches)),
            notices=tuple(reversed(self._notices)),
        )

    def _active_stages(self) -> tuple[StageTracker, ...]:
        stages = tuple(self._stages.values())
        return stages if self.configured.target else stages[:1]

    def _on_pass_ended(self, event: PassEnded, now: ObservationTime) -> PassRecord | None:
        extract, load = self._stages[Stage.EXTRACT], self._stages[Stage.LOAD]
        self._stages[event.stage].on_pass_ended(event, now)
        if event.error is None and not event.cut:
            self._pending_batches = event.pending
        if event.complete is not None:
            mine = extract if event.stage is Stage.EXTRACT else load
            mine.advance_completeness(event.complete, proven=event.proven, now=now)
            if event.stage is Stage.EXTRACT and event.pending == 0:
                # All that was extracted is loaded: what the lake has, the target has.
                load.advance_completeness(event.complete, proven=event.proven, now=now)
        return self._record_pass(event, now)

    def _record_pass(self, event: PassEnded, now: ObservationTime) -> PassRecord | None:
        run = PassRecord(
            stage=event.stage,
            ended_at=now.at,
            state=event.state,
            batches=event.batches,
            rows=event.rows,
            seconds=event.seconds,
            reason=truncate_text(event.reason),
            error=truncate_text(event.error.message) if event.error else "",
        )
        before = next((one for one in reversed(self._passes) if one.stage is run.stage), None)
        if before is not None and _is_repetition(before, run):
            # Passes that find nothing would soon be all that is remembered.
            self._passes.remove(before)
            run = replace(run, times=before.times + 1)
        self._passes.append(run)
        return run if run.batches or (run.error and run.times == 1) else None

    def _on_batch(self, event: BatchExtracted | BatchesLoaded, now: ObservationTime) -> BatchRecord:
        extracts = isinstance(event, BatchExtracted)
        stage = self._stages[Stage.EXTRACT if extracts else Stage.LOAD]
        stage.mark = event.mark
        stage.throughput.add(event.rows, now.monotonic)
        moved = BatchRecord(
            stage=stage.stage,
            moved_at=now.at,
            first_batch=str(event.batch if isinstance(event, BatchExtracted) else event.first),
            last_batch=str(event.batch if isinstance(event, BatchExtracted) else event.last),
            kind=event.kind if isinstance(event, BatchExtracted) else "landed",
            rows=event.rows,
            files=event.files,
            bytes=event.bytes if isinstance(event, BatchExtracted) else None,
            quarantined=event.quarantined if isinstance(event, BatchExtracted) else 0,
            seconds=event.seconds,
            mark=event.mark,
        )
        self._quarantined_rows += moved.quarantined
        if extracts:
            self._pending_batches += 1
            stage.rows_so_far = 0
        self._batches.append(moved)
        return moved

    def _on_other_event(self, event: StreamEvent, now: ObservationTime) -> None:
        if isinstance(event, RowsQuarantined):
            self._quarantined_rows += event.rows
        if text := describe_notice(event):
            self._notices.append(StreamNotice(noticed_at=now.at, text=truncate_text(text)))


def describe_notice(event: StreamEvent) -> str:  # noqa: PLR0911  # a case each
    """What a reader should know of an event that is neither a pass nor a batch; empty where it is nothing."""
    match event:
        case LoadRetried():
            return f"tried to land again after {event.seconds:.1f} s: {event.error}"
        case LedgerBehind():
            return f"the warehouse had lost batches that were loaded: {event.batches} landed again"
        case RowsQuarantined():
            return f"rows of batch {event.batch} are in quarantine: {event.rows}, the first because {event.reason}"
        case ColumnIncomplete() | TableReplaced():
            return event.description
        case BatchAbandoned():
            return f"batch {event.batch} was planned for a world that is gone: abandoned, planned anew"
        case OrphansSwept():
            return f"files of earlier attempts removed: {event.files}"
        case _:
            return ""


def derive_stream_state(stages: tuple[StageView, ...], promised_lag: timedelta | None) -> StreamState:
    """How a stream stands as a whole: as its worst stage does."""
    states = {each.state for each in stages}
    complete = stages[-1].complete
    if StageState.FAILED in states:
        return StreamState.FAILED
    if promised_lag is not None and complete is not None and complete.lag > promised_lag:
        return StreamState.LATE
    for state, mood in _STREAM_STATE_OF_STAGE:
        if state in states:
            return mood
    return StreamState.NEW if states == {StageState.NEW} else StreamState.IDLE


_STREAM_STATE_OF_STAGE: Final = (
    (StageState.HELD_BACK, StreamState.HELD_BACK),
    (StageState.WAITING, StreamState.WAITING),
    (StageState.RUNNING, StreamState.RUNNING),
)


def _is_repetition(before: PassRecord, after: PassRecord) -> bool:
    """Whether a pass says nothing that the one before did not say."""
    alike = (before.state, before.reason, before.error) == (after.state, after.reason, after.error)
    return alike and not before.batches and not after.batches
