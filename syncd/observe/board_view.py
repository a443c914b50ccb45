"""State of all streams at one moment, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.names import StreamName


class StageState(StrEnum):
    """State of one stage."""

    FAILED = "failed"
    """Its last pass failed; the next one may be running."""
    HELD_BACK = "held back"
    """It is due and may not run."""
    WAITING = "waiting"
    """Its last pass succeeded, and something keeps it from reading further."""
    RUNNING = "running"
    IDLE = "idle"
    NEW = "not run yet"


class StreamState(StrEnum):
    """State of a whole stream."""

    FAILED = "failed"
    LATE = "late"
    """It lags further behind than promised."""
    HELD_BACK = "held back"
    WAITING = "waiting"
    NEW = "not run yet"
    RUNNING = "running"
    IDLE = "idle"


STATE_RANKS: Final[Mapping[StreamState, int]] = {
    StreamState.FAILED: 0,
    StreamState.LATE: 1,
    StreamState.HELD_BACK: 2,
    StreamState.WAITING: 3,
    StreamState.NEW: 4,
    StreamState.RUNNING: 5,
    StreamState.IDLE: 5,  # the same rank, so that streams do not change places with every pass
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFailure:
    """Failure of a stage, as its last pass reported it."""

    message: str
    hint: str
    since: datetime
    """Time when the first of the failed passes in a row ended."""
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletenessView:
    """Instant up to which everything committed at the source is present."""

    upto: datetime
    is_proven: bool
    lag: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """One pass, or several passes in a row with the same empty outcome."""

    stage: Stage
    ended_at: datetime
    state: str
    batches: int
    rows: int
    seconds: float
    reason: str = ""
    error: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One extracted batch, or the batches that were loaded in one transaction."""

    stage: Stage
    moved_at: datetime
    first_batch: str
    last_batch: str
    kind: str
    rows: int
    files: int
    bytes: int | None = None
    """None for loaded batches: their files were counted when they were written."""
    quarantined: int = 0
    seconds: float
    mark: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNotice:
    """Event worth knowing that is neither a pass nor a batch."""

    noticed_at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage of a stream."""

    stage: Stage
    state: StageState = StageState.NEW
    running: bool = False
    strategy: str = ""
    """Strategy of the current pass, or of the last one."""
    began_at: datetime | None = None
    """Start of the current pass."""
    rows_so_far: int = 0
    """Rows read of the current batch."""
    waiting_reason: str = ""
    held_until: datetime | None = None
    """End of the hold, where it is known."""
    failure: StageFailure | None = None
    next_due_at: datetime | None = None
    last_ended_at: datetime | None = None
    last_success_at: datetime | None = None
    complete: CompletenessView | None = None
    mark: Cursor | None = None
    rows_per_second: float = 0.0
    """Average of the last minutes."""
    lag_seconds: tuple[float | None, ...] = ()
    """Lag at even steps up to now; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """One stream."""

    stream: StreamName
    target: str
    """Table in the warehouse; empty without one."""
    schedule: str
    promised_lag: timedelta | None
    state: StreamState
    stages: tuple[StageView, ...]
    """The extract stage, then the load stage where there is a target."""
    pending_batches: int
    """Batches that are extracted and not yet loaded."""
    quarantined_rows: int
    """Rows quarantined since this process began."""
    runs: tuple[PassRecord, ...] = ()
    """Newest first, as are batches and notices."""
    batches: tuple[BatchRecord, ...] = ()
    notices: tuple[StreamNotice, ...] = ()

    @property
    def name(self) -> str:
        return self.stream.table_name

    @property
    def last_stage(self) -> StageView:
        """The stage that readers of the stream wait for: the load, or the extraction without a target."""
        return self.stages[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardView:
    """All streams at one moment, those with trouble first."""

    at: datetime
    since: datetime
    """Time when the board began to receive events."""
    streams: tuple[StreamView, ...]
    runs: tuple[tuple[StreamName, PassRecord], ...]
    """The last passes of all streams that did something or failed, newest first."""
    batches: tuple[tuple[StreamName, BatchRecord], ...]

    def count(self, state: StreamState) -> int:
        return sum(1 for stream in self.streams if stream.state is state)

    def find(self, name: str) -> StreamView | None:
        """Return the stream of a name: `source/database.table`, or the table alone where it is unique."""
        found = [stream for stream in self.streams if name == str(stream.stream)]
        found = found or [stream for stream in self.streams if name in {stream.name, stream.stream.table}]
        return found[0] if len(found) == 1 else None
