"""Parallel map over requests that mostly wait."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

PARALLEL_REQUESTS: Final = 16


def map_in_parallel(function: Callable[[T], R], items: Iterable[T], *, workers: int = PARALLEL_REQUESTS) -> list[R]:
    """Return the results in the order of the items; the first error is raised once all calls have ended."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
