"""Conditions and queries that the statements of one load are made of."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from syncd.lake import batch_number
from syncd.lake.manifest import Manifest, Tombstones
from syncd.redshift.quoting import (
    BATCH_COLUMN,
    TableRef,
    batch_number_sql,
    column_ref,
    group_by_columns,
    quote_name,
    value_literal,
    version_order,
)
from syncd.redshift.scratch_tables import ScratchLoad, ScratchRows
from syncd.redshift.target_table import VALID_TO, ExistingTable
from syncd.tables.sort_order import RowIdentity
from watermarks.batch import BatchId, BatchKind, BatchLink

PLACE_COLUMN: Final = quote_name("_syncd_place")
JOIN_ALIAS: Final = "syncd_joined"
"""Alias of what an UPDATE joins to the target: no server accepts an alias that is also the target's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSqlBuilder:
    """Builder of conditions and queries over the target and the scratch rows of one load."""

    table: TableRef
    scratch: ScratchRows
    read_batches: tuple[tuple[BatchLink, Manifest], ...] = ()
    """Every batch of the load that read something, in order, also those that found no row."""
    reloaded_upto: BatchId | None = None
    """Batches up to this one were loaded before, and so may be later ones; None: none was."""
    later_tombstones: Mapping[BatchId, Tombstones] = field(default_factory=dict[BatchId, Tombstones])
    """Tombstones that marked rows whose keys a replay brings, the oldest first."""

    @property
    def existing(self) -> ExistingTable:
        return self.scratch.existing

    @property
    def loads(self) -> tuple[ScratchLoad, ...]:
        return self.scratch.loads

    @property
    def identity(self) -> RowIdentity:
        """The row identity of the newest batch."""
        loads = self.loads or self.scratch.delete_loads
        if not loads:
            return self.read_batches[-1][1].identity
        # Loads are in the order of the first batch with their columns.
        return max(loads, key=lambda load: load.links[-1].id).manifests[-1].identity

    @property
    def has_batch_numbers(self) -> bool:
        return batch_number.BATCH_COLUMN in self.existing

    def match_condition(self, left: str | ScratchLoad, right: str | ScratchLoad, *, cursor: bool = False) -> str:
        """Return the condition for two rows being the same row, or with `cursor` the same version of it."""
        conditions = [self._equal_condition(name, left, right) for name in self.identity.key]
        if cursor and self.identity.cursor:
            mine, yours = (self._value(rows, self.identity.cursor) for rows in (left, right))
            conditions.append(f"({mine} = {yours} OR ({mine} IS NULL AND {yours} IS NULL))")
        return " AND ".join(conditions)

    def _value(self, rows: str | ScratchLoad, name: str) -> str:
        """Return a column in a form that compares with the target; columns of a load are cast."""
        return column_ref(rows, name) if isinstance(rows, str) else self.scratch.cast_value(rows, name, rows=rows.table)

    def _equal_condition(self, name: str, left: str | ScratchLoad, right: str | ScratchLoad) -> str:
        mine, yours = self._value(left, name), self._value(right, name)
        if not self.existing.is_text_column(name):
            return f"{mine} = {yours}"
        # Redshift ignores trailing blanks of a text, and MySQL may not.
        return f"{mine} = {yours} AND OCTET_LENGTH({mine}) = OCTET_LENGTH({yours})"

    def group_by_columns(self, rows: str, *, cursor: bool = False) -> str:
        """Return the expressions that distinguish rows, or with `cursor` their versions."""
        columns = group_by_columns(rows, self.identity.key, self.existing.is_text_column)
        return f"{columns}, {column_ref(rows, self.identity.cursor)}" if cursor and self.identity.cursor else columns

    def version_rank(self, rows: str, direction: str) -> str:
        """Return the rank of a version among those of its row."""
        order = version_order(rows, self.identity.cursor, direction)
        return f"ROW_NUMBER() OVER (PARTITION BY {self.group_by_columns(rows)} ORDER BY {order})"

    def newer_condition(self, load: ScratchLoad) -> str:
        """Return the condition for a row of the target being newer than a row of a load."""
        mine, yours = batch_number_sql(self.table.sql), batch_number_sql(load.table)
        if self.identity.cursor is None:
            return f"{mine} > {yours}"
        cursors = f"{column_ref(self.table.sql, self.identity.cursor)} > {self._value(load, self.identity.cursor)}"
        return f"({mine} > {yours} OR ({mine} = {yours} AND {cursors}))"

    def tombstone_condition(self, tombstones: Tombstones, rows: str | ScratchLoad, *, seen_condition: str) -> str:
        """Return the condition for tombstones applying to a version that was read before them.

        `seen_condition` holds for versions that were read before the check for deleted rows; they count
        whatever their cursor. It may be empty.
        """
        if self.identity.cursor is None:
            return "TRUE"
        cursor = self._value(rows, self.identity.cursor)
        bounds = f"{cursor} IS NULL OR {cursor} <= {value_literal(tombstones.upto.values[0])}"
        if seen_condition and VALID_TO not in self.existing:  # no version ends before it begins
            bounds += f" OR {seen_condition}"
        return f"({bounds})"

    def tombstone_condition_for(self, origin: BatchId, tombstones: Tombstones, rows: str | ScratchLoad) -> str:
        """Return the condition for tombstones applying to versions that the batch `origin` first read."""
        seen = "TRUE" if origin <= tombstones.last_read else ""
        return self.tombstone_condition(tombstones, rows, seen_condition=seen)

    @property
    def missed_tombstones(self) -> Iterator[tuple[BatchId, BatchId, Tombstones]]:
        """Each batch that first read rows of a replay, with the number and content of later tombstones."""
        for origin in dict.fromkeys(link.rank for load in self.replay_loads for link in load.links if is_replay(link)):
            yield from ((origin, number, each) for number, each in self.later_tombstones.items() if number > origin)

    @property
    def replay_loads(self) -> tuple[ScratchLoad, ...]:
        return tuple(load for load in self.loads if any(map(is_replay, load.links)))

    def replayed_rows(self, origin: BatchId | None = None) -> str:
        """Return the rows of the target, as `t`, whose keys replays bring; with `origin`, those it first read."""
        keys = self.select_keys(self.replay_loads, number=batch_number.batch_to_number(origin) if origin else None)
        return f"{self.table.sql} t JOIN ({keys}) b ON {self.match_condition('t', 'b')}"

    def key_columns(self, rows: str) -> str:
        return ", ".join(column_ref(rows, name) for name in self.identity.key)

    def select_keys(self, loads: Iterable[ScratchLoad], *, number: int | None = None) -> str:
        """Select each key of these loads once, or of one batch of theirs, so that a join multiplies no row.

        Grouped as rows are distinguished: UNION and DISTINCT ignore trailing blanks of texts.
        """
        rows = " UNION ALL ".join(self._select_load_keys(load) for load in loads)
        condition = "" if number is None else f" WHERE r.{BATCH_COLUMN} = {number}"
        return f"SELECT {self.key_columns('r')} FROM ({rows}) r{condition} GROUP BY {self.group_by_columns('r')}"

    def _select_load_keys(self, load: ScratchLoad) -> str:
        columns = [f"{self.scratch.cast_value(load, name)} AS {quote_name(name)}" for name in self.identity.key]
        return f"SELECT {', '.join((*columns, BATCH_COLUMN))} FROM {load.table}"

    def select_versions(self, keys: str, place_sql: str) -> str:
        """Select each version that the target has of these keys once, with its place among those of its row."""
        assert self.identity.cursor is not None
        known = ", ".join(column_ref("t", name) for name in (*self.identity.key, self.identity.cursor))
        number = batch_number_sql("t")
        versions = (
            f"SELECT {known}, {number} AS {BATCH_COLUMN} FROM {self.table.sql} t"
            f" JOIN ({keys}) k ON {self.match_condition('t', 'k')}"
            f" GROUP BY {self.group_by_columns('t', cursor=True)}, {number}"
        )
        return f"SELECT {known}, t.{BATCH_COLUMN}, {place_sql} AS {PLACE_COLUMN} FROM ({versions}) t"

    def insert_newest(self, *, cursor: bool = False) -> str:
        """Insert the newest version of each row, or with `cursor` each version once."""
        order = version_order("m", self.identity.cursor, "DESC")
        numbered = (
            f"SELECT m.*, ROW_NUMBER() OVER (PARTITION BY {self.group_by_columns('m', cursor=cursor)}"
            f" ORDER BY {order}) AS {PLACE_COLUMN} FROM ({self.scratch.select_all()}) m"
        )
        return self.scratch.insert(self.table, numbered, where=f"{PLACE_COLUMN} = 1")


def is_replay(link: BatchLink) -> bool:
    return link.kind is BatchKind.REPLAY
