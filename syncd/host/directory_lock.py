"""One command at a time in a directory; a killed holder lets go by itself."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from syncd.concurrency.polling import until
from syncd.host.host_errors import Busy

WAIT: Final = 60.0


@contextmanager
def held(directory: Path, *, within: float = WAIT) -> Iterator[None]:
    """Hold the lock of a directory; the system frees it with its holder, so that it is never stale.

    Raises:
        Busy: another command held it all the time.
    """
    path = directory / "lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not until(lambda: _take(handle), within=within):
            raise Busy(
                f"another command has been at work in {directory} for {within:.0f} s",
                hint="Wait for it to end, or use another --dir.",
            )
        yield
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
