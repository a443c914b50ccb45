"""Control tables in the warehouse: the fence of each stream, and the ledger of loaded batches."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from syncd.lake.batch_number import batch_from_number, batch_to_number
from syncd.ports.source import LedgerRecord
from syncd.redshift.quoting import TableRef, text_literal
from watermarks.batch import BatchId, BatchLink
from watermarks.loading import LedgerKey, LoadCycle
from watermarks.names import StreamName

if TYPE_CHECKING:
    from syncd.redshift.session import WarehouseSession

LEDGER_TABLE: Final = "syncd_ledger"
FENCE_TABLE_PREFIX: Final = "syncd_fence_"
_HASH_DIGITS: Final = 16
_OWN_LEDGER_NAME: Final = re.compile(f"{LEDGER_TABLE}_[0-9a-f]{{{_HASH_DIGITS}}}")
_ENTRY_COLUMNS: Final = "load_generation, batch, rows, table_name, manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTables:
    """Fence and ledger of one stream in one target; `LedgerTables.for_stream` chooses the ledger."""

    lake: str
    """The address of the lake: several lakes may be loaded into one warehouse."""
    stream: StreamName
    schema: str
    has_own_ledger: bool
    """In a SERIALIZABLE database, streams that share a ledger would make each other retry forever."""

    @property
    def ledger(self) -> TableRef:
        """The ledger that new batches are entered in."""
        return self.own_ledger if self.has_own_ledger else self.shared_ledger

    @property
    def shared_ledger(self) -> TableRef:
        return TableRef(schema=self.schema, name=LEDGER_TABLE)

    @property
    def own_ledger(self) -> TableRef:
        return self.shared_ledger.sibling(f"{LEDGER_TABLE}_{self._hash}")

    @property
    def fence(self) -> TableRef:
        return self.shared_ledger.sibling(FENCE_TABLE_PREFIX + self._hash)

    @property
    def _hash(self) -> str:
        return hashlib.sha256(f"{self.lake}\n{self.stream.stem}".encode()).hexdigest()[:_HASH_DIGITS]

    @property
    def ledgers(self) -> tuple[TableRef, ...]:
        """All ledgers that may hold its entries; the shared one holds those from before it got its own."""
        return (self.shared_ledger, self.own_ledger) if self.has_own_ledger else (self.shared_ledger,)

    @property
    def create_statements(self) -> tuple[str, ...]:
        fence = "epoch BIGINT, lake VARCHAR(2048), stream VARCHAR(2048)"
        ledger = (
            "lake VARCHAR(2048), stream VARCHAR(2048), target VARCHAR(512), load_generation BIGINT, batch BIGINT,"
            " epoch BIGINT, kind VARCHAR(32), manifest VARCHAR(128), rows BIGINT, high_cursor VARCHAR(65535),"
            " table_name VARCHAR(512), landed_at TIMESTAMP"
        )
        # A query from one batch of a stream on reads few blocks, however old the ledger is.
        layout = " DISTSTYLE AUTO COMPOUND SORTKEY (stream, batch)"
        tables = ((self.fence, fence, ""), *((table, ledger, layout) for table in self.ledgers))
        return tuple(f"CREATE TABLE IF NOT EXISTS {table.sql} ({columns}){layout}" for table, columns, layout in tables)

    @property
    def lock_statement(self) -> str:
        return f"LOCK TABLE {self.fence.sql}"

    @property
    def epoch_query(self) -> str:
        return f"SELECT MAX(epoch) FROM {self.fence.sql}"

    def raise_fence_statements(self, epoch: int) -> tuple[str, ...]:
        """Return the statements that set the epoch; they run under the lock of the fence."""
        values = f"{epoch}, {text_literal(self.lake)}, {text_literal(self.stream.stem)}"
        return f"DELETE FROM {self.fence.sql}", f"INSERT INTO {self.fence.sql} VALUES ({values})"

    @property
    def fence_holders_query(self) -> str:
        """Query for the sessions that hold the fence, or wait for it."""
        return (
            'SELECT DISTINCT t.pid FROM svv_transactions t JOIN pg_class c ON c."oid" = t.relation'
            ' JOIN pg_namespace n ON n."oid" = c.relnamespace'
            f" WHERE n.nspname = {text_literal(self.schema)} AND c.relname = {text_literal(self.fence.name)}"
            " AND t.pid <> pg_backend_pid()"
        )

    def entries_query(self, *, since: BatchId, upto: BatchId | None = None) -> str:
        """Return the query for the entries since a batch; with `upto`, up to that batch, plus the newest of all."""
        newest = f"(SELECT MAX(batch) FROM {self._ledger_rows} WHERE {self._stream_condition})"
        bound = f" AND (batch <= {batch_to_number(upto)} OR batch = {newest})" if upto else ""
        return f"{self._entries_select} AND batch >= {batch_to_number(since)}{bound}"

    def previous_entry_query(self, batch: BatchId, *, load_generation: int) -> str:
        """Return the query for the newest entry of a load generation before a batch."""
        older = f"load_generation = {load_generation} AND batch < {batch_to_number(batch)}"
        return f"{self._entries_select} AND {older} ORDER BY batch DESC LIMIT 1"

    @property
    def newest_query(self) -> str:
        """Query for the newest batch of this stream in each load generation."""
        return self._newest_by_group(self._stream_condition)

    @property
    def newest_of_lake_query(self) -> str:
        """Query for the newest batch of every stream of the lake in each load generation."""
        return self._newest_by_group(f"lake = {text_literal(self.lake)}")

    def _newest_by_group(self, condition: str) -> str:
        group = "stream, target, load_generation"
        return f"SELECT {group}, MAX(batch) FROM {self._ledger_rows} WHERE {condition} GROUP BY {group}"

    @property
    def entries_with_rows_query(self) -> str:
        """Query for the entries that brought rows."""
        return f"{self._entries_select} AND rows > 0"

    @property
    def _entries_select(self) -> str:
        return f"SELECT {_ENTRY_COLUMNS} FROM {self._ledger_rows} WHERE {self._stream_condition}"

    @property
    def _ledger_rows(self) -> str:
        if not self.has_own_ledger:
            return self.ledger.sql
        each = (f"SELECT lake, stream, target, {_ENTRY_COLUMNS} FROM {table.sql}" for table in self.ledgers)
        return f"({' UNION ALL '.join(each)}) held"

    def evidence_query(self, ledger: TableRef) -> str:
        """Return the query for the entries in one ledger. Each is queried alone, because each may be missing."""
        return f"SELECT {_ENTRY_COLUMNS} FROM {ledger.sql} WHERE {self._stream_condition}"

    def other_streams_query(self, ledger: TableRef, table: TableRef) -> str:
        """Return the query for other streams that were loaded into a table, according to one ledger."""
        return (
            f"SELECT DISTINCT lake, stream FROM {ledger.sql}"
            f" WHERE table_name = {text_literal(str(table))} AND NOT ({self._stream_condition}) LIMIT 10"
        )

    @property
    def _stream_condition(self) -> str:
        return (
            f"lake = {text_literal(self.lake)} AND stream = {text_literal(self.stream.chain_stem)}"
            f" AND target = {text_literal(self.stream.target)}"
        )

    def insert_entries_statement(
        self, cycle: LoadCycle, links: Sequence[BatchLink], rows: Iterable[int], *, table: TableRef
    ) -> str:
        """Return the last write of a load: a write to the ledger blocks all other loads until it is committed."""
        entries = zip(links, rows, strict=True)
        values = ", ".join(self._entry_values(cycle, link, count, table) for link, count in entries)
        return f"INSERT INTO {self.ledger.sql} VALUES {values}"

    def _entry_values(self, cycle: LoadCycle, link: BatchLink, rows: int, table: TableRef) -> str:
        key = cycle.ledger_key(link.id)
        fields = (
            *map(text_literal, (self.lake, self.stream.chain_stem, self.stream.target)),
            key.load_generation,
            batch_to_number(link.id),
            cycle.epoch,
            text_literal(link.kind),
            text_literal(link.digest),
            rows,
            text_literal(str(link.high)),
            text_literal(str(table)),
            "GETDATE()",
        )
        return f"({', '.join(map(str, fields))})"


ISOLATION_LEVEL_QUERY: Final = (
    "SELECT database_isolation_level FROM svv_redshift_databases WHERE database_name = CURRENT_DATABASE()"
)
"""Redshift has one isolation level for the whole database."""


def own_ledgers_query(schema: str) -> str:
    """Return the query for names like those of streams' own ledgers."""
    return (
        'SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n."oid" = c.relnamespace'
        f" WHERE n.nspname = {text_literal(schema)} AND c.relname LIKE {text_literal(f'{LEDGER_TABLE}_%')}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTables:
    """Ledgers of one warehouse."""

    schema: str
    is_serializable: bool
    """True if the database is; then each stream gets its own ledger."""
    own_names: frozenset[str]
    """Names of the existing ledgers that belong to one stream."""

    @classmethod
    def discover(cls, session: "WarehouseSession", schema: str) -> Self:
        """Query the ledgers of a schema, by two short statements."""
        [(level,)] = session.rows(ISOLATION_LEVEL_QUERY)
        names = session.rows(own_ledgers_query(schema))
        return cls.from_answers(schema, level=str(level), names=[str(name) for (name,) in names])

    @classmethod
    def from_answers(cls, schema: str, *, level: str, names: Iterable[str]) -> Self:
        own = frozenset(filter(_OWN_LEDGER_NAME.fullmatch, names))
        return cls(schema=schema, is_serializable=level.upper().startswith("SERIALIZABLE"), own_names=own)

    def for_stream(self, stream: StreamName, *, lake: str) -> ControlTables:
        """Return the control tables of a stream that is loaded from a lake."""
        controls = ControlTables(lake=lake, stream=stream, schema=self.schema, has_own_ledger=self.is_serializable)
        # An existing ledger stays in use: it holds the batches loaded while the database was SERIALIZABLE.
        return replace(controls, has_own_ledger=True) if controls.own_ledger.name in self.own_names else controls

    @property
    def tables(self) -> tuple[TableRef, ...]:
        """All ledgers; the shared one may be missing."""
        return tuple(TableRef(schema=self.schema, name=name) for name in (LEDGER_TABLE, *sorted(self.own_names)))


def parse_entries(stream: StreamName, rows: Iterable[Sequence[object]]) -> dict[LedgerKey, LedgerRecord]:
    """Return the ledger entries in rows of an entries query."""
    entries: dict[LedgerKey, LedgerRecord] = {}
    for generation, batch, count, table, manifest in rows:
        number = batch_from_number(int(str(batch)))
        key = LedgerKey(stream=stream, load_generation=int(str(generation)), batch=number)
        entries[key] = LedgerRecord(rows=int(str(count)), table=str(table), manifest=str(manifest))
    return entries
