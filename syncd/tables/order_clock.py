"""How instants become values of an order column, and what instant such a value can mean."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from syncd.settings import EpochUnit
from syncd.tables.wall_clock import wall_bound, wall_end
from watermarks.cursor import Kind, Value

PER_SECOND: Final = {EpochUnit.SECONDS: 1, EpochUnit.MILLISECONDS: 1_000, EpochUnit.MICROSECONDS: 1_000_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_INSTANT: Final = datetime(2038, 1, 19, 3, 14, 7, 999_999, tzinfo=UTC)
"""Of TIMESTAMP; the literal of a later one means nothing to MySQL."""
_LAST_READING: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001  # a wall clock has no zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What an order column says of time."""

    kind: Kind
    """INSTANT, WALL or INT."""
    per_second: int
    """How many of its steps make a second: 10 to the power of its digits; of an epoch, by its unit."""
    zone: tzinfo = UTC
    """Of those who write a wall clock's readings."""

    @property
    def last(self) -> Value:
        """The end of its time, in its own digits: no row of sense lies behind it, though some lie at it."""
        if self.kind is Kind.INT:
            return Value(Kind.INT, 2**63 - 1)
        last = _LAST_INSTANT if self.kind is Kind.INSTANT else _LAST_READING
        return Value(self.kind, _cut(last, self.per_second))

    def floor(self, instant: datetime) -> Value:
        """The least value that a row can get whose stamp is made at the instant or later.

        A stamp is cut down to the column's steps. Where the zone turns its clock
        back after the instant, what will be written then counts as well.
        """
        return self._value(self._reading(instant))

    def ceil(self, instant: datetime) -> Value:
        """The least value that means the instant or a later one.

        Where the zone turns its clock back after the instant, values of the hour that repeats mean a later one too.
        """
        return self._value(self._next_step(self._reading(instant)))

    def end(self, instant: datetime) -> Value:
        """A value above all that mean an instant before this one.

        Where the zone turned its clock back before it, values of the hour that repeats mean an earlier one too.
        """
        utc = self.kind is not Kind.WALL
        return self._value(self._next_step(instant.astimezone(UTC) if utc else wall_end(instant, self.zone)))

    def instant(self, value: Value) -> datetime:
        """The earliest instant that the value can mean."""
        plain = value.plain
        if isinstance(plain, int):
            return _EPOCH + timedelta(microseconds=plain * (1_000_000 // self.per_second))
        if not isinstance(plain, datetime):
            raise TypeError(plain)
        return plain if plain.tzinfo else plain.replace(tzinfo=self.zone).astimezone(UTC)

    def _reading(self, instant: datetime) -> datetime:
        if self.kind is not Kind.WALL:
            return instant.astimezone(UTC)
        return wall_bound(instant, self.zone)

    def _next_step(self, exact: datetime) -> datetime:
        cut = _cut(exact, self.per_second)
        return cut if cut == exact else cut + timedelta(seconds=1) / self.per_second

    def _value(self, moment: datetime) -> Value:
        if self.kind is Kind.INT:
            return Value(Kind.INT, (moment - _EPOCH) // _MICROSECOND * self.per_second // 1_000_000)
        return Value(self.kind, _cut(moment, self.per_second))


def _cut(moment: datetime, per_second: int) -> datetime:
    step = 1_000_000 // per_second
    return moment.replace(microsecond=moment.microsecond // step * step)
