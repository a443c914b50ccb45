"""Tasks of the scheduler: one stage of one stream each, and the queue of those that are due."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Final, NamedTuple, TypeAlias

from syncd.daemon.schedule import ScheduleTrigger, jittered_interval_seconds, make_trigger
from syncd.error_classes import FailureKind
from syncd.events import ClockReading
from syncd.extract.extract_pass import ExtractOutcome
from syncd.load.load_pass import LoadOutcome
from syncd.settings import StreamSettings
from watermarks.document import Stage
from watermarks.names import StreamName
from watermarks.progress import RunStrategy

LAKE_SYSTEM: Final = "the lake"
LOAD_CHECK_INTERVAL_SECONDS: Final = 90.0
"""Interval in which a loader looks for batches of another process, if no extraction has looked meanwhile."""
CLOCK_STEP_SECONDS: Final = 1.0
"""Drift between the two clocks from which on the wall clock counts as set."""


def source_system(name: str) -> str:
    return f"source {name}"


def warehouse_system(name: str) -> str:
    return f"warehouse {name}"


class TaskKey(NamedTuple):
    """Identity of a task."""

    stream: StreamName
    stage: Stage


@dataclass(slots=True, kw_only=True, eq=False)
class StageTask:
    """One stage of one stream. Only the scheduler changes it.

    Times are seconds of the monotonic clock.
    """

    key: TaskKey
    settings: StreamSettings
    systems: tuple[str, ...]
    """Systems that it needs, named as in messages; the first one has a limited number of slots."""
    due_queue: "DueQueue"
    scheduled_due: float
    """Time when it is due by its schedule, apart from retries and new batches."""
    trigger: ScheduleTrigger | None = None
    """Trigger of a cron schedule."""
    cron_at: datetime | None = None
    """Next time of a cron schedule; while a pass runs, the first time after the start of the pass."""
    running_since: float | None = None
    last_started: float | None = None
    last_finished_started: float = -inf
    """Time when the last finished pass began."""
    is_continuation: bool = False
    """True if it only continues its last pass: other tasks that wait for a slot come first."""
    rerun_requested: bool = False
    """True if new work arrived while it ran."""
    end_requested: bool = False
    failures: int = 0
    failure: FailureKind | None = None
    """Failure of the last pass."""
    other_owner: str = ""
    """Process that owns the stage, where it is another one."""
    has_backlog: bool = False
    """True if the last pass read as much as it was allowed to."""
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    """Strategy of the current or last pass."""
    reported_reason: str = ""
    """Last reported reason for which it is held back."""
    _due: float = inf

    def __post_init__(self) -> None:
        self.due = self.scheduled_due

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def due(self) -> float:
        """Time when the next pass is due."""
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
        """Order in which tasks that wait for one slot get it."""
        return self.is_continuation, -self.settings.schedule.priority, self.due

    @property
    def is_retry(self) -> bool:
        """True if the next pass is due before its schedule."""
        return self.failures > 0 or self.due < self.scheduled_due

    @property
    def longest_run_seconds(self) -> float:
        return self.settings.schedule.longest_run.total_seconds()

    def is_waiting(self, now: float) -> bool:
        """Return whether it is due and not running."""
        return self.running_since is None and self.due <= now


class DueQueue:
    """Tasks by due time; finding the due ones does not visit the others."""

    def __init__(self) -> None:
        self._sequence = itertools.count()
        """Entries of the same time keep the order in which they were made."""
        self._heap: list[tuple[float, int, StageTask]] = []
        """Heap of entries; an entry whose task was rescheduled since is ignored."""
        self._due: dict[StageTask, None] = {}
        """Tasks that were found due, in that order; some may not be due any more."""

    def reschedule(self, task: StageTask) -> None:
        """Record the current due time of a task."""
        if task.due != inf:
            heapq.heappush(self._heap, (task.due, next(self._sequence), task))

    def collect_due(self, now: float) -> Sequence[StageTask]:
        """Return every task that is due and not running."""
        while self._heap and self._heap[0][0] <= now:
            _, _, task = heapq.heappop(self._heap)
            self._due[task] = None
        self._due = {task: None for task in self._due if task.is_waiting(now)}
        return tuple(self._due)

    def next_due_at(self) -> float | None:
        """Return the earliest due time that `collect_due` has not reached yet."""
        while self._heap:
            at, _, task = self._heap[0]
            if at == task.due and task.running_since is None:
                return at
            heapq.heappop(self._heap)
        return None


def make_tasks(stream: StreamSettings, due_queue: DueQueue, now: ClockReading) -> Iterator[StageTask]:
    """Make the tasks of one stream, due now, or at the next time of a cron."""
    trigger = make_trigger(stream.schedule)
    extract = StageTask(
        key=TaskKey(stream.stream_name, Stage.EXTRACT),
        settings=stream,
        systems=(source_system(stream.source), LAKE_SYSTEM),
        due_queue=due_queue,
        scheduled_due=now.monotonic,
        trigger=trigger,
        cron_at=None if trigger is None else trigger.next_after(now.wall),
    )
    if trigger is not None:
        _schedule_cron(extract, now)
    yield extract
    if stream.target is not None:
        yield StageTask(
            key=TaskKey(stream.stream_name, Stage.LOAD),
            settings=stream,
            systems=(warehouse_system(stream.target.warehouse), LAKE_SYSTEM),
            due_queue=due_queue,
            scheduled_due=now.monotonic,
        )


class TaskTimer:
    """Sets the due times of tasks by their schedules, and follows changes of the wall clock."""

    def __init__(self, now: ClockReading, *, random_fraction: Callable[[], float]) -> None:
        self._random_fraction = random_fraction
        self._clock_offset = now.wall.timestamp() - now.monotonic

    def start(self, task: StageTask, now: ClockReading) -> None:
        """Note the next cron time of a pass that begins; the pass may begin a little before its own time."""
        if task.trigger is not None:
            early = timedelta(seconds=0.0 if task.is_retry else CLOCK_STEP_SECONDS)
            task.cron_at = task.trigger.next_after(now.wall + early)

    def schedule_next(self, task: StageTask, now: ClockReading, *, began: float) -> None:
        """Set the next scheduled pass, counted from the start of the last one."""
        if task.trigger is not None:
            _schedule_cron(task, now)
        elif task.stage is Stage.LOAD:
            pause = LOAD_CHECK_INTERVAL_SECONDS * (0.8 + 0.2 * self._random_fraction())
            task.due = task.scheduled_due = now.monotonic + pause
        else:
            every = task.settings.schedule.every or timedelta(0)
            interval = jittered_interval_seconds(every, random_fraction=self._random_fraction)
            task.due = task.scheduled_due = max(now.monotonic, began + interval)

    def follow_clock_change(self, tasks: Iterable[StageTask], now: ClockReading) -> None:
        """Schedule crons anew after the wall clock was set; a cron whose time was skipped is due once."""
        offset = now.wall.timestamp() - now.monotonic
        if abs(offset - self._clock_offset) < CLOCK_STEP_SECONDS:
            return
        self._clock_offset = offset
        for task in tasks:
            if task.trigger is None:
                continue
            if task.cron_at is None or task.cron_at > now.wall:
                task.cron_at = task.trigger.next_after(now.wall)
            if task.running_since is None and not task.is_waiting(now.monotonic) and not task.is_retry:
                _schedule_cron(task, now)


def _schedule_cron(task: StageTask, now: ClockReading) -> None:
    wait = inf if task.cron_at is None else (task.cron_at - now.wall).total_seconds()
    task.due = task.scheduled_due = now.monotonic + max(0.0, wait)


PassOutcome: TypeAlias = ExtractOutcome | LoadOutcome
