"""Ledger entries of one stream, read under the lock of its fence and no further back than needed."""

from collections.abc import Callable, Container, Iterator

from syncd.lake.manifest import is_tombstone_batch
from syncd.ports.source import LedgerRecord
from syncd.redshift.control_tables import ControlTables, parse_entries
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import WarehouseSession
from syncd.redshift.target_table import any_row_query, any_row_since_query, reset_batch_numbers_statement
from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR
from watermarks.errors import DataInDoubt
from watermarks.loading import LedgerKey, LoadCycle
from watermarks.progress import BEFORE_FIRST_BATCH


class TargetTableChanged(DataInDoubt):
    """The table is not the one that batches were loaded into."""


class ForeignChain(DataInDoubt):
    """The batch that was loaded under a number is not the batch of the lake with this number."""


class StreamLedger:
    """Ledger entries since the newest that must exist; older entries are read one at a time, where that is missing."""

    def __init__(self, session: WarehouseSession, control_tables: ControlTables, cycle: LoadCycle) -> None:
        self._session = session
        self._control_tables = control_tables
        self._cycle = cycle
        loaded = cycle.load_progress
        self._since = next(self._expected_batches(), loaded.last_batch)
        self._floors = dict[int, BatchId]()
        """The oldest known entry of each load generation; without one, `_since`."""
        # Batches that an operator had loaded again are still entered, up to the newest of all.
        upto = max((loaded.last_batch, *(link.id for link in cycle.due_links)))
        reloads = loaded.load_generation > 1
        self._entries = self._query_entries(
            control_tables.entries_query(since=self._since, upto=upto if reloads else None)
        )
        self._require_same_chain()

    def _require_same_chain(self) -> None:
        """Make sure that the numbers of the due batches are not those of another chain.

        Raises:
            ForeignChain: the lake was emptied and started again, or another lake has its address.
        """
        for link in self._cycle.due_links:
            entry = self._entries.get(self._cycle.ledger_key(link.id))
            if entry is not None and entry.manifest != link.digest:
                raise ForeignChain(
                    f"{self._cycle.stream}: batch {link.id} of the ledger is not batch {link.id} of the lake:"
                    " manifests differ",
                    # Rows of the other chain may carry higher numbers, and would win over new ones.
                    hint="The lake was probably emptied and started again, so the target contains rows of an"
                    " older chain:"
                    f" DROP TABLE {entry.table}; {self._reload_hint}",
                )

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, LedgerKey):
            return False
        while key.batch < self._floors.get(key.load_generation, self._since):
            self._read_older_entry(key.load_generation)
        return key in self._entries

    def _read_older_entry(self, generation: int) -> None:
        """Read the next older entry of a load generation: after a loss, that is the newest one left."""
        floor = self._floors.get(generation, self._since)
        older = self._query_entries(self._control_tables.previous_entry_query(floor, load_generation=generation))
        self._floors[generation] = max((key.batch for key in older), default=BEFORE_FIRST_BATCH)
        self._entries |= older

    def rows(self) -> dict[BatchId, int]:
        """Return the row counts of the due batches that the ledger holds."""
        keys = ((link.id, self._cycle.ledger_key(link.id)) for link in self._cycle.due_links)
        return {batch: self._entries[key].rows for batch, key in keys if key in self._entries}

    @property
    def newest(self) -> BatchId | None:
        """The newest batch that both the mark and the ledger call loaded."""
        return next((batch for batch in self._expected_batches() if self._cycle.ledger_key(batch) in self), None)

    @property
    def newest_ever(self) -> BatchId:
        """The newest batch that was ever loaded, as far as is known; a batch up to it is loaded again."""
        return max(self._cycle.load_progress.last_batch, *(key.batch for key in self._entries), BEFORE_FIRST_BATCH)

    def require_own_numbers(self, table: TableRef) -> None:
        """Make sure that a stream which was never loaded finds no rows with the numbers of its batches.

        Another chain numbered such rows, and they would be taken for newer than the loaded rows.

        Raises:
            TargetTableChanged: there are such rows.
        """
        untouched = self._cycle.load_progress.load_generation == 1 or self._is_imported
        is_new = untouched and not self._entries and next(self._expected_batches(), None) is None
        if not is_new or not self._session.rows(any_row_since_query(self._cycle.due_links[0].id, table)):
            return
        queries = (self._control_tables.other_streams_query(ledger, table) for ledger in self._control_tables.ledgers)
        others = dict.fromkeys(f"{stream} of {lake}" for sql in queries for lake, stream in self._session.rows(sql))
        raise TargetTableChanged(
            f"{table} contains rows with batch numbers of another stream"
            + (f" ({', '.join(others)})" if others else "")
            + f", although nothing of {self._cycle.stream} was loaded into it",
            hint="If another stream is still loaded into it, configure another `target`. If the stream was renamed or"
            " its lake was started again, make these rows older than all new ones:"
            f" {reset_batch_numbers_statement(table)};",
        )

    def require_same_table(self, table: TableRef, *, exists: bool) -> None:
        """Make sure that batches are loaded into the same table as before.

        Raises:
            TargetTableChanged: the table was dropped, or the configuration names another one.
        """
        newest = self.newest
        if not exists:
            self._require_not_imported(f"{table} does not exist")
        rows = self._cycle.load_progress.counts.rows
        if newest is None or not rows:
            return
        entry = self._entries[self._cycle.ledger_key(newest)]
        if entry.table != str(table):
            raise TargetTableChanged(
                f"{self._cycle.stream} was loaded into {entry.table} until now, but the configuration names {table}",
                hint=f"Configure {entry.table} again. {self._reload_hint}",
            )
        if not exists:
            raise TargetTableChanged(
                f"{table} does not exist, although {rows} rows were loaded into it", hint=self._reload_hint
            )

    def require_rows(self, table: TableRef, *, removes_rows: Callable[[BatchLink, int], bool]) -> None:
        """Make sure that no other writer emptied the table.

        A batch that `removes_rows` (which is given its row count) and brings none leaves an unknown number of rows.
        After an operator set the mark back, batches behind it have changed the table as well.

        Raises:
            TargetTableChanged: the table is empty, although rows were loaded into it.
        """
        if self.newest is None and not self._is_imported:
            return
        loaded = self._cycle.load_progress
        was_set_back = loaded.load_generation > 1 and self.newest_ever > loaded.last_batch
        if was_set_back or self._session.rows(any_row_query(table)):
            return
        self._require_not_imported(f"{table} is empty")
        entries = self._query_entries(self._control_tables.entries_with_rows_query)
        keys = {batch: self._cycle.ledger_key(batch) for batch in self._expected_batches()}
        counts = {batch: entries[key].rows for batch, key in keys.items() if key in entries}
        if counts and not any(removes_rows(link, counts.get(link.id, 0)) for link in self._links_since_rows(counts)):
            raise TargetTableChanged(
                f"{table} is empty, although {sum(counts.values())} rows were loaded into it", hint=self._reload_hint
            )

    def _links_since_rows(self, batches_with_rows: Container[BatchId]) -> Iterator[BatchLink]:
        """Yield the batches since the last one that brought rows, newest first; tombstones bring none."""
        for batch in self._expected_batches():
            link = self._cycle.chain.require_link(batch)
            if batch in batches_with_rows and not is_tombstone_batch(link):
                return
            yield link

    @property
    def _is_imported(self) -> bool:
        """True if another loader filled the target, and no batch was loaded since."""
        loaded = self._cycle.load_progress
        return loaded.last_batch == BEFORE_FIRST_BATCH and loaded.cursor != START_CURSOR

    def _require_not_imported(self, problem: str) -> None:
        if self._is_imported:
            stream = self._cycle.stream
            raise TargetTableChanged(
                f"{problem}, although rows of {stream} up to {self._cycle.load_progress.cursor} were imported with it",
                hint=f"Configure the imported table again, or read all rows: syncd watermark reset -t {stream.table}",
            )

    @property
    def _reload_hint(self) -> str:
        return f"To load all of it again: syncd watermark reset -t {self._cycle.stream.table} --redshift-only"

    def _expected_batches(self) -> Iterator[BatchId]:
        """Yield the batches that the ledger must hold, newest first."""
        loaded = self._cycle.load_progress
        batches = self._cycle.extract_progress.batch_ids_newest_first(up_to=loaded.last_batch, after=BEFORE_FIRST_BATCH)
        return filter(loaded.expects_in_ledger, batches)

    def _query_entries(self, sql: str) -> dict[LedgerKey, LedgerRecord]:
        return parse_entries(self._cycle.stream, self._session.rows(sql))
