"""No command shows a secret, whatever befalls it: each is run with planted ones, against servers that are away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "hunter2"
CONFIG = f"""\
source: {{url: "mysql://sync:{SECRET}@127.0.0.1:9/shop", silence: 2s}}
lake: {{url: "s3://b/x", endpoint: "http://127.0.0.1:9", region: us-east-1}}
warehouse: {{url: "redshift://loader:{SECRET}@127.0.0.1:9/dev"}}
daemon: {{token: {SECRET}, notify: ["https://hooks.example.com/{SECRET}"]}}
tables: {{shop.orders: }}
"""
QUICK = (
    "config check",
    "run --all --debug --wait 1s",
    "status --json",
    f"init mysql://sync:{SECRET}@127.0.0.1:9/shop -o new.yaml",
)
SLOW = (
    "audit",
    "doctor --json",
    "plan",
    "quarantine list",
    "quarantine show -t orders",
    "quarantine replay -t orders",
    "reload",
    "runs",
    "s3clean list",
    "s3clean clean",
    "watermark get -t orders",
    "watermark list",
    "watermark history -t orders",
    "watermark check --all",
    "watermark rebuild -t orders",
    "watermark export --all",
    "watermark undo -t orders --yes",
    "watermark set -t orders --timestamp 2026-01-01 --reason x --yes",
    "watermark reset -t orders --reason x --yes",
)


@pytest.mark.parametrize("words", [*QUICK, *(pytest.param(words, marks=pytest.mark.long) for words in SLOW)])
def test_no_command_shows_a_secret(words: str, tmp_path: Path) -> None:
    (tmp_path / "syncd.yaml").write_text(CONFIG)
    environ = {**os.environ, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET}

    done = subprocess.run(
        [sys.executable, "-m", "syncd", *words.split()],
        capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False, env=environ,
    )  # fmt: skip

    assert SECRET not in done.stdout + done.stderr
    assert done.stdout + done.stderr
    assert not (tmp_path / "new.yaml").exists()
