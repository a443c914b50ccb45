"""Amounts, spans and positions as people read them."""

from datetime import datetime, timedelta
from typing import Final

from syncd.observe.dashboard.markup import Markup, tag
from watermarks.cursor import Cursor

_DURATION_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))
_DECIMALS_BELOW: Final = 10.0
_LEAST_SHOWN: Final = 0.05
"""What is less would be shown as nothing."""


def format_duration(seconds: float | timedelta) -> str:
    """`0.4 s`, `8 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`."""
    number = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    number = max(number, 0.0)
    if number < _DECIMALS_BELOW:
        return f"{number:.1f} s".replace(".0 s", " s")
    whole = round(number)
    for place, (unit, length) in enumerate(_DURATION_UNITS):
        if whole >= length:
            smaller, size = (*_DURATION_UNITS, ("s", 1))[place + 1]
            rest = whole % length // size
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def format_number(number: float) -> str:
    return f"{number:,.0f}"


def format_rows_per_second(rows: float) -> str:
    """Rows a second; nothing where none went."""
    if rows < _LEAST_SHOWN:
        return ""
    return f"{rows:,.0f} rows/s" if rows >= _DECIMALS_BELOW else f"{rows:.1f} rows/s"


def time_element(instant: datetime, *, now: datetime) -> Markup:
    """An instant: the time of day, with the date where it is not today's."""
    form = "%H:%M:%S" if instant.date() == now.date() else "%Y-%m-%d %H:%M:%S"
    return tag("time", instant.strftime(form), datetime=instant.isoformat(timespec="seconds"))


def format_time_until(instant: datetime, *, now: datetime) -> str:
    """`in 12 s`; what should have been by now is `now`."""
    left = (instant - now).total_seconds()
    return f"in {format_duration(left)}" if left >= 1 else "now"


def format_plural(number: int, word: str) -> str:
    """`1 batch`, `2 batches`."""
    return f"{number:,} {word}{('es' if word.endswith('ch') else 's') * (number != 1)}"


def format_cursor(cursor: Cursor | None) -> str:
    """A position in one line; nothing where there is none yet."""
    return ", ".join(_format_value(value.raw) for value in cursor.values) if cursor else ""


def _format_value(value: object) -> str:
    if isinstance(value, datetime):
        shown = value.isoformat(" ").removesuffix("+00:00")
        return f"{shown}Z" if value.tzinfo else shown
    return value.hex() if isinstance(value, bytes) else str(value)
