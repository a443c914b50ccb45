"""What an object makes when it is first asked for it, once, whichever thread asks."""

import threading
from collections.abc import Callable
from typing import Generic, Self, TypeVar, overload

T = TypeVar("T")


class locked_cached_property(Generic[T]):  # noqa: N801  # a decorator, as `cached_property` is one
    """A property that is made once for each object; while one thread makes it, others who ask wait for that.

    `functools.cached_property` of Python 3.12 would make it once for each of them.
    """

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, made_for: None, owner: type) -> Self: ...
    @overload
    def __get__(self, made_for: object, owner: type) -> T: ...
    def __get__(self, made_for: object | None, owner: type) -> "Self | T":
        if made_for is None:
            return self
        kept = made_for.__dict__
        with kept.setdefault(f"making {self._name}", threading.RLock()):
            if self._name not in kept:
                kept[self._name] = self._make(made_for)
            found: T = kept[self._name]
            return found
