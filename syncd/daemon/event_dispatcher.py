"""Whoever is told of events: one after the other, and none of them can harm a stream."""

import threading
from collections.abc import Callable, Sequence

from syncd.events import EventListener, StreamEvent, StreamFailed


class EventDispatcher:
    """Hands each event to every reader, one event at a time, from whichever thread it comes.

    A reader that raises misses that event, and no other; that it does is said once.
    """

    def __init__(self, readers: Sequence[EventListener], *, report: Callable[[str], None]) -> None:
        self._readers = tuple(readers)
        self._report = report
        self._guard = threading.Lock()
        self._reported_readers = set[int]()

    def __call__(self, event: StreamEvent) -> None:
        if isinstance(event, StreamFailed):
            return  # the end of its pass tells it, with all that belongs to it
        with self._guard:
            for number, reader in enumerate(self._readers):
                try:
                    reader(event)
                except Exception as error:  # noqa: BLE001  # a closed pipe, a full disk, a bug: no affair of a stream
                    self._report_failure(number, error)

    def _report_failure(self, number: int, error: Exception) -> None:
        if number not in self._reported_readers:
            self._reported_readers.add(number)
            self._report(f"a reader of events fails, and goes on missing some: {type(error).__name__}")
