"""How long to wait for something that cannot say when it is done."""

import time
from collections.abc import Callable


def until(done: Callable[[], bool], *, within: float, every: float = 0.02) -> bool:
    """Ask again and again, at most `within` seconds; whether it became true."""
    deadline = time.monotonic() + within
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every)
    return True
