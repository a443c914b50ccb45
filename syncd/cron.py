"""Parser of five-field cron expressions. The daemon's schedule computes the instants."""

import re
from dataclasses import dataclass
from typing import Final

CRON_FIELDS: Final = ("minute", "hour", "day of the month", "month", "day of the week")
_MONTHS: Final = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())
_WEEKDAYS: Final = tuple("sun mon tue wed thu fri sat".split())
_SUNDAY_AS_SEVEN: Final = 7
_MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of each month, in a leap year."""
_PART: Final = re.compile(r"(?:(?P<any>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronExpression:
    """Parsed cron expression: the allowed values of each field."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """0 is Sunday."""
    matches_either_day: bool = False
    """True where a day matches if either day field does: cron's rule where neither field begins with a star."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FieldRange:
    """Allowed values of one field, and their names."""

    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    first: int = 0
    """Value of the first name."""

    def parse_value(self, word: str) -> int:
        if word.lower() in self.names:
            return self.names.index(word.lower()) + self.first
        if not word.isdecimal() or not self.low <= int(word) <= self.high:
            names = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
            raise ValueError(
                f"{word!r} is not a valid {self.title}: write a value from {self.low} to {self.high}{names}"
            )
        return int(word)


_RANGES: Final = (
    _FieldRange(title=CRON_FIELDS[0], low=0, high=59),
    _FieldRange(title=CRON_FIELDS[1], low=0, high=23),
    _FieldRange(title=CRON_FIELDS[2], low=1, high=31),
    _FieldRange(title=CRON_FIELDS[3], low=1, high=12, names=_MONTHS, first=1),
    _FieldRange(title=CRON_FIELDS[4], low=0, high=_SUNDAY_AS_SEVEN, names=_WEEKDAYS),
)


def parse_cron(text: str) -> CronExpression:
    """Parse `minute hour day month weekday`.

    Raises:
        ValueError: a field is not valid; the message names it.
    """
    words = text.split()
    if len(words) != len(CRON_FIELDS):
        raise ValueError(f"cron has five fields ({', '.join(CRON_FIELDS)}), these are {len(words)}")
    minutes, hours, days, months, weekdays = map(_parse_field, words, _RANGES)
    weekdays = tuple(sorted({day % _SUNDAY_AS_SEVEN for day in weekdays}))
    either = not words[2].startswith("*") and not words[4].startswith("*")
    if not either and min(days) > max(_MONTH_DAYS[month - 1] for month in months):
        raise ValueError(f"none of these months has a day {min(days)}")
    return CronExpression(
        minutes=minutes, hours=hours, days=days, months=months, weekdays=weekdays, matches_either_day=either
    )


def _parse_field(word: str, field_range: _FieldRange) -> tuple[int, ...]:
    return tuple(sorted({value for part in word.split(",") for value in _parse_part(part, field_range)}))


def _parse_part(part: str, field_range: _FieldRange) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is not a valid {field_range.title}: write a number, a-b, *, */n, or a list of them")
    step = int(match["step"] or 1)
    if step == 0:
        raise ValueError(f"{part!r} is not a valid {field_range.title}: the step is 0")
    if match["any"]:
        return range(field_range.low, field_range.high + 1, step)
    low = field_range.parse_value(match["low"])
    end = field_range.high if match["step"] else low
    high = field_range.parse_value(match["high"]) if match["high"] else end
    if high < low:
        raise ValueError(f"{part!r} is not a valid {field_range.title}: the range ends before it begins")
    return range(low, high + 1, step)
