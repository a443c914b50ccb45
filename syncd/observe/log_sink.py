"""Where log lines go: a file descriptor that may block, fill up or close without anybody having to wait for it."""

import errno
import os
import queue
import select
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

MOST_WAITING: Final = 10_000
"""Lines. A reader of the log that stands still costs so much memory, and no more."""
LOOKED_AGAIN: Final = 1.0
"""Seconds between two looks at a pipe that is full."""
LAST_WORDS: Final = 2.0
"""Seconds that the end waits for what is still to be written."""
_GONE: Final = frozenset({errno.EPIPE, errno.EBADF, errno.ECONNRESET})
"""Nobody will read again."""


class Sink:
    """Writes lines from a thread of its own; a line that cannot be written is counted, and stops nothing.

    A full disk costs a failed write a line, and the next line that passes is led by one
    that says how many were lost. A pipe that closed is never tried again.
    """

    def __init__(self, target: int, *, lost: Callable[[int], str], most: int = MOST_WAITING) -> None:
        """Prepare; `target` is a file descriptor, `lost` makes the line that tells of lost ones."""
        self._target = target
        self._tells_of_lost = lost
        self._waiting: queue.Queue[str | None] = queue.Queue(most)
        self._dropped = 0
        self._torn = False
        """Whether the last line stands there in part."""
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self.gone = False
        """Whether nobody reads any more."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._waiting.put(None, timeout=LAST_WORDS)
        except queue.Full:
            return  # its reader stands still; the thread ends with the process
        self._thread.join(LAST_WORDS)

    @property
    def lost(self) -> int:
        """How many lines were lost that nobody has been told of."""
        return self._dropped

    def write(self, line: str) -> None:
        """Hand a line over; returns at once."""
        if self.gone:
            return
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def _work(self) -> None:
        while (line := self._waiting.get()) is not None:
            if not self.gone:
                self._pass_on(line)

    def _pass_on(self, line: str) -> None:
        told = self._dropped
        try:
            if told or self._torn:
                self._send(("\n" if self._torn else "") + (self._tells_of_lost(told) + "\n" if told else ""))
                self._dropped -= told
            self._send(line + "\n")
        except OSError as error:
            self._dropped += 1
            self.gone = error.errno in _GONE

    def _send(self, text: str) -> None:
        left = text.encode(errors="backslashreplace")
        while left:
            try:
                sent = os.write(self._target, left)
            except BlockingIOError:
                select.select([], [self._target], [], LOOKED_AGAIN)
                continue
            left = left[sent:]
            self._torn = bool(left)
