"""The statements by which the warehouse is compared: sums, keys and values, of ranges of a key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.lake import batch_number
from syncd.mysql.sql import upto_condition
from syncd.redshift.quoting import quote_name, text_literal, value_literal
from syncd.redshift.target_table import DELETED_AT, VALID_TO
from syncd.verify.compared_columns import ComparisonBounds, ComparisonSubject
from syncd.verify.digest_forms import HEX_PIECE_BYTES, MAX_HEX_PIECES, hash_sql
from syncd.verify.key_ranges import KeyRange, TargetKeyColumn, key_range_condition, range_number_sql
from watermarks.cursor import Cursor

EXCLUDED_KEYS_TABLE: Final = quote_name("syncd_fresh")
"""A temporary table: keys whose rows at the source stand above the mark."""
_PLACE_COLUMN: Final = quote_name("_syncd_place")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSql:
    """Statements for one stream and the bounds of one comparison."""

    subject: ComparisonSubject
    bounds: ComparisonBounds
    has_excluded_keys: bool = False
    """Whether there are keys to leave out."""

    @property
    def snapshot_query(self) -> str:
        """Reads next to nothing: with it the transaction's snapshot is taken."""
        return f"SELECT 1 FROM {self.subject.target.sql} LIMIT 1"

    @property
    def create_excluded_keys(self) -> str:
        return f"CREATE TEMP TABLE {EXCLUDED_KEYS_TABLE} (k VARCHAR({min(self.subject.key_width, 65_535)}))"

    def insert_excluded_keys(self, keys: Sequence[str]) -> str:
        return f"INSERT INTO {EXCLUDED_KEYS_TABLE} VALUES {', '.join(f'({text_literal(key)})' for key in keys)}"

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> str:
        """Reads, of each range that these positions make of one, its number, its rows and the sum of their digests."""
        return self._digests_query(key_range, range_number_sql(self.subject.target_columns, ends))

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> str:
        return self._digests_query(key_range, f"LEFT({hash_sql(self.subject.target_key)}, {prefix_length:d})")

    def _digests_query(self, key_range: KeyRange, group: str) -> str:
        return (
            f"SELECT r.g, COUNT(*), SUM(r.h) FROM (SELECT {group} AS g, {self.subject.target_digest} AS h{self._key_column}"
            f" FROM {self._rows(key_range)}) r{self._exclusion_join} GROUP BY r.g"
        )

    def rows(self, key_range: KeyRange) -> str:
        """Reads of every row of a range its key and its digest."""
        compared = self.subject
        return (
            f"SELECT r.k, r.h FROM (SELECT {compared.target_key} AS k, {compared.target_digest} AS h"
            f" FROM {self._rows(key_range)}) r{self._exclusion_join}"
        )

    def values(self, key_range: KeyRange, keys: Sequence[str]) -> str:
        """Reads these rows of a range, and behind them the key's text."""
        listed = ", ".join(map(text_literal, keys))
        shown = ", ".join(part for passage in self.subject.fetched_columns for part in fetch_expressions(passage))
        return (
            f"SELECT {shown}, {self.subject.target_key} FROM {self._rows(key_range)}"
            f" AND {self.subject.target_key} IN ({listed})"
        )

    def positions(self, key_range: KeyRange, *, step: int) -> str:
        """Reads the position of each so-manyth row of a range, in order."""
        columns = ", ".join(column.sql for column in self.subject.target_columns)
        numbered = (
            f"SELECT {columns}, ROW_NUMBER() OVER (ORDER BY {columns}) AS {_PLACE_COLUMN} FROM {self._rows(key_range)}"
        )
        return f"SELECT {columns} FROM ({numbered}) r WHERE MOD(r.{_PLACE_COLUMN}, {step:d}) = 0 ORDER BY {columns}"

    def left_out_counts(self) -> str | None:
        """Reads how many rows are marked as gone, and how many are versions that another one followed."""
        gone = f"{quote_name(DELETED_AT)} IS NOT NULL" if self.subject.has_delete_marks else "FALSE"
        followed = f"{quote_name(VALID_TO)} IS NOT NULL" if self.subject.ends_versions else "FALSE"
        if gone == followed == "FALSE":
            return None
        return (
            f"SELECT COUNT(CASE WHEN {gone} THEN 1 END), COUNT(CASE WHEN {followed} AND NOT ({gone}) THEN 1 END)"
            f" FROM {self.subject.target.sql}"
        )

    @property
    def _key_column(self) -> str:
        return f", {self.subject.target_key} AS k" if self.has_excluded_keys else ""

    @property
    def _exclusion_join(self) -> str:
        return f" LEFT JOIN {EXCLUDED_KEYS_TABLE} x ON x.k = r.k WHERE x.k IS NULL" if self.has_excluded_keys else ""

    def _rows(self, key_range: KeyRange) -> str:
        """The rows of a range that stand for one of the source each, and a condition that can be added to."""
        compared = self.subject
        where = key_range_condition(compared.target_columns, key_range)
        if not compared.keeps_versions:
            return f"{compared.target.sql} WHERE {where}{self._digest_prefix_condition(key_range)}{self._present_condition}"
        numbered = (
            f"SELECT t.*, RANK() OVER (PARTITION BY {self._partition_columns} ORDER BY {self._version_order}) AS {_PLACE_COLUMN}"
            f" FROM {compared.target.sql} t WHERE {where}{self._digest_prefix_condition(key_range)}"
        )
        return f"({numbered}) v WHERE v.{_PLACE_COLUMN} = 1{self._present_condition}"

    def _digest_prefix_condition(self, key_range: KeyRange) -> str:
        if not key_range.digest_prefix:
            return ""
        return f" AND LEFT({hash_sql(self.subject.target_key)}, {len(key_range.digest_prefix)}) = '{key_range.digest_prefix}'"

    @property
    def _present_condition(self) -> str:
        compared, since, cursor = self.subject, self.bounds.since, self.subject.cursor_column
        found = ""
        if compared.has_delete_marks:
            found += f" AND {quote_name(DELETED_AT)} IS NULL"
        if compared.ends_versions:
            found += f" AND {quote_name(VALID_TO)} IS NULL"
        if cursor is not None and compared.order.nullable:
            found += f" AND {cursor.sql} IS NOT NULL"
        if cursor is not None and since is not None:
            found += f" AND {cursor.sql} >= {value_literal(since.values[0])}"
        return found

    @property
    def _partition_columns(self) -> str:
        found: list[str] = []
        for name in self.subject.identity.key:
            found.append(f"t.{quote_name(name)}")
            if self.subject.is_text_column(name):
                found.append(
                    f"OCTET_LENGTH(t.{quote_name(name)})"
                )  # blanks at the end of a text are not seen otherwise
        return ", ".join(found)

    @property
    def _version_order(self) -> str:
        assert self.subject.identity.cursor
        cursor = f"t.{quote_name(self.subject.identity.cursor)}"
        batch = (
            [f"COALESCE(t.{quote_name(batch_number.BATCH_COLUMN)}, 0) DESC"] if self.subject.has_batch_numbers else []
        )
        return ", ".join([*batch, f"CASE WHEN {cursor} IS NULL THEN 0 ELSE 1 END DESC", f"{cursor} DESC"])


def last_position_query(subject: ComparisonSubject, columns: Sequence[TargetKeyColumn], *, high: Cursor) -> str:
    """Reads where the last row of the target stands, by these columns, at or below a position."""
    shown = ", ".join(column.sql for column in columns)
    by = ", ".join(f"{column.sql} DESC" for column in columns)
    gone = f" AND {quote_name(DELETED_AT)} IS NULL" if subject.has_delete_marks else ""
    return f"SELECT {shown} FROM {subject.target.sql} WHERE {upto_condition(columns, high)}{gone} ORDER BY {by} LIMIT 1"


def fetch_expressions(mapping: ColumnMapping) -> tuple[str, ...]:
    """The expressions by which a value is fetched: a long binary one in pieces, behind its length."""
    name = quote_name(mapping.name)
    if not mapping.redshift.startswith("VARBYTE"):
        return (name,)
    pieces = (
        f"LOWER(TO_HEX(SUBSTRING({name}, {1 + HEX_PIECE_BYTES * n}, {HEX_PIECE_BYTES})))"
        for n in range(piece_count(mapping))
    )
    return (f"OCTET_LENGTH({name})", *pieces)


def piece_count(mapping: ColumnMapping) -> int:
    return min(-(-(mapping.limit or 1) // HEX_PIECE_BYTES), MAX_HEX_PIECES)
