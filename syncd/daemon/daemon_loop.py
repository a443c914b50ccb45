"""Main loop of the daemon: one thread that receives messages and asks the scheduler; workers run the passes."""

import gc
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from syncd.app.process_resources import LEASE_TTL_SECONDS
from syncd.daemon.config_reload import ReloadResult, reload_settings
from syncd.daemon.event_sinks import EventDispatcher
from syncd.daemon.schedule import HostClock
from syncd.daemon.scheduler import HeldTask, PassSlots, Scheduler
from syncd.daemon.shutdown import ShutdownTimer
from syncd.daemon.stage_task import PassOutcome, StageTask, TaskKey
from syncd.daemon.worker_pool import MakePassRunner, WorkerPool
from syncd.error_classes import FailureKind, is_interrupted_or_fenced
from syncd.errors import PassTooLong
from syncd.events import (
    BatchExtracted,
    ClockReading,
    EventListener,
    PassDue,
    PassEnded,
    PassHeldBack,
    PassStarted,
    StreamEvent,
    WaitKind,
    WaitReason,
)
from syncd.extract.extract_pass import ExtractOutcome
from syncd.settings import Settings
from watermarks.clock import Clock
from watermarks.names import StreamName

RELEASE_TIMEOUT_SECONDS: Final = 60.0
"""Time for releasing leases before new settings come into force; leases not released by then expire."""
_WAIT_OF_FAILURE: Final = {
    FailureKind.OTHER_OWNER: WaitKind.OTHER_OWNER,
    FailureKind.WAITING: WaitKind.HELD_TRANSACTION,
    FailureKind.LEASE_LOST: WaitKind.OTHER_OWNER,
}
"""Failures that are reported as waiting."""


@dataclass(frozen=True, slots=True)
class _PassEndedMessage:
    key: TaskKey
    outcome: PassOutcome
    has_more: bool
    pool_number: int


@dataclass(frozen=True, slots=True)
class _BatchExtractedMessage:
    stream: StreamName


@dataclass(frozen=True, slots=True)
class _ReloadMessage:
    answer: Future[ReloadResult]


@dataclass(frozen=True, slots=True)
class _LeaseLostMessage:
    pool_number: int


@dataclass(frozen=True, slots=True)
class _StopMessage:
    pass


_Message: TypeAlias = _PassEndedMessage | _BatchExtractedMessage | _ReloadMessage | _LeaseLostMessage | _StopMessage


class DaemonLoop:
    """Keeps every stream of a configuration up to date until it is told to stop.

    `run` is its only thread. Everything else reaches it as a message in a queue, from any thread or signal handler.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        read_settings: Callable[[], Settings],
        make_runner: MakePassRunner,
        readers: Sequence[EventListener],
        report: Callable[[str], None],
        clock: Clock | None = None,
        random_fraction: Callable[[], float] = random.random,
        lease_ttl_seconds: float = LEASE_TTL_SECONDS,
    ) -> None:
        """Make the loop; `report` logs what concerns the daemon and no stream."""
        self._settings = settings
        self._read_settings = read_settings
        self._make_runner = make_runner
        self._report = report
        self._clock = clock or HostClock()
        self._random_fraction = random_fraction
        self._takeover_seconds = lease_ttl_seconds / 3
        self._restart_interval_seconds = lease_ttl_seconds / 6
        """Least time between two restarts after a lost lease, so as not to race a process that ends leases."""
        self._dispatcher = EventDispatcher(readers, report=report)
        self._inbox = SimpleQueue[_Message]()
        self._proven_streams: dict[StreamName, bool] = {}
        """True if the completeness of each stream is proven, as its last extraction reported."""
        self._shutdown = ShutdownTimer()
        self._current_pool: WorkerPool | None = None
        """None while one pool follows another."""
        self._scheduler: Scheduler
        self._pending_settings: Settings | None = None
        """Settings that come into force as soon as no pass runs."""
        self._pool_number = 0
        self._pool_started_at = self._clock.monotonic()
        self._restart_not_before = 0.0
        self.last_iteration_at = self._clock.monotonic()
        """Monotonic time of the last iteration."""

    # Requests of other threads.

    def stop(self) -> None:
        """Ask for a stop at a safe point; return at once."""
        self._inbox.put(_StopMessage())

    def reload(self) -> "Future[ReloadResult]":
        """Ask for a reload of the configuration; running passes end first."""
        answer: Future[ReloadResult] = Future()
        self._inbox.put(_ReloadMessage(answer))
        return answer

    @property
    def is_stopping(self) -> bool:
        return self._shutdown.has_started

    # The loop.

    def run(self) -> bool:
        """Work until stopped; return whether every pass ended and every lease was released in time."""
        self._restart(self._settings, before=None)
        try:
            while not self._is_finished():
                now = ClockReading.from_clock(self._clock)
                self.last_iteration_at = now.monotonic
                self._run_due_work(now)
                self._process_messages(self._seconds_to_wait(now))
        finally:
            left = self._shutdown.remaining_seconds(self._clock.monotonic())
            clean = self._close_pool(timeout_seconds=RELEASE_TIMEOUT_SECONDS if left is None else left)
        return clean and not self._scheduler.running_tasks

    def _is_finished(self) -> bool:
        shutdown = self._shutdown
        return shutdown.has_started and (
            not self._scheduler.running_tasks or shutdown.is_overdue(self._clock.monotonic())
        )

    def _run_due_work(self, now: ClockReading) -> None:
        for task in self._scheduler.mark_overdue(now.monotonic):
            self._pool.end_pass(task.key, why=f"longest_run is {task.settings.schedule.longest_run}", overran=True)
        if self._shutdown.has_started:
            if self._shutdown.should_end_passes(now.monotonic):
                for task in self._scheduler.running_tasks:
                    self._pool.end_pass(task.key, why="the daemon stops")
            return
        if self._pending_settings is None:
            self._start_due_passes(now)
        elif not self._scheduler.running_tasks and now.monotonic >= self._restart_not_before:
            self._restart(self._pending_settings, before=self._scheduler)
            self._start_due_passes(now)

    def _start_due_passes(self, now: ClockReading) -> None:
        decision = self._scheduler.start_due(now)
        for held in decision.held:
            self._emit_held_back(held, now)
        for task in decision.started:
            self._dispatcher(PassStarted(stream=task.key.stream, stage=task.stage, strategy=task.strategy))
            self._pool.start_pass(task)

    def _seconds_to_wait(self, now: ClockReading) -> float:
        if self._shutdown.has_started:
            return self._shutdown.seconds_to_wait(now.monotonic)
        if self._pending_settings is not None:
            return 1.0
        return self._scheduler.seconds_to_wait(now.monotonic)

    def _process_messages(self, timeout_seconds: float) -> None:
        """Wait for a message, and handle all that are there."""
        try:
            message = self._inbox.get(timeout=timeout_seconds)
            while True:
                self._handle_message(message)
                message = self._inbox.get_nowait()
        except Empty:
            return

    def _handle_message(self, message: _Message) -> None:
        now = ClockReading.from_clock(self._clock)
        match message:
            case _PassEndedMessage():
                self._on_pass_ended(message, now)
            case _BatchExtractedMessage():
                self._scheduler.on_batch_extracted(message.stream, now.monotonic)
            case _ReloadMessage():
                self._reload(message.answer, now)
            case _LeaseLostMessage():
                self._on_lease_lost(message.pool_number)
            case _StopMessage():
                self._shutdown.start(now.monotonic, timeout_seconds=self._settings.daemon.stop_timeout.total_seconds())

    # Ends of passes.

    def _on_pass_ended(self, message: _PassEndedMessage, now: ClockReading) -> None:
        task = self._scheduler.tasks.get(message.key)
        if task is None or message.pool_number != self._pool_number:
            return
        outcome = self._with_overrun_error(task, message.outcome, now)
        self._scheduler.on_pass_ended(task, outcome, now, has_more=message.has_more)
        if task.failure is FailureKind.LEASE_LOST:
            self._on_lease_lost(message.pool_number)
        if isinstance(outcome, ExtractOutcome):
            self._proven_streams[task.key.stream] = outcome.proven
            if outcome.error is None or outcome.pending_batches:  # the document was read before the failure
                self._scheduler.on_pending_counted(task.key.stream, outcome.pending_batches, now.monotonic)
        self._emit_pass_ended(task, outcome, now)

    def _with_overrun_error(self, task: StageTask, outcome: PassOutcome, now: ClockReading) -> PassOutcome:
        """Return the outcome; for a pass that was interrupted because it took too long, with that as its error."""
        if outcome.error is None or not task.end_requested or self._shutdown.has_started:
            return outcome
        longest = task.settings.schedule.longest_run
        assert task.running_since is not None
        took = timedelta(seconds=round(now.monotonic - task.running_since))
        error = PassTooLong(
            f"the pass took {took} and was ended: longest_run is {longest}",
            hint=f"See what it waited for ({outcome.error.message}). Give it more time with longest_run, or less to"
            " do at once with batch_rows.",
        )
        return replace(outcome, error=error)

    def _emit_pass_ended(self, task: StageTask, outcome: PassOutcome, now: ClockReading) -> None:
        stream, stage = task.key
        wait = None if task.failure is None else _WAIT_OF_FAILURE.get(task.failure)
        reason = outcome.wait_reason if isinstance(outcome, ExtractOutcome) else ""
        if wait is not None and outcome.error is not None:
            reason = WaitReason(outcome.error.message, wait)
        self._dispatcher(
            PassEnded(
                stream=stream,
                stage=stage,
                state=str(outcome.state) if wait is None else "waiting",
                batches=outcome.batches,
                rows=outcome.rows,
                seconds=outcome.seconds,
                mark=outcome.mark,
                complete_up_to=outcome.complete_before,
                proven=self._proven_streams.get(stream, False),
                pending_batches=outcome.pending_batches,
                reason=reason,
                interrupted=outcome.error is not None and is_interrupted_or_fenced(outcome.error),
                error=outcome.error if wait is None else None,
            )
        )
        if wait is not None:
            self._emit_held_back(HeldTask(task=task, reason=reason, until=task.due), now)
        elif task.due > now.monotonic and (at := _to_wall_time(now, task.due)) is not None:
            self._dispatcher(PassDue(stream=stream, stage=stage, at=at))

    def _emit_held_back(self, held: HeldTask, now: ClockReading) -> None:
        stream, stage = held.task.key
        until = None if held.until is None else _to_wall_time(now, held.until)
        self._dispatcher(PassHeldBack(stream=stream, stage=stage, reason=held.reason, until=until))

    # Restarts with other settings or under a new name.

    def _reload(self, answer: Future[ReloadResult], now: ClockReading) -> None:
        before = self._pending_settings or self._settings
        result, after = reload_settings(self._read_settings, before)
        if result.error:
            self._report(f"the configuration is invalid and the current one stays in force: {result.error}")
        elif result.changed:
            self._pending_settings = after
            self._report("the configuration was read; it takes effect when the running passes have ended")
        else:
            self._scheduler.retry_now(now.monotonic)
            self._report("the configuration was read: nothing has changed")
        if result.needs_restart:
            self._report("changes under `daemon:` other than stop_timeout take effect at the next start")
        answer.set_result(result)

    def _on_lease_lost(self, pool_number: int) -> None:
        """Continue under a new name: another process may have taken what this one held."""
        if pool_number == self._pool_number and self._pending_settings is None and not self._shutdown.has_started:
            self._pending_settings = self._settings
            self._restart_not_before = self._pool_started_at + self._restart_interval_seconds
            self._report("this process lost its lease, which it did not renew in time; it continues under a new name")

    def _restart(self, settings: Settings, *, before: Scheduler | None) -> None:
        if before is not None:
            self._close_pool(timeout_seconds=RELEASE_TIMEOUT_SECONDS)
            # S3 clients are cycles of some hundred thousand objects: two generations of them at once would fragment
            # the memory for good.
            gc.collect()
        self._settings, self._pending_settings = settings, None
        self._pool_number += 1
        number, now = self._pool_number, ClockReading.from_clock(self._clock)
        self._pool_started_at = now.monotonic
        runner = self._make_runner(settings, self._on_event, lambda: self._inbox.put(_LeaseLostMessage(number)))
        self._scheduler = Scheduler(
            settings, now=now, random_fraction=self._random_fraction, takeover_seconds=self._takeover_seconds
        )
        if before is not None:
            self._scheduler.continue_from(before, now.monotonic)
        self._current_pool = WorkerPool(
            runner,
            max_threads=PassSlots.from_settings(settings).total,
            on_pass_ended=lambda key, outcome, has_more: self._inbox.put(
                _PassEndedMessage(key, outcome, has_more, number)
            ),
        )

    def _close_pool(self, *, timeout_seconds: float) -> bool:
        """Close the pool, if there is one; return whether every lease was released in time."""
        pool, self._current_pool = self._current_pool, None
        return pool is None or pool.close(timeout_seconds=timeout_seconds)

    @property
    def _pool(self) -> WorkerPool:
        assert self._current_pool is not None
        return self._current_pool

    def _on_event(self, event: StreamEvent) -> None:
        """Pass an event on to the readers; a new batch also wakes its loader."""
        self._dispatcher(event)
        if isinstance(event, BatchExtracted):
            self._inbox.put(_BatchExtractedMessage(event.stream))


def _to_wall_time(now: ClockReading, due: float) -> datetime | None:
    return now.wall + timedelta(seconds=due - now.monotonic) if due != float("inf") else None
