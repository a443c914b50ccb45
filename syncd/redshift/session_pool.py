"""Sessions with a warehouse: kept from landing to landing, replaced where they were lost, and never too many."""

import math
import threading
import time
from collections.abc import Callable
from typing import Final

from syncd.concurrency.resource_pool import Places
from syncd.concurrency.running_pass import UnderWay
from syncd.errors import WarehouseDown, WarehouseStillDown
from syncd.redshift.session import Session

PATIENCE: Final = 6
"""So often in a row it may be away until it counts as down: as often as one stream tries."""
SILENT: Final = 1.0
"""Seconds; an attempt that took longer waited for an answer."""
DOWN_FOR: Final = 60.0
"""Seconds for which nobody waits for that again."""


class Door:
    """Opens sessions; a warehouse that is down is waited for by one stream, and by no other anew."""

    def __init__(self, open_: Callable[[], Session], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._open = open_
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._away = 0
        self._silent: tuple[float, WarehouseDown] | None = None
        """Until when nobody asks again, and what was said last."""

    def open(self) -> Session:
        """One more session.

        Raises:
            WarehouseDown, WarehouseUnfit: there is none to be had.
            WarehouseStillDown: nor was there one for a while.
        """
        began, silent = self._monotonic(), self._silent
        if silent is not None and began < silent[0]:
            raise _still(silent[1])
        try:
            opened = self._open()
        except WarehouseDown as error:
            if self._is_patient(error, began):
                raise
            raise _still(error) from error
        with self._guard:
            self._away, self._silent = 0, None
        return opened

    def _is_patient(self, error: WarehouseDown, began: float) -> bool:
        """Whether it may be tried again by the same stream; one that does not answer at all by nobody for a while."""
        with self._guard:
            self._away += 1
            if self._away <= PATIENCE:
                return True
            ended = self._monotonic()
            self._silent = (ended + DOWN_FOR, error) if ended - began > SILENT else None
            return False


class KeptSession:
    """One session after another, never two; for one thread at a time."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._kept: Session | None = None
        self.opened_at = -math.inf

    def session(self) -> Session:
        """A living session.

        Raises:
            WarehouseDown, WarehouseUnfit, WarehouseStillDown: there is none to be had.
        """
        if self._kept is None or not self._kept.alive:
            self.opened_at = time.monotonic()
            self._kept = self._door.open()
        return self._kept

    @property
    def rests(self) -> bool:
        """Whether it lives, and nothing is open in it."""
        return self._kept is not None and self._kept.alive and not self._kept.in_transaction

    def abort(self) -> None:
        """End what is under way, from any thread."""
        kept = self._kept
        if kept is not None:
            kept.abort()

    def close(self) -> None:
        """End the session, if there is one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


class SessionPool:
    """So many sessions with one warehouse, lent to one pass after the other.

    What was given back last is lent first: the streams of one tick land back to back, over as few as it takes.
    """

    def __init__(self, door: Door, *, most: int) -> None:
        self._door = door
        self._places = Places[KeptSession](most)

    def lent(self, under_way: UnderWay) -> KeptSession:
        """A session until the end of a pass, and ended with it.

        Raises:
            PassStopped: the pass was ended first.
        """
        kept = self._places.take(under_way) or KeptSession(self._door)
        under_way.until_its_end.callback(self._give_back, kept)
        under_way.until_its_end.enter_context(under_way.holding(kept.abort))
        return kept

    def _give_back(self, kept: KeptSession) -> None:
        if kept.rests:
            self._places.park(kept)
        else:
            kept.close()
            self._places.give_back()

    def close(self) -> None:
        """End those that nobody uses."""
        self._places.close()


def _still(error: WarehouseDown) -> WarehouseStillDown:
    return WarehouseStillDown(error.message, hint=error.hint)
