"""When a stream is due: intervals on a clock that nobody can set, crons on the one at the wall."""

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
"""Of an interval, at most: so many streams that begin together spread by themselves."""
MAX_INTERVAL_JITTER_SECONDS: Final = 30.0
"""Seconds."""
_SECONDS_PER_DAY: Final = 24 * 3600
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
"""By name: APScheduler counts them from Monday, cron from Sunday."""


class HostClock(SystemClock):
    """The clocks of this machine; the one that only rises goes on while the machine sleeps."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class ScheduleTrigger(Protocol):
    """When something is due, by the clock at the wall."""

    def next_after(self, now: datetime) -> datetime | None:
        """The first instant after `now`; None where there is none any more."""
        ...


class CronTimes:
    """The instants of a cron in its time zone: a time that comes twice is two, one that is leapt over is the leap."""

    def __init__(self, cron: CronExpression, zone: str) -> None:
        days = {"day": _join_numbers(cron.days)}
        weekdays = {"day_of_week": ",".join(_WEEKDAYS[day] for day in cron.weekdays)}
        ways = [days, weekdays] if cron.matches_either_day else [{**days, **weekdays}]
        self._trigger = OrTrigger([_make_cron_trigger(cron, way) for way in ways])
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
        """The first instant from `start` on, if nobody sets the zone's clocks.

        So APScheduler is asked: across a change it passes over what is due in the hour of midnight.
        """
        offset = self._utc_offset(start)
        found: datetime | None = self._trigger.get_next_fire_time(None, start + offset)
        return None if found is None else found - offset

    def _find_offset_change(self, start: datetime, end: datetime) -> datetime | None:
        """When the zone's clocks are first set after `start` and up to `end`, which is at a full second."""
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
        """What the zone's clocks show, less UTC."""
        return instant.astimezone(self._zone).utcoffset() or timedelta(0)


def make_trigger(schedule: Schedule) -> ScheduleTrigger | None:
    """What says when a stream with a cron is due; None where it has an interval."""
    return None if schedule.cron is None else CronTimes(parse_cron(schedule.cron), schedule.zone)


def jittered_interval_seconds(every: timedelta, *, random_fraction: Callable[[], float]) -> float:
    """The seconds until an interval has passed, a little more or less; `chance` gives 0 to 1."""
    seconds = every.total_seconds()
    return seconds + (2 * random_fraction() - 1) * min(seconds * INTERVAL_JITTER_FRACTION, MAX_INTERVAL_JITTER_SECONDS)


def _make_cron_trigger(cron: CronExpression, days: dict[str, str]) -> Any:  # noqa: ANN401  # APScheduler tells no types
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
