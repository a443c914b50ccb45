"""The crew of one configuration: its works, a bounded number of threads, and whoever lets go of what is idle."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import Final

from syncd.app import PassOptions
from syncd.daemon.pass_runner import PassRunner
from syncd.daemon.stage_task import PassResult, StageTask, TaskKey
from syncd.errors import to_hinted_error
from syncd.extract.extract_pass import ExtractOutcome
from syncd.extract.plan_rules import ExtractRequest
from syncd.load.load_pass import LoadOutcome
from syncd.settings import Mode
from watermarks.document import Stage
from watermarks.errors import HintedError

PASS_WAIT_LIMIT: Final = timedelta(seconds=2)
"""How long a pass may wait for what only watching can tell; then its place is another's."""
RELEASE_IDLE_INTERVAL_SECONDS: Final = 10.0

OnPassEnded = Callable[[TaskKey, PassResult], None]


class WorkerPool:
    """Runs the passes of lanes, each in one of so many threads, which no process waits for when it ends."""

    def __init__(self, runner: PassRunner, *, max_threads: int, on_pass_ended: OnPassEnded) -> None:
        self._runner = runner
        self._on_pass_ended = on_pass_ended
        self._max_threads = max_threads
        self._idle = threading.Semaphore(0)
        self._workers: list[threading.Thread] = []
        self._jobs = SimpleQueue[Callable[[], None] | None]()
        self._over = threading.Event()
        runner.__enter__()
        self._release_thread = threading.Thread(target=self._release_idle_periodically, name="let-go", daemon=True)
        self._release_thread.start()

    def start_pass(self, task: StageTask) -> None:
        """Let a lane have a pass; `ended` hears of its end, from another thread."""
        key, settings, wanted = task.key, task.settings, _pass_options(task)

        def work() -> None:
            try:
                if key.stage is Stage.EXTRACT:
                    passed = _from_extract_outcome(self._runner.extract(settings, wanted), wanted)
                else:
                    passed = _from_load_outcome(self._runner.load(settings, wanted))
            except Exception as error:  # noqa: BLE001  # a bug of one stream must not end the thread of all
                passed = PassResult(state="failed", error=to_hinted_error(error))
            self._on_pass_ended(key, passed)

        if not self._idle.acquire(blocking=False) and len(self._workers) < self._max_threads:
            serving = threading.Thread(target=self._run_jobs, name=f"pass-{len(self._workers) + 1}", daemon=True)
            self._workers.append(serving)
            serving.start()
        self._jobs.put(work)

    def end_pass(self, key: TaskKey, *, why: str, overran: bool = False) -> None:
        """End a pass that is under way, without waiting for it."""

        def end() -> None:
            with suppress(HintedError):  # whatever it was, the pass itself will tell
                self._runner.end_pass(key.stream, key.stage, why=why, overran=overran)

        threading.Thread(target=end, name="end-pass", daemon=True).start()

    def close(self, *, timeout_seconds: float) -> bool:
        """Give back what is held, and end what was opened; whether that was done in time."""
        until = time.monotonic() + timeout_seconds
        self._over.set()
        for _ in self._workers:
            self._jobs.put(None)
        closing = threading.Thread(
            target=self._runner.__exit__, args=(None, None, None), name="close-works", daemon=True
        )
        closing.start()
        closing.join(timeout_seconds)
        if closing.is_alive():
            return False
        for thread in (*self._workers, self._release_thread):
            thread.join(max(until - time.monotonic(), 0.0))
        return True

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._idle.release()

    def _release_idle_periodically(self) -> None:
        while not self._over.wait(RELEASE_IDLE_INTERVAL_SECONDS):
            with suppress(HintedError):  # what does not end now is ended with the rest
                self._runner.release_idle()


def _pass_options(task: StageTask) -> PassOptions:
    """A pass of one batch: so others get their turn, and it ends at a safe point soon.

    A table that is read whole is one batch anyway. Nobody waits in a pass for another owner: it is looked at again.
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


def _from_extract_outcome(outcome: ExtractOutcome, options: PassOptions) -> PassResult:
    limit = options.request.limit
    return PassResult(
        state=outcome.state,
        batches=outcome.batches,
        rows=outcome.rows,
        seconds=outcome.seconds,
        mark=outcome.mark,
        last_batch=outcome.last_batch,
        complete_upto=outcome.complete_before,
        is_proven=outcome.proven,
        pending_batches=outcome.pending_batches,
        reason=outcome.wait_reason,
        error=outcome.error,
        has_more=outcome.error is None and limit is not None and outcome.rows >= limit,
    )


def _from_load_outcome(outcome: LoadOutcome) -> PassResult:
    return PassResult(
        state=outcome.state,
        batches=outcome.batches,
        rows=outcome.rows,
        seconds=outcome.seconds,
        mark=outcome.mark,
        last_batch=outcome.last_batch,
        complete_upto=outcome.complete_before,
        pending_batches=outcome.pending_batches,
        error=outcome.error,
    )
