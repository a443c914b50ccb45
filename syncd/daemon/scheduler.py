"""Turns: which lane begins now, which one waits and for what, and when each is due again. It only decides."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from syncd.daemon.backoff import backoff_seconds
from syncd.daemon.backup_strategy import choose_strategy
from syncd.daemon.circuit_breaker import CircuitBreaker
from syncd.daemon.due_queue import DueQueue
from syncd.daemon.failure_policy import FailureKind, classify_failure
from syncd.daemon.schedule import jittered_interval_seconds, make_trigger
from syncd.daemon.stage_task import ClockReading, PassResult, StageTask, TaskKey
from syncd.settings import Settings, StreamSettings
from watermarks.document import Stage
from watermarks.names import StreamName

LAKE_SYSTEM: Final = "the lake"
LOAD_CHECK_INTERVAL_SECONDS: Final = 90.0
"""Seconds after which a loader looks for batches of another process, where no extraction has looked for it."""
LEDGER_CHECK_INTERVAL_SECONDS: Final = 600.0
"""Seconds after which it compares with the ledger, due or not."""
WAITING_RETRY_SECONDS: Final = 5.0
"""Seconds until a stream looks again that waits for a transaction to end."""
REPORT_WAIT_AFTER_SECONDS: Final = 2.0
"""Seconds after which a lane that waits for a place says so."""
CLOCK_STEP_SECONDS: Final = 1.0
"""Seconds by which the clocks may drift apart until the wall's counts as set anew."""
MAX_SLEEP_SECONDS: Final = 5.0
"""Seconds that nobody looks at a clock."""
_STAGE_OF_FAILURE: Final = {FailureKind.SOURCE: Stage.EXTRACT, FailureKind.WAREHOUSE: Stage.LOAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask:
    """A lane that is due and does not begin, and why."""

    task: StageTask
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDecision:
    """What is to happen now."""

    started: tuple[StageTask, ...] = ()
    held: tuple[HeldTask, ...] = ()
    """Those of which that was not known before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSlots:
    """How many passes there may be at once: of each source, and into each warehouse."""

    by_system: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def from_settings(cls, settings: Settings) -> "PassSlots":
        """Planning takes two connections to a source, a landing one session."""
        sources = {source_system(one.name): max(1, one.max_connections // 2) for one in settings.sources}
        return cls(by_system=sources | {warehouse_system(one.name): one.max_sessions for one in settings.warehouses})

    @property
    def total(self) -> int:
        return sum(self.by_system.values())


def source_system(name: str) -> str:
    return f"source {name}"


def warehouse_system(name: str) -> str:
    return f"warehouse {name}"


class Scheduler:
    """Every lane of a configuration. One thread asks it; the clocks and chance are the caller's."""

    def __init__(
        self, settings: Settings, *, now: ClockReading, random_fraction: Callable[[], float], takeover_seconds: float
    ) -> None:
        """Prepare; `takeover` is after how many seconds to look whether another owner still lives."""
        self._random_fraction = random_fraction
        self._takeover_seconds = takeover_seconds
        self._slots = PassSlots.from_settings(settings)
        self._breakers: dict[str, CircuitBreaker] = {}
        self._due_queue = DueQueue()
        self._running: dict[TaskKey, StageTask] = {}
        self._clock_offset = now.wall.timestamp() - now.monotonic
        self.tasks: dict[TaskKey, StageTask] = {
            lane.key: lane for stream in settings.streams for lane in self._make_tasks(stream, now)
        }
        self._extract_tasks_by_name = {lane.name: lane for lane in self.tasks.values() if lane.stage is Stage.EXTRACT}

    # What happens now.

    def start_due(self, now: ClockReading) -> SchedulerDecision:
        """Who begins, and who is held back since now. Whoever is named as beginning is at work from here on."""
        self._follow_clock_change(now)
        waiting = sorted(self._due_queue.collect_due(now.monotonic), key=self._sort_key)
        at_work = Counter(lane.systems[0] for lane in self._running.values())
        rivals = at_work + Counter(lane.systems[0] for lane in waiting)
        begins: list[StageTask] = []
        holds: list[HeldTask] = []
        for lane in waiting:
            hold = self._find_hold(lane, now.monotonic, at_work)
            if hold is None:
                at_work[lane.systems[0]] += 1
                self._start(lane, now, competitors=rivals[lane.systems[0]] - 1)
                begins.append(lane)
            elif hold.reason and hold.reason != lane.reported_reason:
                lane.reported_reason = hold.reason
                holds.append(hold)
        return SchedulerDecision(started=tuple(begins), held=tuple(holds))

    def mark_overdue(self, now: float) -> tuple[StageTask, ...]:
        """Those that are at work for longer than they may be, each once."""
        late = [
            lane
            for lane in self._running.values()
            if lane.running_since is not None
            and not lane.end_requested
            and now >= lane.running_since + _longest_run_seconds(lane)
        ]
        for lane in late:
            lane.end_requested = True
        return tuple(late)

    def seconds_to_wait(self, now: float) -> float:
        """Seconds until a clock has to be looked at again."""
        return max(0.0, min(self._wake_times(now), default=now + MAX_SLEEP_SECONDS) - now)

    @property
    def running_tasks(self) -> tuple[StageTask, ...]:
        return tuple(self._running.values())

    def _wake_times(self, now: float) -> Iterator[float]:
        yield now + MAX_SLEEP_SECONDS
        for lane in self._running.values():
            if lane.running_since is not None and not lane.end_requested:
                yield lane.running_since + _longest_run_seconds(lane)
        if (following := self._due_queue.next_due_at()) is not None:
            yield following
        yield from (
            one.next_probe_at
            for one in self._breakers.values()
            if one.next_probe_at is not None and one.next_probe_at > now
        )

    def _sort_key(self, task: StageTask) -> tuple[bool, bool, int, float]:
        """Who comes first; at a side that does not answer, whoever asked it longest ago.

        It may be one stream alone that gets no answer: its priority is not to keep the others from finding that out.
        """
        if any(side in self._breakers and self._breakers[side].is_open for side in task.systems):
            return True, False, 0, float("-inf") if task.last_started is None else task.last_started
        return False, *task.sort_key

    def _find_hold(self, task: StageTask, now: float, running: Mapping[str, int]) -> HeldTask | None:
        if (silent := self._find_open_breaker(task, now)) is not None:
            side, breaker = silent
            return HeldTask(task=task, reason=f"{side} does not answer: {breaker.reason}", until=breaker.next_probe_at)
        for name in task.settings.schedule.after if task.stage is Stage.EXTRACT else ():
            first = self._extract_tasks_by_name.get(name)
            if first is not None and self._comes_first(first, task, now):
                return HeldTask(task=task, reason=f"comes after {name}")
        places = self._slots.by_system[task.systems[0]]
        if running[task.systems[0]] < places:
            return None
        if now - task.due < REPORT_WAIT_AFTER_SECONDS:
            return HeldTask(task=task, reason="")
        return HeldTask(
            task=task, reason=f"waits for its turn: {task.systems[0]} is read or written by {places} at once"
        )

    def _find_open_breaker(self, task: StageTask, now: float) -> tuple[str, CircuitBreaker] | None:
        """A side of a lane that may not be asked now, and its breaker."""
        breakers = ((side, self._breakers.get(side)) for side in task.systems)
        return next(((side, one) for side, one in breakers if one is not None and not one.allows(now)), None)

    def _comes_first(self, first: StageTask, task: StageTask, now: float) -> bool:
        """Whether a lane waits for another that it names: for one pass of it at most since it is due itself.

        So it has its turn whatever the other one does. A pass that was at work before is not waited for, nor is a lane
        that fails, that another process has, or whose side does not answer: these may take for ever.
        """
        if first.failures or first.other_owner or first.last_finished_started >= task.due:
            return False
        if first.running_since is not None:
            return first.running_since >= task.due
        return first.due <= now and self._find_open_breaker(first, now) is None

    def _start(self, task: StageTask, now: ClockReading, *, competitors: int) -> None:
        for side in task.systems:
            if side in self._breakers:
                self._breakers[side].on_attempt(now.monotonic)
        task.strategy = choose_strategy(
            slots=self._slots.by_system[task.systems[0]], competitors=competitors, has_backlog=task.has_backlog
        )
        if task.trigger is not None:
            # Its turn may come a little before the wall's clock shows its time.
            task.cron_at = task.trigger.next_after(
                now.wall + timedelta(seconds=0.0 if task.is_retry else CLOCK_STEP_SECONDS)
            )
        task.running_since = task.last_started = now.monotonic
        self._running[task.key] = task
        task.rerun_requested = task.end_requested = False
        task.reported_reason = ""

    # What has happened.

    def on_pass_ended(self, task: StageTask, result: PassResult, now: ClockReading) -> None:
        """A pass has ended: when is the next one?"""
        began, task.running_since = task.running_since, None
        assert began is not None
        task.last_finished_started = began
        del self._running[task.key]
        trouble = task.failure = classify_failure(result.error) if result.error is not None else None
        self._update_breakers(task, result, trouble, now.monotonic)
        self._schedule_next(task, now, began=began)
        self._update_owner(task, result, trouble, now.monotonic)
        match trouble:
            case None:
                self._on_success(task, result, now.monotonic)
            case FailureKind.OTHER_OWNER:
                task.due = min(task.due, self._owner_check_due(task, now.monotonic))
                task.failures = 0
            case FailureKind.WAITING:
                task.due = min(task.due, now.monotonic + WAITING_RETRY_SECONDS)
            case FailureKind.LEASE_LOST:
                task.due = now.monotonic
            case _:
                self._on_failure(task, trouble, now.monotonic)

    def on_batch_extracted(self, stream: StreamName, now: float) -> None:
        """A batch of a stream was extracted here: its loader has something to do."""
        lane = self.tasks.get(TaskKey(stream, Stage.LOAD))
        if lane is None:
            return
        lane.rerun_requested = True
        if lane.running_since is None and not lane.failures and not lane.other_owner:
            lane.due = min(lane.due, now)

    def on_pending_counted(self, stream: StreamName, pending: int, now: float) -> None:
        """An extraction has read how many batches wait for the loader: it need not look for itself."""
        if pending:
            self.on_batch_extracted(stream, now)
            return
        lane = self.tasks.get(TaskKey(stream, Stage.LOAD))
        if (
            lane is not None
            and lane.running_since is None
            and not lane.failures
            and not lane.other_owner
            and lane.due > now
        ):
            passed_at = now if lane.last_started is None else lane.last_started
            lane.due = min(now + LOAD_CHECK_INTERVAL_SECONDS, passed_at + LEDGER_CHECK_INTERVAL_SECONDS)

    def continue_from(self, before: "Scheduler", now: float) -> None:
        """Go on where other turns ended: what was due is due still, and what was to be tried again is so at once."""
        for key, lane in self.tasks.items():
            old = before.tasks.get(key)
            if old is not None and (old.is_waiting(now) or old.is_retry):
                lane.due = now

    def retry_now(self, now: float) -> None:
        """What waits for another try has it at once, since a person may have mended it; others keep their time."""
        for lane in self.tasks.values():
            if lane.is_retry or lane.failure is not None or lane.other_owner:
                lane.due = min(lane.due, now)
            lane.failures, lane.other_owner, lane.reported_reason = 0, "", ""
        self._breakers.clear()

    def _on_success(self, task: StageTask, result: PassResult, now: float) -> None:
        task.failures = 0
        task.has_backlog = result.has_more
        task.is_continuation = (result.has_more or task.rerun_requested) and task.scheduled_due > now
        if result.has_more or task.rerun_requested:
            task.due = now

    def _on_failure(self, task: StageTask, failure: FailureKind, now: float) -> None:
        task.failures += 1
        pause = backoff_seconds(
            task.failures, random_fraction=self._random_fraction, needs_operator=failure is FailureKind.NEEDS_OPERATOR
        )
        task.due = now + pause
        side = _failed_system(task, failure)
        breaker = self._breakers.get(side) if side else None
        if breaker is not None and breaker.next_probe_at is not None:
            task.due = breaker.next_probe_at

    def _update_breakers(self, task: StageTask, result: PassResult, failure: FailureKind | None, now: float) -> None:
        side = _failed_system(task, failure)
        for one in task.systems:
            breaker = self._breakers.setdefault(one, CircuitBreaker(random_fraction=self._random_fraction))
            if one == side and result.error is not None:
                breaker.on_failure(now, result.error.message)
            elif side is None and _has_contacted(task, one, result, failure):
                if breaker.on_success():
                    self._on_system_recovered(one, now)
            else:
                breaker.on_inconclusive(now)

    def _on_system_recovered(self, system: str, now: float) -> None:
        """Everybody who had failed for its sake may go at once."""
        for lane in self.tasks.values():
            if lane.running_since is None and system in lane.systems and _failed_system(lane, lane.failure) == system:
                lane.due, lane.failures = min(lane.due, now), 0

    def _update_owner(self, task: StageTask, result: PassResult, failure: FailureKind | None, now: float) -> None:
        """Keep who has the stage; where it is free again, whoever had it may have left others too."""
        before = task.other_owner
        task.other_owner = _owner_from_error(result) if failure is FailureKind.OTHER_OWNER else ""
        if not before or task.other_owner == before:
            return
        left = [one for one in self.tasks.values() if one.other_owner == before and one.running_since is None]
        if failure is None and result.batches:
            for one in left:
                one.due, one.other_owner = min(one.due, now), ""
        elif left:  # it may have been the one that watched for all
            left[0].due = min(left[0].due, self._owner_check_due(left[0], now))

    def _owner_check_due(self, task: StageTask, now: float) -> float:
        """When to look whether the other owner lives: one lane looks for all that it has."""
        soon = now + self._takeover_seconds
        others = (one for one in self.tasks.values() if one is not task and one.other_owner == task.other_owner)
        return task.due if any(one.due <= soon or one.running_since is not None for one in others) else soon

    # When something is due by its schedule.

    def _make_tasks(self, stream: StreamSettings, now: ClockReading) -> Iterator[StageTask]:
        name = StreamName(source=stream.source, database=stream.database, table=stream.table)
        trigger = make_trigger(stream.schedule)
        extract = StageTask(
            key=TaskKey(name, Stage.EXTRACT),
            settings=stream,
            systems=(source_system(stream.source), LAKE_SYSTEM),
            due_queue=self._due_queue,
            scheduled_due=now.monotonic,
            trigger=trigger,
            cron_at=None if trigger is None else trigger.next_after(now.wall),
        )
        if trigger is not None:
            self._schedule_cron(extract, now)
        yield extract
        if stream.target is not None:
            yield StageTask(
                key=TaskKey(name, Stage.LOAD),
                settings=stream,
                systems=(warehouse_system(stream.target.warehouse), LAKE_SYSTEM),
                due_queue=self._due_queue,
                scheduled_due=now.monotonic,
            )

    def _schedule_next(self, task: StageTask, now: ClockReading, *, began: float) -> None:
        """The next turn of a lane by its schedule, counted from when its pass began."""
        if task.stage is Stage.LOAD:
            task.due = task.scheduled_due = now.monotonic + LOAD_CHECK_INTERVAL_SECONDS * (
                0.8 + 0.2 * self._random_fraction()
            )
        elif task.trigger is not None:
            self._schedule_cron(task, now)
        else:
            every = task.settings.schedule.every or timedelta(0)
            task.due = task.scheduled_due = max(
                now.monotonic, began + jittered_interval_seconds(every, random_fraction=self._random_fraction)
            )

    def _schedule_cron(self, task: StageTask, now: ClockReading) -> None:
        """The turn of a cron, which is now where its time has come already."""
        wait = float("inf") if task.cron_at is None else (task.cron_at - now.wall).total_seconds()
        task.due = task.scheduled_due = now.monotonic + max(0.0, wait)

    def _follow_clock_change(self, now: ClockReading) -> None:
        """Where somebody has set the clock, crons are counted anew; one that was leapt over is due, once."""
        offset = now.wall.timestamp() - now.monotonic
        if abs(offset - self._clock_offset) < CLOCK_STEP_SECONDS:
            return
        self._clock_offset = offset
        for lane in self.tasks.values():
            if lane.trigger is None:
                continue
            if lane.cron_at is None or lane.cron_at > now.wall:
                lane.cron_at = lane.trigger.next_after(now.wall)
            if lane.running_since is None and not lane.is_waiting(now.monotonic) and not lane.is_retry:
                self._schedule_cron(lane, now)


def _longest_run_seconds(task: StageTask) -> float:
    return task.settings.schedule.longest_run.total_seconds()


def _failed_system(task: StageTask, failure: FailureKind | None) -> str | None:
    """Which side of a lane a trouble is of; None where it is of none."""
    if failure is FailureKind.LAKE:
        return LAKE_SYSTEM
    return task.systems[0] if failure is not None and _STAGE_OF_FAILURE.get(failure) is task.stage else None


def _has_contacted(task: StageTask, system: str, result: PassResult, failure: FailureKind | None) -> bool:
    """Whether a pass shows that a side answers: a loader with nothing to do asks no warehouse."""
    if system == LAKE_SYSTEM:
        return failure is None
    return failure is None and (task.stage is Stage.EXTRACT or result.batches > 0)


def _owner_from_error(result: PassResult) -> str:
    return str(result.error.facts.get("owner", "another process")) if result.error is not None else ""
