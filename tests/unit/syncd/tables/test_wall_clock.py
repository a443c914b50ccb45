from datetime import UTC, datetime, timedelta

import pytest

from syncd.errors import ConfigError
from syncd.tables.order_clock import lowest_wall_time, parse_zone, truncate_to_step, wall_time_after

HOURS = range(30)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "instant", "bound"),
    [
        ("UTC", "2026-10-25 00:30:00", "2026-10-25 00:30:00"),
        ("+05:30", "2026-10-25 00:30:00", "2026-10-25 06:00:00"),
        ("-03:00", "2026-10-25 00:30:00", "2026-10-24 21:30:00"),
        # Berlin, 01:00 UTC: 03:00 becomes 02:00.
        ("Europe/Berlin", "2026-10-24 23:59:59", "2026-10-25 01:59:59"),
        ("Europe/Berlin", "2026-10-25 00:00:01", "2026-10-25 02:00:00"),
        ("Europe/Berlin", "2026-10-25 00:30:00", "2026-10-25 02:00:00"),
        ("Europe/Berlin", "2026-10-25 00:59:59.999999", "2026-10-25 02:00:00"),
        ("Europe/Berlin", "2026-10-25 01:00:00", "2026-10-25 02:00:00"),
        ("Europe/Berlin", "2026-10-25 01:30:00.5", "2026-10-25 02:30:00.5"),
        # Spring: the clock is set forward, nothing repeats.
        ("Europe/Berlin", "2026-03-29 00:59:59", "2026-03-29 01:59:59"),
        ("Europe/Berlin", "2026-03-29 01:00:00", "2026-03-29 03:00:00"),
        # South of the equator, in April; Lord Howe goes back by half an hour.
        ("America/Santiago", "2026-04-05 02:30:00", "2026-04-04 23:00:00"),
        ("Australia/Sydney", "2026-04-04 15:30:00", "2026-04-05 02:00:00"),
        ("Australia/Lord_Howe", "2026-04-04 14:45:00", "2026-04-05 01:30:00"),
        # No change of clocks at all.
        ("Asia/Tokyo", "2026-10-25 00:30:00", "2026-10-25 09:30:00"),
    ],
)
def test_bound_is_the_lowest_reading_from_the_instant_on(zone: str, instant: str, bound: str) -> None:
    assert lowest_wall_time(utc(instant), parse_zone(zone)) == datetime.fromisoformat(bound)


@pytest.mark.parametrize(
    ("zone", "instant", "end"),
    [
        ("UTC", "2026-10-25 00:30:00", "2026-10-25 00:30:00"),
        ("+05:30", "2026-10-25 00:30:00", "2026-10-25 06:00:00"),
        # Berlin, 01:00 UTC: 03:00 becomes 02:00.
        ("Europe/Berlin", "2026-10-25 00:59:59", "2026-10-25 02:59:59"),
        ("Europe/Berlin", "2026-10-25 01:00:00", "2026-10-25 03:00:00"),
        ("Europe/Berlin", "2026-10-25 01:00:00.000001", "2026-10-25 03:00:00"),
        ("Europe/Berlin", "2026-10-25 01:30:00", "2026-10-25 03:00:00"),
        ("Europe/Berlin", "2026-10-25 02:00:00.5", "2026-10-25 03:00:00.5"),
        ("Europe/Berlin", "2026-03-29 01:00:00", "2026-03-29 03:00:00"),
        ("Australia/Lord_Howe", "2026-04-04 15:10:00", "2026-04-05 02:00:00"),
        ("Europe/Berlin", "0001-01-01 00:00:00", "0001-01-01 00:53:28"),
        ("America/New_York", "9999-12-31 23:59:59", "9999-12-31 18:59:59"),
    ],
)
def test_end_is_above_all_readings_before_the_instant(zone: str, instant: str, end: str) -> None:
    assert wall_time_after(utc(instant), parse_zone(zone)) == datetime.fromisoformat(end)


def test_bound_of_the_last_day_of_all_is_its_reading() -> None:
    assert lowest_wall_time(utc("9999-12-31 23:59:59"), parse_zone("UTC")) == datetime.fromisoformat(
        "9999-12-31 23:59:59"
    )


def test_a_zone_that_went_back_by_almost_a_day_is_looked_at_far_enough() -> None:
    zone = parse_zone("Pacific/Kwajalein")  # in 1969, by 23 hours
    for hour in range(48):
        instant = utc("1969-09-29 00:00:00") + timedelta(hours=hour)
        stamps = [(instant + timedelta(minutes=n)).astimezone(zone).replace(tzinfo=None) for n in range(60 * 48)]

        assert lowest_wall_time(instant, zone) <= min(stamps)


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata"]
)
def test_no_later_stamp_lies_below_the_bound(zone: str) -> None:
    for month in range(1, 13):
        for day in (1, 8, 25, 28):
            for hour in HOURS:
                instant = datetime(2026, month, day, 0, 17, tzinfo=UTC) + timedelta(hours=hour)
                stamps = [
                    (instant + timedelta(minutes=10 * n)).astimezone(parse_zone(zone)).replace(tzinfo=None)
                    for n in range(6 * 4)
                ]
                assert lowest_wall_time(instant, parse_zone(zone)) <= min(stamps)


@pytest.mark.parametrize("name", ["Europe/Berlyn", "", "+25:00", "../etc/passwd", "SYSTEM", "CEST?"])
def test_a_name_of_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a time zone"):
        parse_zone(name)


def test_bound_is_cut_as_the_column_cuts_its_stamps() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 987654, tzinfo=UTC)

    assert [truncate_to_step(moment, 10**digits).microsecond for digits in (0, 1, 3, 6)] == [
        0,
        900_000,
        987_000,
        987_654,
    ]
