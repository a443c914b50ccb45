"""One thread that ends what takes too long, for every connection of this process."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final


@dataclass(order=True, slots=True)
class Bound:
    """A wait that may last until `due`; `passed` says whether it was ended."""

    due: float
    number: int
    end: Callable[[], None] = field(compare=False)
    over: bool = field(default=False, compare=False)
    passed: bool = field(default=False, compare=False)


class Watchdog:
    """Ends waits from outside, for a socket's own time limit bounds one read and not a whole answer."""

    def __init__(self) -> None:
        self._bounds: list[Bound] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def bound(self, seconds: float, end: Callable[[], None]) -> Iterator[Bound]:
        """Call `end`, from the watching thread, if the `with` lasts longer than this."""
        made = Bound(time.monotonic() + seconds, next(self._numbers), end)
        with self._changed:
            heapq.heappush(self._bounds, made)
            self._watch()
            if self._bounds[0] is made:
                self._changed.notify()
        try:
            yield made
        finally:
            with self._changed:
                made.over = True
                while self._bounds and self._bounds[0].over:
                    heapq.heappop(self._bounds)

    def _watch(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # the second: after a fork it is another process's
            self._thread = threading.Thread(target=self._run, name="watchdog of the warehouse", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        with self._changed:
            while True:
                self._changed.wait(self._end_due())

    def _end_due(self) -> float | None:
        """End whatever is due; how long there is nothing more to do."""
        while self._bounds:
            first = self._bounds[0]
            left = first.due - time.monotonic()
            if not first.over:
                if left > 0:
                    return left
                # Under the lock: a wait that is over by now is not ended any more.
                first.passed = True
                first.end()
            heapq.heappop(self._bounds)
        return None


WATCHDOG: Final = Watchdog()
"""Its thread starts with the first wait."""
