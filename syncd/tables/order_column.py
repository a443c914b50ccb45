"""Columns of an order: their values in a cursor, and their literals, which an index can use."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Self, TypeAlias

from syncd.datatypes.columns import TransferType
from syncd.datatypes.mysql_quoting import bytes_literal, quote_name, text_literal
from syncd.datatypes.source_table import SourceColumn
from syncd.datatypes.type_table import LOSSLESS_CHARSETS, UTF8_CHARSETS
from syncd.errors import SourceUnfit, ValueRefused
from watermarks.cursor import BadCursor, CursorValue, PythonValue, ValueKind

_TEXTS: Final = frozenset({"char", "varchar"})
_LISTED: Final = frozenset({"enum", "set"})

_BY_CODE_POINT: Final = re.compile(r"utf8mb4_0900_bin|(utf8mb4|utf8mb3|utf8|ascii)_nopad_bin")
"""Collations that neither fold nor pad, over character sets whose bytes sort like code points."""

_NOPAD_MARKER: Final = "_nopad_"
"""Part of the names of MariaDB's collations that do not pad."""
_MEMBER: Final = re.compile(r"'(?:[^']|'')*'")
_SET_SIGN_BIT_MEMBERS: Final = 64
"""Members of a SET of which the last takes the sign bit."""

_UNDECODABLE_PREFIX: Final = b"\xff"
"""First byte of a text without characters in Unicode; no UTF-8 contains it."""

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_TIME: Final = re.compile(r"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderColumn:
    """One column of an order."""

    name: str
    """Its name at the source."""
    kind: ValueKind
    travel: TransferType
    select: str
    """Expression that transfers its values exactly."""
    fraction: int = 0
    """Fractional digits of a time or a number."""
    charset: str | None = None
    collation: str | None = None
    members: str | None = None
    """Declaration of an ENUM or SET, whose members sort in its order."""

    @property
    def sql(self) -> str:
        return quote_name(self.name)

    @property
    def probe_sql(self) -> str:
        """Return an expression for a row's position: the value, or a marker if its literal would sort elsewhere.

        A conversion silently turns a character without Unicode equivalent into `?`. A window that ends at such a
        literal ends at another place than its row, and the last rows of a first pass would never be read.
        """
        if not self._may_lose_text:
            return self.select
        back = f"CONVERT({self.select} USING {self.charset})" + (f" COLLATE {self.collation}" if self.collation else "")
        marked = f"CONCAT({bytes_literal(_UNDECODABLE_PREFIX)}, CAST({self.sql} AS BINARY))"
        same = f"CAST({self.select} AS BINARY)"
        return f"CASE WHEN {self.sql} = {back} THEN {same} WHEN {self.sql} IS NOT NULL THEN {marked} END"

    @property
    def _may_lose_text(self) -> bool:
        """Return whether its texts may hold characters without exactly one Unicode equivalent."""
        known = UTF8_CHARSETS | LOSSLESS_CHARSETS
        return self.kind is ValueKind.COLLATED and self.charset is not None and self.charset not in known

    def literal(self, value: CursorValue) -> str:
        """Return the value as SQL of the column's type, so that a comparison does not convert the column.

        Raises:
            BadCursor: the value is of another kind than the column: the cursor is another order's.
        """
        if value.kind is not self.kind:
            raise BadCursor(
                f"{value} cannot be a position in column {self.name}, whose values are of kind {self.kind}",
                hint="The cursor, the key or a column type may have changed. Set the mark again: syncd watermark set",
            )
        return _LITERALS[self.kind](self, value.raw)

    def parse_value(self, raw: object) -> CursorValue:
        """Return the value that `select` or `probe_sql` transferred.

        Raises:
            ValueRefused: it has no place in an order: NULL, a zero date, or a text without a literal.
        """
        if self._may_lose_text and isinstance(raw, bytes):
            raw = self._decode_text(raw)
        try:
            return CursorValue(self.kind, _PARSERS[self.kind](raw))
        except (BadCursor, ValueError, TypeError, ArithmeticError) as error:
            raise ValueRefused(
                f"column {self.name} contains {_format_raw(raw)!r}, which has no place in the order",
                hint=f"Fix the rows where {self.name} is not a valid date.",
            ) from error

    def _decode_text(self, raw: bytes) -> str:
        if raw.startswith(_UNDECODABLE_PREFIX):
            raise ValueRefused(
                f"a batch would end at the row whose {self.name} has the bytes {raw[1:].hex().upper()} in"
                f" {self.charset}, which have no equivalent in Unicode",
                hint=f"Change {self.name} of that row, or name another unique key of the table in the stream's `key`.",
            )
        return raw.decode()

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that a plan stores."""
        fields = asdict(self)
        if self.members is None:
            del fields["members"]  # absent in older plans
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        typed: dict[str, Any] = {"kind": ValueKind(fields["kind"]), "travel": TransferType(fields["travel"])}
        return cls(**{**fields, **typed})


def make_order_column(column: SourceColumn) -> OrderColumn:
    """Return the column as part of an order.

    Raises:
        SourceUnfit: values of its type cannot be positions.
    """
    form = _FORMS.get(column.data_type)
    reason = _describe_order_mismatch(column)
    if reason or (form is None and column.data_type not in _TEXTS):
        raise SourceUnfit(
            f"column {column.name} of type {column.column_type} cannot be part of an order{reason}",
            hint="Name another unique key of the table in the stream's `key`.",
        )
    if form is None:
        return _text_order_column(column)
    kind, travel, select = form(column, quote_name(column.name))
    return OrderColumn(
        name=column.name,
        kind=kind,
        travel=travel,
        select=select,
        fraction=column.fraction or column.scale or 0,
        members=column.column_type if column.data_type in _LISTED else None,
    )


def _describe_order_mismatch(column: SourceColumn) -> str:
    """Return why a condition and an index sort the column differently; empty if they do not.

    Rows sorted differently would be after no position and before none: never read, and without an error.
    """
    if column.data_type == "char" and _NOPAD_MARKER in (column.collation or ""):
        return f": {column.collation} sorts its values with their padding, but compares them without it"
    if column.data_type == "set" and len(_MEMBER.findall(column.column_type)) == _SET_SIGN_BIT_MEMBERS:
        return f": its member {_SET_SIGN_BIT_MEMBERS} sorts highest in an index, but below zero in a condition"
    return ""


_SelectForm: TypeAlias = tuple[ValueKind, TransferType, str]


def _integer_form(column: SourceColumn, name: str) -> _SelectForm:
    if column.data_type == "bigint" and column.is_unsigned:
        return ValueKind.INT, TransferType.TEXT, f"CAST({name} AS CHAR)"
    return ValueKind.INT, TransferType.INTEGER, f"CAST({name} AS SIGNED)"


def _ordinal_form(_column: SourceColumn, name: str) -> _SelectForm:
    # MySQL sorts ENUM and SET by number, whatever their texts; a BIT or SET of 64 exceeds a signed integer.
    return ValueKind.INT, TransferType.TEXT, f"CAST(CAST({name} AS UNSIGNED) AS CHAR)"


def _double_form(_column: SourceColumn, name: str) -> _SelectForm:
    # A FLOAT prints with six digits; as a DOUBLE, which represents it exactly, with all of them.
    return ValueKind.DOUBLE, TransferType.DOUBLE, f"({name} + 0e0)"


def _bytes_form(_column: SourceColumn, name: str) -> _SelectForm:
    return ValueKind.BYTES, TransferType.BYTES, name


def _printed_form(kind: ValueKind) -> Callable[[SourceColumn, str], _SelectForm]:
    # With a width: both servers assume a width that is too short for some decimals (`type_table`).
    return lambda _, name: (kind, TransferType.TEXT, f"CAST({name} AS CHAR(80))")


def _binary_form(kind: ValueKind) -> Callable[[SourceColumn, str], _SelectForm]:
    # The transfer form of file columns, so that they can serve as order fields.
    return lambda _, name: (kind, TransferType.TEXT, f"CAST({name} AS BINARY)")


def _decimal_form(column: SourceColumn, name: str) -> _SelectForm:
    form = _printed_form if column.scale == column.precision else _binary_form
    return form(ValueKind.DECIMAL)(column, name)


_FORMS: Final[dict[str, Callable[[SourceColumn, str], _SelectForm]]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _integer_form),
    **dict.fromkeys(("enum", "set", "bit", "year"), _ordinal_form),
    **dict.fromkeys(("float", "double"), _double_form),
    **dict.fromkeys(("binary", "varbinary"), _bytes_form),
    # These types of MariaDB have an order of their own, and compare with their text.
    **dict.fromkeys(("uuid", "inet4", "inet6"), _printed_form(ValueKind.COLLATED)),
    "decimal": _decimal_form,
    "date": _binary_form(ValueKind.DATE),
    "datetime": _binary_form(ValueKind.WALL),
    "timestamp": _binary_form(ValueKind.INSTANT),
    "time": _binary_form(ValueKind.TIME),
}


def _text_order_column(column: SourceColumn) -> OrderColumn:
    # The server drops the padding of a CHAR in results, so only the server can compare such values.
    by_code_point = column.data_type == "varchar" and _BY_CODE_POINT.fullmatch(column.collation or "")
    return OrderColumn(
        name=column.name,
        kind=ValueKind.TEXT if by_code_point else ValueKind.COLLATED,
        travel=TransferType.TEXT,
        select=f"CONVERT({quote_name(column.name)} USING utf8mb4)",
        charset=column.charset,
        collation=column.collation,
    )


def _moment_literal(column: OrderColumn, plain: Any) -> str:  # noqa: ANN401  # a datetime, as its kind says
    # With the column's own digits and no more: MySQL rounds the rest, MariaDB cuts it.
    text = plain.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return f"TIMESTAMP'{text[: 20 + column.fraction] if column.fraction else text[:19]}'"


def _time_literal(column: OrderColumn, plain: Any) -> str:  # noqa: ANN401  # a timedelta
    seconds, micros = divmod(abs(plain) // _MICROSECOND, 1_000_000)
    sign = "-" if plain < timedelta() else ""
    text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"TIME'{text}.{micros:06d}'" if column.fraction else f"TIME'{text}'"


def _double_literal(_column: OrderColumn, plain: Any) -> str:  # noqa: ANN401  # a float
    text = repr(plain)
    # Without an exponent it would be a DECIMAL, which compares differently.
    return text if "e" in text else f"{text}e0"


def _text_literal(column: OrderColumn, plain: Any) -> str:  # noqa: ANN401  # a str
    return text_literal(plain, charset=column.charset, collation=column.collation)


_LITERALS: Final[dict[ValueKind, Callable[[OrderColumn, Any], str]]] = {
    ValueKind.INT: lambda _, plain: str(plain),
    ValueKind.DECIMAL: lambda _, plain: format(plain, "f"),
    ValueKind.DOUBLE: _double_literal,
    ValueKind.DATE: lambda _, plain: f"DATE'{plain.isoformat()}'",
    ValueKind.WALL: _moment_literal,
    ValueKind.INSTANT: _moment_literal,
    ValueKind.TIME: _time_literal,
    ValueKind.BYTES: lambda _, plain: bytes_literal(plain),
    ValueKind.TEXT: _text_literal,
    ValueKind.COLLATED: _text_literal,
}


def _decode_ascii(raw: object) -> str:
    """Return a text of digits and signs, transferred as text or as bytes."""
    return raw.decode("ascii") if isinstance(raw, bytes) else str(raw)


def _parse_datetime(raw: object) -> datetime:
    text = _decode_ascii(raw)
    if not _MOMENT.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text.ljust(26, "0") if "." in text else text)


def _parse_time(raw: object) -> timedelta:
    match = _TIME.fullmatch(_decode_ascii(raw))
    if match is None:
        raise ValueError(raw)
    sign, hours, minutes, seconds, micros = match.groups()
    span = timedelta(
        hours=int(hours), minutes=int(minutes), seconds=int(seconds), microseconds=int((micros or "").ljust(6, "0"))
    )
    return -span if sign else span


def _format_raw(raw: object) -> str:
    return (raw.decode("ascii", "backslashreplace") if isinstance(raw, bytes) else str(raw))[:80]


def _parse_double(raw: object) -> float:
    if not isinstance(raw, float | int | str):
        raise TypeError(raw)
    return float(raw)


def _parse_bytes(raw: object) -> bytes:
    if not isinstance(raw, bytes | bytearray):
        raise TypeError(raw)
    return bytes(raw)


def _require_str(raw: object) -> str:
    if not isinstance(raw, str):
        raise TypeError(raw)
    return raw


_PARSERS: Final[dict[ValueKind, Callable[[object], PythonValue]]] = {
    ValueKind.INT: lambda raw: int(str(raw)),
    ValueKind.DECIMAL: lambda raw: Decimal(_decode_ascii(raw)),
    ValueKind.DOUBLE: _parse_double,
    ValueKind.DATE: lambda raw: date.fromisoformat(_decode_ascii(raw)),
    ValueKind.WALL: _parse_datetime,
    ValueKind.INSTANT: lambda raw: _parse_datetime(raw).replace(tzinfo=UTC),
    ValueKind.TIME: _parse_time,
    ValueKind.BYTES: _parse_bytes,
    ValueKind.TEXT: _require_str,
    ValueKind.COLLATED: _require_str,
}
