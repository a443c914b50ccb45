"""Values of an added column in older rows: its default, if that is a constant.

ADD COLUMN gives old rows the default and stamps none of them, so no later batch reads them for it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Self, TypeAlias

from syncd.datatypes.columns import (
    ColumnMapping,
    LogicalType,
    PhysicalType,
    Policies,
    Policy,
    TransferType,
    ValueProblem,
)
from syncd.datatypes.mysql_quoting import decode_text
from syncd.datatypes.source_table import SourceColumn
from syncd.datatypes.type_table import UNSIGNED_BIGINT_DIGITS
from watermarks.batch import BatchId

REASON_NUMBERED: Final = "the server assigned numbers to the existing rows"
REASON_RENAMED: Final = "it replaced {} and may be that column under a new name"
REASON_GENERATED: Final = "its values are generated"
REASON_NO_IMPLICIT_DEFAULT: Final = "the implicit default of a {} NOT NULL column is unknown"

# A constant in MariaDB's notation: a number, a text, bits or bytes. Any other text is an expression.
_CONSTANT: Final = re.compile(
    r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?|(_\w+ ?)?'(?:[^'\\]|''|\\.)*'|[bx]'[0-9a-f]*'|0x[0-9a-f]+",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_FIRST_MEMBER: Final = re.compile(r"enum\('((?:[^']|'')*)'", re.IGNORECASE | re.DOTALL)
_ZERO_DATE: Final = re.compile(r"\d{4}-(00-\d\d|\d\d-00)")
_SMALLEST_DOUBLE: Final = 2.0**-1022
_BITS: Final = 2**64

TransferredValue: TypeAlias = int | float | str | bytes | None
"""A value in its transfer form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A column that older batches of the chain did not have."""

    since: BatchId
    """The first batch that read it."""
    value: str | None = None
    """Its value in rows that were read before, as text; None: NULL."""
    unknown_reason: str = ""
    """Why that value is unknown; empty if it is known."""

    def to_fields(self) -> dict[str, Any]:
        return {"since": str(self.since), "value": self.value, "unknown": self.unknown_reason}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(since=BatchId.from_text(fields["since"]), value=fields["value"], unknown_reason=fields["unknown"])


@dataclass(frozen=True, slots=True)
class UnknownDefault:
    """The value of old rows cannot be derived from the declaration."""

    reason: str


@dataclass(frozen=True, slots=True)
class KnownDefault:
    """The value of old rows; the type's implicit default for a NOT NULL column without a default."""

    value: TransferredValue


@dataclass(frozen=True, slots=True)
class ServerDefault:
    """The value of old rows is a constant, which the server formats best."""


DeclaredDefault: TypeAlias = UnknownDefault | KnownDefault | ServerDefault


def classify_default(column: SourceColumn, *, mariadb: bool) -> DeclaredDefault:
    """Return what a column's declaration says about the rows that existed before it."""
    if column.is_generated:
        return UnknownDefault(REASON_GENERATED)
    if "auto_increment" in column.extra:
        return UnknownDefault(REASON_NUMBERED)
    default = column.default
    if default is None or (mariadb and default.upper() == "NULL"):
        return KnownDefault(None) if column.nullable else _implicit_default(column)
    if _is_constant(column, default, mariadb=mariadb):
        return ServerDefault()
    return UnknownDefault(f"its default is an expression: {default}")


def _is_constant(column: SourceColumn, default: str, *, mariadb: bool) -> bool:
    if mariadb:
        return _CONSTANT.fullmatch(default) is not None
    # MySQL writes a constant without quotes, and marks a computed default since 8.0.
    stamped = column.data_type in {"datetime", "timestamp"} and default.upper().startswith("CURRENT_TIMESTAMP")
    return "default_generated" not in column.extra.split() and not stamped


def _implicit_default(column: SourceColumn) -> DeclaredDefault:
    make_default = _IMPLICIT_DEFAULTS.get(column.data_type)
    if make_default is None:
        return UnknownDefault(REASON_NO_IMPLICIT_DEFAULT.format(column.data_type))
    return KnownDefault(make_default(column))


def _zero_time(column: SourceColumn) -> str:
    return "00:00:00" + ("." + "0" * column.fraction if column.fraction else "")


def _first_enum_member(column: SourceColumn) -> bytes:
    match = _FIRST_MEMBER.match(column.column_type)
    return match[1].replace("''", "'").encode() if match else b""


_IMPLICIT_DEFAULTS: Final[Mapping[str, Callable[[SourceColumn], TransferredValue]]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"), lambda _: 0),
    **dict.fromkeys(("float", "double"), lambda _: 0.0),
    "decimal": lambda column: f"{0:.{column.scale or 0}f}",
    "date": lambda _: "0000-00-00",
    **dict.fromkeys(("datetime", "timestamp"), lambda _: "0000-00-00 00:00:00"),
    "time": _zero_time,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "set"), lambda _: b""),
    **dict.fromkeys(("varbinary", "tinyblob", "blob", "mediumblob", "longblob"), lambda _: b""),
    "binary": lambda column: bytes(column.length or column.octets or 0),
    "enum": _first_enum_member,
    "json": lambda _: b"null",
}
"""Implicit default of a NOT NULL column without a default, in its transfer form."""


def make_added_column(mapping: ColumnMapping, value: object, policies: Policies, *, since: BatchId) -> AddedColumn:
    """Return the added column with the value of old rows, converted like a transferred value."""
    if value is None:
        return AddedColumn(since=since)
    text = _value_to_text(mapping, value)
    if not isinstance(text, ValueProblem):
        return AddedColumn(since=since, value=text)
    policy = policies.policy_for(text)
    if policy is Policy.NULL:
        return AddedColumn(since=since)
    return AddedColumn(since=since, unknown_reason=f"its default value is a case of {text}, whose policy is {policy}")


def _value_to_text(mapping: ColumnMapping, value: object) -> str | ValueProblem:
    match mapping.travel:
        case TransferType.INTEGER:
            return _integer_to_text(mapping, int(str(value)))
        case TransferType.DOUBLE:
            number = float(str(value))
            return ValueProblem.OUT_OF_RANGE if 0 < abs(number) < _SMALLEST_DOUBLE else repr(number)
        case TransferType.TEXT:
            return _check_text(mapping, decode_text(value))
        case TransferType.BYTES:
            return _bytes_to_text(mapping, value if isinstance(value, bytes) else str(value).encode())


def _integer_to_text(mapping: ColumnMapping, number: int) -> str | ValueProblem:
    if mapping.parquet.physical is PhysicalType.BOOLEAN:
        return ValueProblem.OUT_OF_RANGE if number not in {0, 1} else ("true" if number else "false")
    # An unsigned 64-bit number is transferred as the signed number with the same bits.
    unsigned = number < 0 and mapping.parquet.precision == UNSIGNED_BIGINT_DIGITS
    return str(number + _BITS if unsigned else number)


def _check_text(mapping: ColumnMapping, text: str) -> str | ValueProblem:
    if mapping.parquet.meaning not in {LogicalType.DATE, LogicalType.TIMESTAMP_MICROS}:
        return text
    if _ZERO_DATE.match(text):
        return ValueProblem.ZERO_DATE
    form = date if mapping.parquet.meaning is LogicalType.DATE else datetime
    try:
        form.fromisoformat(text)
    except ValueError:
        return ValueProblem.OUT_OF_RANGE
    return text


def _bytes_to_text(mapping: ColumnMapping, value: bytes) -> str | ValueProblem:
    if mapping.limit is not None and len(value) > mapping.limit:
        return ValueProblem.OVERSIZE
    if mapping.parquet.meaning is not LogicalType.UTF8 and mapping.redshift != "SUPER":
        return value.hex()
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ValueProblem.INVALID_TEXT
    return ValueProblem.INVALID_TEXT if "\0" in text else text
