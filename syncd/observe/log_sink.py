"""Where log lines go: a file descriptor that may block, fill up or close without anybody having to wait for it."""

import errno
import os
import queue
import select
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

MAX_QUEUED_LINES: Final = 10_000
"""Lines. A reader of the log that stands still costs so much memory, and no more."""
PIPE_POLL_SECONDS: Final = 1.0
"""Seconds between two looks at a pipe that is full."""
LOG_FLUSH_SECONDS: Final = 2.0
"""Seconds that the end waits for what is still to be written."""
_CLOSED_ERRNOS: Final = frozenset({errno.EPIPE, errno.EBADF, errno.ECONNRESET})
"""Nobody will read again."""


class LineWriter:
    """Writes lines from a thread of its own; a line that cannot be written is counted, and stops nothing.

    A full disk costs a failed write a line, and the next line that passes is led by one
    that says how many were lost. A pipe that closed is never tried again.
    """

    def __init__(
        self, descriptor: int, *, format_lost_lines: Callable[[int], str], max_queued: int = MAX_QUEUED_LINES
    ) -> None:
        """Prepare; `target` is a file descriptor, `lost` makes the line that tells of lost ones."""
        self._descriptor = descriptor
        self._format_lost_lines = format_lost_lines
        self._queue: queue.Queue[str | None] = queue.Queue(max_queued)
        self._dropped = 0
        self._has_partial_line = False
        """Whether the last line stands there in part."""
        self._thread = threading.Thread(target=self._work, name="log", daemon=True)
        self.is_closed = False
        """Whether nobody reads any more."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._queue.put(None, timeout=LOG_FLUSH_SECONDS)
        except queue.Full:
            return  # its reader stands still; the thread ends with the process
        self._thread.join(LOG_FLUSH_SECONDS)

    @property
    def lost_lines(self) -> int:
        """How many lines were lost that nobody has been told of."""
        return self._dropped

    def write(self, line: str) -> None:
        """Hand a line over; returns at once."""
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
        told = self._dropped
        try:
            if told or self._has_partial_line:
                self._send(
                    ("\n" if self._has_partial_line else "") + (self._format_lost_lines(told) + "\n" if told else "")
                )
                self._dropped -= told
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
