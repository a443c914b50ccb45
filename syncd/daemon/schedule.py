"""Schedules of streams: intervals on the monotonic clock, crons on the wall clock."""

import time
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

from syncd.cron import CronExpression, parse_cron
from syncd.settings import Schedule
from watermarks.clock import SystemClock

INTERVAL_JITTER_FRACTION: Final = 0.05
"""Largest jitter of an interval, which spreads streams that begin together."""
MAX_INTERVAL_JITTER_SECONDS: Final = 30.0
_SECONDS_PER_DAY: Final = 24 * 3600
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
"""Names, because APScheduler counts from Monday and cron from Sunday."""


class HostClock(SystemClock):
    """Clocks of this machine; the monotonic one also counts while the machine sleeps."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class ScheduleTrigger(Protocol):
    """Source of due times on the wall clock."""

    def next_after(self, now: datetime) -> datetime | None:
        """Return the first due time after `now`; None without one."""
        ...


class CronTimes:
    """Times of a cron in its time zone; a time that the clocks repeat counts twice, a skipped one at the skip."""

    def __init__(self, cron: CronExpression, zone: str) -> None:
        days = {"day": _join_numbers(cron.days)}
        weekdays = {"day_of_week": ",".join(_WEEKDAYS[day] for day in cron.weekdays)}
        filters = [days, weekdays] if cron.matches_either_day else [{**days, **weekdays}]
        self._trigger = OrTrigger([_make_cron_trigger(cron, days) for days in filters])
        self._zone = ZoneInfo(zone)

    def next_after(self, now: datetime) -> datetime | None:
        start = now + timedelta(microseconds=1)
        while (found := self._next_at_fixed_offset(start)) is not None:
            change = self._find_offset_change(start, found)
            if change is None:
                return found
            if found < change + self._utc_offset(change) - self._utc_offset(start):
                return change
            start = change
        return None

    def _next_at_fixed_offset(self, start: datetime) -> datetime | None:
        """Return the first time from `start` on at the UTC offset of `start`.

        APScheduler gets a fixed offset because it skips times in the hour of midnight when the clocks change.
        """
        offset = self._utc_offset(start)
        found: datetime | None = self._trigger.get_next_fire_time(None, start + offset)
        return None if found is None else found - offset

    def _find_offset_change(self, start: datetime, end: datetime) -> datetime | None:
        """Return the first change of the zone's offset after `start` and up to `end`, which is a full second."""
        before, first, last = self._utc_offset(start), int(start.timestamp()), int(end.timestamp())
        for low in range(first, last, _SECONDS_PER_DAY):
            high = min(low + _SECONDS_PER_DAY, last)
            if self._utc_offset(_from_timestamp(high)) != before:
                changed = bisect_left(
                    range(low, high), 1, key=lambda at: int(self._utc_offset(_from_timestamp(at)) != before)
                )
                return _from_timestamp(low + changed)
        return None

    def _utc_offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta(0)


def make_trigger(schedule: Schedule) -> ScheduleTrigger | None:
    """Return the trigger of a cron; None for an interval."""
    return None if schedule.cron is None else CronTimes(parse_cron(schedule.cron), schedule.zone)


def jittered_interval_seconds(every: timedelta, *, random_fraction: Callable[[], float]) -> float:
    """Return the seconds of an interval with jitter."""
    seconds = every.total_seconds()
    return seconds + (2 * random_fraction() - 1) * min(seconds * INTERVAL_JITTER_FRACTION, MAX_INTERVAL_JITTER_SECONDS)


def _make_cron_trigger(cron: CronExpression, days: dict[str, str]) -> Any:  # noqa: ANN401  # APScheduler has no types
    return CronTrigger(
        minute=_join_numbers(cron.minutes),
        hour=_join_numbers(cron.hours),
        month=_join_numbers(cron.months),
        timezone=UTC,
        **days,
    )


def _from_timestamp(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _join_numbers(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))
