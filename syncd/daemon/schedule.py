"""When a stream is due: intervals on a clock that nobody can set, crons on the one at the wall."""

import time
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

from syncd.cron import Cron, parse_cron
from syncd.settings import Schedule
from watermarks.clock import SystemClock

JITTER: Final = 0.05
"""Of an interval, at most: so many streams that begin together spread by themselves."""
MOST_JITTER: Final = 30.0
"""Seconds."""
_A_DAY: Final = 24 * 3600
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
"""By name: APScheduler counts them from Monday, cron from Sunday."""


class HostClock(SystemClock):
    """The clocks of this machine; the one that only rises goes on while the machine sleeps."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Trigger(Protocol):
    """When something is due, by the clock at the wall."""

    def next(self, now: datetime) -> datetime | None:
        """The first instant after `now`; None where there is none any more."""
        ...


class CronTimes:
    """The instants of a cron in its time zone: a time that comes twice is two, one that is leapt over is the leap."""

    def __init__(self, cron: Cron, zone: str) -> None:
        days = {"day": _listed(cron.days)}
        weekdays = {"day_of_week": ",".join(_WEEKDAYS[day] for day in cron.weekdays)}
        ways = [days, weekdays] if cron.either else [{**days, **weekdays}]
        self._trigger = OrTrigger([_trigger(cron, way) for way in ways])
        self._zone = ZoneInfo(zone)

    def next(self, now: datetime) -> datetime | None:
        start = now + timedelta(microseconds=1)
        while (found := self._unless_set(start)) is not None:
            change = self._set_within(start, found)
            if change is None:
                return found
            if found < change + self._offset(change) - self._offset(start):
                return change
            start = change
        return None

    def _unless_set(self, start: datetime) -> datetime | None:
        """The first instant from `start` on, if nobody sets the zone's clocks.

        So APScheduler is asked: across a change it passes over what is due in the hour of midnight.
        """
        offset = self._offset(start)
        found: datetime | None = self._trigger.get_next_fire_time(None, start + offset)
        return None if found is None else found - offset

    def _set_within(self, start: datetime, end: datetime) -> datetime | None:
        """When the zone's clocks are first set after `start` and up to `end`, which is at a full second."""
        before, first, last = self._offset(start), int(start.timestamp()), int(end.timestamp())
        for low in range(first, last, _A_DAY):
            high = min(low + _A_DAY, last)
            if self._offset(_instant(high)) != before:
                changed = bisect_left(range(low, high), 1, key=lambda at: int(self._offset(_instant(at)) != before))
                return _instant(low + changed)
        return None

    def _offset(self, instant: datetime) -> timedelta:
        """What the zone's clocks show, less UTC."""
        return instant.astimezone(self._zone).utcoffset() or timedelta(0)


def trigger_of(schedule: Schedule) -> Trigger | None:
    """What says when a stream with a cron is due; None where it has an interval."""
    return None if schedule.cron is None else CronTimes(parse_cron(schedule.cron), schedule.zone)


def interval_of(every: timedelta, *, chance: Callable[[], float]) -> float:
    """The seconds until an interval has passed, a little more or less; `chance` gives 0 to 1."""
    seconds = every.total_seconds()
    return seconds + (2 * chance() - 1) * min(seconds * JITTER, MOST_JITTER)


def _trigger(cron: Cron, days: dict[str, str]) -> Any:  # noqa: ANN401  # APScheduler tells no types
    return CronTrigger(
        minute=_listed(cron.minutes), hour=_listed(cron.hours), month=_listed(cron.months), timezone=UTC, **days
    )


def _instant(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _listed(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))
