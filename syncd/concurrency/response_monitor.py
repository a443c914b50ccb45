"""What a command does about sides that keep silent: it says whom it waits for, and waits for nobody twice.

A command over hundreds of tables asks the same few sides again and again. One that is only cut off, and refuses
nobody, would be waited for with each table anew.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Final, Self, TypeAlias

from watermarks.errors import HintedError, Transient

REPORT_SILENCE_AFTER_SECONDS: Final = 5.0
"""Seconds of silence after which whoever waits is told."""
SKIP_SILENT_SIDE_SECONDS: Final = 30.0
"""Seconds for which a side that was waited for in vain is not asked again."""

WatchResponse: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Whoever keeps an eye on how long a side, named for people, takes to answer what is asked of it inside the `with`."""


def ignore_response(_side: str) -> AbstractContextManager[None]:
    """Nobody does."""
    return nullcontext()


class ResponseMonitor:
    """The sides of one command, for any number of threads; the `with` ends whoever watches them."""

    def __init__(
        self,
        report: Callable[[str], None] = lambda _line: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        said_after: float = REPORT_SILENCE_AFTER_SECONDS,
        skip_for: float = SKIP_SILENT_SIDE_SECONDS,
    ) -> None:
        self._report = report
        self._clock = clock
        self._report_after = said_after
        self._skip_for = skip_for
        self._guard = threading.Lock()
        self._numbers = count()
        self._open_requests: dict[int, tuple[str, float]] = {}
        self._skipped: dict[str, tuple[float, HintedError | None]] = {}
        """Until when each side that kept silent is left alone, and what came of asking it."""
        self._answered_at: dict[str, float] = {}
        """When each side answered last, whomever."""
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
        """Whether a side kept silent so shortly before that it is not asked now."""
        return self._find_skipped(side) is not None

    def begin_request(self, side: str) -> int:
        """Note that a side is asked something; the number is for `answered`."""
        with self._guard:
            number = next(self._numbers)
            self._open_requests[number] = side, self._clock()
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="silences", daemon=True)
                self._watcher.start()
            return number

    def end_request(self, number: int, *, succeeded: bool, error: HintedError | None = None) -> None:
        """Note that a question is over; one that ended badly, and late, was met with silence.

        But for a side that has answered another question meanwhile: then it was this one that got lost.
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
        """Keep an eye on one question to a side, asked inside the `with`.

        Raises:
            Transient: it kept silent shortly before, and is not asked; the same error as then.
        """
        if (left := self._find_skipped(side)) is not None and left[1] is not None:
            error = left[1]
            raise type(error)(f"{error.message}; it was not asked again so soon", hint=error.hint, **error.facts)
        with self._track_request(side, skip_later=True):
            yield

    @contextmanager
    def watch(self, side: str) -> Generator[None]:
        """The same for whoever knows best how often it is worth to ask: nothing is refused."""
        with self._track_request(side, skip_later=False):
            yield

    @contextmanager
    def _track_request(self, side: str, *, skip_later: bool) -> Generator[None]:
        number, found, well = self.begin_request(side), None, False
        try:
            yield
            well = True
        except Transient as error:
            found = error if skip_later else None
            raise
        except HintedError:
            well = True  # it did answer
            raise
        finally:
            self.end_request(number, succeeded=well, error=found)

    def _find_skipped(self, side: str) -> tuple[float, HintedError | None] | None:
        with self._guard:
            left = self._skipped.get(side)
            return left if left is not None and self._clock() < left[0] else None

    def _silent_since(self, side: str, began: float) -> float:
        """Since when nothing is heard of a side that was asked something then."""
        return max(began, self._answered_at.get(side, began))

    def _watch(self) -> None:
        while not self._over.wait(self._report_after / 10):
            for side, seconds in self._newly_silent():
                self._report(f"{side} has not answered for {seconds:.0f} s")

    def _newly_silent(self) -> list[tuple[str, float]]:
        """Who is to be told of, once for each time."""
        with self._guard:
            now = self._clock()
            found = {
                side: now - self._silent_since(side, began) for side, began in reversed(self._open_requests.values())
            }
            late = [(side, since) for side, since in found.items() if since >= self._report_after]
            fresh = [(side, since) for side, since in late if side not in self._reported]
            self._reported.update(side for side, _ in fresh)
            return fresh
