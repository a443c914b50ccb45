from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from syncd.cron import CronExpression, parse_cron
from syncd.daemon.schedule import CronTimes, HostClock, jittered_interval_seconds


def times(text: str, *, after: datetime, count: int = 3, zone: str = "UTC") -> list[str]:
    cron, found = CronTimes(parse_cron(text), zone), []
    for _ in range(count):
        due = cron.next_after(after)
        assert due is not None
        after = due
        found.append(f"{due:%a %d.%m. %H:%M}")
    return found


SATURDAY = datetime(2026, 3, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0 3 * * *", ["Sat 28.03. 03:00", "Sun 29.03. 03:00", "Mon 30.03. 03:00"]),
        ("0 0 * * 0", ["Sun 29.03. 00:00", "Sun 05.04. 00:00", "Sun 12.04. 00:00"]),
        ("0 12 * * 1-5", ["Mon 30.03. 12:00", "Tue 31.03. 12:00", "Wed 01.04. 12:00"]),
        ("0 0 1 * *", ["Wed 01.04. 00:00", "Fri 01.05. 00:00", "Mon 01.06. 00:00"]),
        # Where both fields for days say something, either of them will do.
        ("0 0 13 * 5", ["Fri 03.04. 00:00", "Fri 10.04. 00:00", "Mon 13.04. 00:00"]),
    ],
)
def test_a_cron_is_due_as_cron_has_it(text: str, found: list[str]) -> None:
    assert times(text, after=SATURDAY) == found


def test_an_instant_that_is_due_is_not_due_again() -> None:
    assert times("0 0 * * *", after=SATURDAY, count=1) == ["Sun 29.03. 00:00"]


def test_a_zone_keeps_its_hour_when_its_clocks_change() -> None:
    assert times("0 4 * * *", after=SATURDAY, zone="Europe/Berlin") == [
        "Sat 28.03. 03:00", "Sun 29.03. 02:00", "Mon 30.03. 02:00",
    ]  # fmt: skip


HALF_AN_HOUR = timedelta(minutes=30)
YEAR = [datetime(2026, 1, 1, tzinfo=UTC) + at * HALF_AN_HOUR for at in range(365 * 48)]
CRONS = ("0 0 * * *", "0,30 2 * 3,4,9-11 *", "30 0 * * 1", "0 0 1 * *", "0 0 29-31 * 1")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe"])
def test_a_year_of_crons_has_every_time_that_its_clocks_show(zone: str) -> None:
    """What the clocks show twice comes twice; what they leap over comes when they leap, once."""
    shown = shown_in(ZoneInfo(zone))
    for text in CRONS:
        cron = parse_cron(text)
        wanted = {instant for local, instants in shown.items() if fits(cron, local) for instant in instants}

        assert all_of(CronTimes(cron, zone), since=YEAR[0], upto=YEAR[-1]) == sorted(wanted), text


def shown_in(zone: ZoneInfo) -> dict[datetime, list[datetime]]:
    """Each time on the clocks of a zone, and when they show it or leap over it."""
    found: dict[datetime, list[datetime]] = {}
    for before, instant in pairwise(YEAR):
        upto = instant.astimezone(zone).replace(tzinfo=None)
        local = min(upto, before.astimezone(zone).replace(tzinfo=None) + HALF_AN_HOUR)
        while local <= upto:
            found.setdefault(local, []).append(instant)
            local += HALF_AN_HOUR
    return found


def fits(cron: CronExpression, local: datetime) -> bool:
    day, weekday = local.day in cron.days, local.isoweekday() % 7 in cron.weekdays
    fitting = (day or weekday) if cron.matches_either_day else (day and weekday)
    return fitting and local.month in cron.months and local.hour in cron.hours and local.minute in cron.minutes


def all_of(cron: CronTimes, *, since: datetime, upto: datetime) -> list[datetime]:
    found = list[datetime]()
    while (due := cron.next_after(since)) is not None and due <= upto:
        found.append(due)
        since = due
    return found


@pytest.mark.parametrize(
    ("text", "zone", "now", "due"),
    [
        ("0 0 * * *", "Europe/Berlin", "2026-03-29T00:30", "2026-03-29T22:00"),
        ("0 0 * * 1", "Europe/Berlin", "2026-03-23T12:00", "2026-03-29T22:00"),
        ("0 0 1 * *", "Europe/Berlin", "2026-03-01T12:00", "2026-03-31T22:00"),
        ("15 0 * * 1-5", "America/New_York", "2026-03-08T06:59", "2026-03-09T04:15"),
        ("45 2 * * *", "Europe/Berlin", "2026-03-29T00:59", "2026-03-29T01:00"),
        ("45 2 * * *", "Europe/Berlin", "2026-03-29T01:00", "2026-03-30T00:45"),
        ("0 0 1 * *", "America/Santiago", "2026-09-01T12:00", "2026-10-01T03:00"),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", "2026-04-23T22:00"),
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-30T09:00", "2011-12-30T10:00"),
        ("0 0 29 2 */7", "Europe/Berlin", "2026-01-01T00:00", "2032-02-28T23:00"),
    ],
)
def test_what_comes_after_the_clocks_were_set_is_not_passed_over(text: str, zone: str, now: str, due: str) -> None:
    found = CronTimes(parse_cron(text), zone).next_after(datetime.fromisoformat(now).replace(tzinfo=UTC))

    assert found == datetime.fromisoformat(due).replace(tzinfo=UTC)


def test_a_date_that_seldom_comes_is_waited_for() -> None:
    assert times("0 0 29 2 *", after=SATURDAY, count=1) == ["Tue 29.02. 00:00"]


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 57.0), (0.5, 60.0), (1.0, 63.0)])
def test_an_interval_is_a_little_more_or_less(chance: float, seconds: float) -> None:
    assert jittered_interval_seconds(timedelta(minutes=1), random_fraction=lambda: chance) == pytest.approx(seconds)


def test_long_intervals_differ_by_half_a_minute_at_most() -> None:
    assert jittered_interval_seconds(timedelta(hours=24), random_fraction=lambda: 1.0) == 24 * 3600 + 30


def test_the_hosts_clock_only_rises() -> None:
    clock = HostClock()

    assert clock.monotonic() <= clock.monotonic()
