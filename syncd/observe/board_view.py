"""What the board shows: frozen values, made at one moment, of every stream and of all of them together."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.names import StreamName


class StageState(StrEnum):
    """How a stage stands, in one word."""

    FAILED = "failed"
    """Its last pass ended in an error; it may be at work again."""
    HELD_BACK = "held back"
    """It is due, and does not run."""
    WAITING = "waiting"
    """Its last pass ended well, and there is something in the way of more."""
    RUNNING = "running"
    IDLE = "idle"
    NEW = "not run yet"


class StreamState(StrEnum):
    """How a stream stands as a whole: the words by which streams are sorted, the worst first."""

    FAILED = "failed"
    LATE = "late"
    """It is further behind than was promised."""
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
    StreamState.IDLE: 5,  # streams that begin and end all the time are not to change places all the time
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFailure:
    """Why a stage failed."""

    message: str
    hint: str
    since: datetime
    """When the first of the passes in a row failed."""
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletenessView:
    """Up to when everything that was committed at the source is there."""

    upto: datetime
    is_proven: bool
    lag: timedelta
    """How far that is behind by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """One pass, or several in a row that found nothing else."""

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
    """A batch that was extracted, or batches that landed together: a move of a mark."""

    stage: Stage
    moved_at: datetime
    first_batch: str
    last_batch: str
    """The same, but where several landed together."""
    kind: str
    rows: int
    files: int
    bytes: int | None
    """None of what landed: its files were counted when they were written."""
    quarantined: int
    seconds: float
    mark: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNotice:
    """Something that a reader should know of, and that is neither a pass nor a batch."""

    noticed_at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage of a stream."""

    stage: Stage
    state: StageState
    running: bool
    strategy: str = ""
    """How the last pass worked, or the one under way."""
    began_at: datetime | None = None
    """When the pass under way began."""
    rows_so_far: int = 0
    """Of the batch at work."""
    waiting_reason: str = ""
    """What it waits for, or is held back by."""
    held_until: datetime | None = None
    """Until when it is held back, if anybody knows."""
    failure: StageFailure | None = None
    next_due_at: datetime | None = None
    last_ended_at: datetime | None = None
    """When its last pass ended."""
    last_success_at: datetime | None = None
    """When the last pass ended without an error."""
    complete: CompletenessView | None = None
    mark: Cursor | None = None
    rows_per_second: float = 0.0
    """Over the last minutes."""
    lag_seconds: tuple[float | None, ...] = ()
    """How many seconds it was behind, at even steps up to now; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """One stream."""

    stream: StreamName
    target: str
    """The table in the warehouse; empty where there is none."""
    schedule: str
    promised_lag: timedelta | None
    """How far it may be behind."""
    state: StreamState
    stages: tuple[StageView, ...]
    """The extraction, then the load where there is a target."""
    pending_batches: int
    """Batches that are extracted and not loaded, as far as anybody was told."""
    quarantined_rows: int
    """Rows that were put aside since this process began."""
    runs: tuple[PassRecord, ...] = ()
    """Newest first, as all of these."""
    batches: tuple[BatchRecord, ...] = ()
    notices: tuple[StreamNotice, ...] = ()

    @property
    def name(self) -> str:
        """The table, as people call it."""
        return self.stream.table_name

    @property
    def last_stage(self) -> StageView:
        """The one that readers of the stream wait for: the load, or the extraction where there is no target."""
        return self.stages[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardView:
    """All streams at one moment, those with trouble first."""

    at: datetime
    since: datetime
    """When the board began to listen."""
    streams: tuple[StreamView, ...]
    runs: tuple[tuple[StreamName, PassRecord], ...]
    """The last passes of all streams that did something or failed, newest first."""
    batches: tuple[tuple[StreamName, BatchRecord], ...]

    def count(self, mood: StreamState) -> int:
        return sum(1 for one in self.streams if one.state is mood)

    def find(self, name: str) -> StreamView | None:
        """The stream of a name: `source/database.table`, or the table alone where there is but one of it."""
        found = [one for one in self.streams if name == str(one.stream)]
        found = found or [one for one in self.streams if name in {one.name, one.stream.table}]
        return found[0] if len(found) == 1 else None
