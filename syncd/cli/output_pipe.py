"""Whether anybody listens to what a command says: where nobody does, or a disk is full, its work goes on."""

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STANDARD: Final = 3
"""Descriptors: one to read from, one for results, one for everything else."""
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET})
"""Nobody will read again."""


class Listener(io.FileIO):
    """A descriptor that takes everything: what cannot be written there is dropped, and fails nobody's work."""

    def __init__(self, descriptor: int) -> None:
        """Write there; it is not closed with this."""
        super().__init__(descriptor, "w", closefd=False)
        self.lost: OSError | None = None
        """Why something was dropped, the last time."""

    @property
    def gone(self) -> bool:
        """Whether nobody will read again."""
        return self.lost is not None and self.lost.errno in _GONE

    def write(self, data: "ReadableBuffer") -> int:
        if not self.gone:
            try:
                return self._written(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes

    def _written(self, data: "ReadableBuffer") -> int:
        # Whoever shares the descriptor may have set it not to wait.
        while (sent := super().write(data)) is None:
            select.select([], [self], [])
        return sent


@contextmanager
def listened_to() -> Iterator[Listener]:
    """Let nothing that is said fail a command; gives whoever listens to its result."""
    _stand_in()
    before = sys.stdout, sys.stderr
    result = Listener(1)
    try:
        # What somebody has put in their place is left alone.
        if sys.stdout is sys.__stdout__:
            sys.stdout = _text(result, like=sys.__stdout__)
        if sys.stderr is sys.__stderr__:
            sys.stderr = _text(Listener(2), like=sys.__stderr__)
        yield result
    finally:
        for stream in {sys.stdout, sys.stderr} - {*before}:
            stream.flush()
        sys.stdout, sys.stderr = before


def anybody() -> bool:
    """Whether somebody may still read the result."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return not (isinstance(raw, Listener) and raw.gone)


def _stand_in() -> None:
    """Open what was given closed: the next file or connection would get its number, and what is said would go there."""
    for descriptor in range(_STANDARD):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)  # noqa: FBT003  # the system's own form


def _text(raw: Listener, *, like: TextIO | None) -> io.TextIOWrapper:
    if like is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=like.encoding, errors=like.errors, line_buffering=True)
