"""Readers of ledgers without a lock: one stream's evidence, and the newest batch of every stream."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from syncd.lake.batch_number import batch_from_number
from syncd.ports.source import LedgerRecord
from syncd.redshift.control_tables import ControlTables, LedgerTables, parse_entries
from syncd.redshift.error_table import ObjectMissing
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import SessionProvider, WarehouseSession
from syncd.redshift.target_table import columns_query
from watermarks.batch import BatchId
from watermarks.loading import LedgerKey
from watermarks.names import StreamName

REFRESH_INTERVAL_SECONDS: Final = 600.0

LedgerGroup = tuple[str, str, int]
"""Stream, target and load generation."""


class WarehouseLedgerReader:
    """Reader of committed ledger rows; it takes no lock and writes nothing."""

    def __init__(
        self,
        session: Callable[[], WarehouseSession],
        ledgers: Callable[[], LedgerTables],
        *,
        lake: str,
        stream: StreamName,
        table: TableRef,
    ) -> None:
        self._session = session
        self._ledgers = ledgers
        self._lake = lake
        self._stream = stream
        self._table = table

    @property
    def table(self) -> str:
        return str(self._table)

    def read_entries(self) -> Mapping[LedgerKey, LedgerRecord]:
        tables = self._control_tables()
        rows = [row for ledger in tables.ledgers for row in self._query_ledger(tables.evidence_query(ledger))]
        return parse_entries(self._stream, rows)

    def find_other_streams(self) -> Sequence[str]:
        tables = self._control_tables()
        queries = (tables.other_streams_query(ledger, self._table) for ledger in self._ledgers().tables)
        # A stream that got its own ledger later is in both.
        return list(dict.fromkeys(f"{stream} of {lake}" for sql in queries for lake, stream in self._query_ledger(sql)))

    def target_exists(self) -> bool:
        return bool(self._session().rows(columns_query(self._table)))

    def _control_tables(self) -> ControlTables:
        return self._ledgers().for_stream(self._stream, lake=self._lake)

    def _query_ledger(self, sql: str) -> Sequence[tuple[Any, ...]]:
        return _rows_or_none(self._session(), sql)


class LedgerCache:
    """Newest batch of every stream in the ledger, refreshed by one query every ten minutes.

    Only this shows that a warehouse was restored. A ledger that loses entries loses the newest, so the newest
    batch is enough. It is no proof, because nothing is locked: where a batch is missing, the load reads the ledger
    again.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        """Held by the thread that queries for all streams; the others wait for its answer."""
        self._monotonic = monotonic
        self._newest: dict[LedgerGroup, BatchId] = {}
        self._refreshed_at: float | None = None

    def holds(self, sessions: SessionProvider, control_tables: ControlTables, key: LedgerKey) -> bool:
        """Return whether the ledger holds this batch, or a newer one of its load generation.

        Raises:
            WarehouseDown, WarehouseUnfit: the warehouse cannot be queried.
        """
        if self._is_old():
            session = sessions.session()  # before the lock: its holder waits for no session
            with self._lock:
                if self._is_old():
                    self._newest = _query_newest(session, control_tables.newest_of_lake_query)
                    self._refreshed_at = self._monotonic()
        group = key.stream.chain_stem, key.stream.target, key.load_generation
        if not self._covers(group, key):
            # Batches that were loaded since are newer than the cache.
            newest = _query_newest(sessions.session(), control_tables.newest_query)
            with self._lock:
                self._newest = self._newest | newest
        return self._covers(group, key)

    def _is_old(self) -> bool:
        return self._refreshed_at is None or self._monotonic() - self._refreshed_at >= REFRESH_INTERVAL_SECONDS

    def _covers(self, group: LedgerGroup, key: LedgerKey) -> bool:
        return group in self._newest and self._newest[group] >= key.batch


def _query_newest(session: WarehouseSession, sql: str) -> dict[LedgerGroup, BatchId]:
    return {
        (str(stem), str(target), int(generation)): batch_from_number(int(batch))
        for stem, target, generation, batch in _rows_or_none(session, sql)
    }


def _rows_or_none(session: WarehouseSession, sql: str) -> Sequence[tuple[Any, ...]]:
    """Query a ledger; one that was never created, or was dropped, holds nothing and hides no other."""
    try:
        return session.rows(sql)
    except ObjectMissing:
        return ()
