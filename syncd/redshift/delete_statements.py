"""Rows that are gone at the source: what tombstones make of them in each mode."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from syncd.lake import batch_number
from syncd.lake.tombstones import Tombstones
from syncd.redshift.apply_statements import JOINED, PLACE, Landing, batch, column, marks_of
from syncd.redshift.copy_statement import Load
from syncd.redshift.quoting import literal, quoted
from syncd.redshift.target_table import DELETED_AT, VALID_TO
from syncd.settings import Deletes, Mode
from watermarks.batch import BatchId
from watermarks.progress import ORIGIN

BATCH: Final = quoted(batch_number.COLUMN)


def buried(landing: Landing, mode: Mode, deletes: Deletes) -> Iterator[str]:
    """The statements, one a batch; they come when the rows of the landing are in their places.

    A version that a later batch brought stays, and so does one whose cursor is above the bound. What is marked takes
    the number of the batch that found it gone: so a replay of what was read before does not bring it back.
    """
    if deletes is Deletes.IGNORE or mode is Mode.REPLACE:
        return
    for load in landing.burials:
        for link, manifest in zip(load.links, load.manifests, strict=True):
            assert manifest.tombstones is not None
            burial = _Burial(landing, load, link.id, manifest.tombstones)
            if mode is Mode.HISTORY:
                yield burial.ended
            else:
                yield burial.marked if deletes is Deletes.SOFT else burial.deleted


@dataclass(frozen=True, slots=True)
class _Burial:
    """The tombstones of one batch."""

    landing: Landing
    keys: Load
    batch: BatchId
    tombstones: Tombstones

    @property
    def number(self) -> int:
        return batch_number.number_of(self.batch)

    @property
    def deleted(self) -> str:
        keys = self.keys.table
        return (
            f"DELETE FROM {self._table} USING {keys} WHERE {self._gone(self.keys)} AND {keys}.{BATCH} = {self.number}"
        )

    @property
    def marked(self) -> str:
        return (
            f"UPDATE {self._table} SET {self._marks} FROM ({self._keys}) {JOINED}"
            f" WHERE {self._gone(JOINED)} AND {self._unmarked}"
        )

    @property
    def ended(self) -> str:
        """The newest version ends, if it was read before; what came after the tombstones lands after them.

        Where they land again, whatever stands behind a version has ended it already: of one that was read again since
        nothing tells any more when it came.
        """
        landing = self.landing
        newest = f"ROW_NUMBER() OVER (PARTITION BY {landing.grouping('t')} ORDER BY {landing.age('t', 'DESC')})"
        versions = landing.versions(self._keys, newest)
        until, end = column(self._table, VALID_TO), literal(self.tombstones.upto.values[0])
        return (
            f"UPDATE {self._table} SET {quoted(VALID_TO)} = CASE WHEN {until} < {end} THEN {until} ELSE {end} END,"
            f" {self._marks} FROM ({versions}) {JOINED} WHERE {landing.same(self._table, JOINED, cursor=True)}"
            f" AND {batch(self._table)} = {JOINED}.{BATCH} AND {JOINED}.{PLACE} = 1"
            f" AND {self._older} AND {self._unmarked}"
        )

    @property
    def _table(self) -> str:
        return self.landing.table.sql

    @property
    def _keys(self) -> str:
        return self.landing.keys([self.keys], number=self.number)

    def _gone(self, keys: str | Load) -> str:
        return f"{self.landing.same(self._table, keys)} AND {self._older}"

    @property
    def _older(self) -> str:
        tombstones = self.tombstones
        seen = f"{batch(self._table)} <= {batch_number.number_of(tombstones.seen)}"
        meant = self.landing.meant(tombstones, self._table, seen="" if tombstones.seen == ORIGIN else seen)
        return f"{batch(self._table)} < {self.number} AND {meant}"

    @property
    def _unmarked(self) -> str:
        return f"{column(self._table, DELETED_AT)} IS NULL"

    @property
    def _marks(self) -> str:
        return marks_of(self.batch, self.tombstones)
