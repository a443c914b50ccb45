"""What the ledger holds of one stream, read under the lock of its fence and no further back than it must."""

from collections.abc import Iterator

from syncd.adapters.redshift.session import Session
from syncd.core.redshift.control import Controls, Entry, entries_of
from syncd.core.redshift.quoting import TableRef
from syncd.core.redshift.target import any_row
from watermarks.batch import BatchId
from watermarks.errors import DataInDoubt
from watermarks.halves import ORIGIN
from watermarks.landing import Cycle, LedgerKey


class OtherTable(DataInDoubt):
    """The table is not the one that batches landed in."""


class Ledger:
    """The entries from the loaded mark on; what is older is asked for only where that one is missing."""

    def __init__(self, session: Session, controls: Controls, cycle: Cycle) -> None:
        self._session = session
        self._controls = controls
        self._cycle = cycle
        self._since: BatchId | None = next(self._expected(), cycle.half.last)
        self._entries = self._read(self._since)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, LedgerKey):
            return False
        if self._since is not None and key.batch < self._since:
            self._since = None
            self._entries = self._read(None)
        return key in self._entries

    def rows(self) -> dict[BatchId, int]:
        """The rows of each batch of the cycle that it holds."""
        keys = ((link.id, self._cycle.key(link.id)) for link in self._cycle.due)
        return {batch: self._entries[key].rows for batch, key in keys if key in self._entries}

    @property
    def newest(self) -> BatchId | None:
        """The newest batch that has landed, as the mark says and it does too."""
        return next((batch for batch in self._expected() if self._cycle.key(batch) in self), None)

    @property
    def furthest(self) -> BatchId:
        """The newest batch that has ever landed, as far as anybody knows: whatever is not newer lands again."""
        return max(self._cycle.half.last, *(key.batch for key in self._entries), ORIGIN)

    def require_same_table(self, table: TableRef, *, there: bool) -> None:
        """Make sure that batches go on landing where they did.

        Raises:
            OtherTable: the table is gone, or the configuration names another one.
        """
        newest = self.newest
        if newest is None or not self._cycle.half.tally.rows:
            return
        entry = self._entries[self._cycle.key(newest)]
        if entry.table != str(table):
            raise OtherTable(
                f"{self._cycle.stream} was loaded into {entry.table} until now, the configuration names {table}",
                hint=f"Name {entry.table} again. {self._anew}",
            )
        if not there:
            raise OtherTable(
                f"{table} is gone, and {self._cycle.half.tally.rows} rows had landed in it", hint=self._anew
            )

    def require_rows(self, table: TableRef) -> None:
        """Make sure that nobody has emptied the table.

        Raises:
            OtherTable: there is no row, although some landed.
        """
        if self.newest is None or self._session.rows(any_row(table)):
            return
        entries = self._read(None)
        rows = sum(entries[key].rows for key in map(self._cycle.key, self._expected()) if key in entries)
        if rows:
            raise OtherTable(f"{table} is empty, and {rows} rows had landed in it", hint=self._anew)

    @property
    def _anew(self) -> str:
        return f"To load all of it anew: syncd watermark reset -t {self._cycle.stream.table} --redshift-only"

    def _expected(self) -> Iterator[BatchId]:
        """What it has to hold, the newest first."""
        half = self._cycle.half
        return filter(half.expects, self._cycle.extracted.ids_back(upto=half.last, after=ORIGIN))

    def _read(self, since: BatchId | None) -> dict[LedgerKey, Entry]:
        rows = self._session.rows(self._controls.landed(since=since))
        return {entry.key: entry for entry in entries_of(self._cycle.stream, rows)}
