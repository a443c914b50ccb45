"""Rows that are gone at the source: what tombstones make of them in each mode."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from syncd.lake import batch_number
from syncd.lake.tombstones import Tombstones
from syncd.redshift.apply_statements import (
    JOIN_ALIAS,
    PLACE_COLUMN,
    LoadSqlBuilder,
    batch_number_sql,
    column_ref,
    mark_deleted_assignments,
)
from syncd.redshift.copy_statement import ScratchLoad
from syncd.redshift.quoting import quote_name, value_literal
from syncd.redshift.target_table import DELETED_AT, VALID_TO
from syncd.settings import Deletes, Mode
from watermarks.batch import BatchId
from watermarks.progress import BEFORE_FIRST_BATCH

BATCH_COLUMN: Final = quote_name(batch_number.BATCH_COLUMN)


def delete_statements(landing: LoadSqlBuilder, mode: Mode, deletes: Deletes) -> Iterator[str]:
    """The statements, one a batch; they come when the rows of the landing are in their places.

    A version that a later batch brought stays, and so does one whose cursor is above the bound. What is marked takes
    the number of the batch that found it gone: so a replay of what was read before does not bring it back.
    """
    if deletes is Deletes.IGNORE or mode is Mode.REPLACE:
        return
    for load in landing.delete_loads:
        for link, manifest in zip(load.links, load.manifests, strict=True):
            assert manifest.tombstones is not None
            burial = _BatchDeletes(landing, load, link.id, manifest.tombstones)
            if mode is Mode.HISTORY:
                yield burial.end_version_sql
            else:
                yield burial.mark_sql if deletes is Deletes.SOFT else burial.delete_sql


@dataclass(frozen=True, slots=True)
class _BatchDeletes:
    """The tombstones of one batch."""

    landing: LoadSqlBuilder
    keys: ScratchLoad
    batch: BatchId
    tombstones: Tombstones

    @property
    def number(self) -> int:
        return batch_number.batch_to_number(self.batch)

    @property
    def delete_sql(self) -> str:
        keys = self.keys.table
        return f"DELETE FROM {self._table} USING {keys} WHERE {self._match_condition(self.keys)} AND {keys}.{BATCH_COLUMN} = {self.number}"

    @property
    def mark_sql(self) -> str:
        return (
            f"UPDATE {self._table} SET {self._mark_assignments} FROM ({self._keys_query}) {JOIN_ALIAS}"
            f" WHERE {self._match_condition(JOIN_ALIAS)} AND {self._unmarked_condition}"
        )

    @property
    def end_version_sql(self) -> str:
        """The newest version ends, if it was read before; what came after the tombstones lands after them.

        Where they land again, whatever stands behind a version has ended it already: of one that was read again since
        nothing tells any more when it came.
        """
        landing = self.landing
        newest = f"ROW_NUMBER() OVER (PARTITION BY {landing.group_by_columns('t')} ORDER BY {landing.version_order('t', 'DESC')})"
        versions = landing.select_versions(self._keys_query, newest)
        until, end = column_ref(self._table, VALID_TO), value_literal(self.tombstones.upto.values[0])
        return (
            f"UPDATE {self._table} SET {quote_name(VALID_TO)} = CASE WHEN {until} < {end} THEN {until} ELSE {end} END,"
            f" {self._mark_assignments} FROM ({versions}) {JOIN_ALIAS} WHERE {landing.match_condition(self._table, JOIN_ALIAS, cursor=True)}"
            f" AND {batch_number_sql(self._table)} = {JOIN_ALIAS}.{BATCH_COLUMN} AND {JOIN_ALIAS}.{PLACE_COLUMN} = 1"
            f" AND {self._older_condition} AND {self._unmarked_condition}"
        )

    @property
    def _table(self) -> str:
        return self.landing.table.sql

    @property
    def _keys_query(self) -> str:
        return self.landing.select_keys([self.keys], number=self.number)

    def _match_condition(self, keys: str | ScratchLoad) -> str:
        return f"{self.landing.match_condition(self._table, keys)} AND {self._older_condition}"

    @property
    def _older_condition(self) -> str:
        tombstones = self.tombstones
        seen = f"{batch_number_sql(self._table)} <= {batch_number.batch_to_number(tombstones.last_read)}"
        meant = self.landing.tombstone_condition(
            tombstones, self._table, seen_condition="" if tombstones.last_read == BEFORE_FIRST_BATCH else seen
        )
        return f"{batch_number_sql(self._table)} < {self.number} AND {meant}"

    @property
    def _unmarked_condition(self) -> str:
        return f"{column_ref(self._table, DELETED_AT)} IS NULL"

    @property
    def _mark_assignments(self) -> str:
        return mark_deleted_assignments(self.batch, self.tombstones)
