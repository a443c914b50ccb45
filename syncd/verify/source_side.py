"""MySQL as a side of a comparison: one snapshot, read by digests, keys and single rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from syncd.datatypes.mysql_quoting import bytes_literal, quote_name
from syncd.mysql.sql import (
    after_condition,
    custom_query_source,
    force_index,
    probe_sql,
    select_list,
    upto_condition,
)
from syncd.verify.compared_columns import ComparisonBounds, ComparisonSubject, KeyRange, key_range_condition
from syncd.verify.digest_forms import hash_sql
from syncd.verify.sides import RangeDigest, Row, SourceRowDigest, to_range_digest
from watermarks.cursor import Cursor


class MySqlSide:
    """Source in one snapshot."""

    def __init__(
        self, query: Callable[[str], Sequence[Row]], subject: ComparisonSubject, bounds: ComparisonBounds
    ) -> None:
        self._query = query
        self._subject = subject
        self._bounds = bounds
        self.fetched_count = 0

    def digests(self, key_range: KeyRange, ends: Sequence[Cursor]) -> Sequence[RangeDigest]:
        # One statement for each range: each follows the index of the key, and none searches the range of a row.
        return [self._digest(part) for part in key_range.split(ends)]

    def _digest(self, key_range: KeyRange) -> RangeDigest:
        [(rows, total)] = self._fetch(
            f"SELECT COUNT(*), SUM({self._subject.source_digest}){self._from_covered(key_range)}"
        )
        return to_range_digest(rows, total)

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> Mapping[str, RangeDigest]:
        prefix = f"LEFT({hash_sql(self._subject.source_key)}, {prefix_length:d})"
        groups = self._fetch(
            f"SELECT {prefix}, COUNT(*), SUM({self._subject.source_digest}){self._from_covered(key_range)} GROUP BY 1"
        )
        return {_decode(prefix): to_range_digest(rows, total) for prefix, rows, total in groups}

    def positions(self, key_range: KeyRange, *, step: int, limit: int) -> Sequence[Cursor]:
        positions: list[Cursor] = []
        low = key_range.low
        while len(positions) < limit:
            position = self._probe(KeyRange(low=low, high=key_range.high), rows=step)
            if position in {None, low}:  # no row, or more rows with the same first columns than one step holds
                break
            assert position is not None
            positions.append(position)
            low = position
        return positions

    def _probe(self, key_range: KeyRange, *, rows: int) -> Cursor | None:
        """Return the position of the row with this number in a range, counted from 1."""
        columns, order = self._subject.source_columns, self._subject.order
        where = key_range_condition(columns, key_range)
        for raw in self._fetch(probe_sql(order, columns, order.key_index, where, rows=rows)):
            return Cursor(tuple(column.parse_value(value) for column, value in zip(columns, raw, strict=True)))
        return None

    def rows(self, key_range: KeyRange) -> Iterator[SourceRowDigest]:
        subject = self._subject
        covered = f"COALESCE({self._covered_condition}, 0)"
        sql = f"SELECT {subject.source_key}, {subject.source_digest}, {covered}{self._from(key_range)}"
        for key, digest, is_covered in self._fetch(sql):
            yield SourceRowDigest(key=bytes(key), digest=int(digest), is_covered=bool(is_covered))

    def keys_above_mark(self, key_range: KeyRange, *, limit: int) -> Sequence[bytes]:
        subject, order = self._subject, self._subject.order
        above = after_condition(order.columns, self._bounds.upto)
        query = subject.settings.query
        source = custom_query_source(query, above) if query else force_index(order.database, order.table, order.index)
        within = key_range_condition(subject.source_columns, key_range)
        rows = self._fetch(f"SELECT {subject.source_key} FROM {source} WHERE {above} AND {within} LIMIT {limit:d}")
        return [bytes(key) for (key,) in rows]

    def values(self, key_range: KeyRange, keys: Sequence[bytes]) -> Sequence[Row]:
        """Return rows in the form of the source, each followed by its position by key and the text of its key."""
        subject = self._subject
        columns = ", ".join(
            f"{expression} AS {quote_name(name)}" for expression, name in select_list(subject.fetched_columns)
        )
        positions = ", ".join(column.probe_sql for column in subject.order.key)
        key, listed = subject.source_key, ", ".join(map(bytes_literal, keys))
        return self._fetch(f"SELECT {columns}, {positions}, {key}{self._from(key_range)} AND {key} IN ({listed})")

    def count_left_out(self) -> tuple[int, int]:
        """Count the rows without a place in the order, and those before the start of the stream."""
        order, since = self._subject.order, self._bounds.since
        table = force_index(order.database, order.table, order.index)
        nulls = before = "0"
        if order.nullable:
            nulls = f"SELECT COUNT(*) FROM {table} WHERE {order.columns[0].sql} IS NULL"
        if since is not None:
            before = f"SELECT COUNT(*) FROM {table} WHERE NOT {after_condition(order.columns, since)}"
        if nulls == before == "0":
            return 0, 0
        [(without_place, before_start)] = self._fetch(f"SELECT ({nulls}), ({before})")
        return int(without_place), int(before_start)

    @property
    def _covered_condition(self) -> str:
        """The condition of the rows that the warehouse must hold unchanged."""
        order, bounds = self._subject.order, self._bounds
        reached = upto_condition(order.columns, bounds.upto)
        return reached if bounds.since is None else f"({reached} AND {after_condition(order.columns, bounds.since)})"

    def _from_covered(self, key_range: KeyRange) -> str:
        return f"{self._from(key_range)} AND {self._covered_condition}"

    def _from(self, key_range: KeyRange) -> str:
        subject, order, query = self._subject, self._subject.order, self._subject.settings.query
        where = key_range_condition(subject.source_columns, key_range)
        # A custom query takes the condition inside: outside, every range would read the whole table.
        source = (
            custom_query_source(query, where) if query else force_index(order.database, order.table, order.key_index)
        )
        prefix = key_range.digest_prefix
        begins = f" AND LEFT({hash_sql(subject.source_key)}, {len(prefix)}) = '{prefix}'" if prefix else ""
        return f" FROM {source} WHERE {'TRUE' if query else where}{begins}"

    def _fetch(self, sql: str) -> Sequence[Row]:
        rows = self._query(sql)
        self.fetched_count += len(rows)
        return rows


def _decode(value: Any) -> str:  # noqa: ANN401  # a driver's text
    return value.decode() if isinstance(value, bytes) else str(value)
