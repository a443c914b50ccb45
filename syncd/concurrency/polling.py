"""Waiting for a condition that gives no signal."""

import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], *, timeout_seconds: float, interval_seconds: float = 0.02) -> bool:
    """Check a condition at intervals until the timeout; return whether it became true."""
    deadline = time.monotonic() + timeout_seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval_seconds)
    return True
