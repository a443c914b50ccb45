"""What `syncd daemon` says where it cannot even begin."""

import subprocess
import sys
from pathlib import Path


def syncd(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "syncd", *words], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_file_with_mistakes_is_no_start(tmp_path: Path) -> None:
    config = tmp_path / "syncd.yaml"
    config.write_text(
        "source: {url: 'mysql://s@h/shop'}\nlake: {url: 's3://b'}\n"
        "tables:\n  a: {every: '99 * * * *'}\n  c: {after: [b, a]}\n"
    )

    done = syncd("daemon", "-c", str(config))

    assert done.returncode == 2
    assert f"{config}:4:14: tables.a.every: '99' is no minute: write 0 to 59" in done.stderr
    assert "5:7: tables.c.after: no table 'b' is configured" in done.stderr


def test_nobody_answers_where_no_daemon_runs(tmp_path: Path) -> None:
    done = syncd("reload", "-c", str(tmp_path / "syncd.yaml"))

    assert done.returncode == 2
    assert "no daemon of" in done.stderr
    assert "hint: Start one: syncd daemon." in done.stderr
