"""Probes: short statements that ask where rows stand, each along one index."""

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
    any_null_sql,
    last_position_sql,
    parse_server_clock,
    probe_sql,
)
from syncd.ports.source import SourceDatabase
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import StreamOrder
from watermarks.cursor import Cursor

ConditionAfter = Callable[[Cursor], str]
"""What rows are asked for behind a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPath:
    """The columns by which rows are counted, and the index that holds them."""

    order: StreamOrder
    columns: tuple[OrderColumn, ...]
    index: str

    @classmethod
    def from_order(cls, order: StreamOrder) -> "IndexPath":
        return cls(order=order, columns=order.columns, index=order.index)

    @classmethod
    def from_key(cls, order: StreamOrder) -> "IndexPath":
        return cls(order=order, columns=order.key, index=order.key_index)


@dataclass(kw_only=True)
class Prober:
    """Asks one source; what EXPLAIN says of a path is looked at once."""

    source: SourceDatabase
    windows: int
    """How many windows can be read at once."""
    _checked_paths: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def find_bounds(
        self, path: IndexPath, low: Cursor, where: ConditionAfter, *, rows: int, windows: int | None = None
    ) -> WindowBounds:
        """Where windows end that hold so many rows behind a position; each probe goes on where the last one ended.

        Raises:
            ValueRefused: a row that lies behind a position stands, to us, at it or before it.
        """
        each = window_rows(rows, self.windows) if windows is None else -(-rows // windows)
        ends, counted = list[Cursor](), 0
        for step in split_rows(rows, window_size=each):
            begin = ends[-1] if ends else low
            end = self._query_position(path, probe_sql(path.order, path.columns, path.index, where(begin), rows=step))
            if end is None:
                rest = self.find_last(path, where(begin))
                if rest is None:
                    return WindowBounds(low=low, ends=tuple(ends), rows=counted)
                _require_progress(path, begin, rest)
                return WindowBounds(
                    low=low,
                    ends=(*ends, rest),
                    rows=counted + self._estimate_rows_left(path, where(begin), step, counted),
                )
            _require_progress(path, begin, end)
            ends.append(end)
            counted += step
        return WindowBounds(low=low, ends=tuple(ends), rows=counted, has_more=True)

    def _estimate_rows_left(self, path: IndexPath, where: str, step: int, counted: int) -> int:
        """How many rows are left at most: a batch of few is worth another probe, for its reader can start quicker."""
        few = not counted and step > FEWEST_ROWS
        if (
            few
            and self._query_position(path, probe_sql(path.order, path.columns, path.index, where, rows=FEWEST_ROWS))
            is None
        ):
            return FEWEST_ROWS
        return step

    def find_all_bounds(self, path: IndexPath, low: Cursor, where: ConditionAfter, *, rows: int) -> WindowBounds:
        """As `bounds`, but up to the last row of the condition, however many there are."""
        found = self.find_bounds(path, low, where, rows=rows)
        while found.has_more:
            more = self.find_bounds(path, found.high, where, rows=rows)
            found = replace(more, low=low, ends=(*found.ends, *more.ends), rows=found.rows + more.rows)
        return found

    def find_last(self, path: IndexPath, where: str, *, before: int = 0) -> Cursor | None:
        """The position of the last row of a condition, or of the one so many rows before it."""
        return self._query_position(path, last_position_sql(path.order, path.columns, path.index, where, before=before))

    def require_no_nulls(self, order: StreamOrder) -> None:
        """Make sure that every row has a position.

        Raises:
            ValueRefused: one has none.
        """
        if self.source.fetch_rows(any_null_sql(order)):
            name = order.columns[0].name
            raise ValueRefused(
                f"{order.table_name} has rows whose {name} is NULL, and `null_cursor` is fail",
                hint=f"Give {name} a value in these rows, or set `null_cursor: snapshot_only`.",
            )

    def read_clock(self) -> datetime:
        """The server's clock, now."""
        return parse_server_clock(self.source.fetch_rows(SERVER_CLOCK_SQL))

    def read_zone(self) -> str:
        """The offset in which the server itself writes wall times."""
        [(minutes,)] = self.source.fetch_rows(SERVER_ZONE_SQL)
        offset = int(str(minutes or 0))
        return f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"

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
        trouble = find_plan_problem(lines, index=path.index, mariadb=self.source.get_server_info().mariadb)
        if trouble is not None:
            columns = ", ".join(column.sql for column in path.columns)
            raise SourceUnfit(
                f"{order.table_name} cannot be read by its index {path.index}: {trouble}",
                hint=f"CREATE INDEX syncd_order ON {quote_table(order.database, order.table)} ({columns})",
                statement=sql,
            )
        self._checked_paths.add(known)


def _require_progress(path: IndexPath, begin: Cursor, end: Cursor) -> None:
    # A window that ends where it begins holds nothing, and so would the next one, without end.
    if not may_hold_rows(end, begin):
        order = path.order
        columns = ", ".join(column.name for column in path.columns)
        raise ValueRefused(
            f"{order.table_name} goes no further than {begin}: the next of its rows says {end}",
            hint=f"Which row is next by {columns}, and what does it hold there? Name another unique key of the table in"
            " the stream's `key`.",
        )
