"""One side of a service: what is opened for it on the way ends with it."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self


class ResourceOwner:
    """Ends with the `with` what was opened in it, the last first."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
