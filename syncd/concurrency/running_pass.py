"""Which pass is under way, and how does another thread end it?"""

import itertools
import threading
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeVar

from syncd.errors import PassAlreadyRunning, PassStopped, PassTimedOut
from watermarks.document import Stage
from watermarks.errors import HintedError, OutcomeUnknown, Transient
from watermarks.names import StreamName

T = TypeVar("T")


class RunningPass:
    """One pass that is under way.

    Whoever holds something of the outside for it says how that is ended. After `end` nothing new is begun for it, and
    what it waits for in here ends with `PassStopped`.
    """

    def __init__(self, name: str = "a pass") -> None:
        self._name = name
        self._guard = threading.Lock()
        self._ends: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._reason = ""
        self._error_type: type[PassStopped] = PassStopped
        self._end_signal: Future[None] = Future()
        self.cleanup: Final = ExitStack()
        """What is held until the pass is over, however it ends; closed by whoever began it."""

    @property
    def is_ended(self) -> bool:
        return self._end_signal.done()

    def end(self, reason: str, *, overran: bool = False) -> None:
        """End it, from any thread: whatever is held for it is ended, and nothing else.

        One that `overran` took longer than it may, and failed by that; any other end says nothing of the stream.
        """
        with self._guard:
            if self.is_ended:
                return
            self._reason = reason
            self._error_type = PassTimedOut if overran else PassStopped
            self._end_signal.set_result(None)
            # Under the guard: what is not held any more may be another's by now, and must not be ended.
            for end in self._ends.values():
                end()

    def require_running(self) -> None:
        """Go on only while it has not been ended.

        Raises:
            PassStopped: it has.
        """
        if self.is_ended:
            raise self.stop_error()

    def stop_error(self) -> PassStopped:
        return self._error_type(
            f"{self._name} was ended: {self._reason}",
            hint="What it had done stands; the next pass goes on from there.",
        )

    def attribute_error(self, error: HintedError) -> HintedError:
        """What a pass failed by; one that was ended failed by that, where its error is what such an end looks like."""
        if not self.is_ended or isinstance(error, PassStopped):
            return error
        if not isinstance(error, Transient | OutcomeUnknown):
            return error
        stopped = self.stop_error()
        stopped.__cause__ = error
        return stopped

    @contextmanager
    def call_on_end(self, end: Callable[[], None]) -> Generator[None]:
        """Hold something; if the pass is ended meanwhile, `end` is called, which must be quick and wait for nothing.

        Raises:
            PassStopped: the pass was ended before.
        """
        number = next(self._numbers)
        with self._guard:
            self.require_running()
            self._ends[number] = end
        try:
            yield
        finally:
            with self._guard:
                del self._ends[number]

    def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            PassStopped: the pass was ended before the time was over.
        """
        wait([self._end_signal], timeout=max(seconds, 0.0))
        self.require_running()

    def wait_for(self, outcome: "Future[T]", *, timeout_seconds: float | None = None) -> T:
        """What others work out, for this pass and maybe for more.

        Raises:
            PassStopped: the pass was ended first; that work goes on.
            TimeoutError: it took longer than `within` seconds.
        """
        self.require_running()
        either: list[Future[Any]] = [outcome, self._end_signal]
        wait(either, timeout=timeout_seconds, return_when=FIRST_COMPLETED)
        if not outcome.done():
            self.require_running()
            raise TimeoutError
        return outcome.result()

    def run_detached(self, work: "Callable[[], T]", *, name: str) -> T:
        """What work comes to that cannot be ended, or must not be, for others may wait for it too.

        Raises:
            PassStopped: the pass was ended first; the work comes to its own end, unheard.
        """
        return self.wait_for(run_in_thread(work, name=name))


def is_interrupted(error: HintedError) -> bool:
    """Whether a pass was ended without a fault of its stream: what it would have come to, nobody knows."""
    return isinstance(error, PassStopped) and not isinstance(error, PassTimedOut)


def run_in_thread(work: "Callable[[], T]", *, name: str) -> "Future[T]":
    """The outcome of work that a thread of its own does; no process waits for it to end."""
    outcome: Future[T] = Future()

    def act() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  # it is raised again where the answer is awaited
            outcome.set_exception(error)

    threading.Thread(target=act, name=name, daemon=True).start()
    return outcome


class StageSlot:
    """One stage of one stream in this process: one pass after the other, never two."""

    def __init__(self, stream: StreamName, stage: Stage) -> None:
        self._name = f"{stage} of {stream}"
        self._guard = threading.Lock()
        self._now: RunningPass | None = None

    @contextmanager
    def begin_pass(self) -> Generator[RunningPass]:
        """One pass; what is held until its end is given back with the `with`.

        Raises:
            PassUnderWay: there is one already.
        """
        under_way = self._start_pass()
        try:
            with under_way.cleanup:
                yield under_way
        finally:
            with self._guard:
                self._now = None

    def _start_pass(self) -> RunningPass:
        with self._guard:
            if self._now is not None:
                raise PassAlreadyRunning(f"{self._name} is under way in this process", hint="Wait for its end.")
            self._now = RunningPass(self._name)
            return self._now

    @property
    def current_pass(self) -> RunningPass:
        """The pass that is under way."""
        under_way = self._now
        if under_way is None:
            raise RuntimeError(f"{self._name} is not under way")
        return under_way

    @property
    def is_busy(self) -> bool:
        """Whether a pass is under way."""
        return self._now is not None

    def pause(self, seconds: float) -> None:
        """Wait, within the pass that is under way.

        Raises:
            PassStopped: it was ended.
        """
        self.current_pass.pause(seconds)

    def attribute_error(self, error: HintedError) -> HintedError:
        """The same of the pass that is under way: what it failed by."""
        return self.current_pass.attribute_error(error)

    def end(self, reason: str, *, overran: bool = False) -> bool:
        """End the pass that is under way; whether there was one."""
        with self._guard:
            under_way = self._now
        if under_way is None:
            return False
        under_way.end(reason, overran=overran)
        return True
