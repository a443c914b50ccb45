"""What the signals of a system mean to a command."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, so that what was started is ended, and what was claimed is given back."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
