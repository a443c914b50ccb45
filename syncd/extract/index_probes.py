"""Probes: short statements that ask where rows stand, each along one index."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from syncd.datatypes.mysql_quoting import qualified
from syncd.errors import SourceUnfit, ValueRefused
from syncd.extract.plan_rules import FEWEST_ROWS, Bounds, reaches, steps, window_rows
from syncd.mysql.query_plan import explain, judge
from syncd.mysql.sql import SERVER_CLOCK, SERVER_ZONE, any_null, last_position, probe
from syncd.ports.source import Source
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import Order
from watermarks.cursor import Cursor

Condition = Callable[[Cursor], str]
"""What rows are asked for behind a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The columns by which rows are counted, and the index that holds them."""

    order: Order
    columns: tuple[OrderColumn, ...]
    index: str

    @classmethod
    def of_order(cls, order: Order) -> "Path":
        return cls(order=order, columns=order.columns, index=order.index)

    @classmethod
    def of_key(cls, order: Order) -> "Path":
        return cls(order=order, columns=order.key, index=order.key_index)


@dataclass(kw_only=True)
class Prober:
    """Asks one source; what EXPLAIN says of a path is looked at once."""

    source: Source
    windows: int
    """How many windows can be read at once."""
    _judged: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def bounds(self, path: Path, low: Cursor, where: Condition, *, rows: int, windows: int | None = None) -> Bounds:
        """Where windows end that hold so many rows behind a position; each probe goes on where the last one ended.

        Raises:
            ValueRefused: a row that lies behind a position stands, to us, at it or before it.
        """
        each = window_rows(rows, self.windows) if windows is None else -(-rows // windows)
        ends, counted = list[Cursor](), 0
        for step in steps(rows, each=each):
            begin = ends[-1] if ends else low
            end = self._position(path, probe(path.order, path.columns, path.index, where(begin), rows=step))
            if end is None:
                rest = self.last(path, where(begin))
                if rest is None:
                    return Bounds(low=low, ends=tuple(ends), rows=counted)
                _require_progress(path, begin, rest)
                return Bounds(low=low, ends=(*ends, rest), rows=counted + self._left(path, where(begin), step, counted))
            _require_progress(path, begin, end)
            ends.append(end)
            counted += step
        return Bounds(low=low, ends=tuple(ends), rows=counted, more=True)

    def _left(self, path: Path, where: str, step: int, counted: int) -> int:
        """How many rows are left at most: a batch of few is worth another probe, for its reader can start quicker."""
        few = not counted and step > FEWEST_ROWS
        if few and self._position(path, probe(path.order, path.columns, path.index, where, rows=FEWEST_ROWS)) is None:
            return FEWEST_ROWS
        return step

    def every(self, path: Path, low: Cursor, where: Condition, *, rows: int) -> Bounds:
        """As `bounds`, but up to the last row of the condition, however many there are."""
        found = self.bounds(path, low, where, rows=rows)
        while found.more:
            more = self.bounds(path, found.high, where, rows=rows)
            found = replace(more, low=low, ends=(*found.ends, *more.ends), rows=found.rows + more.rows)
        return found

    def last(self, path: Path, where: str, *, before: int = 0) -> Cursor | None:
        """The position of the last row of a condition, or of the one so many rows before it."""
        return self._position(path, last_position(path.order, path.columns, path.index, where, before=before))

    def refuse_nulls(self, order: Order) -> None:
        """Make sure that every row has a position.

        Raises:
            ValueRefused: one has none.
        """
        if self.source.rows(any_null(order)):
            name = order.columns[0].name
            raise ValueRefused(
                f"{order.database}.{order.table} has rows whose {name} is NULL, and `null_cursor` is fail",
                hint=f"Give {name} a value in these rows, or set `null_cursor: snapshot_only`.",
            )

    def clock(self) -> datetime:
        """The server's clock, now."""
        [(text,)] = self.source.rows(SERVER_CLOCK)
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)

    def zone(self) -> str:
        """The offset in which the server itself writes wall times."""
        [(minutes,)] = self.source.rows(SERVER_ZONE)
        offset = int(str(minutes or 0))
        return f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"

    def _position(self, path: Path, sql: str) -> Cursor | None:
        self._require_index(path, sql)
        rows = self.source.rows(sql)
        if not rows:
            return None
        return Cursor(tuple(column.value(raw) for column, raw in zip(path.columns, rows[0], strict=True)))

    def _require_index(self, path: Path, sql: str) -> None:
        order = path.order
        known = (order.database, order.table, path.index)
        if known in self._judged:
            return
        lines = self.source.rows(explain(sql))
        trouble = judge(lines, index=path.index, mariadb=self.source.server().mariadb)
        if trouble is not None:
            columns = ", ".join(column.sql for column in path.columns)
            raise SourceUnfit(
                f"{order.database}.{order.table} cannot be read by its index {path.index}: {trouble}",
                hint=f"CREATE INDEX syncd_order ON {qualified(order.database, order.table)} ({columns})",
                statement=sql,
            )
        self._judged.add(known)


def _require_progress(path: Path, begin: Cursor, end: Cursor) -> None:
    # A window that ends where it begins holds nothing, and so would the next one, without end.
    if not reaches(end, begin):
        order = path.order
        columns = ", ".join(column.name for column in path.columns)
        raise ValueRefused(
            f"{order.database}.{order.table} goes no further than {begin}: the next of its rows says {end}",
            hint=f"Which row is next by {columns}, and what does it hold there? Name another unique key of the table in"
            " the stream's `key`.",
        )
