"""Whoever is told of events: one after the other, and none of them can harm a stream."""

import threading
from collections.abc import Callable, Sequence

from syncd.events import Event, StreamFailed, Tell


class Told:
    """Hands each event to every reader, one event at a time, from whichever thread it comes.

    A reader that raises misses that event, and no other; that it does is said once.
    """

    def __init__(self, readers: Sequence[Tell], *, say: Callable[[str], None]) -> None:
        self._readers = tuple(readers)
        self._say = say
        self._guard = threading.Lock()
        self._blamed = set[int]()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StreamFailed):
            return  # the end of its pass tells it, with all that belongs to it
        with self._guard:
            for number, reader in enumerate(self._readers):
                try:
                    reader(event)
                except Exception as error:  # noqa: BLE001  # a closed pipe, a full disk, a bug: no affair of a stream
                    self._blame(number, error)

    def _blame(self, number: int, error: Exception) -> None:
        if number not in self._blamed:
            self._blamed.add(number)
            self._say(f"a reader of events fails, and goes on missing some: {type(error).__name__}")
