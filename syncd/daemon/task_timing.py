"""Due times of tasks by their schedules: intervals on the monotonic clock, crons on the wall clock."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from math import inf
from typing import Final

from syncd.daemon.schedule import jittered_interval_seconds, make_trigger
from syncd.daemon.stage_task import DueQueue, StageTask, TaskKey
from syncd.events import ClockReading
from syncd.settings import StreamSettings
from watermarks.document import Stage

LAKE_SYSTEM: Final = "the lake"
LOAD_CHECK_INTERVAL_SECONDS: Final = 90.0
"""Interval in which a loader looks for batches of another process, if no extraction has looked meanwhile."""
CLOCK_STEP_SECONDS: Final = 1.0
"""Drift between the two clocks from which on the wall clock counts as set."""


def source_system(name: str) -> str:
    return f"source {name}"


def warehouse_system(name: str) -> str:
    return f"warehouse {name}"


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
