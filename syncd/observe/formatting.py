"""Counts, sizes, durations and positions as people read them."""

from datetime import datetime, timedelta
from typing import Final

from watermarks.cursor import Cursor

_DURATION_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))
_DECIMALS_BELOW: Final = 10.0
_MIN_SHOWN_RATE: Final = 0.05


def format_count(number: int, word: str) -> str:
    """Return `1 batch`, `2 batches`."""
    return f"{number:,} {word}{('es' if word.endswith('ch') else 's') * (number != 1)}"


def format_bytes(number: float) -> str:
    """Return `812 B`, `3.4 kB`, `12.0 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004  # the step between two units
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def format_instant(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def format_duration(seconds: float | timedelta) -> str:
    """Return `0.4 s`, `8 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`."""
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
    """Return `12 rows/s`; empty for a rate near zero."""
    if rows < _MIN_SHOWN_RATE:
        return ""
    return f"{rows:,.0f} rows/s" if rows >= _DECIMALS_BELOW else f"{rows:.1f} rows/s"


def format_time_until(instant: datetime, *, now: datetime) -> str:
    """Return `in 12 s`, or `now` for an instant that has passed."""
    left = (instant - now).total_seconds()
    return f"in {format_duration(left)}" if left >= 1 else "now"


def format_cursor(cursor: Cursor | None) -> str:
    """Return a position in one line; empty without one."""
    return ", ".join(_format_value(value.raw) for value in cursor.values) if cursor else ""


def _format_value(value: object) -> str:
    if isinstance(value, datetime):
        shown = value.isoformat(" ").removesuffix("+00:00")
        return f"{shown}Z" if value.tzinfo else shown
    return value.hex() if isinstance(value, bytes) else str(value)
