"""How many may be at one outside thing at once, and who comes next?"""

import math
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from syncd.concurrency.running_pass import RunningPass

if TYPE_CHECKING:
    from collections.abc import Callable


class PooledResource(Protocol):
    """Something that keeps a place though nobody uses it: an open connection."""

    @property
    def opened_at(self) -> float:
        """When it was begun to be opened, on the monotonic clock."""
        ...

    def close(self) -> None: ...


P = TypeVar("P", bound=PooledResource)


@dataclass(eq=False, slots=True)
class _Waiter(Generic[P]):
    """Whoever wants places; readings take several, and leave some to all others."""

    kind: str
    wanted: int
    reading: bool
    granted: int = 0
    reused: P | None = None
    evicted: list[P] = field(default_factory=list[P])
    """What was parked where its places are: it is closed before they are used."""


class ResourcePool(Generic[P]):
    """So many places, given in the order of asking; safe for every thread.

    What is open and not used may be parked: it keeps its place, is given to whoever comes next for the same, and makes
    way for others. What was opened more than `oldest` seconds ago is not used again. Readings, which may last for
    hours, leave `kept` places to questions, which are short. Nobody waits here while holding a place of the same kind
    of thing: so nobody waits for ever.
    """

    def __init__(
        self,
        size: int,
        *,
        reserved: int = 0,
        max_age_seconds: float = math.inf,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self.size: Final = size
        self.reading_limit: Final = max(1, size - reserved)
        """As many places as readings may have, all together."""
        self._changed = threading.Condition()
        self._free = size
        self._reading = 0
        self._queue: deque[_Waiter[P]] = deque()
        self._idle: list[tuple[str, P]] = []
        self._max_age_seconds = max_age_seconds
        self._clock = clock
        self._closed_at = -math.inf

    def acquire(self, running_pass: RunningPass, *, kind: str = "") -> P | None:
        """A place; what was parked there of this kind, or None where it is to be opened.

        Raises:
            PassStopped: the pass was ended first.
        """
        return self._wait_for_grant(_Waiter[P](kind=kind, wanted=1, reading=False), running_pass).reused

    @contextmanager
    def acquire_for_reading(self, wanted: int, running_pass: RunningPass) -> Generator["PoolShare[P]"]:
        """At most so many places for a reading, and one at least: as many as are free, shared with who waits as well.

        Raises:
            PassStopped: the pass was ended first.
        """
        share = PoolShare(
            self, self._wait_for_grant(_Waiter[P](kind="", wanted=wanted, reading=True), running_pass).granted
        )
        try:
            yield share
        finally:
            share.release()

    def put_idle(self, resource: P, *, kind: str = "") -> None:
        """Leave what is open in its place, until somebody needs the one or the other."""
        with self._changed:
            if self._is_usable(resource):
                self._idle.append((kind, resource))
                self._grant_waiters()
                return
        resource.close()
        self.release()

    def release(self, count: int = 1, *, reading: bool = False) -> None:
        """Leave places with nothing in them."""
        with self._changed:
            self._free += count
            self._reading -= count if reading else 0
            self._grant_waiters()

    def close(self) -> None:
        """Close what is parked, and what is in use once it is left: whoever comes next opens anew."""
        with self._changed:
            self._closed_at = self._clock()
            parked, self._idle = self._idle, []
            self._free += len(parked)
            self._grant_waiters()
        for _, thing in parked:
            thing.close()

    def _wait_for_grant(self, waiter: "_Waiter[P]", running_pass: RunningPass) -> "_Waiter[P]":
        with running_pass.call_on_end(self._notify_all):
            self._wait_in_queue(waiter, running_pass)
        for thing in waiter.evicted:
            thing.close()
        return waiter

    def _wait_in_queue(self, waiter: "_Waiter[P]", running_pass: RunningPass) -> None:
        with self._changed:
            self._queue.append(waiter)
            self._grant_waiters()
            try:
                while not waiter.granted:
                    running_pass.require_running()
                    self._changed.wait()
            except BaseException:
                self._cancel_waiter(waiter)
                self._grant_waiters()
                raise

    def _cancel_waiter(self, waiter: "_Waiter[P]") -> None:
        if waiter in self._queue:
            self._queue.remove(waiter)
            return
        # Interrupted in the moment of being served.
        left = [thing for thing in (waiter.reused, *waiter.evicted) if thing is not None]
        self._idle += [(waiter.kind, thing) for thing in left]
        self._free += waiter.granted - len(left)
        self._reading -= waiter.granted if waiter.reading else 0

    def _notify_all(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _grant_waiters(self) -> None:
        """Give what is free, the first who asked first; a reading that may have no more yet is passed by others."""
        given = False
        for waiter in tuple(self._queue):
            room = self._free + len(self._idle)
            if waiter.reading:
                waiting = sum(1 for each in self._queue if each.reading)
                room = min(room, self.reading_limit - self._reading)
                waiter.granted = min(waiter.wanted, max(1, room // waiting)) if room > 0 else 0
            else:
                waiter.granted = min(1, room)
            if waiter.granted:
                self._queue.remove(waiter)
                self._assign(waiter)
                given = True
        if given:
            self._changed.notify_all()

    def _assign(self, waiter: "_Waiter[P]") -> None:
        if waiter.reading:
            self._reading += waiter.granted
        else:
            mine = [place for place, (kind, _) in enumerate(self._idle) if kind == waiter.kind]
            if mine:
                found = self._idle.pop(mine[-1])[1]  # the one that was used last is the likeliest to live
                if self._is_usable(found):
                    waiter.reused = found
                else:
                    waiter.evicted = [found]
                return
        taken = min(waiter.granted, self._free)
        self._free -= taken
        waiter.evicted = [self._idle.pop(0)[1] for _ in range(waiter.granted - taken)]

    def _is_usable(self, thing: P) -> bool:
        return thing.opened_at > max(self._closed_at, self._clock() - self._max_age_seconds)


class PoolShare(Generic[P]):
    """The places of one reading."""

    def __init__(self, places: ResourcePool[P], count: int) -> None:
        self._places = places
        self.count = count

    def shrink(self, count: int) -> None:
        """Give back what is more than this."""
        if count < self.count:
            more, self.count = self.count - count, count
            self._places.release(more, reading=True)

    def release(self) -> None:
        """Give back all."""
        self.shrink(0)

    def detach(self) -> "Callable[[], None]":
        """Keep the places beyond the `with`, until what this gives is called: what is at them is not over yet."""
        count, self.count = self.count, 0
        return lambda: self._places.release(count, reading=True)


NO_PASS: Final = RunningPass("what no pass asked for")
"""Asks for what all passes have a part in; it is never ended."""
