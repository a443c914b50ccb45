"""How long a stream waits after a failure: longer each time, and never as long as its neighbour."""

from collections.abc import Callable
from typing import Final

FIRST: Final = 2.0
"""Seconds."""
MOST: Final = 300.0
FOR_A_PERSON: Final = 900.0
"""Between two tries of what nobody but a person can mend; a reload tries it at once."""
SPREAD: Final = 0.25


def pause_after(failures: int, *, chance: Callable[[], float], for_a_person: bool = False) -> float:
    """Seconds to wait after so many failures in a row; `chance` gives 0 to 1."""
    pause = FOR_A_PERSON if for_a_person else min(FIRST * 2.0 ** min(failures - 1, 30), MOST)
    return pause * (1 + SPREAD * (2 * chance() - 1))
