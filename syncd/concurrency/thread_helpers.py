"""Small helpers for threads: values computed once, polling, parallel map."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, Self, TypeVar, overload

T = TypeVar("T")


class locked_cached_property(Generic[T]):  # noqa: N801  # a decorator, as `cached_property` is one
    """A property that is computed once for each object; other threads wait while one computes it.

    `functools.cached_property` of Python 3.12 would compute it once for each thread.
    """

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "Self | T":
        if instance is None:
            return self
        values = instance.__dict__
        with values.setdefault(f"making {self._name}", threading.RLock()):
            if self._name not in values:
                values[self._name] = self._make(instance)
            value: T = values[self._name]
            return value


def wait_until(done: Callable[[], bool], *, timeout_seconds: float, interval_seconds: float = 0.02) -> bool:
    """Check a condition at intervals until the timeout; return whether it became true."""
    deadline = time.monotonic() + timeout_seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval_seconds)
    return True


R = TypeVar("R")

PARALLEL_REQUESTS: Final = 16


def map_in_parallel(function: Callable[[T], R], items: Iterable[T], *, workers: int = PARALLEL_REQUESTS) -> list[R]:
    """Return the results in the order of the items; the first error is raised once all calls have ended."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
