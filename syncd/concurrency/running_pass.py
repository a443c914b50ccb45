"""Pass that is running, and the ways in which another thread ends it."""

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
    """One pass that is running.

    A holder of an outside resource for the pass registers how to end its use. After `end` the pass begins nothing new,
    and its waits here raise `PassStopped`.
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
        """Resources that are held until the pass is over, however it ends."""

    @property
    def is_ended(self) -> bool:
        return self._end_signal.done()

    def end(self, reason: str, *, overran: bool = False) -> None:
        """End the pass, from any thread, together with all that is held for it.

        A pass that `overran` took too long, and has failed; any other end says nothing about the stream.
        """
        with self._guard:
            if self.is_ended:
                return
            self._reason = reason
            self._error_type = PassTimedOut if overran else PassStopped
            self._end_signal.set_result(None)
            # Under the guard: a released resource may belong to another pass by now, and must not be ended.
            for end in self._ends.values():
                end()

    def require_running(self) -> None:
        """Check that the pass has not been ended.

        Raises:
            PassStopped: the pass was ended.
        """
        if self.is_ended:
            raise self.stop_error()

    def stop_error(self) -> PassStopped:
        return self._error_type(
            f"{self._name} was ended: {self._reason}",
            hint="Its finished work is kept; the next pass continues from there.",
        )

    def attribute_error(self, error: HintedError) -> HintedError:
        """Return the error of a pass: if the pass was ended and the error may come from that, the end is the error."""
        if not self.is_ended or isinstance(error, PassStopped):
            return error
        if not isinstance(error, Transient | OutcomeUnknown):
            return error
        stopped = self.stop_error()
        stopped.__cause__ = error
        return stopped

    @contextmanager
    def call_on_end(self, end: Callable[[], None]) -> Generator[None]:
        """Call `end` if the pass is ended meanwhile; it must be quick and must not wait.

        Raises:
            PassStopped: the pass has already been ended.
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
        """Return the outcome of work in another thread, which other passes may wait for too.

        Raises:
            PassStopped: the pass was ended first; the work goes on.
            TimeoutError: the work took longer than the timeout.
        """
        self.require_running()
        either: list[Future[Any]] = [outcome, self._end_signal]
        wait(either, timeout=timeout_seconds, return_when=FIRST_COMPLETED)
        if not outcome.done():
            self.require_running()
            raise TimeoutError
        return outcome.result()

    def run_detached(self, work: "Callable[[], T]", *, name: str) -> T:
        """Return the outcome of work that cannot or must not be ended, since other passes may wait for it too.

        Raises:
            PassStopped: the pass was ended first; the work goes on, and its outcome is dropped.
        """
        return self.wait_for(run_in_thread(work, name=name))


def is_interrupted(error: HintedError) -> bool:
    """Return whether a pass was ended from outside, which says nothing about its stream."""
    return isinstance(error, PassStopped) and not isinstance(error, PassTimedOut)


def run_in_thread(work: "Callable[[], T]", *, name: str) -> "Future[T]":
    """Run work in a daemon thread, which does not keep the process from ending."""
    outcome: Future[T] = Future()

    def act() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  # the waiting thread raises it
            outcome.set_exception(error)

    threading.Thread(target=act, name=name, daemon=True).start()
    return outcome


class StageSlot:
    """One stage of one stream in this process: one pass at a time."""

    def __init__(self, stream: StreamName, stage: Stage) -> None:
        self._name = f"{stage} of {stream}"
        self._guard = threading.Lock()
        self._current: RunningPass | None = None

    @contextmanager
    def begin_pass(self) -> Generator[RunningPass]:
        """Begin a pass, and release its resources at the end of the `with`.

        Raises:
            PassAlreadyRunning: a pass is running.
        """
        with self._guard:
            if self._current is not None:
                raise PassAlreadyRunning(f"{self._name} is already running in this process", hint="Wait for its end.")
            self._current = running = RunningPass(self._name)
        try:
            with running.cleanup:
                yield running
        finally:
            with self._guard:
                self._current = None

    @property
    def current_pass(self) -> RunningPass:
        running = self._current
        if running is None:
            raise RuntimeError(f"{self._name} is not running")
        return running

    @property
    def is_busy(self) -> bool:
        return self._current is not None

    def pause(self, seconds: float) -> None:
        """Wait, within the running pass.

        Raises:
            PassStopped: the pass was ended.
        """
        self.current_pass.pause(seconds)

    def attribute_error(self, error: HintedError) -> HintedError:
        return self.current_pass.attribute_error(error)

    def end(self, reason: str, *, overran: bool = False) -> bool:
        """End the running pass; return whether there was one."""
        with self._guard:
            running = self._current
        if running is None:
            return False
        running.end(reason, overran=overran)
        return True
