"""Conversion of instants to wall clock times, whose hour repeats in autumn."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from syncd.errors import ConfigError

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
        f"source.zone is {name!r}, which is no time zone",
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
