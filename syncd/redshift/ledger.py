"""What the ledger holds of one stream, read under the lock of its fence and no further back than it must."""

from collections.abc import Callable, Container, Iterator

from syncd.lake.manifest import is_tombstone_batch
from syncd.redshift.control_tables import ControlTables, LedgerEntry, parse_entries
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import WarehouseSession
from syncd.redshift.target_table import any_row_query, any_row_since_query, reset_batch_numbers_statement
from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR
from watermarks.errors import DataInDoubt
from watermarks.loading import LedgerKey, LoadCycle
from watermarks.progress import BEFORE_FIRST_BATCH


class TargetTableChanged(DataInDoubt):
    """The table is not the one that batches landed in."""


class ForeignChain(DataInDoubt):
    """What landed under a number is not the batch that has it now."""


class StreamLedger:
    """The entries from the newest that it has to hold on; of older ones one at a time, where that one is missing."""

    def __init__(self, session: WarehouseSession, control_tables: ControlTables, cycle: LoadCycle) -> None:
        self._session = session
        self._control_tables = control_tables
        self._cycle = cycle
        self._since = next(self._expected_batches(), cycle.load_progress.last_batch)
        self._floors = dict[int, BatchId]()
        """From which batch on the entries of a load generation are known; by itself from `_since`."""
        # What a person asked to land again stands there still, up to the newest of all.
        upto = (
            max(cycle.load_progress.last_batch, *(link.id for link in cycle.due_links))
            if cycle.due_links
            else cycle.load_progress.last_batch
        )
        anew = cycle.load_progress.load_generation > 1
        self._entries = self._query_entries(
            control_tables.entries_query(since=self._since, upto=upto if anew else None)
        )
        self._require_same_chain()

    def _require_same_chain(self) -> None:
        """Make sure that what landed under the numbers that are due are those batches.

        Raises:
            OtherChain: the lake was emptied and begun anew, or is another one at the same address.
        """
        for link in self._cycle.due_links:
            entry = self._entries.get(self._cycle.ledger_key(link.id))
            if entry is not None and entry.manifest != link.digest:
                raise ForeignChain(
                    f"{self._cycle.stream}: the ledger holds {link.id} of another chain than the lake does",
                    # Rows of the other chain may carry higher numbers: what lands over them would lose.
                    hint=f"Was the lake emptied and begun anew? Then DROP TABLE {entry.table}; {self._reload_hint}",
                )

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, LedgerKey):
            return False
        while key.batch < self._floors.get(key.load_generation, self._since):
            self._read_older_entry(key.load_generation)
        return key in self._entries

    def _read_older_entry(self, generation: int) -> None:
        """The next older entry of a load generation: whoever lost many finds the newest it still has at once."""
        floor = self._floors.get(generation, self._since)
        found = self._query_entries(self._control_tables.previous_entry_query(floor, load_generation=generation))
        self._floors[generation] = max((key.batch for key in found), default=BEFORE_FIRST_BATCH)
        self._entries |= found

    def rows(self) -> dict[BatchId, int]:
        """The rows of each batch of the cycle that it holds."""
        keys = ((link.id, self._cycle.ledger_key(link.id)) for link in self._cycle.due_links)
        return {batch: self._entries[key].rows for batch, key in keys if key in self._entries}

    @property
    def newest(self) -> BatchId | None:
        """The newest batch that has landed, as the mark says and it does too."""
        return next((batch for batch in self._expected_batches() if self._cycle.ledger_key(batch) in self), None)

    @property
    def newest_ever(self) -> BatchId:
        """The newest batch that has ever landed, as far as anybody knows: whatever is not newer lands again."""
        return max(self._cycle.load_progress.last_batch, *(key.batch for key in self._entries), BEFORE_FIRST_BATCH)

    def require_own_numbers(self, table: TableRef) -> None:
        """Make sure that a stream which has never landed finds no rows whose numbers pass for those of its batches.

        Another chain has given them, and its rows would be taken for newer than what comes.

        Raises:
            OtherTable: there are some.
        """
        untouched = self._cycle.load_progress.load_generation == 1 or self._is_imported
        new = untouched and not self._entries and next(self._expected_batches(), None) is None
        if not new or not self._session.rows(any_row_since_query(self._cycle.due_links[0].id, table)):
            return
        asked = (self._control_tables.other_streams_query(ledger, table) for ledger in self._control_tables.ledgers)
        others = dict.fromkeys(f"{stream} of {lake}" for sql in asked for lake, stream in self._session.rows(sql))
        raise TargetTableChanged(
            f"{table} holds rows with the numbers of another stream's batches"
            + (f" ({', '.join(others)})" if others else "")
            + f", and nothing of {self._cycle.stream} has landed in it",
            hint="Does another still load it? Then give this one a `target` of its own. Was the stream renamed, or its"
            f" lake begun anew? Then let the rows count as older than all that comes: {reset_batch_numbers_statement(table)};",
        )

    def require_same_table(self, table: TableRef, *, exists: bool) -> None:
        """Make sure that batches go on landing where they did.

        Raises:
            OtherTable: the table is gone, or the configuration names another one.
        """
        newest = self.newest
        if not exists:
            self._require_not_imported(f"{table} is not there")
        if newest is None or not self._cycle.load_progress.counts.rows:
            return
        entry = self._entries[self._cycle.ledger_key(newest)]
        if entry.table != str(table):
            raise TargetTableChanged(
                f"{self._cycle.stream} was loaded into {entry.table} until now, the configuration names {table}",
                hint=f"Name {entry.table} again. {self._reload_hint}",
            )
        if not exists:
            raise TargetTableChanged(
                f"{table} is gone, and {self._cycle.load_progress.counts.rows} rows had landed in it",
                hint=self._reload_hint,
            )

    def require_rows(self, table: TableRef, *, removes_rows: Callable[[BatchLink, int], bool]) -> None:
        """Make sure that nobody else has emptied the table.

        Of a batch that `takes` rows out (asked with the rows that it landed with), and brings none, nobody knows how
        many it left; and where a person has set the mark back, what landed behind it has left its traces too.

        Raises:
            OtherTable: there is no row, although some landed.
        """
        if self.newest is None and not self._is_imported:
            return
        half = self._cycle.load_progress
        set_back = half.load_generation > 1 and self.newest_ever > half.last_batch
        if set_back or self._session.rows(any_row_query(table)):
            return
        self._require_not_imported(f"{table} is empty")
        entries = self._query_entries(self._control_tables.entries_with_rows_query)
        landed = {
            batch: entries[key].rows
            for batch in self._expected_batches()
            if (key := self._cycle.ledger_key(batch)) in entries
        }
        if landed and not any(removes_rows(link, landed.get(link.id, 0)) for link in self._links_since_rows(landed)):
            raise TargetTableChanged(
                f"{table} is empty, and {sum(landed.values())} rows had landed in it", hint=self._reload_hint
            )

    def _links_since_rows(self, landed: Container[BatchId]) -> Iterator[BatchLink]:
        """What has landed since the last batch that brought rows, the newest first; its tombstones are none."""
        for batch in self._expected_batches():
            link = self._cycle.chain.require_link(batch)
            if batch in landed and not is_tombstone_batch(link):
                return
            yield link

    @property
    def _is_imported(self) -> bool:
        """Whether the target has rows by what something else loaded, and nothing has landed since."""
        half = self._cycle.load_progress
        return half.last_batch == BEFORE_FIRST_BATCH and half.cursor != START_CURSOR

    def _require_not_imported(self, problem: str) -> None:
        if self._is_imported:
            stream = self._cycle.stream
            raise TargetTableChanged(
                f"{problem}, and the rows of {stream} up to {self._cycle.load_progress.cursor} were taken over in it",
                hint=f"Name the table again; or read all of it: syncd watermark reset -t {stream.table}",
            )

    @property
    def _reload_hint(self) -> str:
        return f"To load all of it anew: syncd watermark reset -t {self._cycle.stream.table} --redshift-only"

    def _expected_batches(self) -> Iterator[BatchId]:
        """What it has to hold, the newest first."""
        half = self._cycle.load_progress
        return filter(
            half.expects_in_ledger,
            self._cycle.extract_progress.batch_ids_newest_first(up_to=half.last_batch, after=BEFORE_FIRST_BATCH),
        )

    def _query_entries(self, sql: str) -> dict[LedgerKey, LedgerEntry]:
        return {entry.key: entry for entry in parse_entries(self._cycle.stream, self._session.rows(sql))}
