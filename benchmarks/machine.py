"""How fast this machine is just now, against the one that wishes in seconds were made on.

Machines that are shared are several times slower at one hour than at another. What is wanted as a share of a core, or
in seconds of Python, is held against this.
"""

import time
from statistics import median
from typing import Final

TURNS: Final = 10_000_000
WISHED_ON: Final = 0.37
"""Seconds of these turns there: a sum of digests took 2.0 s there, and 8.8 s where the turns took 1.6 s."""
ROUNDS: Final = 5


def slower() -> float:
    """How many times slower this machine is, in the median of some rounds; as fast at the least."""
    return max(1.0, median(_turns() for _ in range(ROUNDS)) / WISHED_ON)


def _turns() -> float:
    began, total = time.thread_time(), 0
    for turn in range(TURNS):
        total += turn
    assert total
    return time.thread_time() - began
