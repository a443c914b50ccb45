"""One command at a time in a directory; a killed holder lets go by itself."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from syncd.concurrency.polling import wait_until
from syncd.host.host_errors import DirectoryBusy

LOCK_WAIT_SECONDS: Final = 60.0


@contextmanager
def hold_lock(directory: Path, *, within: float = LOCK_WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of a directory; the system frees it with its holder, so that it is never stale.

    Raises:
        Busy: another command held it all the time.
    """
    path = directory / "lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not wait_until(lambda: _try_lock(handle), timeout_seconds=within):
            raise DirectoryBusy(
                f"another command has been at work in {directory} for {within:.0f} s",
                hint="Wait for it to end, or use another --dir.",
            )
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
