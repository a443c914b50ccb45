"""A look at the ledger without a lock, for all streams at once: a restored warehouse shows itself in no other way."""

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from syncd.errors import WarehouseUnfit
from syncd.lake.batch_number import batch_of
from syncd.redshift.control_tables import Controls
from syncd.redshift.session import Session
from watermarks.batch import BatchId
from watermarks.loading import LedgerKey

EVERY: Final = 600.0
"""Seconds."""

Group = tuple[str, str, int]
"""Stream, target and load generation."""


class Sessions(Protocol):
    """Whoever keeps a connection to the warehouse."""

    def session(self) -> Session: ...


class Glance:
    """The newest batch of every stream in the ledger, asked for in one query and then every ten minutes.

    What a ledger loses is its newest, so that the newest tells. It is no proof, for nothing is locked: whoever
    finds a batch missing looks again, as a landing does.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._guard = threading.Lock()
        """While one thread asks for all streams, others wait for that."""
        self._monotonic = monotonic
        self._seen: dict[Group, BatchId] = {}
        self._at: float | None = None

    def holds(self, sessions: Sessions, controls: Controls, key: LedgerKey) -> bool:
        """Whether the ledger holds this batch, or a newer one of its load generation.

        Raises:
            WarehouseDown, WarehouseUnfit: it cannot be asked.
        """
        if self._is_old():
            session = sessions.session()  # before the guard: who has it waits for nobody
            with self._guard:
                if self._is_old():
                    self._seen = _asked(session, controls.newest_of_all)
                    self._at = self._monotonic()
        group = key.stream.chain_stem, key.stream.target, key.load_generation
        if not self._covers(group, key):
            found = _asked(sessions.session(), controls.newest)  # what has landed since is newer than the glance
            with self._guard:
                self._seen = self._seen | found
        return self._covers(group, key)

    def _is_old(self) -> bool:
        return self._at is None or self._monotonic() - self._at >= EVERY

    def _covers(self, group: Group, key: LedgerKey) -> bool:
        return group in self._seen and self._seen[group] >= key.batch


def _asked(session: Session, sql: str) -> dict[Group, BatchId]:
    try:
        rows = session.rows(sql)
    except WarehouseUnfit as error:
        if "does not exist" not in error.message:
            raise
        return {}  # dropped: nothing is held
    return {(str(stem), str(target), int(generation)): batch_of(int(batch)) for stem, target, generation, batch in rows}
