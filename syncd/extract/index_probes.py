"""Probes: short statements that find the positions of rows, each along one index."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from syncd.datatypes.mysql_quoting import quote_table
from syncd.errors import SourceUnfit, ValueRefused
from syncd.extract.plan_rules import FEWEST_ROWS, WindowBounds, may_hold_rows, split_rows, window_rows
from syncd.mysql.query_plan import explain_sql, find_plan_problem
from syncd.mysql.sql import (
    SERVER_CLOCK_SQL,
    SERVER_ZONE_SQL,
    after_condition,
    any_null_sql,
    last_position_sql,
    parse_server_clock,
    probe_sql,
    window_condition,
)
from syncd.ports.source import SourceDatabase
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import StreamOrder
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPath:
    """The columns by which rows are counted, and their index."""

    order: StreamOrder
    columns: tuple[OrderColumn, ...]
    index: str

    @classmethod
    def from_order(cls, order: StreamOrder) -> "IndexPath":
        return cls(order=order, columns=order.columns, index=order.index)

    @classmethod
    def from_key(cls, order: StreamOrder) -> "IndexPath":
        return cls(order=order, columns=order.key, index=order.key_index)

    def rows_after(self, low: Cursor, *, top: Cursor | None = None) -> str:
        """Return the condition of the rows after a position, up to `top` if there is one."""
        return after_condition(self.columns, low) if top is None else window_condition(self.columns, Window(low, top))

    def nth_position_sql(self, where: str, number: int) -> str:
        """Return the probe for the position of the n-th row of a condition, counted from 1."""
        return probe_sql(self.order, self.columns, self.index, where, rows=number)

    def last_position_sql(self, where: str, *, before: int = 0) -> str:
        """Return the probe for the position of the last row of a condition, or of the row so many rows before it."""
        return last_position_sql(self.order, self.columns, self.index, where, before=before)


@dataclass(kw_only=True)
class Prober:
    """Runs probes on one source; EXPLAIN of each path is checked once."""

    source: SourceDatabase
    windows: int
    """Windows that can be read at once."""
    _checked_paths: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def find_bounds(
        self, path: IndexPath, low: Cursor, *, top: Cursor | None = None, rows: int, windows: int | None = None
    ) -> WindowBounds:
        """Find the ends of windows that hold so many rows after a position, up to `top` if there is one.

        Each probe begins where the last one ended.

        Raises:
            ValueRefused: a row that the server puts after a position compares as equal or lower here.
        """
        if top is not None and not may_hold_rows(top, low):
            return WindowBounds(low=low)
        each = window_rows(rows, self.windows) if windows is None else -(-rows // windows)
        ends, counted = list[Cursor](), 0
        for step in split_rows(rows, window_size=each):
            begin = ends[-1] if ends else low
            where = path.rows_after(begin, top=top)
            end = self.find_position(path, path.nth_position_sql(where, step))
            if end is None:
                rest = self.find_position(path, path.last_position_sql(where))
                if rest is None:
                    return WindowBounds(low=low, ends=tuple(ends), rows=counted)
                _require_progress(path, begin, rest)
                # Few rows are worth another probe, since their reader starts quicker.
                few_sql = path.nth_position_sql(where, FEWEST_ROWS)
                is_small = not counted and step > FEWEST_ROWS and self.find_position(path, few_sql) is None
                return WindowBounds(low=low, ends=(*ends, rest), rows=counted + (FEWEST_ROWS if is_small else step))
            _require_progress(path, begin, end)
            ends.append(end)
            counted += step
        return WindowBounds(low=low, ends=tuple(ends), rows=counted, has_more=True)

    def find_all_bounds(self, path: IndexPath, low: Cursor, *, top: Cursor | None = None, rows: int) -> WindowBounds:
        """Find the ends of windows up to `top` or the last row, however many rows there are."""
        bounds = self.find_bounds(path, low, top=top, rows=rows)
        while bounds.has_more:
            more = self.find_bounds(path, bounds.high, top=top, rows=rows)
            bounds = replace(more, low=low, ends=(*bounds.ends, *more.ends), rows=bounds.rows + more.rows)
        return bounds

    def find_tail_start(self, path: IndexPath, top: Cursor, *, rows: int) -> Cursor:
        """Return the position after which so many rows lie up to `top`; the start where there are fewer."""
        sql = path.last_position_sql(path.rows_after(START_CURSOR, top=top), before=rows)
        return self.find_position(path, sql) or START_CURSOR

    def find_position(self, path: IndexPath, sql: str) -> Cursor | None:
        """Return the position that a probe along the path finds; None where there is no such row.

        Raises:
            SourceUnfit: the server would not read the probe's rows by the path's index.
        """
        self._require_index(path, sql)
        rows = self.source.fetch_rows(sql)
        if not rows:
            return None
        return Cursor(tuple(column.parse_value(raw) for column, raw in zip(path.columns, rows[0], strict=True)))

    def require_no_nulls(self, order: StreamOrder) -> None:
        """Check that every row has a position.

        Raises:
            ValueRefused: a row has none.
        """
        if self.source.fetch_rows(any_null_sql(order)):
            name = order.columns[0].name
            raise ValueRefused(
                f"{order.table_name} has rows whose {name} is NULL, and `null_cursor` is fail",
                hint=f"Give {name} a value in these rows, or set `null_cursor: snapshot_only`.",
            )

    def read_clock(self) -> datetime:
        """Read the server's clock."""
        return parse_server_clock(self.source.fetch_rows(SERVER_CLOCK_SQL))

    def read_zone(self) -> str:
        """Read the offset from UTC in which the server itself writes wall times."""
        [(minutes,)] = self.source.fetch_rows(SERVER_ZONE_SQL)
        offset = int(str(minutes or 0))
        return f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"

    def _require_index(self, path: IndexPath, sql: str) -> None:
        order = path.order
        known = (order.database, order.table, path.index)
        if known in self._checked_paths:
            return
        lines = self.source.fetch_rows(explain_sql(sql))
        problem = find_plan_problem(lines, index=path.index, mariadb=self.source.get_server_info().mariadb)
        if problem is not None:
            columns = ", ".join(column.sql for column in path.columns)
            raise SourceUnfit(
                f"{order.table_name} cannot be read by its index {path.index}: {problem}",
                hint=f"CREATE INDEX syncd_order ON {quote_table(order.database, order.table)} ({columns})",
                statement=sql,
            )
        self._checked_paths.add(known)


def _require_progress(path: IndexPath, begin: Cursor, end: Cursor) -> None:
    # A window that ends where it begins holds nothing; the next one would be the same, without end.
    if not may_hold_rows(end, begin):
        order = path.order
        columns = ", ".join(column.name for column in path.columns)
        raise ValueRefused(
            f"{order.table_name} cannot be read beyond {begin}: the position of its next row, {end}, is not higher",
            hint=f"Check the values of the next row in the order of {columns}, or name another unique key of"
            " the table in"
            " the stream's `key`.",
        )
