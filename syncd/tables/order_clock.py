"""Conversion between instants and the values of an order column."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from syncd.settings import EpochUnit
from syncd.tables.wall_clock import lowest_wall_time, truncate_to_step, wall_time_after
from watermarks.cursor import CursorValue, ValueKind

STEPS_PER_SECOND: Final = {EpochUnit.SECONDS: 1, EpochUnit.MILLISECONDS: 1_000, EpochUnit.MICROSECONDS: 1_000_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_INSTANT: Final = datetime(2038, 1, 19, 3, 14, 7, 999_999, tzinfo=UTC)
"""The last TIMESTAMP; MySQL does not accept a later literal."""
_LAST_WALL_TIME: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001  # a wall clock has no zone


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderClock:
    """The time scale of an order column."""

    kind: ValueKind
    """INSTANT, WALL or INT."""
    steps_per_second: int
    """Resolution: 10 to the power of its fractional digits, or the unit of an epoch."""
    zone: tzinfo = UTC
    """The session time zone of those who write wall times."""

    @property
    def last_value(self) -> CursorValue:
        """Return the end of its time, in its own digits; only placeholder values lie at or above it."""
        if self.kind is ValueKind.INT:
            return CursorValue(ValueKind.INT, 2**63 - 1)
        last = _LAST_INSTANT if self.kind is ValueKind.INSTANT else _LAST_WALL_TIME
        return CursorValue(self.kind, truncate_to_step(last, self.steps_per_second))

    def floor_value(self, instant: datetime) -> CursorValue:
        """Return the least value that a row can get if it is stamped at the instant or later.

        Stamps are cut down to the column's steps. If the zone turns its clock back after the instant, the values
        written then count too.
        """
        return self._to_value(self._to_column_time(instant))

    def ceil_value(self, instant: datetime) -> CursorValue:
        """Return the least value that means the instant or a later one.

        If the zone turns its clock back after the instant, values of the repeated hour mean a later instant too.
        """
        return self._to_value(self._round_up(self._to_column_time(instant)))

    def end_value(self, instant: datetime) -> CursorValue:
        """Return a value above all that mean an instant before this one.

        If the zone turned its clock back before it, values of the repeated hour mean an earlier instant too.
        """
        utc = self.kind is not ValueKind.WALL
        return self._to_value(self._round_up(instant.astimezone(UTC) if utc else wall_time_after(instant, self.zone)))

    def to_instant(self, value: CursorValue) -> datetime:
        """Return the earliest instant that the value can mean."""
        plain = value.raw
        if isinstance(plain, int):
            return _EPOCH + timedelta(microseconds=plain * (1_000_000 // self.steps_per_second))
        if not isinstance(plain, datetime):
            raise TypeError(plain)
        return plain if plain.tzinfo else plain.replace(tzinfo=self.zone).astimezone(UTC)

    def _to_column_time(self, instant: datetime) -> datetime:
        if self.kind is not ValueKind.WALL:
            return instant.astimezone(UTC)
        return lowest_wall_time(instant, self.zone)

    def _round_up(self, exact: datetime) -> datetime:
        cut = truncate_to_step(exact, self.steps_per_second)
        return cut if cut == exact else cut + timedelta(seconds=1) / self.steps_per_second

    def _to_value(self, moment: datetime) -> CursorValue:
        if self.kind is ValueKind.INT:
            return CursorValue(ValueKind.INT, (moment - _EPOCH) // _MICROSECOND * self.steps_per_second // 1_000_000)
        return CursorValue(self.kind, truncate_to_step(moment, self.steps_per_second))
