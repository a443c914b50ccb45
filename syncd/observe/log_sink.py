"""Writer of log lines to a file descriptor that may block, fill up or close without delaying its callers."""

import errno
import os
import queue
import select
import threading
from collections.abc import Callable
from typing import Final, Self

MAX_QUEUED_LINES: Final = 10_000
"""Bound on the memory that a stalled reader of the log costs."""
PIPE_POLL_SECONDS: Final = 1.0
LOG_FLUSH_SECONDS: Final = 2.0
_CLOSED_ERRNOS: Final = frozenset({errno.EPIPE, errno.EBADF, errno.ECONNRESET})
"""Errors after which no line can be written any more."""


class LineWriter:
    """Writer of lines with a thread of its own; lines that cannot be written are counted and dropped.

    With a full disk every line costs one failed write; the next line that succeeds is preceded by
    the number of lost ones. A closed pipe is never tried again.
    """

    def __init__(
        self, descriptor: int, *, format_lost_lines: Callable[[int], str], max_queued: int = MAX_QUEUED_LINES
    ) -> None:
        self._descriptor = descriptor
        self._format_lost_lines = format_lost_lines
        self._queue: queue.Queue[str | None] = queue.Queue(max_queued)
        self._dropped = 0
        self._has_partial_line = False
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self.is_closed = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._queue.put(None, timeout=LOG_FLUSH_SECONDS)
        except queue.Full:
            return  # the reader is stalled; the thread ends with the process
        self._thread.join(LOG_FLUSH_SECONDS)

    @property
    def lost_lines(self) -> int:
        """Lost lines that are not reported yet."""
        return self._dropped

    def write(self, line: str) -> None:
        """Queue a line and return at once."""
        if self.is_closed:
            return
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def _work(self) -> None:
        while (line := self._queue.get()) is not None:
            if not self.is_closed:
                self._write_line(line)

    def _write_line(self, line: str) -> None:
        lost = self._dropped
        try:
            if lost or self._has_partial_line:
                self._send(
                    ("\n" if self._has_partial_line else "") + (self._format_lost_lines(lost) + "\n" if lost else "")
                )
                self._dropped -= lost
            self._send(line + "\n")
        except OSError as error:
            self._dropped += 1
            self.is_closed = error.errno in _CLOSED_ERRNOS

    def _send(self, text: str) -> None:
        left = text.encode(errors="backslashreplace")
        while left:
            try:
                sent = os.write(self._descriptor, left)
            except BlockingIOError:
                select.select([], [self._descriptor], [], PIPE_POLL_SECONDS)
                continue
            left = left[sent:]
            self._has_partial_line = bool(left)
