"""Amounts, spans and positions as people read them."""

from datetime import datetime, timedelta
from typing import Final

from syncd.observe.dashboard.markup import Markup, tag
from watermarks.cursor import Cursor

_SPANS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))
_SMALL: Final = 10.0
_LEAST: Final = 0.05
"""What is less would be shown as nothing."""


def span(seconds: float | timedelta) -> str:
    """`0.4 s`, `8 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`."""
    number = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    number = max(number, 0.0)
    if number < _SMALL:
        return f"{number:.1f} s".replace(".0 s", " s")
    whole = round(number)
    for place, (unit, length) in enumerate(_SPANS):
        if whole >= length:
            smaller, size = (*_SPANS, ("s", 1))[place + 1]
            rest = whole % length // size
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def amount(number: float) -> str:
    return f"{number:,.0f}"


def a_second(rows: float) -> str:
    """Rows a second; nothing where none went."""
    if rows < _LEAST:
        return ""
    return f"{rows:,.0f} rows/s" if rows >= _SMALL else f"{rows:.1f} rows/s"


def clock(moment: datetime, *, now: datetime) -> Markup:
    """An instant: the time of day, with the date where it is not today's."""
    form = "%H:%M:%S" if moment.date() == now.date() else "%Y-%m-%d %H:%M:%S"
    return tag("time", moment.strftime(form), datetime=moment.isoformat(timespec="seconds"))


def ahead(moment: datetime, *, now: datetime) -> str:
    """`in 12 s`; what should have been by now is `now`."""
    left = (moment - now).total_seconds()
    return f"in {span(left)}" if left >= 1 else "now"


def plural(number: int, word: str) -> str:
    """`1 batch`, `2 batches`."""
    return f"{number:,} {word}{('es' if word.endswith('ch') else 's') * (number != 1)}"


def position(cursor: Cursor | None) -> str:
    """A position in one line; nothing where there is none yet."""
    return ", ".join(_plain(value.plain) for value in cursor.values) if cursor else ""


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        shown = value.isoformat(" ").removesuffix("+00:00")
        return f"{shown}Z" if value.tzinfo else shown
    return value.hex() if isinstance(value, bytes) else str(value)
