"""The session that a loader keeps: opened with the first landing, and anew where it was lost."""

import time
from collections.abc import Callable
from typing import Final

from syncd.adapters.redshift.session import Session
from syncd.core.errors import WarehouseDown, WarehouseStillDown

PATIENCE: Final = 6
"""So often in a row it may be away until it counts as down: as often as one stream tries."""
SILENT: Final = 1.0
"""Seconds; an attempt that took longer waited for an answer."""
DOWN_FOR: Final = 60.0
"""Seconds for which nobody waits for that again."""


class KeptSession:
    """One session after another, never two; for one thread.

    Streams share it: a warehouse that is down is waited for by the first of them alone.
    """

    def __init__(self, open_: Callable[[], Session], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._open = open_
        self._monotonic = monotonic
        self._kept: Session | None = None
        self._away = 0
        self._silent: tuple[float, WarehouseDown] | None = None
        """Until when nobody asks again, and what was said last."""

    def session(self) -> Session:
        """A living session.

        Raises:
            WarehouseDown, WarehouseUnfit: there is none to be had.
            WarehouseStillDown: nor was there one for a while.
        """
        if self._kept is None or not self._kept.alive:
            self._kept = self._opened()
        return self._kept

    def _opened(self) -> Session:
        began = self._monotonic()
        if self._silent is not None and began < self._silent[0]:
            raise _still(self._silent[1])
        try:
            opened = self._open()
        except WarehouseDown as error:
            self._away += 1
            if self._away <= PATIENCE:
                raise
            ended = self._monotonic()
            self._silent = (ended + DOWN_FOR, error) if ended - began > SILENT else None
            raise _still(error) from error
        self._away, self._silent = 0, None
        return opened

    def close(self) -> None:
        """End the session, if there is one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


def _still(error: WarehouseDown) -> WarehouseStillDown:
    return WarehouseStillDown(error.message, hint=error.hint)
