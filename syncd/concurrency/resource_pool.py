"""Pool of places at one outside system, such as connections to one server, with a fair queue."""

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
    """A resource that keeps its place while it is idle, such as an open connection."""

    @property
    def opened_at(self) -> float:
        """Return the monotonic time at which its opening began."""
        ...

    def close(self) -> None: ...


P = TypeVar("P", bound=PooledResource)


@dataclass(eq=False, slots=True)
class _Waiter(Generic[P]):
    """A request in the queue; a reading takes several places."""

    kind: str
    wanted: int
    reading: bool
    granted: int = 0
    reused: P | None = None
    evicted: list[P] = field(default_factory=list[P])
    """Idle resources of other kinds at its places: they are closed before the places are used."""


class ResourcePool(Generic[P]):
    """A fixed number of places, granted in the order of the requests; thread-safe.

    An open resource may stay idle in its place: the next request of the same kind gets it, and requests of other kinds
    evict it. A resource that was opened more than `max_age_seconds` ago is not used again. Readings, which may last for
    hours, leave `reserved` places to short queries. No thread waits here while it holds a place of the same pool, so
    there is no deadlock.
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
        """Most places of all readings together."""
        self._changed = threading.Condition()
        self._free = size
        self._reading = 0
        self._queue: deque[_Waiter[P]] = deque()
        self._idle: list[tuple[str, P]] = []
        self._max_age_seconds = max_age_seconds
        self._clock = clock
        self._closed_at = -math.inf

    def acquire(self, running_pass: RunningPass, *, kind: str = "") -> P | None:
        """Take a place; return an idle resource of this kind, or None if the caller has to open one.

        Raises:
            PassStopped: the pass was ended first.
        """
        return self._wait_for_grant(_Waiter[P](kind=kind, wanted=1, reading=False), running_pass).reused

    @contextmanager
    def acquire_for_reading(self, wanted: int, running_pass: RunningPass) -> Generator["PoolShare[P]"]:
        """Take at most `wanted` places for a reading, and at least one: the free ones, shared with waiting readings.

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
        """Leave an open resource idle in its place, until a request needs the resource or the place."""
        with self._changed:
            if self._is_usable(resource):
                self._idle.append((kind, resource))
                self._grant_waiters()
                return
        resource.close()
        self.release()

    def release(self, count: int = 1, *, reading: bool = False) -> None:
        """Give back empty places."""
        with self._changed:
            self._free += count
            self._reading -= count if reading else 0
            self._grant_waiters()

    def close(self) -> None:
        """Close idle resources, and those in use once they are given back; later requests open new ones."""
        with self._changed:
            self._closed_at = self._clock()
            idle, self._idle = self._idle, []
            self._free += len(idle)
            self._grant_waiters()
        for _, resource in idle:
            resource.close()

    def _wait_for_grant(self, waiter: "_Waiter[P]", running_pass: RunningPass) -> "_Waiter[P]":
        with running_pass.call_on_end(self._notify_all):
            self._wait_in_queue(waiter, running_pass)
        for resource in waiter.evicted:
            resource.close()
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
        # The thread was interrupted just after the grant.
        resources = [resource for resource in (waiter.reused, *waiter.evicted) if resource is not None]
        self._idle += [(waiter.kind, resource) for resource in resources]
        self._free += waiter.granted - len(resources)
        self._reading -= waiter.granted if waiter.reading else 0

    def _notify_all(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _grant_waiters(self) -> None:
        """Grant free places in the order of the requests; others overtake a reading that may not have more yet."""
        has_granted = False
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
                has_granted = True
        if has_granted:
            self._changed.notify_all()

    def _assign(self, waiter: "_Waiter[P]") -> None:
        if waiter.reading:
            self._reading += waiter.granted
        else:
            places = [place for place, (kind, _) in enumerate(self._idle) if kind == waiter.kind]
            if places:
                resource = self._idle.pop(places[-1])[1]  # the one used last is the most likely to be alive
                if self._is_usable(resource):
                    waiter.reused = resource
                else:
                    waiter.evicted = [resource]
                return
        taken = min(waiter.granted, self._free)
        self._free -= taken
        waiter.evicted = [self._idle.pop(0)[1] for _ in range(waiter.granted - taken)]

    def _is_usable(self, resource: P) -> bool:
        return resource.opened_at > max(self._closed_at, self._clock() - self._max_age_seconds)


class PoolShare(Generic[P]):
    """The places of one reading."""

    def __init__(self, places: ResourcePool[P], count: int) -> None:
        self._places = places
        self.count = count

    def shrink(self, count: int) -> None:
        """Give back the places beyond this count."""
        if count < self.count:
            more, self.count = self.count - count, count
            self._places.release(more, reading=True)

    def release(self) -> None:
        """Give back all places."""
        self.shrink(0)

    def detach(self) -> "Callable[[], None]":
        """Keep the places beyond the `with`, since they are still in use, until the returned function is called."""
        count, self.count = self.count, 0
        return lambda: self._places.release(count, reading=True)


NO_PASS: Final = RunningPass("work of no pass")
"""Pass for work that all passes share; it is never ended."""
