"""Cursors: positions in a stream's order, exact as text, compared only where that is sound."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias, cast

from watermarks.errors import Misuse


class BadCursor(Misuse):
    """A value or text that is no position."""


class NotComparable(Misuse):
    """Two positions of different shape: they belong to different orders."""


class OrderedByDatabase(Misuse):
    """Only the database can tell which of two positions comes first."""


class Kind(StrEnum):
    """What one value of a cursor is, and so how it is ordered and written."""

    INSTANT = "instant"
    """A moment in UTC, to the microsecond: TIMESTAMP, and a DATETIME whose zone is known."""
    WALL = "wall"
    """A wall clock's reading, to the microsecond: DATETIME."""
    INT = "int"
    """Any integer, YEAR and BIT too; an epoch; a version number."""
    DECIMAL = "decimal"
    DOUBLE = "double"
    DATE = "date"
    TIME = "time"
    """TIME, from -838:59:59 to 838:59:59: a span, not a time of day."""
    BYTES = "bytes"
    """BINARY and VARBINARY, ordered byte by byte."""
    TEXT = "text"
    """CHAR and VARCHAR under a binary collation without padding, ordered by code points."""
    COLLATED = "collated"
    """Text, ENUM or SET whose order is the database's affair."""


Plain: TypeAlias = int | float | str | bytes | date | timedelta | Decimal
"""A value as Python has it; `datetime` is a `date`."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_WALL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
_INT: Final = re.compile(r"0|-?[1-9]\d*")
_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST_TIME: Final = timedelta(hours=838, minutes=59, seconds=59, microseconds=999_999)
_MOST_DIGITS: Final = 4000


def instant_text(moment: datetime) -> str:
    """The one way in which an instant is written: ISO 8601, UTC, six digits.

    Raises:
        BadCursor: it has no zone, and so is no instant.
    """
    return _in_utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise BadCursor(f"{moment} has no time zone", hint="An instant is aware; a wall clock's reading is not one.")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise BadCursor(f"{moment} has no moment in UTC") from error


def instant_of(text: str) -> datetime:
    """The instant that `instant_text` wrote.

    Raises:
        BadCursor: it is written in another way.
    """
    if not _INSTANT.fullmatch(text):
        raise BadCursor(f"{text!r} is not an instant", hint="Write it like 2026-01-31T23:59:59.000000Z.")
    return _iso(text.removesuffix("Z")).replace(tzinfo=UTC)


def _iso(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is no moment of the calendar") from error


def _wall_of(text: str) -> datetime:
    if not _WALL.fullmatch(text):
        raise BadCursor(f"{text!r} is not a wall clock's reading", hint="Write it like 2026-01-31T23:59:59.000000.")
    return _iso(text)


def _int_of(text: str) -> int:
    if not _INT.fullmatch(text) or len(text) > _MOST_DIGITS:
        raise BadCursor(f"{text[:40]!r} is not an integer")
    return int(text)


def _decimal_of(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise BadCursor(f"{text!r} is not a decimal") from error


def _double_of(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is not a number") from error


def _date_of(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is not a date") from error


def _time_of(text: str) -> timedelta:
    try:
        return timedelta(microseconds=_int_of(text))
    except OverflowError as error:
        raise BadCursor(f"{text[:40]!r} is beyond any TIME") from error


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is not hexadecimal") from error


@dataclass(frozen=True, slots=True)
class _Form:
    """How one kind is checked, written and read."""

    python: type
    fits: Callable[[Any], bool]
    write: Callable[[Any], str]
    read: Callable[[str], Plain]


def _unicode(text: str) -> bool:
    return text.isascii() or text.encode(errors="ignore").decode() == text


_FORMS: Final[dict[Kind, _Form]] = {
    Kind.INSTANT: _Form(datetime, lambda v: v.tzinfo is UTC, instant_text, instant_of),
    Kind.WALL: _Form(datetime, lambda v: v.tzinfo is None, lambda v: v.isoformat(timespec="microseconds"), _wall_of),
    Kind.INT: _Form(int, lambda v: v.bit_length() < 3 * _MOST_DIGITS, str, _int_of),
    Kind.DECIMAL: _Form(Decimal, lambda v: v.is_finite(), str, _decimal_of),
    Kind.DOUBLE: _Form(float, math.isfinite, repr, _double_of),
    Kind.DATE: _Form(date, lambda v: not isinstance(v, datetime), date.isoformat, _date_of),
    Kind.TIME: _Form(
        timedelta,
        lambda v: abs(v) <= _LONGEST_TIME,
        lambda v: str(v // _MICROSECOND),
        _time_of,
    ),
    Kind.BYTES: _Form(bytes, lambda _: True, bytes.hex, _bytes_of),
    Kind.TEXT: _Form(str, _unicode, str, str),
    Kind.COLLATED: _Form(str, _unicode, str, str),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a cursor with its kind; NULL is none, for NULL has no place in an order."""

    kind: Kind
    plain: Plain

    def __post_init__(self) -> None:
        form = _FORMS[self.kind]
        if not isinstance(self.plain, form.python) or isinstance(self.plain, bool) or not form.fits(self.plain):
            huge = isinstance(self.plain, int) and self.plain.bit_length() > 3 * _MOST_DIGITS
            shown = "an endless integer" if huge else repr(str(self.plain)[:80])
            raise BadCursor(f"{shown} is not of kind {self.kind}")

    def __str__(self) -> str:
        return f"{self.kind}:{_FORMS[self.kind].write(self.plain)}"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The value that `str` wrote; exactly that form and no other.

        Raises:
            BadCursor: it is no value, or not written as `str` writes it.
        """
        kind, colon, rest = text.partition(":")
        if not colon or kind not in set(Kind):
            raise BadCursor(f"{text[:80]!r} has no kind", hint=f"Write kind:value; kinds are {', '.join(Kind)}.")
        form = _FORMS[Kind(kind)]
        value = cls(Kind(kind), form.read(rest))
        if form.write(value.plain) != rest:
            raise BadCursor(f"{text[:80]!r} is not the exact form of {value}")
        return value

    def precedes(self, other: "Value") -> bool:
        """Whether this comes before the other in the order of their kind.

        Raises:
            NotComparable: they are of different kinds.
            OrderedByDatabase: their order is the database's affair.
        """
        if self.kind is not other.kind:
            raise NotComparable(f"{self} and {other} are of different kinds", hint="Did the cursor or the key change?")
        if self.kind is Kind.COLLATED:
            raise OrderedByDatabase(f"only the database orders {self} and {other}", hint="Let SQL compare them.")
        # Python orders str by code points, bytes byte by byte, and both datetimes are naive or both in UTC.
        return self.plain < other.plain  # type: ignore[operator]  # one kind, one Python type


_KINDS: Final[dict[type, Kind]] = {
    date: Kind.DATE,
    int: Kind.INT,
    Decimal: Kind.DECIMAL,
    float: Kind.DOUBLE,
    timedelta: Kind.TIME,
    bytes: Kind.BYTES,
    str: Kind.COLLATED,
}


def _kind_of(plain: Plain) -> Kind:
    if isinstance(plain, datetime):
        return Kind.INSTANT if plain.tzinfo else Kind.WALL
    kind = _KINDS.get(type(plain))
    if kind is None:
        raise BadCursor(f"{str(plain)[:80]!r} of type {type(plain).__name__} has no place in a cursor")
    return kind


def _of_plain(plain: Plain | Value) -> Value:
    if isinstance(plain, Value):
        return plain
    kind = _kind_of(plain)
    return Value(kind, _in_utc(plain) if isinstance(plain, datetime) and kind is Kind.INSTANT else plain)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a stream's order: the value of the order column, then those of the key.

    A shorter cursor stands before every longer one that begins with it: so
    `Cursor()` is the start of everything, and the cursor of an instant alone
    stands before all rows of that instant.
    """

    values: tuple[Value, ...] = ()

    @classmethod
    def of(cls, *plain: Plain | Value) -> Self:
        """A cursor of Python values: an instant of any zone in UTC, text as collated unless it is a `Value`."""
        return cls(tuple(map(_of_plain, plain)))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The cursor that `str` wrote.

        Raises:
            BadCursor: it is none.
        """
        try:
            parts: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadCursor(f"{text[:80]!r} is not a cursor", hint='Write it like ["int:42"].') from error
        return cls.of_texts(parts)

    @classmethod
    def of_texts(cls, parts: Any) -> Self:  # noqa: ANN401  # whatever JSON gave
        """The cursor of a list of values in their text form.

        Raises:
            BadCursor: it is none.
        """
        if not isinstance(parts, list):
            raise BadCursor(f"a cursor is a list of values, not {str(parts)[:80]!r}")
        return cls(tuple(map(_value_of, cast("list[Any]", parts))))

    def texts(self) -> list[str]:
        """The values in their text form, first the order column's."""
        return [str(value) for value in self.values]

    def __str__(self) -> str:
        return json.dumps(self.texts(), ensure_ascii=False)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __lt__(self, other: "Cursor") -> bool:
        """Whether this position comes first; undecidable pairs are refused, not guessed."""
        for mine, its in zip(self.values, other.values, strict=False):
            if mine.kind is its.kind and mine.plain == its.plain:
                continue
            return mine.precedes(its)
        return len(self) < len(other)

    def __le__(self, other: "Cursor") -> bool:
        return self == other or self < other

    def __gt__(self, other: "Cursor") -> bool:
        return other < self

    def __ge__(self, other: "Cursor") -> bool:
        return other <= self

    @property
    def instant(self) -> datetime | None:
        """The instant that this position begins with, if it does."""
        first = self.values[0].plain if self.values else None
        return first if isinstance(first, datetime) and first.tzinfo else None


START: Final = Cursor()
"""Before the first row of any stream."""


def _value_of(part: Any) -> Value:  # noqa: ANN401  # whatever JSON gave
    if not isinstance(part, str):
        raise BadCursor(f"{str(part)[:80]!r} is not the text of a value")
    return Value.of_text(part)
