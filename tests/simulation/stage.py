"""The stage: actors as greenlets that stop before each effect, and the mishaps that can befall one."""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from watermarks.errors import HintedError, OutcomeUnknown
from watermarks.store import Revision, Store, StoredObject

T = TypeVar("T")


class Mishap(Enum):
    """What happens to one write."""

    NONE = auto()
    LOST_BEFORE = auto()
    LOST_AFTER = auto()
    TWICE = auto()
    LATE = auto()
    """No answer, and it happens later."""
    ECHO = auto()
    """It happens, is answered, and happens again later."""


class Effect(Enum):
    READ = auto()
    WRITE = auto()
    COMMIT = auto()


class Actor:
    """Code that runs until its next effect whenever it is told to."""

    def __init__(self, name: str, code: Callable[[], None]) -> None:
        self.name = name
        self._greenlet = greenlet(code)
        self.waits_for: Effect | None = None
        self.about = ""
        """What the effect that it waits for is about: the key of a write."""
        self.rests = 0
        """Ticks of the world that it lets pass before it goes on."""

    @property
    def ended(self) -> bool:
        return bool(self._greenlet.dead)

    def step(self, mishap: Mishap) -> None:
        """Let the effect that it waits for happen, and run up to the next one."""
        said = self._greenlet.switch(mishap) if self._greenlet else self._greenlet.switch()
        self.waits_for, self.about = said if isinstance(said, tuple) else (None, "")
        self.rests = said if isinstance(said, int) else 0

    def crash(self) -> None:
        """End it where it stands: the effect that it waits for does not happen."""
        if self._greenlet:
            self._greenlet.throw(GreenletExit)


def pause(effect: Effect, about: str = "") -> Mishap:
    """Stop before an effect; the scheduler tells what happens to it."""
    parent = getcurrent().parent
    assert parent is not None, "effects happen on the stage"
    mishap: Mishap = parent.switch((effect, about))
    return mishap


def rest(ticks: int) -> None:
    """Let others go on for a while."""
    parent = getcurrent().parent
    assert parent is not None, "actors rest on the stage"
    parent.switch(ticks)


def staged(effect: Effect, about: str, act: Callable[[], T], late: list[Callable[[], object]]) -> T:
    """Let an effect happen on the stage, with whatever befalls it."""
    match pause(effect, about):
        case Mishap.NONE:
            return act()
        case Mishap.LOST_BEFORE:
            raise OutcomeUnknown("lost on the way there")
        case Mishap.LOST_AFTER:
            attempt(act)
            raise OutcomeUnknown("lost on the way back")
        case Mishap.TWICE:
            attempt(act)
            return act()
        case Mishap.LATE:
            late.append(act)
            raise OutcomeUnknown("lost, and delivered later")
        case Mishap.ECHO:
            late.append(act)
            return act()


def attempt(act: Callable[[], object]) -> None:
    """Do it though nobody hears the answer."""
    try:
        act()
    except HintedError:
        return


class StagedStore:
    """A store each of whose effects waits for the scheduler."""

    def __init__(self, inner: Store, late: list[Callable[[], object]], wrote: Callable[[str, bytes], None]) -> None:
        self._inner = inner
        self._late = late
        self._wrote = wrote

    def read(self, key: str) -> StoredObject | None:
        pause(Effect.READ)
        return self._inner.read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        def act() -> Revision:
            revision = self._inner.put(key, body, expected=expected)
            self._wrote(key, body)
            return revision

        return staged(Effect.WRITE, key, act, self._late)

    def list(self, prefix: str) -> Iterator[str]:
        pause(Effect.READ)
        yield from self._inner.list(prefix)
