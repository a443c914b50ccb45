"""A warehouse as one who only looks at it: what its ledgers say of a stream, and whether the target is there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from syncd.ports.evidence import LedgerRecord
from syncd.redshift.control_tables import ControlTables, LedgerTables, parse_entries
from syncd.redshift.load_transaction import ControlTablesMissing, detect_missing_tables
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import WarehouseSession
from syncd.redshift.target_table import columns_query
from watermarks.loading import LedgerKey
from watermarks.names import StreamName


class WarehouseLedgerReader:
    """Reads committed rows; no lock is taken, and nothing is written."""

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
        controls = self._control_tables()
        rows = [row for ledger in controls.ledgers for row in self._query_ledger(controls.evidence_query(ledger))]
        return {
            entry.key: LedgerRecord(rows=entry.rows, table=entry.table, manifest=entry.manifest)
            for entry in parse_entries(self._stream, rows)
        }

    def find_other_streams(self) -> Sequence[str]:
        """Other streams that have landed in the target, each with its lake."""
        controls = self._control_tables()
        asked = (controls.other_streams_query(ledger, self._table) for ledger in self._ledgers().tables)
        # One that got its own ledger later is in both.
        return list(dict.fromkeys(f"{stream} of {lake}" for sql in asked for lake, stream in self._query_ledger(sql)))

    def target_exists(self) -> bool:
        return bool(self._session().rows(columns_query(self._table)))

    def _control_tables(self) -> ControlTables:
        return self._ledgers().for_stream(self._stream, lake=self._lake)

    def _query_ledger(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """What one ledger answers: one that was never made, or was dropped, holds nothing, and hides no other."""
        try:
            with detect_missing_tables():
                return self._session().rows(sql)
        except ControlTablesMissing:
            return ()
