"""A look at the ledger without a lock, for all streams at once: a restored warehouse shows itself in no other way."""

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from syncd.errors import WarehouseUnfit
from syncd.lake.batch_number import batch_from_number
from syncd.redshift.control_tables import ControlTables
from syncd.redshift.session import WarehouseSession
from watermarks.batch import BatchId
from watermarks.loading import LedgerKey

REFRESH_INTERVAL_SECONDS: Final = 600.0
"""Seconds."""

LedgerGroup = tuple[str, str, int]
"""Stream, target and load generation."""


class LedgerSessionProvider(Protocol):
    """Whoever keeps a connection to the warehouse."""

    def session(self) -> WarehouseSession: ...


class LedgerCache:
    """The newest batch of every stream in the ledger, asked for in one query and then every ten minutes.

    What a ledger loses is its newest, so that the newest tells. It is no proof, for nothing is locked: whoever
    finds a batch missing looks again, as a landing does.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        """While one thread asks for all streams, others wait for that."""
        self._monotonic = monotonic
        self._newest: dict[LedgerGroup, BatchId] = {}
        self._refreshed_at: float | None = None

    def holds(self, sessions: LedgerSessionProvider, control_tables: ControlTables, key: LedgerKey) -> bool:
        """Whether the ledger holds this batch, or a newer one of its load generation.

        Raises:
            WarehouseDown, WarehouseUnfit: it cannot be asked.
        """
        if self._is_old():
            session = sessions.session()  # before the guard: who has it waits for nobody
            with self._lock:
                if self._is_old():
                    self._newest = _query_newest(session, control_tables.newest_of_lake_query)
                    self._refreshed_at = self._monotonic()
        group = key.stream.chain_stem, key.stream.target, key.load_generation
        if not self._covers(group, key):
            found = _query_newest(
                sessions.session(), control_tables.newest_query
            )  # what has landed since is newer than the glance
            with self._lock:
                self._newest = self._newest | found
        return self._covers(group, key)

    def _is_old(self) -> bool:
        return self._refreshed_at is None or self._monotonic() - self._refreshed_at >= REFRESH_INTERVAL_SECONDS

    def _covers(self, group: LedgerGroup, key: LedgerKey) -> bool:
        return group in self._newest and self._newest[group] >= key.batch


def _query_newest(session: WarehouseSession, sql: str) -> dict[LedgerGroup, BatchId]:
    try:
        rows = session.rows(sql)
    except WarehouseUnfit as error:
        if "does not exist" not in error.message:
            raise
        return {}  # dropped: nothing is held
    return {
        (str(stem), str(target), int(generation)): batch_from_number(int(batch))
        for stem, target, generation, batch in rows
    }
