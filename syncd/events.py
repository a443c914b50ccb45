"""Everything that can happen to a stream, as values; log, progress and metrics are readers of them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from watermarks.batch import BatchId
from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.progress import RunStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """Something that happened to a stream."""

    stream: StreamName

    @property
    def name(self) -> str:
        """Noun and past verb, as logs call it: `batch.extracted`."""
        return _NAMES[type(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlanned(StreamEvent):
    """A batch was sealed, or found sealed by an earlier run."""

    batch: BatchId
    kind: str
    windows: int
    high: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsArrived(StreamEvent):
    """So many rows of a batch have been read so far."""

    batch: BatchId
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchExtracted(StreamEvent):
    """A batch is a link of the chain, and the mark says so."""

    batch: BatchId
    kind: str
    rows: int
    files: int
    bytes: int
    quarantined: int
    mark: Cursor
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesLoaded(StreamEvent):
    """Batches are rows of the target, in one transaction, and the mark says so."""

    first: BatchId
    last: BatchId
    batches: int = 1
    rows: int
    files: int
    mark: Cursor
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBehind(StreamEvent):
    """The warehouse had lost batches that were loaded, as after a restore; they are landed again."""

    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsQuarantined(StreamEvent):
    """The warehouse refused rows of a batch; they are in quarantine, and all others land."""

    batch: BatchId
    rows: int
    reason: str
    """Of the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnIncomplete(StreamEvent):
    """A column came or was altered, and what it holds in rows that were read before, nobody knows."""

    column: str
    since: BatchId
    """The first batch that read it, or read it as it is by now."""
    why: str
    hint: str
    """What fills it."""
    kept: bool = False
    """Whether these rows keep what they were read with; where they never had the column, it is NULL."""

    @property
    def description(self) -> str:
        holds = "may not be what the source holds" if self.kept else "is NULL"
        return f"{self.column} {holds} in rows read before {self.since}: {self.why}. {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReplaced(StreamEvent):
    """The table is another one than before, and holds rows with stamps that had been passed: nobody has read these."""

    since: BatchId
    """The first batch that met it."""
    hint: str
    """What finds them, and brings them."""

    @property
    def description(self) -> str:
        return (
            f"the table is another one since {self.since} (RENAME, a restore, or OPTIMIZE and an ALTER that copies it,"
            f" which look the same): rows that came with it below the mark of then are not read. {self.hint}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRetried(StreamEvent):
    """A transaction came to nothing, or nobody knows to what; it is tried again after a pause."""

    error: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAbandoned(StreamEvent):
    """A sealed batch belonged to a world that is gone."""

    batch: BatchId


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansSwept(StreamEvent):
    """Files that no link names were removed."""

    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWaited(StreamEvent):
    """The pass waits before it goes on, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFailed(StreamEvent):
    """A run of the stream ended in an error."""

    error: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDue(StreamEvent):
    """When a stage of the stream is looked at next."""

    stage: Stage
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PassHeldBack(StreamEvent):
    """A stage that was due does not run yet, and why."""

    stage: Stage
    reason: str
    until: datetime | None = None
    """None: nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassBegan(StreamEvent):
    """One pass of a stage is under way."""

    stage: Stage
    strategy: RunStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEnded(StreamEvent):
    """One pass of a stage has ended, well or not."""

    stage: Stage
    state: str
    """`extracted`, `loaded`, `nothing new`, `waiting` or `failed`."""
    batches: int
    rows: int
    seconds: float
    mark: Cursor
    complete: datetime | None
    """What was committed at the source before it is in the lake, or in the target; None: unknown."""
    proven: bool
    pending: int
    """Batches that are extracted and not loaded."""
    reason: str = ""
    """What it waits for."""
    cut: bool = False
    """Whether this process ended it, before it came to an end of its own: so it neither failed nor went well."""
    error: HintedError | None = None


_NAMES: dict[type, str] = {
    BatchPlanned: "batch.planned",
    RowsArrived: "rows.arrived",
    BatchExtracted: "batch.extracted",
    BatchAbandoned: "batch.abandoned",
    BatchesLoaded: "batches.landed",
    LedgerBehind: "ledger.behind",
    LoadRetried: "landing.retried",
    RowsQuarantined: "rows.put_aside",
    ColumnIncomplete: "column.incomplete",
    TableReplaced: "table.remade",
    OrphansSwept: "orphans.swept",
    StreamWaited: "stream.waited",
    StreamFailed: "stream.failed",
    PassDue: "pass.due",
    PassHeldBack: "pass.held_back",
    PassBegan: "pass.began",
    PassEnded: "pass.ended",
}

EventListener: TypeAlias = Callable[[StreamEvent], None]
"""Whoever wants to know."""
