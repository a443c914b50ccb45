"""Worker pool: runs passes in a bounded number of threads."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

from syncd.app.pass_factory import PassOptions
from syncd.daemon.stage_task import PassOutcome, StageTask, TaskKey
from syncd.errors import to_hinted_error
from syncd.events import EventListener
from syncd.extract.extract_pass import ExtractOutcome
from syncd.extract.plan_rules import ExtractRequest
from syncd.load.load_pass import LoadOutcome
from syncd.settings import Mode, Settings, StreamSettings
from watermarks.document import Stage
from watermarks.errors import HintedError
from watermarks.names import StreamName

PASS_WAIT_LIMIT: Final = timedelta(seconds=2)
"""Time that a pass may wait for open transactions; then another pass gets its slot."""
RELEASE_IDLE_INTERVAL_SECONDS: Final = 10.0

OnPassEnded: TypeAlias = Callable[[TaskKey, PassOutcome, bool], None]
"""Receives the outcome of a pass, and whether it read as much as it was allowed to."""


class PassRunner(Protocol):
    """Runner of passes, several at once of different streams and stages; works only inside a `with`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def extract(self, settings: StreamSettings, options: PassOptions) -> ExtractOutcome:
        """Run one extract pass; errors are part of the outcome."""
        ...

    def load(self, settings: StreamSettings, options: PassOptions) -> LoadOutcome:
        """Run one load pass; errors are part of the outcome."""
        ...

    def end_pass(self, stream: StreamName, stage: Stage, *, why: str, overran: bool) -> bool:
        """Interrupt a running pass; return whether there was one.

        The pass has failed if it `overran`; else its outcome says nothing about the stream.
        """
        ...

    def release_idle(self) -> None:
        """Release resources that have been idle for long."""
        ...


MakePassRunner: TypeAlias = Callable[[Settings, EventListener, Callable[[], None]], PassRunner]
"""Makes the runner of a configuration from the listener of its events and the callback for a lost lease."""


class WorkerPool:
    """Runs the passes of tasks in daemon threads, which do not keep the process alive."""

    def __init__(self, runner: PassRunner, *, max_threads: int, on_pass_ended: OnPassEnded) -> None:
        self._runner = runner
        self._on_pass_ended = on_pass_ended
        self._max_threads = max_threads
        self._idle = threading.Semaphore(0)
        self._workers: list[threading.Thread] = []
        self._jobs = SimpleQueue[Callable[[], None] | None]()
        self._over = threading.Event()
        runner.__enter__()
        self._release_thread = threading.Thread(
            target=self._release_idle_periodically, name="release-idle", daemon=True
        )
        self._release_thread.start()

    def start_pass(self, task: StageTask) -> None:
        """Start a pass of a task; a worker thread reports its end."""
        key, settings, options = task.key, task.settings, _pass_options(task)
        if not self._idle.acquire(blocking=False) and len(self._workers) < self._max_threads:
            worker = threading.Thread(target=self._run_jobs, name=f"pass-{len(self._workers) + 1}", daemon=True)
            self._workers.append(worker)
            worker.start()
        self._jobs.put(lambda: self._run_pass(key, settings, options))

    def end_pass(self, key: TaskKey, *, why: str, overran: bool = False) -> None:
        """Interrupt a running pass without waiting for its end."""

        def end() -> None:
            with suppress(HintedError):  # the outcome of the pass reports the same trouble
                self._runner.end_pass(key.stream, key.stage, why=why, overran=overran)

        threading.Thread(target=end, name="end-pass", daemon=True).start()

    def close(self, *, timeout_seconds: float) -> bool:
        """Release the leases and close everything; return whether that was done in time."""
        until = time.monotonic() + timeout_seconds
        self._over.set()
        for _ in self._workers:
            self._jobs.put(None)
        closing = threading.Thread(
            target=self._runner.__exit__, args=(None, None, None), name="close-runner", daemon=True
        )
        closing.start()
        closing.join(timeout_seconds)
        if closing.is_alive():
            return False
        for thread in (*self._workers, self._release_thread):
            thread.join(max(until - time.monotonic(), 0.0))
        return True

    def _run_pass(self, key: TaskKey, settings: StreamSettings, options: PassOptions) -> None:
        is_extract, limit = key.stage is Stage.EXTRACT, options.request.limit
        outcome: PassOutcome
        try:
            run = self._runner.extract if is_extract else self._runner.load
            outcome = run(settings, options)
        except Exception as error:  # noqa: BLE001  # a bug in one stream must not end the thread of all
            failed = ExtractOutcome if is_extract else LoadOutcome
            outcome = failed(stream=key.stream, error=to_hinted_error(error))
        has_more = is_extract and outcome.error is None and limit is not None and outcome.rows >= limit
        self._on_pass_ended(key, outcome, has_more)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._idle.release()

    def _release_idle_periodically(self) -> None:
        while not self._over.wait(RELEASE_IDLE_INTERVAL_SECONDS):
            with suppress(HintedError):  # what cannot be released now is closed with the rest
                self._runner.release_idle()


def _pass_options(task: StageTask) -> PassOptions:
    """Return the options for a pass of one batch, so that it soon ends at a safe point and others get its slot.

    A table that is read whole is one batch anyway. The pass does not wait for another owner: the scheduler retries.
    """
    limited = task.stage is Stage.EXTRACT and task.settings.mode is not Mode.REPLACE
    request = ExtractRequest(limit=task.settings.batch_rows) if limited else ExtractRequest()
    return PassOptions(
        request=request,
        horizon_wait=PASS_WAIT_LIMIT,
        owner_wait=timedelta(0),
        strategy=task.strategy,
        skip_if_at_rest=True,
    )
