"""What a command does about sides that keep silent: it says whom it waits for, and waits for nobody twice.

A command over hundreds of tables asks the same few sides again and again. One that is only cut off, and refuses
nobody, would be waited for with each table anew.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Final, Self, TypeAlias

from watermarks.errors import HintedError, Transient

SAID_AFTER: Final = 5.0
"""Seconds of silence after which whoever waits is told."""
LEFT_FOR: Final = 30.0
"""Seconds for which a side that was waited for in vain is not asked again."""

Heed: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Whoever keeps an eye on how long a side, named for people, takes to answer what is asked of it inside the `with`."""


def unheeded(_side: str) -> AbstractContextManager[None]:
    """Nobody does."""
    return nullcontext()


class Silences:
    """The sides of one command, for any number of threads; the `with` ends whoever watches them."""

    def __init__(
        self,
        say: Callable[[str], None] = lambda _line: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        said_after: float = SAID_AFTER,
        left_for: float = LEFT_FOR,
    ) -> None:
        self._say = say
        self._clock = clock
        self._said_after = said_after
        self._left_for = left_for
        self._guard = threading.Lock()
        self._numbers = count()
        self._asked: dict[int, tuple[str, float]] = {}
        self._left: dict[str, tuple[float, HintedError | None]] = {}
        """Until when each side that kept silent is left alone, and what came of asking it."""
        self._heard: dict[str, float] = {}
        """When each side answered last, whomever."""
        self._told: set[str] = set()
        self._over = threading.Event()
        self._watching: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._watching is not None:
            self._watching.join()

    def leaves(self, side: str) -> bool:
        """Whether a side kept silent so shortly before that it is not asked now."""
        return self._left_alone(side) is not None

    def asks(self, side: str) -> int:
        """Note that a side is asked something; the number is for `answered`."""
        with self._guard:
            number = next(self._numbers)
            self._asked[number] = side, self._clock()
            if self._watching is None:
                self._watching = threading.Thread(target=self._watch, name="silences", daemon=True)
                self._watching.start()
            return number

    def answered(self, number: int, *, well: bool, error: HintedError | None = None) -> None:
        """Note that a question is over; one that ended badly, and late, was met with silence.

        But for a side that has answered another question meanwhile: then it was this one that got lost.
        """
        with self._guard:
            side, began = self._asked.pop(number)
            now = self._clock()
            if well:
                self._heard[side] = now
                self._told.discard(side)
                self._left.pop(side, None)
            elif now - self._since(side, began) >= self._said_after:
                self._left[side] = now + self._left_for, error

    @contextmanager
    def heed(self, side: str) -> Generator[None]:
        """Keep an eye on one question to a side, asked inside the `with`.

        Raises:
            Transient: it kept silent shortly before, and is not asked; the same error as then.
        """
        if (left := self._left_alone(side)) is not None and left[1] is not None:
            error = left[1]
            raise type(error)(f"{error.message}; it was not asked again so soon", hint=error.hint, **error.facts)
        with self._asked_by(side, leaves=True):
            yield

    @contextmanager
    def watch(self, side: str) -> Generator[None]:
        """The same for whoever knows best how often it is worth to ask: nothing is refused."""
        with self._asked_by(side, leaves=False):
            yield

    @contextmanager
    def _asked_by(self, side: str, *, leaves: bool) -> Generator[None]:
        number, found, well = self.asks(side), None, False
        try:
            yield
            well = True
        except Transient as error:
            found = error if leaves else None
            raise
        except HintedError:
            well = True  # it did answer
            raise
        finally:
            self.answered(number, well=well, error=found)

    def _left_alone(self, side: str) -> tuple[float, HintedError | None] | None:
        with self._guard:
            left = self._left.get(side)
            return left if left is not None and self._clock() < left[0] else None

    def _since(self, side: str, began: float) -> float:
        """Since when nothing is heard of a side that was asked something then."""
        return max(began, self._heard.get(side, began))

    def _watch(self) -> None:
        while not self._over.wait(self._said_after / 10):
            for side, seconds in self._silent():
                self._say(f"{side} has not answered for {seconds:.0f} s")

    def _silent(self) -> list[tuple[str, float]]:
        """Who is to be told of, once for each time."""
        with self._guard:
            now = self._clock()
            found = {side: now - self._since(side, began) for side, began in reversed(self._asked.values())}
            late = [(side, since) for side, since in found.items() if since >= self._said_after]
            fresh = [(side, since) for side, since in late if side not in self._told]
            self._told.update(side for side, _ in fresh)
            return fresh
