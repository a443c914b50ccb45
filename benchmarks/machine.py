"""Speed of this machine now, against the reference machine for limits in seconds.

A shared machine can be several times slower at one hour than at another. Limits as a share of a core, or in seconds
of Python, are compared with this.
"""

import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

TURNS: Final = 10_000_000
REFERENCE_SECONDS: Final = 0.37
"""Seconds of these turns on the reference machine. A sum of digests took 2.0 s there, and 8.8 s on a machine where the
turns took 1.6 s."""
ROUNDS: Final = 5


def slower() -> float:
    """Return how many times slower this machine is, as the median of some rounds; at least 1."""
    return max(1.0, median(_turns() for _ in range(ROUNDS)) / REFERENCE_SECONDS)


def _turns() -> float:
    began, total = time.thread_time(), 0
    for turn in range(TURNS):
        total += turn
    assert total
    return time.thread_time() - began


def print_machine() -> None:
    """Print the time, the machine and its load."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    print(f"{datetime.now(UTC):%d %B %Y %H:%M} UTC, {os.cpu_count()} cores, {model}, Python", end=" ")
    print(f"{platform.python_version()}, load {os.getloadavg()[0]:.1f}", flush=True)
