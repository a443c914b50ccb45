"""A warehouse as one who only looks at it: what its ledgers say of a stream, and whether the target is there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from syncd.ports.evidence import Evidence
from syncd.redshift.control_tables import Controls, Ledgers, entries_of
from syncd.redshift.load_transaction import ControlsMissing, expected
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import Session
from syncd.redshift.target_table import found_statement
from watermarks.loading import LedgerKey
from watermarks.names import StreamName


class LedgerBooks:
    """Reads committed rows; no lock is taken, and nothing is written."""

    def __init__(
        self,
        session: Callable[[], Session],
        ledgers: Callable[[], Ledgers],
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

    def entries(self) -> Mapping[LedgerKey, Evidence]:
        controls = self._controls()
        rows = [row for ledger in controls.ledgers for row in self._held(controls.evidence_in(ledger))]
        return {
            entry.key: Evidence(rows=entry.rows, table=entry.table, manifest=entry.manifest)
            for entry in entries_of(self._stream, rows)
        }

    def others(self) -> Sequence[str]:
        """Other streams that have landed in the target, each with its lake."""
        controls = self._controls()
        asked = (controls.others_in(ledger, self._table) for ledger in self._ledgers().tables)
        # One that got its own ledger later is in both.
        return list(dict.fromkeys(f"{stream} of {lake}" for sql in asked for lake, stream in self._held(sql)))

    def there(self) -> bool:
        return bool(self._session().rows(found_statement(self._table)))

    def _controls(self) -> Controls:
        return self._ledgers().of_stream(self._stream, lake=self._lake)

    def _held(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """What one ledger answers: one that was never made, or was dropped, holds nothing, and hides no other."""
        try:
            with expected():
                return self._session().rows(sql)
        except ControlsMissing:
            return ()
