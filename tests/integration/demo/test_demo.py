"""`syncd demo` as a person meets it; a process of its own has Spark, and what it started ends with it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from syncd.sandbox.process import ProcessId
from tests.services.servers import ENVIRON

pytestmark = pytest.mark.services

ENDS_WITHIN = 900


def started(directory: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "syncd", "demo", "--dir", str(directory), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRON, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )


def of_session(session: int) -> list[str]:
    """What still runs of what a command started in its own session."""
    asked = subprocess.run(["ps", "-o", "stat=,args=", "-s", str(session)], capture_output=True, text=True, check=False)
    return [line for line in asked.stdout.splitlines() if line.strip() and not line.startswith("Z")]


def all_ended(session: int) -> None:
    """Return when nothing of a session runs any more: a JVM that writes its archive of classes ends a little later."""
    deadline = time.monotonic() + 120
    while found := of_session(session):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_a_short_demonstration_ends_equal_in_every_mode_and_leaves_nothing_running(
    tmp_path: Path, remains: Callable[[Path], list[ProcessId]]
) -> None:
    demo = started(tmp_path, "--for", "20s", "--json")

    out, err = demo.communicate(timeout=ENDS_WITHIN)

    assert demo.returncode == 0, err
    told = json.loads(out)
    assert told["equal"]
    assert {one["mode"] for one in told["tables"]} == {"upsert", "append", "history", "replace"}
    assert all(one["source_rows"] == one["warehouse_rows"] for one in told["tables"])
    assert told["rows_written"] > 0
    assert told["first_row_seconds"] < told["seconds"]
    assert re.search(r"first rows visible in the warehouse, [\d.]+ s after the start", err)
    assert not remains(tmp_path)
    all_ended(demo.pid)


@pytest.mark.parametrize(
    ("number", "at", "codes"),
    [
        (signal.SIGINT, "starting MySQL", {130}),
        (signal.SIGTERM, "a writer changes the shop", {130}),
        (signal.SIGINT, "first rows visible", {0}),
    ],
)
def test_an_interruption_leaves_nothing_running(
    tmp_path: Path,
    remains: Callable[[Path], list[ProcessId]],
    number: signal.Signals,
    at: str,
    codes: set[int],
) -> None:
    """In the middle of the loop, Ctrl-C is the way to the comparison; before it, to the end."""
    demo = started(tmp_path)
    assert demo.stderr is not None
    for line in demo.stderr:
        if at in line:
            break

    os.kill(demo.pid, number)
    out, err = demo.communicate(timeout=ENDS_WITHIN)

    assert demo.returncode in codes, err
    assert ("EQUAL" in out) == (codes == {0})
    assert not remains(tmp_path)
    all_ended(demo.pid)


def test_two_demonstrations_do_not_share_a_directory(tmp_path: Path) -> None:
    first = started(tmp_path)
    assert first.stderr is not None
    for line in first.stderr:
        if "starting MySQL" in line:
            break

    second = started(tmp_path)
    _, err = second.communicate(timeout=ENDS_WITHIN)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=ENDS_WITHIN)

    assert second.returncode == 11
    assert "has been using" in err
