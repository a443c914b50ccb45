"""Live state of one stream, built from events in bounded memory."""

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from syncd.error_classes import IncidentCause, classify_error
from syncd.events import (
    BatchAbandoned,
    BatchesLoaded,
    BatchExtracted,
    ClockReading,
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
    TableReplaced,
)
from syncd.lake.completion_markers import describes_target
from syncd.observe.board_view import (
    BatchRecord,
    PassRecord,
    StageState,
    StageView,
    StreamNotice,
    StreamState,
    StreamView,
)
from syncd.observe.event_text import describe_event
from syncd.observe.stage_state import StageCompleteness, StageTracker, truncate_text
from watermarks.document import Stage
from watermarks.names import StreamName

MAX_RECORDS_PER_STREAM: Final = 20
"""Passes, and batches, that are remembered of one stream."""
MAX_NOTICES_PER_STREAM: Final = 8
_NOTICE_EVENTS: Final = (
    LoadRetried, LedgerBehind, RowsQuarantined, ColumnIncomplete, TableReplaced, BatchAbandoned, OrphansRemoved,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredStream:
    """Stream of the configuration."""

    stream: StreamName
    target: str = ""
    """Table in the warehouse; empty without one."""
    warehouse: str = ""
    schedule: str = ""
    promised_lag: timedelta | None = None
    is_configured: bool = True
    """False for a stream that is known from its events only."""


class StreamTracker:
    """State of one stream."""

    def __init__(self, configured: ConfiguredStream, now: ClockReading) -> None:
        self.configured = configured
        self.since = now
        self.extract = StageTracker(Stage.EXTRACT, now)
        self.load = StageTracker(Stage.LOAD, now)
        self.pending_batches = 0
        self.is_warehouse_locked = False
        """True if another transaction was in the way of the last load."""
        self._quarantined_rows = 0
        self._passes = deque[PassRecord](maxlen=MAX_RECORDS_PER_STREAM)
        self._batches = deque[BatchRecord](maxlen=MAX_RECORDS_PER_STREAM)
        self._notices = deque[StreamNotice](maxlen=MAX_NOTICES_PER_STREAM)

    @property
    def has_target(self) -> bool:
        return bool(self.configured.target)

    @property
    def stages(self) -> tuple[StageTracker, ...]:
        """The stages of the stream: the load stage only where there is a target."""
        return (self.extract, self.load) if self.has_target else (self.extract,)

    @property
    def target_completeness(self) -> StageCompleteness | None:
        """Completeness of the target, or of the lake without a target."""
        return self.stages[-1].completeness

    def on_event(self, event: StreamEvent, now: ClockReading) -> PassRecord | BatchRecord | None:
        """Apply an event; return its record for the list of all streams, if it has one."""
        match event:
            case PassDue():
                self._tracker(event.stage).on_pass_due(event.at)
            case PassHeldBack():
                self._tracker(event.stage).on_held_back(event)
            case PassStarted():
                self._tracker(event.stage).on_pass_started(event, now)
            case RowsArrived():
                self.extract.on_rows_read(event.rows)
            case PassEnded():
                return self._on_pass_ended(event, now)
            case BatchExtracted() | BatchesLoaded():
                return self._on_batch(event, now)
            case _:
                self._on_other_event(event, now)
        return None

    def sample_lag(self, now: ClockReading) -> None:
        for stage in self.stages:
            stage.sample_lag(now)

    def view(self, now: ClockReading) -> StreamView:
        stages = tuple(stage.view(now) for stage in self.stages)
        return StreamView(
            stream=self.configured.stream,
            target=self.configured.target,
            schedule=self.configured.schedule,
            promised_lag=self.configured.promised_lag,
            state=derive_stream_state(stages, self.configured.promised_lag),
            stages=stages,
            pending_batches=self.pending_batches if self.has_target else 0,
            quarantined_rows=self._quarantined_rows,
            runs=tuple(reversed(self._passes)),
            batches=tuple(reversed(self._batches)),
            notices=tuple(reversed(self._notices)),
        )

    def _tracker(self, stage: Stage) -> StageTracker:
        return self.extract if stage is Stage.EXTRACT else self.load

    def _on_pass_ended(self, event: PassEnded, now: ClockReading) -> PassRecord | None:
        stage = self._tracker(event.stage)
        stage.on_pass_ended(event, now)
        if event.error is None and not event.interrupted:
            self.pending_batches = event.pending_batches
        if event.stage is Stage.LOAD and not event.interrupted:
            self.is_warehouse_locked = (
                event.error is not None and classify_error(event.error) is IncidentCause.WAREHOUSE_LOCKED
            )
        if event.complete_up_to is not None:
            stage.advance_completeness(event.complete_up_to, proven=event.proven, now=now)
            if event.stage is Stage.EXTRACT and describes_target(event, has_target=self.has_target):
                self.load.advance_completeness(event.complete_up_to, proven=event.proven, now=now)
        return self._record_pass(event, now)

    def _record_pass(self, event: PassEnded, now: ClockReading) -> PassRecord | None:
        record = PassRecord(
            stage=event.stage,
            ended_at=now.wall,
            state=event.state,
            batches=event.batches,
            rows=event.rows,
            seconds=event.seconds,
            reason=truncate_text(event.reason),
            error=truncate_text(event.error.message) if event.error else "",
        )
        before = next((one for one in reversed(self._passes) if one.stage is record.stage), None)
        if before is not None and _is_repetition(before, record):
            # Otherwise empty passes would soon fill the list.
            self._passes.remove(before)
            record = replace(record, times=before.times + 1)
        self._passes.append(record)
        return record if record.batches or (record.error and record.times == 1) else None

    def _on_batch(self, event: BatchExtracted | BatchesLoaded, now: ClockReading) -> BatchRecord:
        if isinstance(event, BatchExtracted):
            self.extract.on_batch(event, now)
            self.pending_batches += 1
            self._quarantined_rows += event.quarantined
            record = BatchRecord(
                stage=Stage.EXTRACT,
                moved_at=now.wall,
                first_batch=str(event.batch),
                last_batch=str(event.batch),
                kind=event.kind,
                rows=event.rows,
                files=event.files,
                bytes=event.bytes,
                quarantined=event.quarantined,
                seconds=event.seconds,
                mark=event.mark,
            )
        else:
            self.load.on_batch(event, now)
            self.is_warehouse_locked = False
            record = BatchRecord(
                stage=Stage.LOAD,
                moved_at=now.wall,
                first_batch=str(event.first),
                last_batch=str(event.last),
                kind="loaded",
                rows=event.rows,
                files=event.files,
                seconds=event.seconds,
                mark=event.mark,
            )
        self._batches.append(record)
        return record

    def _on_other_event(self, event: StreamEvent, now: ClockReading) -> None:
        if isinstance(event, RowsQuarantined):
            self._quarantined_rows += event.rows
        if isinstance(event, LoadRetried):
            self.is_warehouse_locked = classify_error(event.error) is IncidentCause.WAREHOUSE_LOCKED
        if isinstance(event, _NOTICE_EVENTS):
            self._notices.append(StreamNotice(noticed_at=now.wall, text=truncate_text(describe_event(event))))


def derive_stream_state(stages: tuple[StageView, ...], promised_lag: timedelta | None) -> StreamState:
    """Return the state of a stream: that of its worst stage."""
    states = {stage.state for stage in stages}
    complete = stages[-1].complete
    if StageState.FAILED in states:
        return StreamState.FAILED
    if promised_lag is not None and complete is not None and complete.lag > promised_lag:
        return StreamState.LATE
    for state in (StageState.HELD_BACK, StageState.WAITING, StageState.RUNNING):
        if state in states:
            return StreamState(state)
    return StreamState.NEW if states == {StageState.NEW} else StreamState.IDLE


def _is_repetition(before: PassRecord, after: PassRecord) -> bool:
    """Return whether a pass has the same empty outcome as the one before."""
    alike = (before.state, before.reason, before.error) == (after.state, after.reason, after.error)
    return alike and not before.batches and not after.batches
