"""What the board shows: frozen values, made at one moment, of every stream and of all of them together."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.names import StreamName


class State(StrEnum):
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


class Mood(StrEnum):
    """How a stream stands as a whole: the words by which streams are sorted, the worst first."""

    FAILED = "failed"
    LATE = "late"
    """It is further behind than was promised."""
    HELD_BACK = "held back"
    WAITING = "waiting"
    NEW = "not run yet"
    RUNNING = "running"
    IDLE = "idle"


RANKS: Final[Mapping[Mood, int]] = {
    Mood.FAILED: 0,
    Mood.LATE: 1,
    Mood.HELD_BACK: 2,
    Mood.WAITING: 3,
    Mood.NEW: 4,
    Mood.RUNNING: 5,
    Mood.IDLE: 5,  # streams that begin and end all the time are not to change places all the time
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a stage failed."""

    message: str
    hint: str
    since: datetime
    """When the first of the passes in a row failed."""
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Up to when everything that was committed at the source is there."""

    upto: datetime
    proven: bool
    behind: timedelta
    """How far that is behind by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One pass, or several in a row that found nothing else."""

    stage: Stage
    at: datetime
    state: str
    batches: int
    rows: int
    seconds: float
    reason: str = ""
    error: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A batch that was extracted, or batches that landed together: a move of a mark."""

    stage: Stage
    at: datetime
    batch: str
    last: str
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
class Noticed:
    """Something that a reader should know of, and that is neither a pass nor a batch."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSeen:
    """One stage of a stream."""

    stage: Stage
    state: State
    running: bool
    strategy: str = ""
    """How the last pass worked, or the one under way."""
    began: datetime | None = None
    """When the pass under way began."""
    rows_so_far: int = 0
    """Of the batch at work."""
    why: str = ""
    """What it waits for, or is held back by."""
    until: datetime | None = None
    """Until when it is held back, if anybody knows."""
    trouble: Trouble | None = None
    next: datetime | None = None
    last: datetime | None = None
    """When its last pass ended."""
    last_good: datetime | None = None
    """When the last pass ended without an error."""
    complete: Complete | None = None
    mark: Cursor | None = None
    rows_a_second: float = 0.0
    """Over the last minutes."""
    lags: tuple[float | None, ...] = ()
    """How many seconds it was behind, at even steps up to now; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSeen:
    """One stream."""

    stream: StreamName
    target: str
    """The table in the warehouse; empty where there is none."""
    every: str
    promised: timedelta | None
    """How far it may be behind."""
    mood: Mood
    stages: tuple[StageSeen, ...]
    """The extraction, then the load where there is a target."""
    pending: int
    """Batches that are extracted and not loaded, as far as anybody was told."""
    quarantined: int
    """Rows that were put aside since this process began."""
    runs: tuple[Ended, ...] = ()
    """Newest first, as all of these."""
    batches: tuple[Moved, ...] = ()
    notices: tuple[Noticed, ...] = ()

    @property
    def name(self) -> str:
        """The table, as people call it."""
        return f"{self.stream.database}.{self.stream.table}"

    @property
    def last_stage(self) -> StageSeen:
        """The one that readers of the stream wait for: the load, or the extraction where there is no target."""
        return self.stages[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSeen:
    """All streams at one moment, those with trouble first."""

    at: datetime
    since: datetime
    """When the board began to listen."""
    streams: tuple[StreamSeen, ...]
    runs: tuple[tuple[StreamName, Ended], ...]
    """The last passes of all streams that did something or failed, newest first."""
    batches: tuple[tuple[StreamName, Moved], ...]

    def count(self, mood: Mood) -> int:
        return sum(1 for one in self.streams if one.mood is mood)

    def find(self, name: str) -> StreamSeen | None:
        """The stream of a name: `source/database.table`, or the table alone where there is but one of it."""
        found = [one for one in self.streams if name == str(one.stream)]
        found = found or [one for one in self.streams if name in {one.name, one.stream.table}]
        return found[0] if len(found) == 1 else None
