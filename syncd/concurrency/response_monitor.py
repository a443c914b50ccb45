"""Monitor of outside systems that do not answer: reports the system that a command waits for, and waits for it once.

A command over hundreds of tables calls the same few systems again and again. A system that drops packets instead of
refusing connections would cost a timeout for each table.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Final, Self, TypeAlias

from watermarks.errors import HintedError, Transient

REPORT_SILENCE_AFTER_SECONDS: Final = 5.0
"""Silence after which the operator gets a message."""
SKIP_SILENT_SIDE_SECONDS: Final = 30.0
"""Time for which a system that did not answer is not called again."""

WatchResponse: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Returns a context that watches how long a system, by its display name, takes to answer the request inside."""


def ignore_response(_side: str) -> AbstractContextManager[None]:
    return nullcontext()


class ResponseMonitor:
    """The outside systems of one command, for any number of threads; the `with` ends the watching thread."""

    def __init__(
        self,
        report: Callable[[str], None] = lambda _line: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        report_after: float = REPORT_SILENCE_AFTER_SECONDS,
        skip_for: float = SKIP_SILENT_SIDE_SECONDS,
    ) -> None:
        self._report = report
        self._clock = clock
        self._report_after = report_after
        self._skip_for = skip_for
        self._guard = threading.Lock()
        self._numbers = count()
        self._open_requests: dict[int, tuple[str, float]] = {}
        self._skipped: dict[str, tuple[float, HintedError | None]] = {}
        """For each silent system: the time until which it is not called, and the error of the last call."""
        self._answered_at: dict[str, float] = {}
        """Time of the last answer of each system, to any request."""
        self._reported: set[str] = set()
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._watcher is not None:
            self._watcher.join()

    def is_skipping(self, side: str) -> bool:
        """Return whether a system is not called now, since it did not answer shortly before."""
        return self._find_skipped(side) is not None

    def begin_request(self, side: str) -> int:
        """Note that a request begins; the number is for `end_request`."""
        with self._guard:
            number = next(self._numbers)
            self._open_requests[number] = side, self._clock()
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="response-monitor", daemon=True)
                self._watcher.start()
            return number

    def end_request(self, number: int, *, succeeded: bool, error: HintedError | None = None) -> None:
        """Note that a request is over; if it failed late, the system is silent.

        If the system has answered another request meanwhile, only this request was lost.
        """
        with self._guard:
            side, began = self._open_requests.pop(number)
            now = self._clock()
            if succeeded:
                self._answered_at[side] = now
                self._reported.discard(side)
                self._skipped.pop(side, None)
            elif now - self._silent_since(side, began) >= self._report_after:
                self._skipped[side] = now + self._skip_for, error

    @contextmanager
    def watch_or_skip(self, side: str) -> Generator[None]:
        """Watch one request, made inside the `with`.

        Raises:
            Transient: the system did not answer shortly before, and is not called; the same error as then.
        """
        if (skipped := self._find_skipped(side)) is not None and skipped[1] is not None:
            error = skipped[1]
            raise type(error)(
                f"{error.message} (an earlier error; it is too soon for a new request)", hint=error.hint, **error.facts
            )
        with self._track_request(side, skip_later=True):
            yield

    @contextmanager
    def watch(self, side: str) -> Generator[None]:
        """Watch one request, and never skip it: the caller decides how often to try."""
        with self._track_request(side, skip_later=False):
            yield

    @contextmanager
    def _track_request(self, side: str, *, skip_later: bool) -> Generator[None]:
        number, kept_error, has_answered = self.begin_request(side), None, False
        try:
            yield
            has_answered = True
        except Transient as error:
            kept_error = error if skip_later else None
            raise
        except HintedError:
            has_answered = True
            raise
        finally:
            self.end_request(number, succeeded=has_answered, error=kept_error)

    def _find_skipped(self, side: str) -> tuple[float, HintedError | None] | None:
        with self._guard:
            skipped = self._skipped.get(side)
            return skipped if skipped is not None and self._clock() < skipped[0] else None

    def _silent_since(self, side: str, began: float) -> float:
        """Return since when a system has not answered, given when a request began."""
        return max(began, self._answered_at.get(side, began))

    def _watch(self) -> None:
        while not self._over.wait(self._report_after / 10):
            for side, seconds in self._newly_silent():
                self._report(f"{side} has not answered for {seconds:.0f} s")

    def _newly_silent(self) -> list[tuple[str, float]]:
        """Return the systems to report, each once for every silence."""
        with self._guard:
            now = self._clock()
            silences = {
                side: now - self._silent_since(side, began) for side, began in reversed(self._open_requests.values())
            }
            late = [(side, since) for side, since in silences.items() if since >= self._report_after]
            fresh = [(side, since) for side, since in late if side not in self._reported]
            self._reported.update(side for side, _ in fresh)
            return fresh
