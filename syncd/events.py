"""Events of streams; log, progress, metrics, dashboard and incidents read them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Self, TypeAlias

from watermarks.batch import BatchId
from watermarks.clock import Clock
from watermarks.cursor import Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.progress import RunStrategy


class WaitKind(StrEnum):
    """Kind of wait that incidents tell apart."""

    HELD_TRANSACTION = "held_transaction"
    """An open transaction at the source may still commit older rows."""
    THROTTLED = "throttled"
    """The source is busy, or its replica lags, beyond the configured bound."""
    LOAD_BACKLOG = "load_backlog"
    """As many batches as `max_pending` allows wait to be loaded."""
    OTHER_OWNER = "other_owner"


class WaitReason(str):
    """Sentence that says why a pass waits.

    It is a `str`, so that log, documents and pages take it as the text it is.
    """

    __slots__ = ("kind",)
    kind: WaitKind

    def __new__(cls, text: str, kind: WaitKind) -> Self:
        """Make a reason of this kind."""
        reason = super().__new__(cls, text)
        reason.kind = kind
        return reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, WaitKind]]:
        return type(self), (str(self), self.kind)


def wait_kind(reason: str) -> WaitKind | None:
    """Return the kind of a reason; None for a text without one."""
    return reason.kind if isinstance(reason, WaitReason) else None


def with_context(context: str, reason: str, *, separator: str = ": ") -> str:
    """Return `context: reason` with the kind of the reason; the context alone where there is no reason."""
    kind, text = wait_kind(reason), f"{context}{separator}{reason}" if reason else context
    return text if kind is None else WaitReason(text, kind)


class ClockReading(NamedTuple):
    """One moment on both clocks of this machine."""

    monotonic: float
    """Seconds of the clock that never goes back; it also counts while the host sleeps."""
    wall: datetime

    @classmethod
    def from_clock(cls, clock: Clock) -> Self:
        return cls(clock.monotonic(), clock.now())

    def seconds_since(self, earlier: Self) -> float:
        return self.monotonic - earlier.monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """Event of one stream."""

    stream: StreamName

    @property
    def name(self) -> str:
        """Name in the log, noun and past verb: `batch.extracted`."""
        return _NAMES[type(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlanned(StreamEvent):
    """A batch was planned by this run, or found planned by an earlier one."""

    batch: BatchId
    kind: str
    windows: int
    high: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsArrived(StreamEvent):
    """Progress of a batch: the rows read so far."""

    batch: BatchId
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchExtracted(StreamEvent):
    """A batch is in the lake, and the mark has moved."""

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
    """Batches were loaded in one transaction, and the mark has moved."""

    first: BatchId
    last: BatchId
    batches: int = 1
    rows: int
    files: int
    mark: Cursor
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBehind(StreamEvent):
    """The warehouse had lost loaded batches, as after a restore; they are loaded again."""

    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsQuarantined(StreamEvent):
    """The warehouse refused rows of a batch: these are in quarantine, the others are loaded."""

    batch: BatchId
    rows: int
    reason: str
    """Reason of the first refused row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnIncomplete(StreamEvent):
    """A column was added or altered; its values in rows read before may differ from the source."""

    column: str
    since: BatchId
    """First batch that read the column as it is now."""
    reason: str
    hint: str
    """Command that fills the column."""
    values_kept: bool = False
    """True if these rows keep the values they were read with; without such values the column is NULL."""

    @property
    def description(self) -> str:
        holds = "may differ from the source" if self.values_kept else "is NULL"
        return f"{self.column} {holds} in rows read before {self.since}: {self.reason}. {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReplaced(StreamEvent):
    """The table was replaced by another one, which may hold rows below the mark that were never read."""

    since: BatchId
    """First batch of the new table."""
    hint: str
    """Command that finds these rows and loads them."""

    @property
    def description(self) -> str:
        return (
            f"the table was replaced before batch {self.since} (by RENAME or a restore; OPTIMIZE or an ALTER"
            " that copies"
            f" the table looks the same): rows of the new table below the mark of that time were not read. {self.hint}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRetried(StreamEvent):
    """A transaction failed, or its outcome is unknown; the loader tries again after a pause."""

    error: HintedError
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAbandoned(StreamEvent):
    """A planned batch no longer fits its source and is planned anew."""

    batch: BatchId


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansRemoved(StreamEvent):
    """Files of interrupted attempts were removed."""

    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWaited(StreamEvent):
    """A pass waits before it continues."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFailed(StreamEvent):
    """A run of the stream failed."""

    error: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDue(StreamEvent):
    """The next pass of a stage is scheduled."""

    stage: Stage
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PassHeldBack(StreamEvent):
    """A stage is due and may not run yet."""

    stage: Stage
    reason: str
    until: datetime | None = None
    """None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStarted(StreamEvent):
    """A pass of a stage has started."""

    stage: Stage
    strategy: RunStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEnded(StreamEvent):
    """A pass of a stage has ended, with or without an error."""

    stage: Stage
    state: str
    """`extracted`, `loaded`, `nothing new`, `waiting` or `failed`."""
    batches: int
    rows: int
    seconds: float
    mark: Cursor
    complete_up_to: datetime | None
    """Everything committed at the source before this instant is in the lake, or in the target; None: unknown."""
    proven: bool
    pending_batches: int
    """Batches that are extracted and not yet loaded."""
    reason: str = ""
    """Reason for which the pass read no further, or was not run."""
    interrupted: bool = False
    """True if this process interrupted the pass, so that it neither failed nor succeeded."""
    error: HintedError | None = None


_NAMES: dict[type, str] = {
    BatchPlanned: "batch.planned",
    RowsArrived: "rows.arrived",
    BatchExtracted: "batch.extracted",
    BatchAbandoned: "batch.abandoned",
    BatchesLoaded: "batches.loaded",
    LedgerBehind: "ledger.behind",
    LoadRetried: "load.retried",
    RowsQuarantined: "rows.quarantined",
    ColumnIncomplete: "column.incomplete",
    TableReplaced: "table.replaced",
    OrphansRemoved: "orphans.removed",
    StreamWaited: "stream.waited",
    StreamFailed: "stream.failed",
    PassDue: "pass.due",
    PassHeldBack: "pass.held_back",
    PassStarted: "pass.started",
    PassEnded: "pass.ended",
}

EventListener: TypeAlias = Callable[[StreamEvent], None]
