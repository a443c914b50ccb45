"""The session that a loader keeps: opened with the first landing, and anew where it was lost."""

from collections.abc import Callable

from syncd.adapters.redshift.session import Session


class KeptSession:
    """One session after another, never two; for one thread."""

    def __init__(self, open_: Callable[[], Session]) -> None:
        self._open = open_
        self._kept: Session | None = None

    def session(self) -> Session:
        """A living session.

        Raises:
            WarehouseDown, WarehouseUnfit: there is none to be had.
        """
        if self._kept is None or not self._kept.alive:
            self._kept = self._open()
        return self._kept

    def close(self) -> None:
        """End the session, if there is one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()
