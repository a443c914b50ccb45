"""What holds for every test: nothing of ours is left behind, no deadline, and a failure can be replayed."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("syncd", deadline=None, print_blob=True)
settings.load_profile("syncd")

LEFT = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the processes that tests start a temporary folder which others may pass through, and which goes with us.

    A server that root starts runs as nobody: pytest's own folders are closed to it.
    """
    folder = Path(tempfile.mkdtemp(prefix="syncd-tests-"))
    folder.chmod(0o711)
    config.stash[LEFT] = folder
    os.environ["TMPDIR"] = str(folder)
    # xdist tells its workers how wide its own terminal is; the commands that tests start have none.
    os.environ.pop("COLUMNS", None)
    # Whoever runs us in the background may have us ignore Ctrl-C, and what we start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[LEFT], ignore_errors=True)
