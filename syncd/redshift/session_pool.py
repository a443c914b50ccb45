"""Pool of sessions with a warehouse: reused from load to load, replaced when lost, limited in number."""

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
"""Failures in a row until the warehouse counts as down: as many as one stream retries."""
SILENT_AFTER_SECONDS: Final = 1.0
"""An attempt that took longer waited for an answer."""
DOWN_SECONDS: Final = 60.0
"""Time for which no stream waits for an answer again."""


class SessionOpener:
    """Opener of sessions; only one stream waits for a warehouse that is down."""

    def __init__(
        self, open_: Callable[[], WarehouseSession], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures = 0
        self._down_until: tuple[float, WarehouseDown] | None = None
        """The end of the time without attempts, and the last error."""

    def open(self) -> WarehouseSession:
        """Open a session.

        Raises:
            WarehouseDown, WarehouseUnfit: no session can be opened.
            WarehouseStillDown: the warehouse has been down for a while.
        """
        began, down = self._monotonic(), self._down_until
        if down is not None and began < down[0]:
            raise _still_down(down[1])
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
        """Return whether the stream may retry; after a timeout no stream may, for a while."""
        with self._lock:
            self._failures += 1
            if self._failures <= FAILURES_BEFORE_DOWN:
                return True
            ended = self._monotonic()
            self._down_until = (ended + DOWN_SECONDS, error) if ended - began > SILENT_AFTER_SECONDS else None
            return False


class ReusableSession:
    """At most one session, replaced when it is lost; for one thread at a time."""

    def __init__(self, opener: SessionOpener) -> None:
        self._opener = opener
        self._session: WarehouseSession | None = None
        self.opened_at = -math.inf

    def session(self) -> WarehouseSession:
        """Return a live session.

        Raises:
            WarehouseDown, WarehouseUnfit, WarehouseStillDown: no session can be opened.
        """
        if self._session is None or not self._session.is_alive:
            self.opened_at = time.monotonic()
            self._session = self._opener.open()
        return self._session

    @property
    def is_idle(self) -> bool:
        """True if the session is alive without an open transaction."""
        return self._session is not None and self._session.is_alive and not self._session.in_transaction

    def abort(self) -> None:
        """Cut the session, from any thread."""
        kept = self._session
        if kept is not None:
            kept.abort()

    def close(self) -> None:
        kept, self._session = self._session, None
        if kept is not None:
            kept.close()


class SessionPool:
    """Limited number of sessions with one warehouse, borrowed by one pass after another.

    The session returned last is borrowed first, so the streams of one tick share as few as possible.
    """

    def __init__(self, opener: SessionOpener, *, max_sessions: int) -> None:
        self._opener = opener
        self._pool = ResourcePool[ReusableSession](max_sessions)

    def borrow(self, under_way: RunningPass) -> ReusableSession:
        """Borrow a session for a pass; if the pass is stopped, its session is cut.

        Raises:
            PassStopped: the pass was stopped first.
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
        """Close the idle sessions."""
        self._pool.close()


def _still_down(error: WarehouseDown) -> WarehouseStillDown:
    return WarehouseStillDown(error.message, hint=error.hint)
