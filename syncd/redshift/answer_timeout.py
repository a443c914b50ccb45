"""Time limits for answers of a warehouse: a watchdog thread ends the connection of a wait that lasts too long."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final


@dataclass(order=True, slots=True)
class TimedWait:
    """A wait that is ended at `due_at`."""

    due_at: float
    number: int
    on_timeout: Callable[[], None] = field(compare=False)
    is_over: bool = field(default=False, compare=False)
    timed_out: bool = field(default=False, compare=False)


class Watchdog:
    """Ends waits from another thread: the timeout of a socket limits one read and not a whole answer."""

    def __init__(self) -> None:
        self._waits: list[TimedWait] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, seconds: float, on_timeout: Callable[[], None]) -> Iterator[TimedWait]:
        """Call `on_timeout` from the watchdog thread if the `with` block lasts longer than this."""
        made = TimedWait(time.monotonic() + seconds, next(self._numbers), on_timeout)
        with self._changed:
            heapq.heappush(self._waits, made)
            self._ensure_thread()
            if self._waits[0] is made:
                self._changed.notify()
        try:
            yield made
        finally:
            with self._changed:
                made.is_over = True
                while self._waits and self._waits[0].is_over:
                    heapq.heappop(self._waits)

    def _ensure_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # after a fork it belongs to the parent
            self._thread = threading.Thread(target=self._run, name="warehouse watchdog", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        with self._changed:
            while True:
                self._changed.wait(self._end_overdue())

    def _end_overdue(self) -> float | None:
        """End overdue waits; return the seconds until the next one is due."""
        while self._waits:
            first = self._waits[0]
            left = first.due_at - time.monotonic()
            if not first.is_over:
                if left > 0:
                    return left
                # Under the lock, so that a wait which is over by now is not ended.
                first.timed_out = True
                first.on_timeout()
            heapq.heappop(self._waits)
        return None


WATCHDOG: Final = Watchdog()
"""The thread starts with the first wait."""
