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

_STANDARD_DESCRIPTORS: Final = 3
"""Descriptors: one to read from, one for results, one for everything else."""
_DISCONNECT_ERRNOS: Final = frozenset({errno.EPIPE, errno.ECONNRESET})
"""Nobody will read again."""


class TolerantOutput(io.FileIO):
    """A descriptor that takes everything: what cannot be written there is dropped, and fails nobody's work."""

    def __init__(self, descriptor: int) -> None:
        """Write there; it is not closed with this."""
        super().__init__(descriptor, "w", closefd=False)
        self.write_error: OSError | None = None
        """Why something was dropped, the last time."""

    @property
    def is_disconnected(self) -> bool:
        """Whether nobody will read again."""
        return self.write_error is not None and self.write_error.errno in _DISCONNECT_ERRNOS

    def write(self, data: "ReadableBuffer") -> int:
        if not self.is_disconnected:
            try:
                return self._write_blocking(data)
            except OSError as error:
                self.write_error = error
        return memoryview(data).nbytes

    def _write_blocking(self, data: "ReadableBuffer") -> int:
        # Whoever shares the descriptor may have set it not to wait.
        while (sent := super().write(data)) is None:
            select.select([], [self], [])
        return sent


@contextmanager
def tolerate_output_errors() -> Iterator[TolerantOutput]:
    """Let nothing that is said fail a command; gives whoever listens to its result."""
    _open_missing_descriptors()
    before = sys.stdout, sys.stderr
    result = TolerantOutput(1)
    try:
        # What somebody has put in their place is left alone.
        if sys.stdout is sys.__stdout__:
            sys.stdout = _wrap_text(result, like=sys.__stdout__)
        if sys.stderr is sys.__stderr__:
            sys.stderr = _wrap_text(TolerantOutput(2), like=sys.__stderr__)
        yield result
    finally:
        for stream in {sys.stdout, sys.stderr} - {*before}:
            stream.flush()
        sys.stdout, sys.stderr = before


def has_reader() -> bool:
    """Whether somebody may still read the result."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return not (isinstance(raw, TolerantOutput) and raw.is_disconnected)


def _open_missing_descriptors() -> None:
    """Open what was given closed: the next file or connection would get its number, and what is said would go there."""
    for descriptor in range(_STANDARD_DESCRIPTORS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)  # noqa: FBT003  # the system's own form


def _wrap_text(raw: TolerantOutput, *, like: TextIO | None) -> io.TextIOWrapper:
    if like is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=like.encoding, errors=like.errors, line_buffering=True)
