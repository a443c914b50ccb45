"""The statements by which the warehouse is compared: sums, keys and values, of ranges of a key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import Passage
from syncd.lake import batch_number
from syncd.mysql.sql import upto
from syncd.redshift.quoting import literal, quoted, text_literal
from syncd.redshift.target_table import DELETED_AT, VALID_TO
from syncd.verify.compared_columns import Bounds, Compared
from syncd.verify.digest_forms import HEX_BYTES, HEX_PIECES, hashed
from syncd.verify.key_ranges import Range, ThereColumn, condition, place_among
from watermarks.cursor import Cursor

FRESH: Final = quoted("syncd_fresh")
"""A temporary table: keys whose rows at the source stand above the mark."""
_PLACE: Final = quoted("_syncd_place")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThereSql:
    """Statements for one stream and the bounds of one comparison."""

    compared: Compared
    bounds: Bounds
    fresh: bool = False
    """Whether there are keys to leave out."""

    @property
    def begin(self) -> str:
        """Reads next to nothing: with it the transaction's snapshot is taken."""
        return f"SELECT 1 FROM {self.compared.target.sql} LIMIT 1"

    @property
    def create_fresh(self) -> str:
        return f"CREATE TEMP TABLE {FRESH} (k VARCHAR({min(self.compared.key_width, 65_535)}))"

    def insert_fresh(self, keys: Sequence[str]) -> str:
        return f"INSERT INTO {FRESH} VALUES {', '.join(f'({text_literal(key)})' for key in keys)}"

    def digests(self, one: Range, ends: Sequence[Cursor]) -> str:
        """Reads, of each range that these positions make of one, its number, its rows and the sum of their digests."""
        return self._summed(one, place_among(self.compared.there_columns, ends))

    def digests_by_digit(self, one: Range, digits: int) -> str:
        return self._summed(one, f"LEFT({hashed(self.compared.there_key)}, {digits:d})")

    def _summed(self, one: Range, group: str) -> str:
        return (
            f"SELECT r.g, COUNT(*), SUM(r.h) FROM (SELECT {group} AS g, {self.compared.there_digest} AS h{self._key}"
            f" FROM {self._rows(one)}) r{self._known} GROUP BY r.g"
        )

    def rows(self, one: Range) -> str:
        """Reads of every row of a range its key and its digest."""
        compared = self.compared
        return (
            f"SELECT r.k, r.h FROM (SELECT {compared.there_key} AS k, {compared.there_digest} AS h"
            f" FROM {self._rows(one)}) r{self._known}"
        )

    def values(self, one: Range, keys: Sequence[str]) -> str:
        """Reads these rows of a range, and behind them the key's text."""
        listed = ", ".join(map(text_literal, keys))
        shown = ", ".join(part for passage in self.compared.shown_columns for part in shown_parts(passage))
        return (
            f"SELECT {shown}, {self.compared.there_key} FROM {self._rows(one)}"
            f" AND {self.compared.there_key} IN ({listed})"
        )

    def positions(self, one: Range, *, step: int) -> str:
        """Reads the position of each so-manyth row of a range, in order."""
        columns = ", ".join(column.sql for column in self.compared.there_columns)
        numbered = f"SELECT {columns}, ROW_NUMBER() OVER (ORDER BY {columns}) AS {_PLACE} FROM {self._rows(one)}"
        return f"SELECT {columns} FROM ({numbered}) r WHERE MOD(r.{_PLACE}, {step:d}) = 0 ORDER BY {columns}"

    def left_out(self) -> str | None:
        """Reads how many rows are marked as gone, and how many are versions that another one followed."""
        gone = f"{quoted(DELETED_AT)} IS NOT NULL" if self.compared.marks_gone else "FALSE"
        followed = f"{quoted(VALID_TO)} IS NOT NULL" if self.compared.ends_versions else "FALSE"
        if gone == followed == "FALSE":
            return None
        return (
            f"SELECT COUNT(CASE WHEN {gone} THEN 1 END), COUNT(CASE WHEN {followed} AND NOT ({gone}) THEN 1 END)"
            f" FROM {self.compared.target.sql}"
        )

    @property
    def _key(self) -> str:
        return f", {self.compared.there_key} AS k" if self.fresh else ""

    @property
    def _known(self) -> str:
        return f" LEFT JOIN {FRESH} x ON x.k = r.k WHERE x.k IS NULL" if self.fresh else ""

    def _rows(self, one: Range) -> str:
        """The rows of a range that stand for one of the source each, and a condition that can be added to."""
        compared = self.compared
        where = condition(compared.there_columns, one)
        if not compared.keeps_versions:
            return f"{compared.target.sql} WHERE {where}{self._begun(one)}{self._present}"
        numbered = (
            f"SELECT t.*, RANK() OVER (PARTITION BY {self._grouping} ORDER BY {self._age}) AS {_PLACE}"
            f" FROM {compared.target.sql} t WHERE {where}{self._begun(one)}"
        )
        return f"({numbered}) v WHERE v.{_PLACE} = 1{self._present}"

    def _begun(self, one: Range) -> str:
        if not one.digits:
            return ""
        return f" AND LEFT({hashed(self.compared.there_key)}, {len(one.digits)}) = '{one.digits}'"

    @property
    def _present(self) -> str:
        compared, since, cursor = self.compared, self.bounds.since, self.compared.cursor
        found = ""
        if compared.marks_gone:
            found += f" AND {quoted(DELETED_AT)} IS NULL"
        if compared.ends_versions:
            found += f" AND {quoted(VALID_TO)} IS NULL"
        if cursor is not None and compared.order.nullable:
            found += f" AND {cursor.sql} IS NOT NULL"
        if cursor is not None and since is not None:
            found += f" AND {cursor.sql} >= {literal(since.values[0])}"
        return found

    @property
    def _grouping(self) -> str:
        found: list[str] = []
        for name in self.compared.identity.key:
            found.append(f"t.{quoted(name)}")
            if self.compared.is_text(name):
                found.append(f"OCTET_LENGTH(t.{quoted(name)})")  # blanks at the end of a text are not seen otherwise
        return ", ".join(found)

    @property
    def _age(self) -> str:
        assert self.compared.identity.cursor
        cursor = f"t.{quoted(self.compared.identity.cursor)}"
        batch = [f"COALESCE(t.{quoted(batch_number.COLUMN)}, 0) DESC"] if self.compared.ranked else []
        return ", ".join([*batch, f"CASE WHEN {cursor} IS NULL THEN 0 ELSE 1 END DESC", f"{cursor} DESC"])


def last_position(compared: Compared, columns: Sequence[ThereColumn], *, high: Cursor) -> str:
    """Reads where the last row of the target stands, by these columns, at or below a position."""
    shown = ", ".join(column.sql for column in columns)
    by = ", ".join(f"{column.sql} DESC" for column in columns)
    gone = f" AND {quoted(DELETED_AT)} IS NULL" if compared.marks_gone else ""
    return f"SELECT {shown} FROM {compared.target.sql} WHERE {upto(columns, high)}{gone} ORDER BY {by} LIMIT 1"


def shown_parts(passage: Passage) -> tuple[str, ...]:
    """The expressions by which a value is fetched: a long binary one in pieces, behind its length."""
    name = quoted(passage.name)
    if not passage.redshift.startswith("VARBYTE"):
        return (name,)
    pieces = (f"LOWER(TO_HEX(SUBSTRING({name}, {1 + HEX_BYTES * n}, {HEX_BYTES})))" for n in range(pieces_of(passage)))
    return (f"OCTET_LENGTH({name})", *pieces)


def pieces_of(passage: Passage) -> int:
    return min(-(-(passage.limit or 1) // HEX_BYTES), HEX_PIECES)
