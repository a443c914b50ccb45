"""Cached property that is computed once for each object, in any number of threads."""

import threading
from collections.abc import Callable
from typing import Generic, Self, TypeVar, overload

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
