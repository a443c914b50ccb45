"""Sessions with a warehouse: kept from landing to landing, replaced where they were lost, and never too many."""

import math
import threading
import time
from collections.abc import Callable
from typing import Final

from syncd.concurrency.resource_pool import ResourcePool
from syncd.concurrency.running_pass import RunningPass
from syncd.errors import WarehouseDown, WarehouseStillDown
from syncd.redshift.session import WarehouseSession

FAILURES_BEFORE_DOWN: Final = 6
"""So often in a row it may be away until it counts as down: as often as one stream tries."""
SILENT_AFTER_SECONDS: Final = 1.0
"""Seconds; an attempt that took longer waited for an answer."""
DOWN_SECONDS: Final = 60.0
"""Seconds for which nobody waits for that again."""


class SessionOpener:
    """Opens sessions; a warehouse that is down is waited for by one stream, and by no other anew."""

    def __init__(
        self, open_: Callable[[], WarehouseSession], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures = 0
        self._down_until: tuple[float, WarehouseDown] | None = None
        """Until when nobody asks again, and what was said last."""

    def open(self) -> WarehouseSession:
        """One more session.

        Raises:
            WarehouseDown, WarehouseUnfit: there is none to be had.
            WarehouseStillDown: nor was there one for a while.
        """
        began, silent = self._monotonic(), self._down_until
        if silent is not None and began < silent[0]:
            raise _still_down(silent[1])
        try:
            opened = self._open()
        except WarehouseDown as error:
            if self._may_retry(error, began):
                raise
            raise _still_down(error) from error
        with self._lock:
            self._failures, self._down_until = 0, None
        return opened

    def _may_retry(self, error: WarehouseDown, began: float) -> bool:
        """Whether it may be tried again by the same stream; one that does not answer at all by nobody for a while."""
        with self._lock:
            self._failures += 1
            if self._failures <= FAILURES_BEFORE_DOWN:
                return True
            ended = self._monotonic()
            self._down_until = (ended + DOWN_SECONDS, error) if ended - began > SILENT_AFTER_SECONDS else None
            return False


class ReusableSession:
    """One session after another, never two; for one thread at a time."""

    def __init__(self, opener: SessionOpener) -> None:
        self._opener = opener
        self._session: WarehouseSession | None = None
        self.opened_at = -math.inf

    def session(self) -> WarehouseSession:
        """A living session.

        Raises:
            WarehouseDown, WarehouseUnfit, WarehouseStillDown: there is none to be had.
        """
        if self._session is None or not self._session.is_alive:
            self.opened_at = time.monotonic()
            self._session = self._opener.open()
        return self._session

    @property
    def is_idle(self) -> bool:
        """Whether it lives, and nothing is open in it."""
        return self._session is not None and self._session.is_alive and not self._session.in_transaction

    def abort(self) -> None:
        """End what is under way, from any thread."""
        kept = self._session
        if kept is not None:
            kept.abort()

    def close(self) -> None:
        """End the session, if there is one."""
        kept, self._session = self._session, None
        if kept is not None:
            kept.close()


class SessionPool:
    """So many sessions with one warehouse, lent to one pass after the other.

    What was given back last is lent first: the streams of one tick land back to back, over as few as it takes.
    """

    def __init__(self, opener: SessionOpener, *, max_sessions: int) -> None:
        self._opener = opener
        self._pool = ResourcePool[ReusableSession](max_sessions)

    def borrow(self, under_way: RunningPass) -> ReusableSession:
        """A session until the end of a pass, and ended with it.

        Raises:
            PassStopped: the pass was ended first.
        """
        kept = self._pool.acquire(under_way) or ReusableSession(self._opener)
        under_way.cleanup.callback(self._return_session, kept)
        under_way.cleanup.enter_context(under_way.call_on_end(kept.abort))
        return kept

    def _return_session(self, kept: ReusableSession) -> None:
        if kept.is_idle:
            self._pool.put_idle(kept)
        else:
            kept.close()
            self._pool.release()

    def close(self) -> None:
        """End those that nobody uses."""
        self._pool.close()


def _still_down(error: WarehouseDown) -> WarehouseStillDown:
    return WarehouseStillDown(error.message, hint=error.hint)
