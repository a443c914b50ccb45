import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.sandbox.process import ProcessId, find_marked, launch

STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
)
PATIENT = "import signal; print('ready', flush=True); signal.pause()"


def started(program: str, tmp_path: Path, marker: str = "test@nowhere") -> ProcessId:
    log = tmp_path / "log"
    process = launch([sys.executable, "-c", program], environ=os.environ, log=log, marker=marker)
    assert wait_until(lambda: log.read_text().startswith("ready"), timeout_seconds=120)
    return process


def test_this_process_is_alive_by_its_identity() -> None:
    me = ProcessId.from_pid(os.getpid())

    assert me is not None
    assert me.is_alive()


@pytest.mark.parametrize("change", [{"started": "1"}, {"boot": "another boot"}])
def test_a_later_process_of_the_same_number_is_another_one(change: dict[str, str]) -> None:
    me = ProcessId.from_pid(os.getpid())
    assert me is not None

    stale = replace(me, **change)  # type: ignore[arg-type]  # each case changes another field

    assert not stale.is_alive()


def test_a_signal_to_a_stale_identity_reaches_nobody() -> None:
    me = ProcessId.from_pid(os.getpid())
    assert me is not None

    replace(me, started="1").send(signal.SIGKILL)

    assert me.is_alive()


def test_end_lets_a_process_go_by_itself(tmp_path: Path) -> None:
    process = started(PATIENT, tmp_path)

    process.terminate(timeout_seconds=10)

    assert not process.is_alive()


def test_end_kills_what_does_not_go(tmp_path: Path) -> None:
    process = started(STUBBORN, tmp_path)

    process.terminate(timeout_seconds=0.2)

    assert not process.is_alive()


def test_a_process_that_nobody_reaped_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        assert wait_until(lambda: ProcessId.from_pid(child.pid) is None, timeout_seconds=60)


def test_marked_processes_are_found_with_their_children(tmp_path: Path) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', \"" + PATIENT.replace("'", "\\'") + '"])'
    marker = f"mysql@{tmp_path}"
    log = tmp_path / "log"
    launch([sys.executable, "-c", child], environ=os.environ, log=log, marker=marker)
    try:
        assert wait_until(lambda: log.read_text().startswith("ready"), timeout_seconds=120)

        found = list(find_marked(f"@{tmp_path}"))

        assert [name for name, _ in found] == [marker, marker]
    finally:
        for _, process in find_marked(f"@{tmp_path}"):
            process.kill()


def test_the_log_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    process = started(PATIENT, tmp_path)
    process.kill()

    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
