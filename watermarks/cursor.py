"""Cursors: positions in a stream's order, written as exact text, and compared only where that is sound."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias, cast

from watermarks.errors import Misuse


class BadCursor(Misuse):
    """A value or text that is no valid position."""


class NotComparable(Misuse):
    """Two positions of different kinds, which belong to different orders."""


class OrderedByDatabase(Misuse):
    """Two positions that only the database can order."""


class ValueKind(StrEnum):
    """Kind of one value of a cursor; it decides the order and the text form."""

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
    """Text, ENUM or SET that only the database can order."""


PythonValue: TypeAlias = int | float | str | bytes | date | timedelta | Decimal
"""Python type of a value; `datetime` is a `date`."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_WALL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
_INT: Final = re.compile(r"0|-?[1-9]\d*")
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_TIME: Final = timedelta(hours=838, minutes=59, seconds=59, microseconds=999_999)
_MAX_INT_DIGITS: Final = 4000


def format_instant(moment: datetime) -> str:
    """Write an instant in its only form: ISO 8601, UTC, six digits. Raises BadCursor if it has no time zone."""
    return _to_utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _to_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise BadCursor(f"{moment} has no time zone", hint="An instant needs a time zone; a wall-clock time has none.")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise BadCursor(f"{moment} cannot be written in UTC") from error


def parse_instant(text: str) -> datetime:
    """Read an instant in the form of `format_instant`. Raises BadCursor if it has another form."""
    if not _INSTANT.fullmatch(text):
        raise BadCursor(f"{text!r} is not an instant", hint="Write it like 2026-01-31T23:59:59.000000Z.")
    return _parse_iso(text.removesuffix("Z")).replace(tzinfo=UTC)


def _parse_iso(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadCursor(f"{text!r} is not a valid date and time") from error


def _parse_wall_clock(text: str) -> datetime:
    if not _WALL.fullmatch(text):
        raise BadCursor(f"{text!r} is not a wall-clock time", hint="Write it like 2026-01-31T23:59:59.000000.")
    return _parse_iso(text)


def _parse_int(text: str) -> int:
    if not _INT.fullmatch(text) or len(text) > _MAX_INT_DIGITS:
        raise BadCursor(f"{text[:40]!r} is not an integer")
    return int(text)


def _make_parser(parse: Callable[[str], PythonValue], expected: str) -> Callable[[str], PythonValue]:
    def parse_text(text: str) -> PythonValue:
        try:
            return parse(text)
        except (ValueError, ArithmeticError) as error:
            raise BadCursor(f"{text[:40]!r} is not {expected}") from error

    return parse_text


@dataclass(frozen=True, slots=True)
class _ValueCodec:
    """Check, writer and parser of one kind."""

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
    ValueKind.DECIMAL: _ValueCodec(Decimal, lambda v: v.is_finite(), str, _make_parser(Decimal, "a decimal")),
    ValueKind.DOUBLE: _ValueCodec(float, math.isfinite, repr, _make_parser(float, "a number")),
    ValueKind.DATE: _ValueCodec(
        date, lambda v: not isinstance(v, datetime), date.isoformat, _make_parser(date.fromisoformat, "a date")
    ),
    ValueKind.TIME: _ValueCodec(
        timedelta,
        lambda v: abs(v) <= _MAX_TIME,
        lambda v: str(v // _MICROSECOND),
        _make_parser(lambda text: timedelta(microseconds=_parse_int(text)), "a TIME in microseconds"),
    ),
    ValueKind.BYTES: _ValueCodec(bytes, lambda _: True, bytes.hex, _make_parser(bytes.fromhex, "hexadecimal")),
    ValueKind.TEXT: _ValueCodec(str, _is_unicode, str, str),
    ValueKind.COLLATED: _ValueCodec(str, _is_unicode, str, str),
}


@dataclass(frozen=True, slots=True)
class CursorValue:
    """One value of a cursor with its kind. NULL is not allowed, since it has no place in an order."""

    kind: ValueKind
    raw: PythonValue

    def __post_init__(self) -> None:
        codec = _CODECS[self.kind]
        if not isinstance(self.raw, codec.python_type) or isinstance(self.raw, bool) or not codec.is_valid(self.raw):
            is_huge = isinstance(self.raw, int) and self.raw.bit_length() > 3 * _MAX_INT_DIGITS
            printed = "a huge integer" if is_huge else repr(str(self.raw)[:80])
            raise BadCursor(f"{printed} is not of kind {self.kind}")

    def __str__(self) -> str:
        return f"{self.kind}:{_CODECS[self.kind].write(self.raw)}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a value in exactly the form that `str` writes.

        Raises:
            BadCursor: it is no value, or has another form.
        """
        kind, colon, rest = text.partition(":")
        if not colon or kind not in set(ValueKind):
            raise BadCursor(f"{text[:80]!r} has no kind", hint=f"Write kind:value; kinds are {', '.join(ValueKind)}.")
        codec = _CODECS[ValueKind(kind)]
        value = cls(ValueKind(kind), codec.parse_text(rest))
        if codec.write(value.raw) != rest:
            raise BadCursor(f"{text[:80]!r} is not the exact form of {value}")
        return value

    def precedes(self, other: "CursorValue") -> bool:
        """Return True if this comes before the other in the order of their kind.

        Raises:
            NotComparable: they are of different kinds.
            OrderedByDatabase: only the database can order them.
        """
        if self.kind is not other.kind:
            raise NotComparable(
                f"cannot compare {self} with {other}: they are of different kinds",
                hint="Check whether `cursor` or `key` changed.",
            )
        if self.kind is ValueKind.COLLATED:
            raise OrderedByDatabase(f"only the database can order {self} and {other}", hint="Compare them in SQL.")
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
        raise BadCursor(f"{str(raw)[:80]!r} of type {type(raw).__name__} cannot be part of a cursor")
    return kind


def _to_cursor_value(raw: PythonValue | CursorValue) -> CursorValue:
    if isinstance(raw, CursorValue):
        return raw
    kind = _infer_kind(raw)
    return CursorValue(kind, _to_utc(raw) if isinstance(raw, datetime) and kind is ValueKind.INSTANT else raw)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Position in a stream's order: the value of the order column, then those of the key.

    A shorter cursor comes before every longer one that begins with it. So
    `Cursor()` is before everything, and the cursor of an instant alone is before
    all rows of that instant.
    """

    values: tuple[CursorValue, ...] = ()

    @classmethod
    def from_values(cls, *values: PythonValue | CursorValue) -> Self:
        """Make a cursor of Python values: instants become UTC, text is collated unless it is a `CursorValue`."""
        return cls(tuple(map(_to_cursor_value, values)))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a cursor in the form that `str` writes. Raises BadCursor if it is no cursor."""
        try:
            parts: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadCursor(f"{text[:80]!r} is not a cursor", hint='Write it like ["int:42"].') from error
        return cls.from_texts(parts)

    @classmethod
    def from_texts(cls, parts: Any) -> Self:  # noqa: ANN401  # any JSON value
        """Read a cursor from the text forms of its values. Raises BadCursor if it is no cursor."""
        if not isinstance(parts, list):
            raise BadCursor(f"a cursor is a list of values, not {str(parts)[:80]!r}")
        return cls(tuple(map(_parse_cursor_value, cast("list[Any]", parts))))

    def to_texts(self) -> list[str]:
        """Return the text forms of the values, the order column's first."""
        return [str(value) for value in self.values]

    def __str__(self) -> str:
        return json.dumps(self.to_texts(), ensure_ascii=False)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __lt__(self, other: "Cursor") -> bool:
        """Return True if this position comes first; refuse pairs that only the database can order."""
        for value, other_value in zip(self.values, other.values, strict=False):
            if value.kind is not other_value.kind or value.raw != other_value.raw:
                return value.precedes(other_value)
        return len(self) < len(other)

    def __le__(self, other: "Cursor") -> bool:
        return self == other or self < other

    def __gt__(self, other: "Cursor") -> bool:
        return other < self

    def __ge__(self, other: "Cursor") -> bool:
        return other <= self

    @property
    def instant(self) -> datetime | None:
        """Instant that this position begins with, if any."""
        first = self.values[0].raw if self.values else None
        return first if isinstance(first, datetime) and first.tzinfo else None


START_CURSOR: Final = Cursor()
"""Before the first row of any stream."""


def _parse_cursor_value(part: Any) -> CursorValue:  # noqa: ANN401  # any JSON value
    if not isinstance(part, str):
        raise BadCursor(f"{str(part)[:80]!r} is not the text form of a value")
    return CursorValue.from_text(part)
