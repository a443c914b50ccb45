"""What `syncd daemon` says where it cannot even begin."""

import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from click.testing import CliRunner

from syncd.cli import daemon
from syncd.cli.main import syncd as command
from syncd.daemon.control_socket import ControlServer

if TYPE_CHECKING:
    from syncd.daemon.config_reload import ReloadResult
    from syncd.daemon.daemon_loop import DaemonLoop


def syncd(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "syncd", *words], capture_output=True, text=True, check=False, timeout=300
    )


def test_a_file_with_mistakes_is_no_start(tmp_path: Path) -> None:
    config = tmp_path / "syncd.yaml"
    config.write_text(
        "source: {url: 'mysql://s@h/shop'}\nlake: {url: 's3://b'}\n"
        "tables:\n  a: {every: '99 * * * *'}\n  c: {after: [b, a]}\n"
    )

    done = syncd("daemon", "-c", str(config))

    assert done.returncode == 2
    assert f"{config}:4:14: tables.a.every: '99' is not a valid minute: write a value from 0 to 59" in done.stderr
    assert "5:7: tables.c.after: no table 'b' is configured" in done.stderr


def test_nobody_answers_where_no_daemon_runs(tmp_path: Path) -> None:
    done = syncd("reload", "-c", str(tmp_path / "syncd.yaml"))

    assert done.returncode == 2
    assert "no daemon of" in done.stderr
    assert "hint: Start one: syncd daemon." in done.stderr


class Busy:
    """A daemon whose loop comes to nothing for now."""

    def __init__(self, *, ending: bool) -> None:
        self.is_stopping = ending

    def reload(self) -> "Future[ReloadResult]":
        return Future()


@pytest.mark.parametrize(("ending", "hint"), [(False, "as soon as it is free"), (True, "at its next start")])
def test_a_daemon_that_is_busy_was_asked_and_is_not_done_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ending: bool, hint: str
) -> None:
    config = tmp_path / "syncd.yaml"
    monkeypatch.setattr(daemon, "RELOAD_TIMEOUT_SECONDS", 0.1)
    answering: Any = daemon._make_control_handler(cast("DaemonLoop", Busy(ending=ending)))

    with ControlServer(config, answering):
        told = CliRunner().invoke(command, ["reload", "-c", str(config)])
        document = CliRunner().invoke(command, ["reload", "-c", str(config), "--json"])

    assert (told.exit_code, told.stdout) == (5, f"process {os.getpid()}: requested, not done yet\n")
    assert "error: the daemon is busy and has not read the file yet" in told.stderr
    assert hint in told.stderr
    [answer] = json.loads(document.stdout)["daemons"]
    assert (document.exit_code, answer["pending"], answer["changed"]) == (5, True, False)
