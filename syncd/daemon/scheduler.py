"""Scheduler: decides which tasks begin, which ones wait and why, and when each is due again. It does no I/O."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from syncd.daemon.circuit_breaker import SystemBreakers, backoff_seconds
from syncd.daemon.stage_task import (
    LAKE_SYSTEM,
    LOAD_CHECK_INTERVAL_SECONDS,
    DueQueue,
    PassOutcome,
    StageTask,
    TaskKey,
    TaskTimer,
    make_tasks,
    source_system,
    warehouse_system,
)
from syncd.error_classes import FailureKind, classify_failure
from syncd.events import ClockReading
from syncd.settings import Settings
from watermarks.document import Stage
from watermarks.names import StreamName
from watermarks.progress import RunStrategy

LEDGER_CHECK_INTERVAL_SECONDS: Final = 600.0
"""Interval in which a loader compares with the ledger, even if nothing is to be loaded."""
WAITING_RETRY_SECONDS: Final = 5.0
"""Pause of a stream that waits for a transaction to end."""
REPORT_WAIT_AFTER_SECONDS: Final = 2.0
"""Time after which a task that waits for a slot reports it."""
MAX_SLEEP_SECONDS: Final = 5.0
"""Longest time between two looks at the clocks."""
_STAGE_OF_FAILURE: Final = {FailureKind.SOURCE: Stage.EXTRACT, FailureKind.WAREHOUSE: Stage.LOAD}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask:
    """Task that is due and may not begin."""

    task: StageTask
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDecision:
    """Tasks that begin now, and those that are newly held back."""

    started: tuple[StageTask, ...] = ()
    held: tuple[HeldTask, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSlots:
    """Number of passes that may run at once, by source and by warehouse."""

    by_system: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def from_settings(cls, settings: Settings) -> "PassSlots":
        """Count two connections to a source for a pass, and one session of a warehouse."""
        sources = {source_system(one.name): max(1, one.max_connections // 2) for one in settings.sources}
        return cls(by_system=sources | {warehouse_system(one.name): one.max_sessions for one in settings.warehouses})

    @property
    def total(self) -> int:
        return sum(self.by_system.values())


class Scheduler:
    """Tasks of one configuration. One thread calls it and passes in the time."""

    def __init__(
        self, settings: Settings, *, now: ClockReading, random_fraction: Callable[[], float], takeover_seconds: float
    ) -> None:
        """Make the tasks; `takeover_seconds` is the pause until a task looks whether another owner still lives."""
        self._random_fraction = random_fraction
        self._takeover_seconds = takeover_seconds
        self._slots = PassSlots.from_settings(settings)
        self._breakers = SystemBreakers(random_fraction)
        self._timer = TaskTimer(now, random_fraction=random_fraction)
        self._due_queue = DueQueue()
        self._running: dict[TaskKey, StageTask] = {}
        self.tasks: dict[TaskKey, StageTask] = {
            task.key: task for stream in settings.streams for task in make_tasks(stream, self._due_queue, now)
        }
        self._extract_tasks_by_name = {task.name: task for task in self.tasks.values() if task.stage is Stage.EXTRACT}

    # Decisions for now.

    def start_due(self, now: ClockReading) -> SchedulerDecision:
        """Start the due tasks that may begin; they count as running from here on."""
        self._timer.follow_clock_change(self.tasks.values(), now)
        waiting = sorted(self._due_queue.collect_due(now.monotonic), key=self._sort_key)
        running = Counter(task.systems[0] for task in self._running.values())
        competing = running + Counter(task.systems[0] for task in waiting)
        started: list[StageTask] = []
        held: list[HeldTask] = []
        for task in waiting:
            hold = self._find_hold(task, now.monotonic, running)
            if hold is None:
                running[task.systems[0]] += 1
                self._start(task, now, competitors=competing[task.systems[0]] - 1)
                started.append(task)
            elif hold.reason and hold.reason != task.reported_reason:
                task.reported_reason = hold.reason
                held.append(hold)
        return SchedulerDecision(started=tuple(started), held=tuple(held))

    def mark_overdue(self, now: float) -> tuple[StageTask, ...]:
        """Return the tasks that have run for longer than `longest_run`, each once."""
        late = [
            task
            for task in self._running.values()
            if task.running_since is not None
            and not task.end_requested
            and now >= task.running_since + task.longest_run_seconds
        ]
        for task in late:
            task.end_requested = True
        return tuple(late)

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until a decision may change by time alone."""
        return max(0.0, min(self._wake_times(now), default=now + MAX_SLEEP_SECONDS) - now)

    @property
    def running_tasks(self) -> tuple[StageTask, ...]:
        return tuple(self._running.values())

    def _wake_times(self, now: float) -> Iterator[float]:
        yield now + MAX_SLEEP_SECONDS
        for task in self._running.values():
            if task.running_since is not None and not task.end_requested:
                yield task.running_since + task.longest_run_seconds
        if (next_due := self._due_queue.next_due_at()) is not None:
            yield next_due
        yield from self._breakers.probe_times_after(now)

    def _sort_key(self, task: StageTask) -> tuple[bool, bool, int, float]:
        """Order tasks by priority; at a system that does not answer, by how long ago each one asked it.

        Perhaps only one stream gets no answer: its priority must not keep the others from finding that out.
        """
        if self._breakers.has_open(task.systems):
            return True, False, 0, float("-inf") if task.last_started is None else task.last_started
        return False, *task.sort_key

    def _find_hold(self, task: StageTask, now: float, running: Mapping[str, int]) -> HeldTask | None:
        if (blocking := self._breakers.find_blocking(task.systems, now)) is not None:
            system, breaker = blocking
            reason = f"{system} does not answer: {breaker.reason}"
            return HeldTask(task=task, reason=reason, until=breaker.next_probe_at)
        for name in task.settings.schedule.after if task.stage is Stage.EXTRACT else ():
            first = self._extract_tasks_by_name.get(name)
            if first is not None and self._comes_first(first, task, now):
                return HeldTask(task=task, reason=f"waits for {name}, which runs first")
        system = task.systems[0]
        slots = self._slots.by_system[system]
        if running[system] < slots:
            return None
        if now - task.due < REPORT_WAIT_AFTER_SECONDS:
            return HeldTask(task=task, reason="")
        return HeldTask(task=task, reason=f"waits for a slot: {system} allows {slots} passes at once")

    def _comes_first(self, first: StageTask, task: StageTask, now: float) -> bool:
        """Return whether a task waits for another one that its `after` names.

        It waits for at most one pass since it is due itself, so that it gets its turn whatever the other one does.
        It does not wait for a pass that was running before, nor for a task that fails, that another process owns,
        or whose system does not answer: these may take for ever.
        """
        if first.failures or first.other_owner or first.last_finished_started >= task.due:
            return False
        if first.running_since is not None:
            return first.running_since >= task.due
        return first.due <= now and self._breakers.find_blocking(first.systems, now) is None

    def _start(self, task: StageTask, now: ClockReading, *, competitors: int) -> None:
        for system in task.systems:
            self._breakers.for_system(system).on_attempt(now.monotonic)
        slots = self._slots.by_system[task.systems[0]]
        task.strategy = choose_strategy(slots=slots, competitors=competitors, has_backlog=task.has_backlog)
        self._timer.start(task, now)
        task.running_since = task.last_started = now.monotonic
        self._running[task.key] = task
        task.rerun_requested = task.end_requested = False
        task.reported_reason = ""

    # Reactions to what has happened.

    def on_pass_ended(self, task: StageTask, outcome: PassOutcome, now: ClockReading, *, has_more: bool) -> None:
        """Set when a task is due again after its pass; `has_more`: it read as much as it was allowed to."""
        began, task.running_since = task.running_since, None
        assert began is not None
        task.last_finished_started = began
        del self._running[task.key]
        failure = task.failure = classify_failure(outcome.error) if outcome.error is not None else None
        self._update_breakers(task, outcome, failure, now.monotonic)
        self._timer.schedule_next(task, now, began=began)
        self._update_owner(task, outcome, failure, now.monotonic)
        match failure:
            case None:
                self._on_success(task, now.monotonic, has_more=has_more)
            case FailureKind.OTHER_OWNER:
                task.due = min(task.due, self._owner_check_due(task, now.monotonic))
                task.failures = 0
            case FailureKind.WAITING:
                task.due = min(task.due, now.monotonic + WAITING_RETRY_SECONDS)
            case FailureKind.LEASE_LOST:
                task.due = now.monotonic
            case _:
                self._on_failure(task, failure, now.monotonic)

    def on_batch_extracted(self, stream: StreamName, now: float) -> None:
        """Make the loader of a stream due: this process has extracted a batch."""
        task = self.tasks.get(TaskKey(stream, Stage.LOAD))
        if task is None:
            return
        task.rerun_requested = True
        if task.running_since is None and not task.failures and not task.other_owner:
            task.due = min(task.due, now)

    def on_pending_counted(self, stream: StreamName, pending: int, now: float) -> None:
        """Note how many batches an extraction found to be loaded; without any the loader need not look itself."""
        if pending:
            self.on_batch_extracted(stream, now)
            return
        task = self.tasks.get(TaskKey(stream, Stage.LOAD))
        if task is None or task.running_since is not None or task.failures or task.other_owner or task.due <= now:
            return
        last = now if task.last_started is None else task.last_started
        task.due = min(now + LOAD_CHECK_INTERVAL_SECONDS, last + LEDGER_CHECK_INTERVAL_SECONDS)

    def continue_from(self, before: "Scheduler", now: float) -> None:
        """Take over from another scheduler: what was due stays due, and retries are due at once."""
        for key, task in self.tasks.items():
            old = before.tasks.get(key)
            if old is not None and (old.is_waiting(now) or old.is_retry):
                task.due = now

    def retry_now(self, now: float) -> None:
        """Make every retry due at once, since an operator may have mended its cause."""
        for task in self.tasks.values():
            if task.is_retry or task.failure is not None or task.other_owner:
                task.due = min(task.due, now)
            task.failures, task.other_owner, task.reported_reason = 0, "", ""
        self._breakers.reset()

    def _on_success(self, task: StageTask, now: float, *, has_more: bool) -> None:
        task.failures = 0
        task.has_backlog = has_more
        task.is_continuation = (has_more or task.rerun_requested) and task.scheduled_due > now
        if has_more or task.rerun_requested:
            task.due = now

    def _on_failure(self, task: StageTask, failure: FailureKind, now: float) -> None:
        task.failures += 1
        needs_operator = failure is FailureKind.NEEDS_OPERATOR
        task.due = now + backoff_seconds(
            task.failures, random_fraction=self._random_fraction, needs_operator=needs_operator
        )
        system = _failed_system(task, failure)
        probe_at = self._breakers.for_system(system).next_probe_at if system else None
        if probe_at is not None:
            task.due = probe_at

    def _update_breakers(self, task: StageTask, outcome: PassOutcome, failure: FailureKind | None, now: float) -> None:
        failed = _failed_system(task, failure)
        for system in task.systems:
            breaker = self._breakers.for_system(system)
            if system == failed and outcome.error is not None:
                breaker.on_failure(now, outcome.error.message)
            elif failed is None and _has_contacted(task, system, outcome, failure):
                if breaker.on_success():
                    self._on_system_recovered(system, now)
            else:
                breaker.on_inconclusive(now)

    def _on_system_recovered(self, system: str, now: float) -> None:
        """Make the tasks due that had failed because of this system."""
        for task in self.tasks.values():
            if task.running_since is None and system in task.systems and _failed_system(task, task.failure) == system:
                task.due, task.failures = min(task.due, now), 0

    def _update_owner(self, task: StageTask, outcome: PassOutcome, failure: FailureKind | None, now: float) -> None:
        """Note the owner of a stage; where one has left this stage, check the others that it had."""
        before = task.other_owner
        task.other_owner = _owner_from_error(outcome) if failure is FailureKind.OTHER_OWNER else ""
        if not before or task.other_owner == before:
            return
        left = [one for one in self.tasks.values() if one.other_owner == before and one.running_since is None]
        if failure is None and outcome.batches:
            for one in left:
                one.due, one.other_owner = min(one.due, now), ""
        elif left:  # this task may have been the one that checked for all
            left[0].due = min(left[0].due, self._owner_check_due(left[0], now))

    def _owner_check_due(self, task: StageTask, now: float) -> float:
        """Return when to look whether the other owner lives: one task looks for all that this owner has."""
        soon = now + self._takeover_seconds
        others = (one for one in self.tasks.values() if one is not task and one.other_owner == task.other_owner)
        return task.due if any(one.due <= soon or one.running_since is not None for one in others) else soon


def choose_strategy(*, slots: int, competitors: int, has_backlog: bool) -> RunStrategy:
    """Return how a pass works: beside others where they compete for slots, else with all connections for a backlog."""
    if slots > 1 and competitors:
        return RunStrategy.INTER_TABLE
    return RunStrategy.INTRA_TABLE if has_backlog and not competitors else RunStrategy.SEQUENTIAL


def _failed_system(task: StageTask, failure: FailureKind | None) -> str | None:
    """Return the system of a task that a failure is of."""
    if failure is FailureKind.LAKE:
        return LAKE_SYSTEM
    return task.systems[0] if failure is not None and _STAGE_OF_FAILURE.get(failure) is task.stage else None


def _has_contacted(task: StageTask, system: str, outcome: PassOutcome, failure: FailureKind | None) -> bool:
    """Return whether a pass shows that a system answers: a loader without batches does not ask the warehouse."""
    if failure is not None:
        return False
    return system == LAKE_SYSTEM or task.stage is Stage.EXTRACT or outcome.batches > 0


def _owner_from_error(outcome: PassOutcome) -> str:
    return str(outcome.error.facts.get("owner", "another process")) if outcome.error is not None else ""
