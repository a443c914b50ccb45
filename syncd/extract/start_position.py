"""Where a table that is read by its key begins, when it is to begin at an instant: at the first row of that time.

Keys follow time but for those that were committed late. So the place is found by halving, along the key's index, and
then looked for once more among the rows before it.
"""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from syncd.datatypes.source_table import Table
from syncd.errors import ConfigError
from syncd.mysql.sql import first_among_last, first_from
from syncd.ports.source import Source
from syncd.settings import StreamSettings
from syncd.tables.sort_order import Order, born_by
from watermarks.cursor import Cursor, Kind, Value

LOOKED_BACK: Final = 10_000
"""Rows: so far out of their order may late ones be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Looks for the first key of a time."""

    source: Source
    order: Order
    since: str
    """The condition of rows at or after the instant."""

    def before(self, top: Cursor) -> Cursor | None:
        """The place before the first of them, among the keys up to `top`; None where there is none yet."""
        low, end = 0, _number(top) + 1
        if (first := self._at(None, end)) is None:
            return None
        low, high = first[0], end
        while low < high:
            middle = (low + high) // 2
            row = self._at(middle, high)
            if row is None or row[1]:
                high = middle
            else:
                low = row[0] + 1
        while (earlier := self._earlier(high)) is not None:
            high = earlier
        if self._at(high, end) is None:
            return None
        return Cursor((Value(Kind.INT, high - 1),))

    def _at(self, low: int | None, end: int) -> tuple[int, bool] | None:
        """The first row of keys from one up to, not including, another; and whether it is at or after the instant."""
        rows = self.source.rows(first_from(self.order, self.since, low=low, end=end))
        return (int(str(rows[0][0])), bool(int(str(rows[0][1] or 0)))) if rows else None

    def _earlier(self, key: int) -> int | None:
        [(found,)] = self.source.rows(first_among_last(self.order, self.since, before=key, rows=LOOKED_BACK))
        return None if found is None else int(str(found))


def start_of(
    source: Source, order: Order, table: Table, settings: StreamSettings, *, instant: datetime, zone: tzinfo
) -> Start:
    """How to find where the stream begins.

    Raises:
        ConfigError: no column tells when a row was born, or the key is no single number.
    """
    if len(order.columns) != 1 or order.columns[0].kind is not Kind.INT:
        raise ConfigError(
            f"{table} is read by its key, which is no single number: where an instant lies among them is not known",
            hint="Begin with `first_run: snapshot` or `now`.",
        )
    column, clock = born_by(table, settings, zone=zone)
    return Start(source=source, order=order, since=f"{column.sql} >= {column.literal(clock.ceil(instant))}")


def _number(top: Cursor) -> int:
    return int(str(top.values[0].plain))
