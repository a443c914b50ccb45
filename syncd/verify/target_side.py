"""Redshift as a side of a comparison: one snapshot, read by digests, keys and single rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.mysql.sql import upto_condition
from syncd.redshift.quoting import (
    group_by_columns,
    quote_name,
    text_literal,
    value_literal,
    version_order,
)
from syncd.redshift.target_table import DELETED_AT, VALID_TO
from syncd.verify.compared_columns import (
    ComparisonBounds,
    ComparisonSubject,
    KeyRange,
    TargetKeyColumn,
    key_range_condition,
    range_number_sql,
)
from syncd.verify.digest_forms import HEX_PIECE_BYTES, hash_sql, hex_piece_count
from syncd.verify.sides import EMPTY_DIGEST, RangeDigest, Row, TargetRowDigest, TargetSession, to_range_digest
from watermarks.cursor import Cursor, CursorValue, ValueKind

KEYS_PER_INSERT: Final = 5_000
EXCLUDED_KEYS_TABLE: Final = quote_name("syncd_fresh")
"""Temporary table of the keys whose rows at the source are above the mark."""
_PLACE_COLUMN: Final = quote_name("_syncd_place")


class RedshiftSide:
    """Warehouse in the transaction of a session."""

    def __init__(
        self,
        session: TargetSession,
        subject: ComparisonSubject,
        bounds: ComparisonBounds,
        *,
        statement_timeout: timedelta,
    ) -> None:
        self._session = session
        self._subject = subject
        self._bounds = bounds
        self._statement_timeout = statement_timeout
        self._has_excluded_keys = False
        self.fetched_count = 0

    def take_snapshot(self) -> None:
        """Take the snapshot of the transaction, with a query that reads next to nothing."""
        self._fetch(f"SELECT 1 FROM {self._subject.target.sql} LIMIT 1")

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Sequence[RangeDigest]:
        number = range_number_sql(self._subject.target_columns, ends)
        by_number = {int(number): digest for number, digest in self._digest_groups(key_range, number)}
        return [by_number.get(number, EMPTY_DIGEST) for number in range(len(ends) + 1)]

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> Mapping[str, RangeDigest]:
        return dict(self._digest_groups(key_range, f"LEFT({hash_sql(self._subject.target_key)}, {prefix_length:d})"))

    def _digest_groups(self, key_range: KeyRange, group: str) -> Iterator[tuple[str, RangeDigest]]:
        key = f", {self._subject.target_key} AS k" if self._has_excluded_keys else ""
        groups = self._fetch(
            f"SELECT r.g, COUNT(*), SUM(r.h) FROM (SELECT {group} AS g, {self._subject.target_digest} AS h{key}"
            f" FROM {self._rows(key_range)}) r{self._exclusion_join} GROUP BY r.g"
        )
        return ((str(group), to_range_digest(rows, total)) for group, rows, total in groups)

    def positions(self, key_range: KeyRange, *, step: int, limit: int) -> Sequence[Cursor]:
        columns = self._subject.target_columns
        names = ", ".join(column.sql for column in columns)
        numbered = (
            f"SELECT {names}, ROW_NUMBER() OVER (ORDER BY {names}) AS {_PLACE_COLUMN} FROM {self._rows(key_range)}"
        )
        rows = self._fetch(
            f"SELECT {names} FROM ({numbered}) r WHERE MOD(r.{_PLACE_COLUMN}, {step:d}) = 0 ORDER BY {names}"
        )
        return [position_from_row(columns, row) for row in islice(rows, limit)]

    def rows(self, key_range: KeyRange) -> Iterator[TargetRowDigest]:
        subject = self._subject
        sql = (
            f"SELECT r.k, r.h FROM (SELECT {subject.target_key} AS k, {subject.target_digest} AS h"
            f" FROM {self._rows(key_range)}) r{self._exclusion_join}"
        )
        for key, digest in self._fetch(sql):
            yield TargetRowDigest(key=str(key).encode(), digest=int(digest))

    def exclude_keys(self, keys: Sequence[bytes]) -> None:
        width = min(self._subject.key_width, 65_535)
        self._session.run(f"CREATE TEMP TABLE {EXCLUDED_KEYS_TABLE} (k VARCHAR({width}))")
        texts = iter(keys)
        while some := list(islice(texts, KEYS_PER_INSERT)):
            values = ", ".join(f"({text_literal(key.decode())})" for key in some)
            self._session.run(f"INSERT INTO {EXCLUDED_KEYS_TABLE} VALUES {values}", within=self._statement_timeout)
        self._has_excluded_keys = True

    def values(self, key_range: KeyRange, keys: Sequence[bytes]) -> Sequence[Row]:
        """Return rows in the form of the driver, each followed by the text of its key."""
        subject = self._subject
        listed = ", ".join(text_literal(key.decode()) for key in keys)
        columns = ", ".join(part for mapping in subject.fetched_columns for part in fetch_expressions(mapping))
        return self._fetch(
            f"SELECT {columns}, {subject.target_key} FROM {self._rows(key_range)}"
            f" AND {subject.target_key} IN ({listed})"
        )

    def count_left_out(self) -> tuple[int, int]:
        """Count the rows marked as deleted, and the versions that a later one followed."""
        subject = self._subject
        deleted = f"{quote_name(DELETED_AT)} IS NOT NULL" if subject.has_delete_marks else "FALSE"
        followed = f"{quote_name(VALID_TO)} IS NOT NULL" if subject.ends_versions else "FALSE"
        if deleted == followed == "FALSE":
            return 0, 0
        [(marked, earlier)] = self._fetch(
            f"SELECT COUNT(CASE WHEN {deleted} THEN 1 END),"
            f" COUNT(CASE WHEN {followed} AND NOT ({deleted}) THEN 1 END) FROM {subject.target.sql}"
        )
        return int(marked), int(earlier)

    @property
    def _exclusion_join(self) -> str:
        return f" LEFT JOIN {EXCLUDED_KEYS_TABLE} x ON x.k = r.k WHERE x.k IS NULL" if self._has_excluded_keys else ""

    def _rows(self, key_range: KeyRange) -> str:
        """Return the rows of a range that each stand for one of the source, ending in a condition."""
        subject, prefix = self._subject, key_range.digest_prefix
        where = key_range_condition(subject.target_columns, key_range)
        if prefix:
            where += f" AND LEFT({hash_sql(subject.target_key)}, {len(prefix)}) = '{prefix}'"
        if not subject.keeps_versions:
            return f"{subject.target.sql} WHERE {where}{self._present_condition}"
        by = group_by_columns("t", subject.identity.key, subject.existing.is_text_column)
        order = version_order("t", subject.identity.cursor, "DESC", by_batch=subject.has_batch_numbers)
        numbered = (
            f"SELECT t.*, RANK() OVER (PARTITION BY {by} ORDER BY {order}) AS {_PLACE_COLUMN}"
            f" FROM {subject.target.sql} t WHERE {where}"
        )
        return f"({numbered}) v WHERE v.{_PLACE_COLUMN} = 1{self._present_condition}"

    @property
    def _present_condition(self) -> str:
        subject, since, cursor = self._subject, self._bounds.since, self._subject.cursor_column
        conditions = ""
        if subject.has_delete_marks:
            conditions += f" AND {quote_name(DELETED_AT)} IS NULL"
        if subject.ends_versions:
            conditions += f" AND {quote_name(VALID_TO)} IS NULL"
        if cursor is not None and subject.order.nullable:
            conditions += f" AND {cursor.sql} IS NOT NULL"
        if cursor is not None and since is not None:
            conditions += f" AND {cursor.sql} >= {value_literal(since.values[0])}"
        return conditions

    def _fetch(self, sql: str) -> Sequence[Row]:
        rows = self._session.rows(sql, within=self._statement_timeout)
        self.fetched_count += len(rows)
        return rows


def last_position_query(subject: ComparisonSubject, columns: Sequence[TargetKeyColumn], *, high: Cursor) -> str:
    """Return the query for the position of the last row of the target at or below a position."""
    names = ", ".join(column.sql for column in columns)
    order = ", ".join(f"{column.sql} DESC" for column in columns)
    present = f" AND {quote_name(DELETED_AT)} IS NULL" if subject.has_delete_marks else ""
    where = f"{upto_condition(columns, high)}{present}"
    return f"SELECT {names} FROM {subject.target.sql} WHERE {where} ORDER BY {order} LIMIT 1"


def fetch_expressions(mapping: ColumnMapping) -> tuple[str, ...]:
    """Return the expressions for a value; those of a binary one are its length and hexadecimal pieces."""
    name = quote_name(mapping.name)
    if not mapping.redshift.startswith("VARBYTE"):
        return (name,)
    pieces = (
        f"LOWER(TO_HEX(SUBSTRING({name}, {1 + HEX_PIECE_BYTES * n}, {HEX_PIECE_BYTES})))"
        for n in range(hex_piece_count(mapping))
    )
    return (f"OCTET_LENGTH({name})", *pieces)


def position_from_row(columns: Sequence[TargetKeyColumn], row: Row) -> Cursor:
    return Cursor(tuple(_cursor_value(column, raw) for column, raw in zip(columns, row, strict=True)))


def _cursor_value(column: TargetKeyColumn, raw: object) -> CursorValue:
    if column.kind is ValueKind.INT:
        return CursorValue(ValueKind.INT, int(str(raw)))
    if isinstance(raw, datetime):
        naive = raw.replace(tzinfo=None)
        return CursorValue(column.kind, naive.replace(tzinfo=UTC) if column.kind is ValueKind.INSTANT else naive)
    assert isinstance(raw, Decimal | date)
    return CursorValue(column.kind, raw)
