"""What a person writes of a position, as a cursor of the stream: an instant, a key, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Self

from syncd.settings import StreamSettings
from syncd.tables.order_clock import STEPS_PER_SECOND, OrderClock
from syncd.tables.sort_order import CURSOR_BY_KEY, CURSOR_NONE, StreamOrder
from watermarks.cursor import Cursor, CursorValue, ValueKind
from watermarks.errors import Misuse

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorShape:
    """What the positions of a stream are made of."""

    clock: OrderClock | None
    """What its first value says of time; None where the table is read by its key."""
    key: tuple[ValueKind, ...]
    """The kinds of the values of the key."""

    @classmethod
    def from_order(cls, order: StreamOrder) -> Self:
        """As MySQL tells."""
        kinds = tuple(column.kind for column in order.columns)
        return cls(clock=order.clock, key=kinds[1:] if order.clock else kinds)

    @classmethod
    def from_mark(cls, mark: Cursor, settings: StreamSettings, *, zone: tzinfo | None) -> Self | None:
        """As the mark tells that was reached; None where it does not, or not all."""
        kinds = tuple(value.kind for value in mark.values)
        if not kinds:
            return None
        if settings.cursor == CURSOR_BY_KEY:
            return cls(clock=None, key=kinds)
        if kinds[0] is ValueKind.WALL and zone is None:
            return None
        unit = settings.cursor_unit
        steps = STEPS_PER_SECOND[unit] if kinds[0] is ValueKind.INT and unit is not None else _MICROSECONDS
        clock = OrderClock(kind=kinds[0], steps_per_second=steps, **({} if zone is None else {"zone": zone}))
        return cls(clock=clock, key=kinds[1:])

    def parse_position(self, mark: Cursor, *, timestamp: datetime | None, key: Sequence[str]) -> Cursor:
        """The cursor of an instant and a key; of what is not said, the mark's own part stays.

        An instant alone stands before its first row. The key of the mark stays only with the mark's own
        instant: at any other it would pass over rows that were never read.

        Raises:
            Misuse: such a position means nothing in this stream.
        """
        values = self._parse_key(key)
        if self.clock is None:
            if timestamp is not None:
                raise Misuse("this table is read by its key, which tells no time", hint="Name a key: --id")
            return Cursor(values)
        if timestamp is not None:
            stamp = self.clock.ceil_value(timestamp)
        elif mark:
            stamp = mark.values[0]
        else:
            raise Misuse(
                "a key alone is no position here, and there is no mark whose instant could stay",
                hint="Add --timestamp: rows are read in the order of their time, then their key.",
            )
        same = mark.values[:1] == (stamp,)
        return Cursor((stamp, *(values or (mark.values[1:] if same else ()))))

    def _parse_key(self, texts: Sequence[str]) -> tuple[CursorValue, ...]:
        if len(texts) > len(self.key):
            known = ", ".join(self.key) or "nothing that is known without MySQL"
            raise Misuse(f"{len(texts)} values of a key were given, it is made of {known}")
        return tuple(CursorValue.from_text(f"{kind}:{text}") for kind, text in zip(self.key, texts, strict=False))


def require_settable_position(settings: StreamSettings) -> None:
    """Make sure that there are positions to set.

    Raises:
        Misuse: the stream is read whole each time.
    """
    if settings.cursor == CURSOR_NONE:
        raise Misuse(
            f"{settings.name} is read whole each time, and has no position to read on from",
            hint="To land its newest reading again: syncd watermark reset --redshift-only",
        )
