"""The crew of one configuration: its works, a bounded number of threads, and whoever lets go of what is idle."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import Final

from syncd.app import Pass
from syncd.daemon.pass_runner import Works
from syncd.daemon.stage_task import Lane, LaneKey, Passed
from syncd.errors import hinted
from syncd.extract.extract_pass import Outcome
from syncd.extract.plan_rules import Request
from syncd.load.load_pass import LoadOutcome
from syncd.settings import Mode
from watermarks.document import Stage
from watermarks.errors import HintedError

WAIT: Final = timedelta(seconds=2)
"""How long a pass may wait for what only watching can tell; then its place is another's."""
LET_GO_EVERY: Final = 10.0

Ended = Callable[[LaneKey, Passed], None]


class Crew:
    """Runs the passes of lanes, each in one of so many threads, which no process waits for when it ends."""

    def __init__(self, works: Works, *, threads: int, ended: Ended) -> None:
        self._works = works
        self._ended = ended
        self._threads = threads
        self._idle = threading.Semaphore(0)
        self._serving: list[threading.Thread] = []
        self._jobs = SimpleQueue[Callable[[], None] | None]()
        self._over = threading.Event()
        works.__enter__()
        self._letting_go = threading.Thread(target=self._let_go, name="let-go", daemon=True)
        self._letting_go.start()

    def begin(self, lane: Lane) -> None:
        """Let a lane have a pass; `ended` hears of its end, from another thread."""
        key, settings, wanted = lane.key, lane.settings, _wanted(lane)

        def work() -> None:
            try:
                if key.stage is Stage.EXTRACT:
                    passed = _extracted(self._works.extract(settings, wanted), wanted)
                else:
                    passed = _loaded(self._works.load(settings, wanted))
            except Exception as error:  # noqa: BLE001  # a bug of one stream must not end the thread of all
                passed = Passed(state="failed", error=hinted(error))
            self._ended(key, passed)

        if not self._idle.acquire(blocking=False) and len(self._serving) < self._threads:
            serving = threading.Thread(target=self._serve, name=f"pass-{len(self._serving) + 1}", daemon=True)
            self._serving.append(serving)
            serving.start()
        self._jobs.put(work)

    def end(self, key: LaneKey, *, why: str, overran: bool = False) -> None:
        """End a pass that is under way, without waiting for it."""

        def end() -> None:
            with suppress(HintedError):  # whatever it was, the pass itself will tell
                self._works.end(key.stream, key.stage, why=why, overran=overran)

        threading.Thread(target=end, name="end-pass", daemon=True).start()

    def close(self, *, within: float) -> bool:
        """Give back what is held, and end what was opened; whether that was done in time."""
        until = time.monotonic() + within
        self._over.set()
        for _ in self._serving:
            self._jobs.put(None)
        closing = threading.Thread(
            target=self._works.__exit__, args=(None, None, None), name="close-works", daemon=True
        )
        closing.start()
        closing.join(within)
        if closing.is_alive():
            return False
        for thread in (*self._serving, self._letting_go):
            thread.join(max(until - time.monotonic(), 0.0))
        return True

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._idle.release()

    def _let_go(self) -> None:
        while not self._over.wait(LET_GO_EVERY):
            with suppress(HintedError):  # what does not end now is ended with the rest
                self._works.rest()


def _wanted(lane: Lane) -> Pass:
    """A pass of one batch: so others get their turn, and it ends at a safe point soon.

    A table that is read whole is one batch anyway. Nobody waits in a pass for another owner: it is looked at again.
    """
    limited = lane.stage is Stage.EXTRACT and lane.settings.mode is not Mode.REPLACE
    request = Request(limit=lane.settings.batch_rows) if limited else Request()
    return Pass(request=request, wait=WAIT, patience=timedelta(0), strategy=lane.strategy, brief=True)


def _extracted(outcome: Outcome, wanted: Pass) -> Passed:
    limit = wanted.request.limit
    return Passed(
        state=outcome.state,
        batches=outcome.batches,
        rows=outcome.rows,
        seconds=outcome.seconds,
        mark=outcome.mark,
        last=outcome.last,
        complete=outcome.complete,
        proven=outcome.proven,
        pending=outcome.waiting,
        reason=outcome.reason,
        error=outcome.error,
        more=outcome.error is None and limit is not None and outcome.rows >= limit,
    )


def _loaded(outcome: LoadOutcome) -> Passed:
    return Passed(
        state=outcome.state,
        batches=outcome.batches,
        rows=outcome.rows,
        seconds=outcome.seconds,
        mark=outcome.mark,
        last=outcome.last,
        complete=outcome.complete,
        pending=outcome.waiting,
        error=outcome.error,
    )
