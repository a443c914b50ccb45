"""What the ledger holds of one stream, read under the lock of its fence and no further back than it must."""

from collections.abc import Callable, Container, Iterator

from syncd.lake.manifest import is_burial
from syncd.redshift.control_tables import Controls, Entry, entries_of
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import Session
from syncd.redshift.target_table import any_row, any_row_from, unnumber_statement
from watermarks.batch import BatchId, Link
from watermarks.cursor import START
from watermarks.errors import DataInDoubt
from watermarks.loading import Cycle, LedgerKey
from watermarks.progress import ORIGIN


class OtherTable(DataInDoubt):
    """The table is not the one that batches landed in."""


class OtherChain(DataInDoubt):
    """What landed under a number is not the batch that has it now."""


class Ledger:
    """The entries from the newest that it has to hold on; of older ones one at a time, where that one is missing."""

    def __init__(self, session: Session, controls: Controls, cycle: Cycle) -> None:
        self._session = session
        self._controls = controls
        self._cycle = cycle
        self._since = next(self._expected(), cycle.half.last)
        self._floors = dict[int, BatchId]()
        """From which batch on the entries of a load generation are known; by itself from `_since`."""
        # What a person asked to land again stands there still, up to the newest of all.
        upto = max(cycle.half.last, *(link.id for link in cycle.due)) if cycle.due else cycle.half.last
        anew = cycle.half.load_generation > 1
        self._entries = self._asked(controls.landed(since=self._since, upto=upto if anew else None))
        self._require_same_chain()

    def _require_same_chain(self) -> None:
        """Make sure that what landed under the numbers that are due are those batches.

        Raises:
            OtherChain: the lake was emptied and begun anew, or is another one at the same address.
        """
        for link in self._cycle.due:
            entry = self._entries.get(self._cycle.key(link.id))
            if entry is not None and entry.manifest != link.digest:
                raise OtherChain(
                    f"{self._cycle.stream}: the ledger holds {link.id} of another chain than the lake does",
                    # Rows of the other chain may carry higher numbers: what lands over them would lose.
                    hint=f"Was the lake emptied and begun anew? Then DROP TABLE {entry.table}; {self._anew}",
                )

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, LedgerKey):
            return False
        while key.batch < self._floors.get(key.load_generation, self._since):
            self._look_further_back(key.load_generation)
        return key in self._entries

    def _look_further_back(self, generation: int) -> None:
        """The next older entry of a load generation: whoever lost many finds the newest it still has at once."""
        floor = self._floors.get(generation, self._since)
        found = self._asked(self._controls.landed_before(floor, load_generation=generation))
        self._floors[generation] = max((key.batch for key in found), default=ORIGIN)
        self._entries |= found

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

    def require_own_numbers(self, table: TableRef) -> None:
        """Make sure that a stream which has never landed finds no rows whose numbers pass for those of its batches.

        Another chain has given them, and its rows would be taken for newer than what comes.

        Raises:
            OtherTable: there are some.
        """
        untouched = self._cycle.half.load_generation == 1 or self._is_adopted
        new = untouched and not self._entries and next(self._expected(), None) is None
        if not new or not self._session.rows(any_row_from(self._cycle.due[0].id, table)):
            return
        asked = (self._controls.others_in(ledger, table) for ledger in self._controls.ledgers)
        others = dict.fromkeys(f"{stream} of {lake}" for sql in asked for lake, stream in self._session.rows(sql))
        raise OtherTable(
            f"{table} holds rows with the numbers of another stream's batches"
            + (f" ({', '.join(others)})" if others else "")
            + f", and nothing of {self._cycle.stream} has landed in it",
            hint="Does another still load it? Then give this one a `target` of its own. Was the stream renamed, or its"
            f" lake begun anew? Then let the rows count as older than all that comes: {unnumber_statement(table)};",
        )

    def require_same_table(self, table: TableRef, *, there: bool) -> None:
        """Make sure that batches go on landing where they did.

        Raises:
            OtherTable: the table is gone, or the configuration names another one.
        """
        newest = self.newest
        if not there:
            self._require_not_adopted(f"{table} is not there")
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

    def require_rows(self, table: TableRef, *, takes: Callable[[Link, int], bool]) -> None:
        """Make sure that nobody else has emptied the table.

        Of a batch that `takes` rows out (asked with the rows that it landed with), and brings none, nobody knows how
        many it left; and where a person has set the mark back, what landed behind it has left its traces too.

        Raises:
            OtherTable: there is no row, although some landed.
        """
        if self.newest is None and not self._is_adopted:
            return
        half = self._cycle.half
        set_back = half.load_generation > 1 and self.furthest > half.last
        if set_back or self._session.rows(any_row(table)):
            return
        self._require_not_adopted(f"{table} is empty")
        entries = self._asked(self._controls.landed_rows)
        landed = {batch: entries[key].rows for batch in self._expected() if (key := self._cycle.key(batch)) in entries}
        if landed and not any(takes(link, landed.get(link.id, 0)) for link in self._since_rows(landed)):
            raise OtherTable(f"{table} is empty, and {sum(landed.values())} rows had landed in it", hint=self._anew)

    def _since_rows(self, landed: Container[BatchId]) -> Iterator[Link]:
        """What has landed since the last batch that brought rows, the newest first; its tombstones are none."""
        for batch in self._expected():
            link = self._cycle.chain.required(batch)
            if batch in landed and not is_burial(link):
                return
            yield link

    @property
    def _is_adopted(self) -> bool:
        """Whether the target has rows by what something else loaded, and nothing has landed since."""
        half = self._cycle.half
        return half.last == ORIGIN and half.cursor != START

    def _require_not_adopted(self, what: str) -> None:
        if self._is_adopted:
            stream = self._cycle.stream
            raise OtherTable(
                f"{what}, and the rows of {stream} up to {self._cycle.half.cursor} were taken over in it",
                hint=f"Name the table again; or read all of it: syncd watermark reset -t {stream.table}",
            )

    @property
    def _anew(self) -> str:
        return f"To load all of it anew: syncd watermark reset -t {self._cycle.stream.table} --redshift-only"

    def _expected(self) -> Iterator[BatchId]:
        """What it has to hold, the newest first."""
        half = self._cycle.half
        return filter(half.expects, self._cycle.extracted.ids_back(upto=half.last, after=ORIGIN))

    def _asked(self, sql: str) -> dict[LedgerKey, Entry]:
        return {entry.key: entry for entry in entries_of(self._cycle.stream, self._session.rows(sql))}
