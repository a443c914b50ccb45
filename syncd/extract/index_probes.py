"""Probes: short statements that find the positions of rows, each along one index."""

from collections.abc import Callable
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

ConditionAfter = Callable[[Cursor], str]
"""Makes the condition of the rows after a position."""


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

    def rows_after(self, low: Cursor) -> str:
        """Return the condition of all rows after a position."""
        return after_condition(self.columns, low)

    def rows_up_to(self, top: Cursor) -> ConditionAfter:
        """Return a maker of the condition of the rows after a position up to `top`."""
        return lambda low: window_condition(self.columns, Window(low, top))


@dataclass(kw_only=True)
class Prober:
    """Runs probes on one source; EXPLAIN of each path is checked once."""

    source: SourceDatabase
    windows: int
    """Windows that can be read at once."""
    _checked_paths: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def find_bounds(
        self, path: IndexPath, low: Cursor, where: ConditionAfter, *, rows: int, windows: int | None = None
    ) -> WindowBounds:
        """Find the ends of windows that hold so many rows after a position; each probe begins where the last one ended.

        Raises:
            ValueRefused: a row that the server puts after a position compares as equal or lower here.
        """
        each = window_rows(rows, self.windows) if windows is None else -(-rows // windows)
        ends, counted = list[Cursor](), 0
        for step in split_rows(rows, window_size=each):
            begin = ends[-1] if ends else low
            end = self._probe(path, where(begin), rows=step)
            if end is None:
                rest = self.find_last(path, where(begin))
                if rest is None:
                    return WindowBounds(low=low, ends=tuple(ends), rows=counted)
                _require_progress(path, begin, rest)
                # Few rows are worth another probe, since their reader starts quicker.
                probes_again = not counted and step > FEWEST_ROWS
                is_small = probes_again and self._probe(path, where(begin), rows=FEWEST_ROWS) is None
                return WindowBounds(low=low, ends=(*ends, rest), rows=counted + (FEWEST_ROWS if is_small else step))
            _require_progress(path, begin, end)
            ends.append(end)
            counted += step
        return WindowBounds(low=low, ends=tuple(ends), rows=counted, has_more=True)

    def find_all_bounds(self, path: IndexPath, low: Cursor, where: ConditionAfter, *, rows: int) -> WindowBounds:
        """Find the ends of windows up to the last row of the condition, however many rows there are."""
        bounds = self.find_bounds(path, low, where, rows=rows)
        while bounds.has_more:
            more = self.find_bounds(path, bounds.high, where, rows=rows)
            bounds = replace(more, low=low, ends=(*bounds.ends, *more.ends), rows=bounds.rows + more.rows)
        return bounds

    def find_bounds_up_to(self, path: IndexPath, low: Cursor, top: Cursor, *, rows: int) -> WindowBounds:
        """Find the ends of windows that hold so many rows after a position up to `top`."""
        if not may_hold_rows(top, low):
            return WindowBounds(low=low)
        return self.find_bounds(path, low, path.rows_up_to(top), rows=rows)

    def find_tail_start(self, path: IndexPath, top: Cursor, *, rows: int) -> Cursor:
        """Return the position after which so many rows lie up to `top`; the start where there are fewer."""
        return self.find_last(path, path.rows_up_to(top)(START_CURSOR), before=rows) or START_CURSOR

    def find_last(self, path: IndexPath, where: str, *, before: int = 0) -> Cursor | None:
        """Return the position of the last row of a condition, or of the row so many rows before it."""
        return self._query_position(path, last_position_sql(path.order, path.columns, path.index, where, before=before))

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

    def _probe(self, path: IndexPath, where: str, *, rows: int) -> Cursor | None:
        """Return the position of the row after so many rows of a condition; None where there are fewer."""
        return self._query_position(path, probe_sql(path.order, path.columns, path.index, where, rows=rows))

    def _query_position(self, path: IndexPath, sql: str) -> Cursor | None:
        self._require_index(path, sql)
        rows = self.source.fetch_rows(sql)
        if not rows:
            return None
        return Cursor(tuple(column.parse_value(raw) for column, raw in zip(path.columns, rows[0], strict=True)))

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
            f"{order.table_name} goes no further than {begin}: its next row has the position {end}",
            hint=f"See which row is next by {columns} and what it holds there, or name another unique key of the table"
            " in the stream's `key`.",
        )
