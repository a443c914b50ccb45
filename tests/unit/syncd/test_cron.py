import pytest

from syncd.cron import parse_cron


def test_fields_are_numbers_ranges_steps_lists_and_names() -> None:
    cron = parse_cron("*/20 8-10 1,15 jan-mar MON")

    assert (cron.minutes, cron.hours, cron.days, cron.months) == ((0, 20, 40), (8, 9, 10), (1, 15), (1, 2, 3))
    assert cron.weekdays == (1,)
    assert cron.matches_either_day


def test_sunday_is_nought_and_seven() -> None:
    assert parse_cron("0 0 * * 0").weekdays == parse_cron("0 0 * * 7").weekdays == parse_cron("0 0 * * sun").weekdays


def test_a_step_from_a_number_goes_on_to_the_end() -> None:
    assert parse_cron("50/5 * * * *").minutes == (50, 55)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("61 * * * *", "'61' is not a valid minute"),
        ("* 24 * * *", "'24' is not a valid hour"),
        ("* * 0 * *", "'0' is not a valid day of the month"),
        ("* * * foo *", "'foo' is not a valid month"),
        ("* * * * 8", "'8' is not a valid day of the week"),
        ("*/0 * * * *", "the step is 0"),
        ("5-1 * * * *", "the range ends before it begins"),
        ("1- * * * *", "is not a valid minute"),
        (", * * * *", "is not a valid minute"),
        ("* * 31 2,4 *", "none of these months has a day 31"),
        ("* * * *", "these are 4"),
    ],
)
def test_what_means_nothing_is_told_by_its_field(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_cron(text)
