"""The statements by which the source is compared: sums, keys and values, of ranges of a key."""

from collections.abc import Sequence
from dataclasses import dataclass

from syncd.datatypes.mysql_quoting import bytes_literal, quoted
from syncd.mysql import sql
from syncd.mysql.sql import after, hinted, own_rows, selects_of, upto
from syncd.verify.compared_columns import Bounds, Compared
from syncd.verify.digest_forms import hashed
from syncd.verify.key_ranges import Range, condition
from watermarks.cursor import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class HereSql:
    """Statements for one stream and the bounds of one comparison."""

    compared: Compared
    bounds: Bounds

    def digest(self, one: Range) -> str:
        """Reads how many rows of a range are covered, and the sum of their digests."""
        return f"SELECT COUNT(*), SUM({self.compared.here_digest}){self._from(one)} AND {self.covered}"

    def digests_by_digit(self, one: Range, digits: int) -> str:
        """Reads the same of each group of rows whose key's digest begins alike."""
        group = f"LEFT({hashed(self.compared.here_key)}, {digits:d})"
        return (
            f"SELECT {group}, COUNT(*), SUM({self.compared.here_digest}){self._from(one)} AND {self.covered} GROUP BY 1"
        )

    def rows(self, one: Range) -> str:
        """Reads of every row of a range its key, its digest, and whether it is covered."""
        compared = self.compared
        return f"SELECT {compared.here_key}, {compared.here_digest}, COALESCE({self.covered}, 0){self._from(one)}"

    def values(self, one: Range, keys: Sequence[bytes]) -> str:
        """Reads these rows of a range as they travel, and behind them their position by key, and the key's text."""
        compared = self.compared
        selects = ", ".join(
            f"{expression} AS {quoted(name)}" for expression, name in selects_of(compared.shown_columns)
        )
        positions = ", ".join(column.probed for column in compared.order.key)
        listed = ", ".join(map(bytes_literal, keys))
        key = compared.here_key
        return f"SELECT {selects}, {positions}, {key}{self._from(one)} AND {key} IN ({listed})"

    def fresh(self, one: Range, *, most: int) -> str:
        """Reads the keys of a range whose rows stand above the mark: the warehouse may hold older versions of them."""
        compared, order = self.compared, self.compared.order
        above = after(order.columns, self.bounds.upto)
        own = compared.settings.query
        source = own_rows(own, above) if own else hinted(order.database, order.table, order.index)
        within = condition(compared.here_columns, one)
        return f"SELECT {compared.here_key} FROM {source} WHERE {above} AND {within} LIMIT {most:d}"

    def left_out(self) -> str | None:
        """Reads how many rows have no place in the order, and how many stand before where the stream began."""
        order, since = self.compared.order, self.bounds.since
        nulls = f"SELECT COUNT(*) FROM {self._table} WHERE {order.columns[0].sql} IS NULL" if order.nullable else "0"
        before = "0" if since is None else f"SELECT COUNT(*) FROM {self._table} WHERE NOT {after(order.columns, since)}"
        return None if nulls == before == "0" else f"SELECT ({nulls}), ({before})"

    def probe(self, one: Range, *, rows: int) -> str:
        """Reads the position of the row with this number in a range, counted from 1."""
        columns, order = self.compared.here_columns, self.compared.order
        return sql.probe(order, columns, order.key_index, condition(columns, one), rows=rows)

    def position(self, raw: Sequence[object]) -> Cursor:
        columns = self.compared.here_columns
        return Cursor(tuple(column.value(value) for column, value in zip(columns, raw, strict=True)))

    @property
    def covered(self) -> str:
        """The condition of the rows that the warehouse must hold as they are."""
        order, bounds = self.compared.order, self.bounds
        reached = upto(order.columns, bounds.upto)
        return reached if bounds.since is None else f"({reached} AND {after(order.columns, bounds.since)})"

    @property
    def _table(self) -> str:
        order = self.compared.order
        return hinted(order.database, order.table, order.index)

    def _from(self, one: Range) -> str:
        order, own = self.compared.order, self.compared.settings.query
        where = condition(self.compared.here_columns, one)
        # In a query of one's own the condition stands inside: outside, every range would read the whole table.
        source = own_rows(own, where) if own else hinted(order.database, order.table, order.key_index)
        begun = f" AND LEFT({hashed(self.compared.here_key)}, {len(one.digits)}) = '{one.digits}'" if one.digits else ""
        return f" FROM {source} WHERE {'TRUE' if own else where}{begun}"
