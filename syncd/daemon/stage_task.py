"""A lane: one stage of one stream, when it is due, and how its last passes went."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from syncd.daemon.due_queue import DueQueue
from syncd.daemon.failure_policy import FailureKind
from syncd.daemon.schedule import ScheduleTrigger
from syncd.settings import StreamSettings
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, RunStrategy


class ClockReading(NamedTuple):
    """One moment on both clocks."""

    monotonic: float
    """Seconds that only rise, while the host sleeps too."""
    wall: datetime


class TaskKey(NamedTuple):
    """What names a lane."""

    stream: StreamName
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """What one pass came to, whichever stage it was of."""

    state: str
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    mark: Cursor = START_CURSOR
    last_batch: BatchId = BEFORE_FIRST_BATCH
    complete_upto: datetime | None = None
    is_proven: bool = False
    pending_batches: int = 0
    reason: str = ""
    error: HintedError | None = None
    has_more: bool = False
    """Whether it took all that it was allowed to, so that there may be more."""


@dataclass(slots=True, kw_only=True, eq=False)
class StageTask:
    """One stage of one stream. Whoever decides about turns changes it, and nobody else."""

    key: TaskKey
    settings: StreamSettings
    systems: tuple[str, ...]
    """What it needs, in the words in which one speaks of it; the first one has a number of places."""
    due_queue: DueQueue
    """Hears of every change of `due`."""
    scheduled_due: float
    """When it is due by its schedule, whatever happens before; on the clock that only rises."""
    trigger: ScheduleTrigger | None = None
    """Of a cron."""
    cron_at: datetime | None = None
    """Of a cron: when it is due by the wall; at work, the first time since its pass began."""
    running_since: float | None = None
    """Since when it is at work."""
    last_started: float | None = None
    """When its last pass began."""
    last_finished_started: float = float("-inf")
    """When the last of its passes that are over began."""
    is_continuation: bool = False
    """Whether it only goes on with what its last pass left: then those who wait for their turn come first."""
    rerun_requested: bool = False
    """Whether something came while it was at work."""
    end_requested: bool = False
    """Whether it was told to come to an end."""
    failures: int = 0
    failure: FailureKind | None = None
    """Of its last pass."""
    other_owner: str = ""
    """Of the stage, where that is another process."""
    has_backlog: bool = False
    """Whether its last pass had much to read."""
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    """Of the pass that is at work, or was last."""
    reported_reason: str = ""
    """Why it is held back, as it was told last."""
    _due: float = float("inf")

    def __post_init__(self) -> None:
        self.due = self.scheduled_due

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def due(self) -> float:
        """When it is to have its next pass, on the clock that only rises."""
        return self._due

    @due.setter
    def due(self, at: float) -> None:
        self._due = at
        self.due_queue.reschedule(self)

    @property
    def stage(self) -> Stage:
        return self.key.stage

    @property
    def sort_key(self) -> tuple[bool, int, float]:
        """Who comes first where several wait for one place."""
        return self.is_continuation, -self.settings.schedule.priority, self.due

    @property
    def is_retry(self) -> bool:
        """Whether its next pass is another try, and not the one of its schedule."""
        return self.failures > 0 or self.due < self.scheduled_due

    def is_waiting(self, now: float) -> bool:
        """Whether it is due and not at work."""
        return self.running_since is None and self.due <= now
