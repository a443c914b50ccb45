"""How many may be at one outside thing at once, and who comes next?"""

import math
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from syncd.concurrency.running_pass import UnderWay

if TYPE_CHECKING:
    from collections.abc import Callable


class Parked(Protocol):
    """Something that keeps a place though nobody uses it: an open connection."""

    @property
    def opened_at(self) -> float:
        """When it was begun to be opened, on the monotonic clock."""
        ...

    def close(self) -> None: ...


P = TypeVar("P", bound=Parked)


@dataclass(eq=False, slots=True)
class _Waiter(Generic[P]):
    """Whoever wants places; readings take several, and leave some to all others."""

    kind: str
    wanted: int
    reading: bool
    granted: int = 0
    reused: P | None = None
    ousted: list[P] = field(default_factory=list[P])
    """What was parked where its places are: it is closed before they are used."""


class Places(Generic[P]):
    """So many places, given in the order of asking; safe for every thread.

    What is open and not used may be parked: it keeps its place, is given to whoever comes next for the same, and makes
    way for others. What was opened more than `oldest` seconds ago is not used again. Readings, which may last for
    hours, leave `kept` places to questions, which are short. Nobody waits here while holding a place of the same kind
    of thing: so nobody waits for ever.
    """

    def __init__(
        self,
        most: int,
        *,
        kept: int = 0,
        oldest: float = math.inf,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self.most: Final = most
        self.for_readings: Final = max(1, most - kept)
        """As many places as readings may have, all together."""
        self._changed = threading.Condition()
        self._free = most
        self._reading = 0
        self._queue: deque[_Waiter[P]] = deque()
        self._parked: list[tuple[str, P]] = []
        self._oldest = oldest
        self._clock = clock
        self._closed_at = -math.inf

    def take(self, under_way: UnderWay, *, kind: str = "") -> P | None:
        """A place; what was parked there of this kind, or None where it is to be opened.

        Raises:
            PassStopped: the pass was ended first.
        """
        return self._granted(_Waiter[P](kind=kind, wanted=1, reading=False), under_way).reused

    @contextmanager
    def reading(self, wanted: int, under_way: UnderWay) -> Generator["Share[P]"]:
        """At most so many places for a reading, and one at least: as many as are free, shared with who waits as well.

        Raises:
            PassStopped: the pass was ended first.
        """
        share = Share(self, self._granted(_Waiter[P](kind="", wanted=wanted, reading=True), under_way).granted)
        try:
            yield share
        finally:
            share.leave()

    def park(self, thing: P, *, kind: str = "") -> None:
        """Leave what is open in its place, until somebody needs the one or the other."""
        with self._changed:
            if self._is_usable(thing):
                self._parked.append((kind, thing))
                self._share_out()
                return
        thing.close()
        self.give_back()

    def give_back(self, count: int = 1, *, reading: bool = False) -> None:
        """Leave places with nothing in them."""
        with self._changed:
            self._free += count
            self._reading -= count if reading else 0
            self._share_out()

    def close(self) -> None:
        """Close what is parked, and what is in use once it is left: whoever comes next opens anew."""
        with self._changed:
            self._closed_at = self._clock()
            parked, self._parked = self._parked, []
            self._free += len(parked)
            self._share_out()
        for _, thing in parked:
            thing.close()

    def _granted(self, waiter: "_Waiter[P]", under_way: UnderWay) -> "_Waiter[P]":
        with under_way.holding(self._wake):
            self._await(waiter, under_way)
        for thing in waiter.ousted:
            thing.close()
        return waiter

    def _await(self, waiter: "_Waiter[P]", under_way: UnderWay) -> None:
        with self._changed:
            self._queue.append(waiter)
            self._share_out()
            try:
                while not waiter.granted:
                    under_way.require()
                    self._changed.wait()
            except BaseException:
                self._unseat(waiter)
                self._share_out()
                raise

    def _unseat(self, waiter: "_Waiter[P]") -> None:
        if waiter in self._queue:
            self._queue.remove(waiter)
            return
        # Interrupted in the moment of being served.
        left = [thing for thing in (waiter.reused, *waiter.ousted) if thing is not None]
        self._parked += [(waiter.kind, thing) for thing in left]
        self._free += waiter.granted - len(left)
        self._reading -= waiter.granted if waiter.reading else 0

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _share_out(self) -> None:
        """Give what is free, the first who asked first; a reading that may have no more yet is passed by others."""
        given = False
        for waiter in tuple(self._queue):
            room = self._free + len(self._parked)
            if waiter.reading:
                waiting = sum(1 for each in self._queue if each.reading)
                room = min(room, self.for_readings - self._reading)
                waiter.granted = min(waiter.wanted, max(1, room // waiting)) if room > 0 else 0
            else:
                waiter.granted = min(1, room)
            if waiter.granted:
                self._queue.remove(waiter)
                self._seat(waiter)
                given = True
        if given:
            self._changed.notify_all()

    def _seat(self, waiter: "_Waiter[P]") -> None:
        if waiter.reading:
            self._reading += waiter.granted
        else:
            mine = [place for place, (kind, _) in enumerate(self._parked) if kind == waiter.kind]
            if mine:
                found = self._parked.pop(mine[-1])[1]  # the one that was used last is the likeliest to live
                if self._is_usable(found):
                    waiter.reused = found
                else:
                    waiter.ousted = [found]
                return
        taken = min(waiter.granted, self._free)
        self._free -= taken
        waiter.ousted = [self._parked.pop(0)[1] for _ in range(waiter.granted - taken)]

    def _is_usable(self, thing: P) -> bool:
        return thing.opened_at > max(self._closed_at, self._clock() - self._oldest)


class Share(Generic[P]):
    """The places of one reading."""

    def __init__(self, places: Places[P], count: int) -> None:
        self._places = places
        self.count = count

    def shrink(self, count: int) -> None:
        """Give back what is more than this."""
        if count < self.count:
            more, self.count = self.count - count, count
            self._places.give_back(more, reading=True)

    def leave(self) -> None:
        """Give back all."""
        self.shrink(0)

    def hand_on(self) -> "Callable[[], None]":
        """Keep the places beyond the `with`, until what this gives is called: what is at them is not over yet."""
        count, self.count = self.count, 0
        return lambda: self._places.give_back(count, reading=True)


NOBODY: Final = UnderWay("what no pass asked for")
"""Asks for what all passes have a part in; it is never ended."""
