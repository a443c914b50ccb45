"""The statements by which the source is compared: sums, keys and values, of ranges of a key."""

from collections.abc import Sequence
from dataclasses import dataclass

from syncd.datatypes.mysql_quoting import bytes_literal, quote_name
from syncd.mysql import sql
from syncd.mysql.sql import after_condition, custom_query_source, force_index, select_list, upto_condition
from syncd.verify.compared_columns import ComparisonBounds, ComparisonSubject
from syncd.verify.digest_forms import hash_sql
from syncd.verify.key_ranges import KeyRange, key_range_condition
from watermarks.cursor import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSql:
    """Statements for one stream and the bounds of one comparison."""

    subject: ComparisonSubject
    bounds: ComparisonBounds

    def digest(self, key_range: KeyRange) -> str:
        """Reads how many rows of a range are covered, and the sum of their digests."""
        return f"SELECT COUNT(*), SUM({self.subject.source_digest}){self._from_clause(key_range)} AND {self.covered_condition}"

    def digests_by_prefix(self, key_range: KeyRange, prefix_length: int) -> str:
        """Reads the same of each group of rows whose key's digest begins alike."""
        group = f"LEFT({hash_sql(self.subject.source_key)}, {prefix_length:d})"
        return f"SELECT {group}, COUNT(*), SUM({self.subject.source_digest}){self._from_clause(key_range)} AND {self.covered_condition} GROUP BY 1"

    def rows(self, key_range: KeyRange) -> str:
        """Reads of every row of a range its key, its digest, and whether it is covered."""
        compared = self.subject
        return f"SELECT {compared.source_key}, {compared.source_digest}, COALESCE({self.covered_condition}, 0){self._from_clause(key_range)}"

    def values(self, key_range: KeyRange, keys: Sequence[bytes]) -> str:
        """Reads these rows of a range as they travel, and behind them their position by key, and the key's text."""
        compared = self.subject
        selects = ", ".join(
            f"{expression} AS {quote_name(name)}" for expression, name in select_list(compared.fetched_columns)
        )
        positions = ", ".join(column.probe_sql for column in compared.order.key)
        listed = ", ".join(map(bytes_literal, keys))
        key = compared.source_key
        return f"SELECT {selects}, {positions}, {key}{self._from_clause(key_range)} AND {key} IN ({listed})"

    def keys_above_mark(self, key_range: KeyRange, *, limit: int) -> str:
        """Reads the keys of a range whose rows stand above the mark: the warehouse may hold older versions of them."""
        compared, order = self.subject, self.subject.order
        above = after_condition(order.columns, self.bounds.upto)
        own = compared.settings.query
        source = custom_query_source(own, above) if own else force_index(order.database, order.table, order.index)
        within = key_range_condition(compared.source_columns, key_range)
        return f"SELECT {compared.source_key} FROM {source} WHERE {above} AND {within} LIMIT {limit:d}"

    def left_out_counts(self) -> str | None:
        """Reads how many rows have no place in the order, and how many stand before where the stream began."""
        order, since = self.subject.order, self.bounds.since
        nulls = f"SELECT COUNT(*) FROM {self._table} WHERE {order.columns[0].sql} IS NULL" if order.nullable else "0"
        before = (
            "0"
            if since is None
            else f"SELECT COUNT(*) FROM {self._table} WHERE NOT {after_condition(order.columns, since)}"
        )
        return None if nulls == before == "0" else f"SELECT ({nulls}), ({before})"

    def probe(self, key_range: KeyRange, *, rows: int) -> str:
        """Reads the position of the row with this number in a range, counted from 1."""
        columns, order = self.subject.source_columns, self.subject.order
        return sql.probe_sql(order, columns, order.key_index, key_range_condition(columns, key_range), rows=rows)

    def position(self, raw: Sequence[object]) -> Cursor:
        columns = self.subject.source_columns
        return Cursor(tuple(column.parse_value(value) for column, value in zip(columns, raw, strict=True)))

    @property
    def covered_condition(self) -> str:
        """The condition of the rows that the warehouse must hold as they are."""
        order, bounds = self.subject.order, self.bounds
        reached = upto_condition(order.columns, bounds.upto)
        return reached if bounds.since is None else f"({reached} AND {after_condition(order.columns, bounds.since)})"

    @property
    def _table(self) -> str:
        order = self.subject.order
        return force_index(order.database, order.table, order.index)

    def _from_clause(self, key_range: KeyRange) -> str:
        order, own = self.subject.order, self.subject.settings.query
        where = key_range_condition(self.subject.source_columns, key_range)
        # In a query of one's own the condition stands inside: outside, every range would read the whole table.
        source = custom_query_source(own, where) if own else force_index(order.database, order.table, order.key_index)
        begun = (
            f" AND LEFT({hash_sql(self.subject.source_key)}, {len(key_range.digest_prefix)}) = '{key_range.digest_prefix}'"
            if key_range.digest_prefix
            else ""
        )
        return f" FROM {source} WHERE {'TRUE' if own else where}{begun}"
