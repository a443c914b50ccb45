"""Chromium without a screen, where this machine has one: a page as a person gets it, or a picture of it."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WITHIN = 600


def chromium() -> str:
    """Where it is; a test that wants it is skipped where it is not installed."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium on PATH: apt-get install chromium")
    return found


def dumped(url: str, *flags: str) -> str:
    """The page after it was opened, as HTML."""
    return _run(url, "--dump-dom", *flags).stdout


def pictured(url: str, to: Path, *flags: str, size: str = "1180,1290") -> None:
    """A picture of the page."""
    _run(url, f"--screenshot={to}", f"--window-size={size}", *flags)


def _run(url: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryDirectory() as folder:
        command = [chromium(), *FLAGS, f"--user-data-dir={folder}", *flags, url]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN)
