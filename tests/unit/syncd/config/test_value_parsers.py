from datetime import UTC, datetime, timedelta

import pytest

from syncd.config.value_parsers import (
    parse_duration,
    parse_interval_or_cron,
    parse_lenient_instant,
    parse_listen_address,
    parse_positive_duration,
)
from syncd.settings import ListenAddress


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1h30m", 5400), ("7d", 604800), ("250ms", 0.25), ("0s", 0)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "-5m", "5M", "5m3", "inf", 5, None, True])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0 3 * * *", "*/5 8-18 * * 1-5"])
def test_a_cron_is_kept_as_written(text: str) -> None:
    assert parse_interval_or_cron(text) == text


def test_an_interval_is_a_duration() -> None:
    assert parse_interval_or_cron("5m") == timedelta(minutes=5)


@pytest.mark.parametrize("text", ["36501d", "99999999999999d", f"{'9' * 400}s"])
def test_a_duration_that_no_clock_can_add_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at most 36500d"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0.0m", "0h0s", "0.0001ms"])
def test_what_would_be_over_at_once_is_no_interval(text: str) -> None:
    for read in (parse_positive_duration, parse_interval_or_cron):
        with pytest.raises(ValueError, match="above zero"):
            read(text)


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(ValueError, match="or five fields of cron"):
        parse_interval_or_cron("0 3 * *")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00.5+02:00", datetime(2026, 1, 31, 10, 0, 0, 500000, tzinfo=UTC)),
    ],
)
def test_an_instant_is_read_and_without_a_zone_it_is_utc(text: str, moment: datetime) -> None:
    assert parse_lenient_instant(text) == moment


def test_what_is_no_instant_is_refused() -> None:
    with pytest.raises(ValueError, match="write an instant"):
        parse_lenient_instant("yesterday")


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("127.0.0.1:8080", ListenAddress(host="127.0.0.1", port=8080)),
        ("[::1]:9000", ListenAddress(host="::1", port=9000)),
        (":8080", ListenAddress(host="0.0.0.0", port=8080)),
        ("off", None),
        (False, None),
    ],
)
def test_an_address_to_listen_at(text: object, heard: ListenAddress | None) -> None:
    assert parse_listen_address(text) == heard


@pytest.mark.parametrize("text", ["8080", "here:", "127.0.0.1:70000"])
def test_no_address_to_listen_at(text: str) -> None:
    with pytest.raises(ValueError, match="write where to listen"):
        parse_listen_address(text)
