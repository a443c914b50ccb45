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


class ValueKind(StrEnum):
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


PythonValue: TypeAlias = int | float | str | bytes | date | timedelta | Decimal
"""A value as Python has it; `datetime` is a `date`."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_WALL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
_INT: Final = re.compile(r"0|-?[1-9]\d*")
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_TIME: Final = timedelta(hours=838, minutes=59, seconds=59, microseconds=999_999)
_MAX_INT_DIGITS: Final = 4000


def format_instant(moment: datetime) -> str:
    """The one way in which an instant is written: ISO 8601, UTC, six digits.

    Raises:
        BadCursor: it has no zone, and so is no instant.
    """
    return _to_utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _to_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise BadCursor(f"{moment} has no time zone", hint="An instant is aware; a wall clock's reading is not one.")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise BadCursor(f"{moment} has no moment in UTC") from error


def parse_instant(text: str) -> datetime:
    """The instant that `instant_text` wrote.

    Raises:
        BadCursor: it is written in another way.
    """
    if not _INSTANT.fullmatch(text):
        raise BadCursor(f"{text!r} is not an instant", hint="Write it like 2026-01-31T23:59:59.000000Z.")
    return _parse_iso(text.removesuffix("Z")).replace(tzinfo=UTC)


def _parse_iso(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is no moment of the calendar") from error


def _parse_wall_clock(text: str) -> datetime:
    if not _WALL.fullmatch(text):
        raise BadCursor(f"{text!r} is not a wall clock's reading", hint="Write it like 2026-01-31T23:59:59.000000.")
    return _parse_iso(text)


def _parse_int(text: str) -> int:
    if not _INT.fullmatch(text) or len(text) > _MAX_INT_DIGITS:
        raise BadCursor(f"{text[:40]!r} is not an integer")
    return int(text)


def _parse_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise BadCursor(f"{text!r} is not a decimal") from error


def _parse_double(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is not a number") from error


def _parse_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is not a date") from error


def _parse_time(text: str) -> timedelta:
    try:
        return timedelta(microseconds=_parse_int(text))
    except OverflowError as error:
        raise BadCursor(f"{text[:40]!r} is beyond any TIME") from error


def _parse_bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is not hexadecimal") from error


@dataclass(frozen=True, slots=True)
class _ValueCodec:
    """How one kind is checked, written and read."""

    python_type: type
    is_valid: Callable[[Any], bool]
    write: Callable[[Any], str]
    parse_text: Callable[[str], PythonValue]


def _is_unicode(text: str) -> bool:
    return text.isascii() or text.encode(errors="ignore").decode() == text


_CODECS: Final[dict[ValueKind, _ValueCodec]] = {
    ValueKind.INSTANT: _ValueCodec(datetime, lambda v: v.tzinfo is UTC, format_instant, parse_instant),
    ValueKind.WALL: _ValueCodec(
        datetime, lambda v: v.tzinfo is None, lambda v: v.isoformat(timespec="microseconds"), _parse_wall_clock
    ),
    ValueKind.INT: _ValueCodec(int, lambda v: v.bit_length() < 3 * _MAX_INT_DIGITS, str, _parse_int),
    ValueKind.DECIMAL: _ValueCodec(Decimal, lambda v: v.is_finite(), str, _parse_decimal),
    ValueKind.DOUBLE: _ValueCodec(float, math.isfinite, repr, _parse_double),
    ValueKind.DATE: _ValueCodec(date, lambda v: not isinstance(v, datetime), date.isoformat, _parse_date),
    ValueKind.TIME: _ValueCodec(
        timedelta,
        lambda v: abs(v) <= _MAX_TIME,
        lambda v: str(v // _MICROSECOND),
        _parse_time,
    ),
    ValueKind.BYTES: _ValueCodec(bytes, lambda _: True, bytes.hex, _parse_bytes),
    ValueKind.TEXT: _ValueCodec(str, _is_unicode, str, str),
    ValueKind.COLLATED: _ValueCodec(str, _is_unicode, str, str),
}


@dataclass(frozen=True, slots=True)
class CursorValue:
    """One value of a cursor with its kind; NULL is none, for NULL has no place in an order."""

    kind: ValueKind
    raw: PythonValue

    def __post_init__(self) -> None:
        form = _CODECS[self.kind]
        if not isinstance(self.raw, form.python_type) or isinstance(self.raw, bool) or not form.is_valid(self.raw):
            huge = isinstance(self.raw, int) and self.raw.bit_length() > 3 * _MAX_INT_DIGITS
            shown = "an endless integer" if huge else repr(str(self.raw)[:80])
            raise BadCursor(f"{shown} is not of kind {self.kind}")

    def __str__(self) -> str:
        return f"{self.kind}:{_CODECS[self.kind].write(self.raw)}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The value that `str` wrote; exactly that form and no other.

        Raises:
            BadCursor: it is no value, or not written as `str` writes it.
        """
        kind, colon, rest = text.partition(":")
        if not colon or kind not in set(ValueKind):
            raise BadCursor(f"{text[:80]!r} has no kind", hint=f"Write kind:value; kinds are {', '.join(ValueKind)}.")
        form = _CODECS[ValueKind(kind)]
        value = cls(ValueKind(kind), form.parse_text(rest))
        if form.write(value.raw) != rest:
            raise BadCursor(f"{text[:80]!r} is not the exact form of {value}")
        return value

    def precedes(self, other: "CursorValue") -> bool:
        """Whether this comes before the other in the order of their kind.

        Raises:
            NotComparable: they are of different kinds.
            OrderedByDatabase: their order is the database's affair.
        """
        if self.kind is not other.kind:
            raise NotComparable(f"{self} and {other} are of different kinds", hint="Did the cursor or the key change?")
        if self.kind is ValueKind.COLLATED:
            raise OrderedByDatabase(f"only the database orders {self} and {other}", hint="Let SQL compare them.")
        # Python orders str by code points, bytes byte by byte, and both datetimes are naive or both in UTC.
        return self.raw < other.raw  # type: ignore[operator]  # one kind, one Python type


_KIND_BY_TYPE: Final[dict[type, ValueKind]] = {
    date: ValueKind.DATE,
    int: ValueKind.INT,
    Decimal: ValueKind.DECIMAL,
    float: ValueKind.DOUBLE,
    timedelta: ValueKind.TIME,
    bytes: ValueKind.BYTES,
    str: ValueKind.COLLATED,
}


def _infer_kind(raw: PythonValue) -> ValueKind:
    if isinstance(raw, datetime):
        return ValueKind.INSTANT if raw.tzinfo else ValueKind.WALL
    kind = _KIND_BY_TYPE.get(type(raw))
    if kind is None:
        raise BadCursor(f"{str(raw)[:80]!r} of type {type(raw).__name__} has no place in a cursor")
    return kind


def _to_cursor_value(raw: PythonValue | CursorValue) -> CursorValue:
    if isinstance(raw, CursorValue):
        return raw
    kind = _infer_kind(raw)
    return CursorValue(kind, _to_utc(raw) if isinstance(raw, datetime) and kind is ValueKind.INSTANT else raw)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a stream's order: the value of the order column, then those of the key.

    A shorter cursor stands before every longer one that begins with it: so
    `Cursor()` is the start of everything, and the cursor of an instant alone
    stands before all rows of that instant.
    """

    values: tuple[CursorValue, ...] = ()

    @classmethod
    def from_values(cls, *values: PythonValue | CursorValue) -> Self:
        """A cursor of Python values: an instant of any zone in UTC, text as collated unless it is a `Value`."""
        return cls(tuple(map(_to_cursor_value, values)))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The cursor that `str` wrote.

        Raises:
            BadCursor: it is none.
        """
        try:
            parts: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadCursor(f"{text[:80]!r} is not a cursor", hint='Write it like ["int:42"].') from error
        return cls.from_texts(parts)

    @classmethod
    def from_texts(cls, parts: Any) -> Self:  # noqa: ANN401  # whatever JSON gave
        """The cursor of a list of values in their text form.

        Raises:
            BadCursor: it is none.
        """
        if not isinstance(parts, list):
            raise BadCursor(f"a cursor is a list of values, not {str(parts)[:80]!r}")
        return cls(tuple(map(_parse_cursor_value, cast("list[Any]", parts))))

    def to_texts(self) -> list[str]:
        """The values in their text form, first the order column's."""
        return [str(value) for value in self.values]

    def __str__(self) -> str:
        return json.dumps(self.to_texts(), ensure_ascii=False)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __lt__(self, other: "Cursor") -> bool:
        """Whether this position comes first; undecidable pairs are refused, not guessed."""
        for mine, its in zip(self.values, other.values, strict=False):
            if mine.kind is its.kind and mine.raw == its.raw:
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
        first = self.values[0].raw if self.values else None
        return first if isinstance(first, datetime) and first.tzinfo else None


START_CURSOR: Final = Cursor()
"""Before the first row of any stream."""


def _parse_cursor_value(part: Any) -> CursorValue:  # noqa: ANN401  # whatever JSON gave
    if not isinstance(part, str):
        raise BadCursor(f"{str(part)[:80]!r} is not the text of a value")
    return CursorValue.from_text(part)
