"""Cache directories of this user, owner-only directories, and locks on them."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import DirectoryBusy, NotWritable

OWNER_ONLY_MODE: Final = 0o700
LOCK_WAIT_SECONDS: Final = 60.0


def find_cache(environ: Mapping[str, str]) -> Path:
    """Return the directory of fetched files: that in `SYNCD_CACHE`, or the default."""
    configured = environ.get("SYNCD_CACHE")
    return (Path(configured) if configured else find_xdg_base(environ, "XDG_CACHE_HOME", ".cache") / "syncd").absolute()


def find_jars(environ: Mapping[str, str]) -> Path:
    return find_cache(environ) / "jars"


def make_writable(directory: Path, *, hint: str) -> Path:
    """Make a directory for its owner only, and prove that files can be created in it.

    Raises:
        NotWritable: with the system's reason.
    """
    try:
        directory.mkdir(mode=OWNER_ONLY_MODE, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise NotWritable(
            f"cannot write to {directory}: {(error.strerror or str(error)).lower()}", hint=hint
        ) from error
    return directory


def remove_leftovers(directory: Path, prefix: str) -> None:
    """Remove the partial results of a killed command; the caller holds the directory's lock."""
    for left in directory.glob(f"{prefix}*"):
        shutil.rmtree(left)


def find_xdg_base(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Return one XDG base directory; a relative value is ignored, as the specification demands."""
    configured = Path(environ.get(variable, ""))
    if configured.is_absolute():
        return configured
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        raise NotWritable(f"neither HOME nor {variable} is an absolute path", hint=f"Set {variable} to a directory.")
    return home / default


@contextmanager
def hold_lock(directory: Path, *, within: float = LOCK_WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of a directory; the system frees it with its process, so it is never stale.

    Raises:
        DirectoryBusy: another command held it all the time.
    """
    path = directory / "lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not wait_until(lambda: _try_lock(handle), timeout_seconds=within):
            raise DirectoryBusy(
                f"another command has been using {directory} for {within:.0f} s",
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
