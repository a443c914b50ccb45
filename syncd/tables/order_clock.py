"""Conversion between instants and the values of an order column."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from syncd.errors import ConfigError
from syncd.settings import EpochUnit
from watermarks.cursor import CursorValue, ValueKind

MAX_CLOCK_CHANGE: Final = timedelta(hours=26)
"""No clock was ever set back by more than a day, so later changes cannot reach below."""
SEARCH_STEP: Final = timedelta(minutes=15)
_FIRST: Final = datetime(1, 1, 3, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 29, tzinfo=UTC)
"""Between these two a step of a day either way is still a valid time; beyond them no clock is turned back."""
SECOND: Final = timedelta(seconds=1)

_OFFSET: Final = re.compile(r"([+-])(\d{1,2}):(\d\d)")


def parse_zone(name: str) -> tzinfo:
    """Return a configured time zone: a name such as `Europe/Berlin`, or an offset such as `+02:00`.

    Raises:
        ConfigError: there is no such zone.
    """
    if match := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        if offset < timedelta(hours=15):
            return timezone(-offset if match[1] == "-" else offset)
    elif name.upper() == "UTC":
        return UTC
    else:
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, KeyError) as error:
            raise _unknown_zone(name) from error
    raise _unknown_zone(name)


def _unknown_zone(name: str) -> ConfigError:
    return ConfigError(
        f"source.zone is {name!r}, which is not a time zone",
        hint="Set it to the session time zone of the writers, such as Europe/Berlin, +02:00 or UTC.",
    )


def lowest_wall_time(instant: datetime, zone: tzinfo) -> datetime:
    """Return the lowest time that a wall clock of the zone shows at or after the instant, without a zone.

    Rows stamped from the instant on are not below it; rows below it are complete when the instant's are.
    """
    lowest = _to_wall_time(instant, zone)
    here, end = instant, min(instant, _LAST) + MAX_CLOCK_CHANGE
    while here < end:
        there = here + SEARCH_STEP
        if _utc_offset(there, zone) < _utc_offset(here, zone):
            lowest = min(lowest, _to_wall_time(_find_set_back(here, there, zone), zone))
        here = there
    return lowest


def wall_time_after(instant: datetime, zone: tzinfo) -> datetime:
    """Return a time above all that a wall clock of the zone showed before the instant, without a zone."""
    highest = _to_wall_time(instant, zone)
    here = max(instant, _FIRST) - MAX_CLOCK_CHANGE
    while here < instant:
        there = min(here + SEARCH_STEP, instant)
        if _utc_offset(there, zone) < _utc_offset(here, zone):
            turned = _find_set_back(here, there, zone).astimezone(UTC)
            highest = max(highest, (turned + _utc_offset(here, zone)).replace(tzinfo=None))
        here = there
    return highest


def _find_set_back(start: datetime, end: datetime, zone: tzinfo) -> datetime:
    """Return the first instant, to the second, after the clock was set back."""
    low, high = start, end
    while high - low > SECOND:
        middle = low + (high - low) / 2
        if _utc_offset(middle, zone) < _utc_offset(start, zone):
            high = middle
        else:
            low = middle
    return high.replace(microsecond=0)


def _to_wall_time(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _utc_offset(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def truncate_to_step(moment: datetime, steps_per_second: int) -> datetime:
    """Cut a moment down to a column's resolution, as the server cuts its stamps."""
    step = 1_000_000 // steps_per_second
    return moment.replace(microsecond=moment.microsecond // step * step)


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
