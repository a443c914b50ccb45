"""Output that tolerates write errors: a closed pipe or a full disk does not stop the work of a command."""

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
"""Descriptors of stdin, stdout and stderr."""
_DISCONNECT_ERRNOS: Final = frozenset({errno.EPIPE, errno.ECONNRESET})
"""Errors after which no later write can succeed."""


class TolerantOutput(io.FileIO):
    """Descriptor that drops what it cannot write, instead of failing."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.write_error: OSError | None = None
        """Error of the last write that failed."""

    @property
    def is_disconnected(self) -> bool:
        """True once the reader has closed its end."""
        return self.write_error is not None and self.write_error.errno in _DISCONNECT_ERRNOS

    def write(self, data: "ReadableBuffer") -> int:
        if not self.is_disconnected:
            try:
                return self._write_blocking(data)
            except OSError as error:
                self.write_error = error
        return memoryview(data).nbytes

    def _write_blocking(self, data: "ReadableBuffer") -> int:
        # Another process that shares the descriptor may have made it non-blocking.
        while (sent := super().write(data)) is None:
            select.select([], [self], [])
        return sent


@contextmanager
def tolerate_output_errors() -> Iterator[TolerantOutput]:
    """Replace stdout and stderr by tolerant ones; yield the one of stdout."""
    _open_missing_descriptors()
    before = sys.stdout, sys.stderr
    result = TolerantOutput(1)
    try:
        # Streams that were replaced, as in tests, are left alone.
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
    """Return whether stdout may still have a reader."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return not (isinstance(raw, TolerantOutput) and raw.is_disconnected)


def _open_missing_descriptors() -> None:
    """Open closed standard descriptors. The next file or connection would get their number, and with it our output."""
    for descriptor in range(_STANDARD_DESCRIPTORS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            os.set_inheritable(descriptor, True)  # noqa: FBT003  # a positional parameter of the system


def _wrap_text(raw: TolerantOutput, *, like: TextIO | None) -> io.TextIOWrapper:
    if like is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=like.encoding, errors=like.errors, line_buffering=True)
