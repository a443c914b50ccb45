from datetime import UTC, datetime, timedelta

import pytest

from syncd.core.cron import parse_cron
from syncd.daemon.schedule import CronTimes, HostClock, interval_of


def times(text: str, *, after: datetime, count: int = 3, zone: str = "UTC") -> list[str]:
    cron, found = CronTimes(parse_cron(text), zone), []
    for _ in range(count):
        due = cron.next(after)
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


def test_a_date_that_seldom_comes_is_waited_for() -> None:
    assert times("0 0 29 2 *", after=SATURDAY, count=1) == ["Tue 29.02. 00:00"]


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 57.0), (0.5, 60.0), (1.0, 63.0)])
def test_an_interval_is_a_little_more_or_less(chance: float, seconds: float) -> None:
    assert interval_of(timedelta(minutes=1), chance=lambda: chance) == pytest.approx(seconds)


def test_long_intervals_differ_by_half_a_minute_at_most() -> None:
    assert interval_of(timedelta(hours=24), chance=lambda: 1.0) == 24 * 3600 + 30


def test_the_hosts_clock_only_rises() -> None:
    clock = HostClock()

    assert clock.monotonic() <= clock.monotonic()
