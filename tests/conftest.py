"""What holds for every test: nothing of ours is left behind, no deadline, and a failure can be replayed."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long it takes to make examples up says more of who else is at work on the machine than of a strategy.
settings.register_profile("syncd", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("syncd")

LEFT = pytest.StashKey[Path]()
REPORT = "report"


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


@pytest.fixture(autouse=True, scope="module")
def nothing_left_open() -> Iterator[None]:
    """What a module leaves open is told of that module, and not of a later one in which it happens to be collected."""
    yield
    gc.collect()


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Tells whoever runs a long proof what was played and what came of it, though it passed."""
    return partial(record_property, REPORT)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ended = [one for outcome in ("passed", "failed") for one in terminalreporter.getreports(outcome)]
    told = [str(text) for one in ended if one.when == "call" for name, text in one.user_properties if name == REPORT]
    if told:
        terminalreporter.section("what was played")
    for text in told:
        terminalreporter.write_line(text)
