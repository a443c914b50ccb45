"""How long to wait for something that cannot say when it is done."""

import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], *, timeout_seconds: float, interval_seconds: float = 0.02) -> bool:
    """Ask again and again, at most `within` seconds; whether it became true."""
    deadline = time.monotonic() + timeout_seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval_seconds)
    return True
