"""How long a stream waits after a failure: longer each time, and never as long as its neighbour."""

from collections.abc import Callable
from typing import Final

FIRST_PAUSE_SECONDS: Final = 2.0
"""Seconds."""
MAX_PAUSE_SECONDS: Final = 300.0
OPERATOR_PAUSE_SECONDS: Final = 900.0
"""Between two tries of what nobody but a person can mend; a reload tries it at once."""
PAUSE_JITTER_FRACTION: Final = 0.25


def backoff_seconds(failures: int, *, random_fraction: Callable[[], float], needs_operator: bool = False) -> float:
    """Seconds to wait after so many failures in a row; `chance` gives 0 to 1."""
    pause = (
        OPERATOR_PAUSE_SECONDS
        if needs_operator
        else min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 30), MAX_PAUSE_SECONDS)
    )
    return pause * (1 + PAUSE_JITTER_FRACTION * (2 * random_fraction() - 1))
