"""Statements of each mode for rows that were deleted at the source."""

from collections.abc import Iterator
from dataclasses import dataclass

from syncd.lake.batch_number import batch_to_number
from syncd.lake.manifest import Tombstones
from syncd.redshift.apply_statements import mark_deleted_assignments
from syncd.redshift.load_sql import JOIN_ALIAS, PLACE_COLUMN, LoadSqlBuilder
from syncd.redshift.quoting import BATCH_COLUMN, batch_number_sql, column_ref, quote_name, value_literal
from syncd.redshift.scratch_tables import ScratchLoad
from syncd.redshift.target_table import DELETED_AT, VALID_TO
from syncd.settings import Deletes, Mode
from watermarks.batch import BatchId
from watermarks.progress import BEFORE_FIRST_BATCH


def delete_statements(sql: LoadSqlBuilder, mode: Mode, deletes: Deletes) -> Iterator[str]:
    """Yield the statements, one for each batch; they run after the rows of the load are in place.

    A version that a later batch brought stays, and so does one whose cursor is above the bound. A marked row takes
    the number of the batch that found it deleted, so a replay of an older batch does not restore it.
    """
    if deletes is Deletes.IGNORE or mode is Mode.REPLACE:
        return
    for load in sql.scratch.delete_loads:
        for link, manifest in zip(load.links, load.manifests, strict=True):
            assert manifest.tombstones is not None
            batch = _BatchDeletes(sql, load, link.id, manifest.tombstones)
            if mode is Mode.HISTORY:
                yield batch.end_version_sql
            else:
                yield batch.mark_sql if deletes is Deletes.SOFT else batch.delete_sql


@dataclass(frozen=True, slots=True)
class _BatchDeletes:
    """Tombstones of one batch."""

    sql: LoadSqlBuilder
    keys: ScratchLoad
    batch: BatchId
    tombstones: Tombstones

    @property
    def delete_sql(self) -> str:
        keys = self.keys.table
        return (
            f"DELETE FROM {self._table} USING {keys} WHERE {self._match_condition(self.keys)}"
            f" AND {keys}.{BATCH_COLUMN} = {self._number}"
        )

    @property
    def mark_sql(self) -> str:
        return (
            f"UPDATE {self._table} SET {self._mark_assignments} FROM ({self._keys_query}) {JOIN_ALIAS}"
            f" WHERE {self._match_condition(JOIN_ALIAS)} AND {self._unmarked_condition}"
        )

    @property
    def end_version_sql(self) -> str:
        """The statement that ends the newest version, if it was read before the tombstones.

        Versions that came after the tombstones are loaded after them. Where the tombstones are loaded again, any
        version that follows has ended the marked one already: a version that was read again since no longer shows
        when it came.
        """
        sql = self.sql
        versions = sql.select_versions(self._keys_query, sql.version_rank("t", "DESC"))
        until, end = column_ref(self._table, VALID_TO), value_literal(self.tombstones.upto.values[0])
        return (
            f"UPDATE {self._table} SET {quote_name(VALID_TO)} = CASE WHEN {until} < {end} THEN {until} ELSE {end} END,"
            f" {self._mark_assignments} FROM ({versions}) {JOIN_ALIAS}"
            f" WHERE {sql.match_condition(self._table, JOIN_ALIAS, cursor=True)}"
            f" AND {batch_number_sql(self._table)} = {JOIN_ALIAS}.{BATCH_COLUMN} AND {JOIN_ALIAS}.{PLACE_COLUMN} = 1"
            f" AND {self._older_condition} AND {self._unmarked_condition}"
        )

    @property
    def _number(self) -> int:
        return batch_to_number(self.batch)

    @property
    def _table(self) -> str:
        return self.sql.table.sql

    @property
    def _keys_query(self) -> str:
        return self.sql.select_keys([self.keys], number=self._number)

    def _match_condition(self, keys: str | ScratchLoad) -> str:
        return f"{self.sql.match_condition(self._table, keys)} AND {self._older_condition}"

    @property
    def _older_condition(self) -> str:
        last_read = self.tombstones.last_read
        seen = f"{batch_number_sql(self._table)} <= {batch_to_number(last_read)}"
        applies = self.sql.tombstone_condition(
            self.tombstones, self._table, seen_condition="" if last_read == BEFORE_FIRST_BATCH else seen
        )
        return f"{batch_number_sql(self._table)} < {self._number} AND {applies}"

    @property
    def _unmarked_condition(self) -> str:
        return f"{column_ref(self._table, DELETED_AT)} IS NULL"

    @property
    def _mark_assignments(self) -> str:
        return mark_deleted_assignments(self.batch, self.tombstones)
