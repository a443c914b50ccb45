"""Search for the first key of a time, for a table that is read by its key and begins at an instant.

Keys follow time except for rows that were committed late. So the key is found by halving, along the key's index, and
then the rows before it are searched once more.
"""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from syncd.datatypes.source_table import SourceTable
from syncd.errors import ConfigError
from syncd.mysql.sql import first_key_sql, lowest_recent_key_sql
from syncd.ports.source import SourceDatabase
from syncd.settings import StreamSettings
from syncd.tables.sort_order import StreamOrder, resolve_birth_column
from watermarks.cursor import Cursor, CursorValue, ValueKind

MAX_LATE_ROWS: Final = 10_000
"""Rows by which late ones may be out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartKeySearch:
    """Search for the first key of a time."""

    source: SourceDatabase
    order: StreamOrder
    condition: str
    """The condition of rows at or after the instant."""

    def find_position_before(self, top: Cursor) -> Cursor | None:
        """Return the position before the first of these rows, among the keys up to `top`; None if there is none yet."""
        low, end = 0, _to_number(top) + 1
        if (first := self._find_first_row(None, end)) is None:
            return None
        low, high = first[0], end
        while low < high:
            middle = (low + high) // 2
            row = self._find_first_row(middle, high)
            if row is None or row[1]:
                high = middle
            else:
                low = row[0] + 1
        while (earlier := self._find_earlier_key(high)) is not None:
            high = earlier
        if self._find_first_row(high, end) is None:
            return None
        return Cursor((CursorValue(ValueKind.INT, high - 1),))

    def _find_first_row(self, low: int | None, end: int) -> tuple[int, bool] | None:
        """Return the first row of keys from `low` up to, not including, `end`, and whether it has the time."""
        rows = self.source.fetch_rows(first_key_sql(self.order, self.condition, low=low, end=end))
        return (int(str(rows[0][0])), bool(int(str(rows[0][1] or 0)))) if rows else None

    def _find_earlier_key(self, key: int) -> int | None:
        [(found,)] = self.source.fetch_rows(
            lowest_recent_key_sql(self.order, self.condition, before=key, rows=MAX_LATE_ROWS)
        )
        return None if found is None else int(str(found))


def build_start_search(
    source: SourceDatabase,
    order: StreamOrder,
    table: SourceTable,
    settings: StreamSettings,
    *,
    instant: datetime,
    zone: tzinfo,
) -> StartKeySearch:
    """Return the search for the position where the stream begins.

    Raises:
        ConfigError: no column holds the time of the insert, or the key is not a single number.
    """
    if len(order.columns) != 1 or order.columns[0].kind is not ValueKind.INT:
        raise ConfigError(
            f"{table} is read by its key, which is not a single number: no instant has a position in it",
            hint="Begin with `first_run: snapshot` or `now`.",
        )
    column, clock = resolve_birth_column(table, settings, zone=zone)
    return StartKeySearch(
        source=source, order=order, condition=f"{column.sql} >= {column.literal(clock.ceil_value(instant))}"
    )


def _to_number(top: Cursor) -> int:
    return int(str(top.values[0].raw))
