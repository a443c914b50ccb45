"""The daemon's loop: one thread that hears everything and decides about turns; the work is done by others."""

import gc
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from syncd.app import LEASE_TTL_SECONDS
from syncd.daemon.config_reload import ReloadResult, reload_settings
from syncd.daemon.event_dispatcher import EventDispatcher
from syncd.daemon.failure_policy import FailureKind, PassTooLong, is_interrupted_or_fenced
from syncd.daemon.pass_runner import MakePassRunner
from syncd.daemon.schedule import HostClock
from syncd.daemon.scheduler import HeldTask, PassSlots, Scheduler
from syncd.daemon.shutdown import ShutdownTimer
from syncd.daemon.stage_task import ClockReading, PassResult, StageTask, TaskKey
from syncd.daemon.worker_pool import WorkerPool
from syncd.events import BatchExtracted, EventListener, PassBegan, PassDue, PassEnded, PassHeldBack, StreamEvent
from syncd.settings import Settings
from watermarks.clock import Clock
from watermarks.document import Stage
from watermarks.names import StreamName

RELEASE_TIMEOUT_SECONDS: Final = 60.0
"""Seconds, before others begin; what is not given back by then falls free by itself."""


@dataclass(frozen=True, slots=True)
class _PassEndedMessage:
    key: TaskKey
    result: PassResult
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

    `run` is its one thread. Everything else comes to it as a word in a queue, from any thread or a signal's handler.
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
        """Prepare; `read` reads the configuration again, `say` tells what is about the daemon and not a stream."""
        self._settings = settings
        self._read_settings = read_settings
        self._make_runner = make_runner
        self._report = report
        self._clock = clock or HostClock()
        self._random_fraction = random_fraction
        self._takeover_seconds = lease_ttl_seconds / 3
        self._restart_interval_seconds = lease_ttl_seconds / 6
        """Seconds between two starts under a new name: whoever ends owners again and again is not to be raced."""
        self._dispatcher = EventDispatcher(readers, report=report)
        self._inbox = SimpleQueue[_Message]()
        self._proven_streams: dict[StreamName, bool] = {}
        """What the last extractions said of their streams."""
        self._shutdown = ShutdownTimer()
        self._current_pool: WorkerPool | None = None
        """None while one crew is followed by another."""
        self._scheduler: Scheduler
        self._pending_settings: Settings | None = None
        """The settings that come into force as soon as nothing is at work."""
        self._pool_number = 0
        self._pool_started_at = self._clock.monotonic()
        self._restart_not_before = 0.0
        """When a new start may begin."""
        self.last_iteration_at = self._clock.monotonic()
        """When the loop was last seen alive, on its clock that only rises."""

    # What others ask of it.

    def stop(self) -> None:
        """End at a safe point; returns at once."""
        self._inbox.put(_StopMessage())

    def reload(self) -> "Future[ReloadResult]":
        """Read the configuration again; what is at work is brought to its end first."""
        answer: Future[ReloadResult] = Future()
        self._inbox.put(_ReloadMessage(answer))
        return answer

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop, and only brings its work to an end."""
        return self._shutdown.has_started

    # The loop.

    def run(self) -> bool:
        """Work until somebody stops it; whether everything came to its end, and was given back, in time."""
        self._restart(self._settings, before=None)
        try:
            while not self._is_finished():
                now = self._read_clock()
                self.last_iteration_at = now.monotonic
                self._run_due_work(now)
                self._process_messages(self._seconds_to_wait(now))
        finally:
            left = self._shutdown.remaining_seconds(self._clock.monotonic())
            clean = self._close_pool(timeout_seconds=RELEASE_TIMEOUT_SECONDS if left is None else left)
        return clean and not self._scheduler.running_tasks

    def _is_finished(self) -> bool:
        stopping = self._shutdown
        return stopping.has_started and (
            not self._scheduler.running_tasks or stopping.is_overdue(self._clock.monotonic())
        )

    def _run_due_work(self, now: ClockReading) -> None:
        """Whatever the clock demands."""
        for lane in self._scheduler.mark_overdue(now.monotonic):
            self._pool.end_pass(lane.key, why=f"longest_run is {lane.settings.schedule.longest_run}", overran=True)
        if self._shutdown.has_started:
            if self._shutdown.should_end_passes(now.monotonic):
                for lane in self._scheduler.running_tasks:
                    self._pool.end_pass(lane.key, why="the daemon stops")
            return
        if self._pending_settings is None:
            self._start_due_passes(now)
        elif not self._scheduler.running_tasks and now.monotonic >= self._restart_not_before:
            self._restart(self._pending_settings, before=self._scheduler)
            self._start_due_passes(now)

    def _start_due_passes(self, now: ClockReading) -> None:
        turn = self._scheduler.start_due(now)
        for hold in turn.held:
            self._emit_held_back(hold, now)
        for lane in turn.started:
            self._dispatcher(PassBegan(stream=lane.key.stream, stage=lane.stage, strategy=lane.strategy))
            self._pool.start_pass(lane)

    def _seconds_to_wait(self, now: ClockReading) -> float:
        if self._shutdown.has_started:
            return self._shutdown.seconds_to_wait(now.monotonic)
        if self._pending_settings is not None:
            return 1.0
        return self._scheduler.seconds_to_wait(now.monotonic)

    def _process_messages(self, timeout_seconds: float) -> None:
        """Everything that has been said by now; the first word is waited for."""
        try:
            heard = self._inbox.get(timeout=timeout_seconds)
            while True:
                self._handle_message(heard)
                heard = self._inbox.get_nowait()
        except Empty:
            return

    def _handle_message(self, message: _Message) -> None:
        now = self._read_clock()
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

    # A pass has ended.

    def _on_pass_ended(self, message: _PassEndedMessage, now: ClockReading) -> None:
        lane = self._scheduler.tasks.get(message.key)
        if lane is None or message.pool_number != self._pool_number:
            return
        passed = self._with_overrun_error(lane, message.result, now)
        self._scheduler.on_pass_ended(lane, passed, now)
        if lane.failure is FailureKind.LEASE_LOST:
            self._on_lease_lost(message.pool_number)
        if lane.stage is Stage.EXTRACT:
            self._proven_streams[lane.key.stream] = passed.is_proven
            if passed.error is None or passed.pending_batches:  # the document was read before whatever failed
                self._scheduler.on_pending_counted(lane.key.stream, passed.pending_batches, now.monotonic)
        self._emit_pass_ended(lane, passed, now)

    def _with_overrun_error(self, task: StageTask, result: PassResult, now: ClockReading) -> PassResult:
        """What a pass came to; where it was ended for its length, that is the error."""
        if result.error is None or not task.end_requested or self._shutdown.has_started:
            return result
        longest = task.settings.schedule.longest_run
        assert task.running_since is not None
        took = timedelta(seconds=round(now.monotonic - task.running_since))
        error = PassTooLong(
            f"the pass took {took} and was ended: longest_run is {longest}",
            hint=f"See what it waited for ({result.error.message}); give it more time with longest_run, or less to"
            " do at once with batch_rows.",
        )
        return PassResult(
            state="failed", seconds=result.seconds, mark=result.mark, last_batch=result.last_batch, error=error
        )

    def _emit_pass_ended(self, task: StageTask, result: PassResult, now: ClockReading) -> None:
        stream, stage = task.key
        no_failure = task.failure in {FailureKind.OTHER_OWNER, FailureKind.WAITING, FailureKind.LEASE_LOST}
        reason = result.error.message if no_failure and result.error else result.reason
        self._dispatcher(
            PassEnded(
                stream=stream,
                stage=stage,
                state="waiting" if no_failure else str(result.state),
                batches=result.batches,
                rows=result.rows,
                seconds=result.seconds,
                mark=result.mark,
                complete=result.complete_upto,
                proven=self._proven_streams.get(stream, False),
                pending=result.pending_batches,
                reason=reason,
                cut=result.error is not None and is_interrupted_or_fenced(result.error),
                error=None if no_failure else result.error,
            )
        )
        if no_failure:
            self._emit_held_back(HeldTask(task=task, reason=reason, until=task.due), now)
        elif task.due > now.monotonic and (at := _to_wall_time(now, task.due)) is not None:
            self._dispatcher(PassDue(stream=stream, stage=stage, at=at))

    def _emit_held_back(self, held: HeldTask, now: ClockReading) -> None:
        stream, stage = held.task.key
        until = None if held.until is None else _to_wall_time(now, held.until)
        self._dispatcher(PassHeldBack(stream=stream, stage=stage, reason=held.reason, until=until))

    # Other settings, another name.

    def _reload(self, answer: Future[ReloadResult], now: ClockReading) -> None:
        before = self._pending_settings or self._settings
        told, after = reload_settings(self._read_settings, before)
        if told.error:
            self._report(f"the configuration is refused, the one of before stays in force: {told.error}")
        elif told.changed:
            self._pending_settings = after
            self._report("the configuration is read again; what is at work comes to its end, then it is in force")
        else:
            self._scheduler.retry_now(now.monotonic)
            self._report("the configuration is read again: nothing has changed in it")
        if told.needs_restart:
            self._report("what is said under `daemon:` but for stop_timeout comes into force with the next start")
        answer.set_result(told)

    def _on_lease_lost(self, pool_number: int) -> None:
        """Our lease was ended: what we held is another's, or nobody's; we go on under another name."""
        if pool_number == self._pool_number and self._pending_settings is None and not self._shutdown.has_started:
            self._pending_settings = self._settings
            self._restart_not_before = self._pool_started_at + self._restart_interval_seconds
            self._report("this process was silent for too long and lost its lease: it goes on under a new name")

    def _restart(self, settings: Settings, *, before: Scheduler | None) -> None:
        if before is not None:
            self._close_pool(timeout_seconds=RELEASE_TIMEOUT_SECONDS)
            # Clients of S3 are cycles of some hundred thousand objects: two generations of them at once would leave
            # memory in pieces that nothing gets back.
            gc.collect()
        self._settings, self._pending_settings = settings, None
        self._pool_number += 1
        crew, now = self._pool_number, self._read_clock()
        self._pool_started_at = now.monotonic
        works = self._make_runner(settings, self._on_event, lambda: self._inbox.put(_LeaseLostMessage(crew)))
        self._scheduler = Scheduler(
            settings, now=now, random_fraction=self._random_fraction, takeover_seconds=self._takeover_seconds
        )
        if before is not None:
            self._scheduler.continue_from(before, now.monotonic)
        self._current_pool = WorkerPool(
            works,
            max_threads=PassSlots.from_settings(settings).total,
            on_pass_ended=lambda key, passed: self._inbox.put(_PassEndedMessage(key, passed, crew)),
        )

    def _close_pool(self, *, timeout_seconds: float) -> bool:
        """Let the crew go, where there is one; whether everything was given back in time."""
        crew, self._current_pool = self._current_pool, None
        return crew is None or crew.close(timeout_seconds=timeout_seconds)

    @property
    def _pool(self) -> WorkerPool:
        assert self._current_pool is not None
        return self._current_pool

    def _on_event(self, event: StreamEvent) -> None:
        """An event of the work, on its way to the readers; a new batch wakes its loader."""
        self._dispatcher(event)
        if isinstance(event, BatchExtracted):
            self._inbox.put(_BatchExtractedMessage(event.stream))

    def _read_clock(self) -> ClockReading:
        return ClockReading(self._clock.monotonic(), self._clock.now())


def _to_wall_time(now: ClockReading, due: float) -> datetime | None:
    """When that is, by the wall; None where it is never."""
    return now.wall + timedelta(seconds=due - now.monotonic) if due != float("inf") else None
