"""What a column that was added holds in the rows from before it: its default, where that is a constant.

ADD COLUMN gives old rows the default and stamps none of them, so that no later batch reads them for it.
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
from syncd.datatypes.source_table import SourceColumn
from syncd.datatypes.type_table import UNSIGNED_BIGINT_DIGITS
from watermarks.batch import BatchId

REASON_NUMBERED: Final = "the server numbered its rows"
REASON_RENAMED: Final = "it stands where {} stood, and may be that column by another name"
REASON_GENERATED: Final = "its values are computed"
REASON_NO_IMPLICIT_DEFAULT: Final = "what a {} holds that is not NULL and was never given is not known"

# A constant as MariaDB writes one: NULL, a number, a text, bits or bytes. Whatever else it writes is computed.
_CONSTANT: Final = re.compile(
    r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?|(_\w+ ?)?'(?:[^'\\]|''|\\.)*'|[bx]'[0-9a-f]*'|0x[0-9a-f]+",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_FIRST_MEMBER: Final = re.compile(r"enum\('((?:[^']|'')*)'", re.IGNORECASE | re.DOTALL)
_ZERO_DATE: Final = re.compile(r"\d{4}-(00-\d\d|\d\d-00)")
_SMALLEST_DOUBLE: Final = 2.0**-1022
_BITS: Final = 2**64

TransferredValue: TypeAlias = int | float | str | bytes | None
"""A value in the form in which it leaves the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A column that older batches of the chain did not have."""

    since: BatchId
    """The first batch that read it."""
    value: str | None = None
    """What it holds in rows that were read before, as text; None: NULL."""
    unknown_reason: str = ""
    """Why nobody knows what it holds there; empty where that is known."""

    def to_fields(self) -> dict[str, Any]:
        return {"since": str(self.since), "value": self.value, "unknown": self.unknown_reason}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(since=BatchId.from_text(fields["since"]), value=fields["value"], unknown_reason=fields["unknown"])


@dataclass(frozen=True, slots=True)
class UnknownDefault:
    """Old rows hold something that cannot be told from the declaration."""

    reason: str


@dataclass(frozen=True, slots=True)
class KnownDefault:
    """Old rows hold this; of a column that is not NULL and has no default, what its type begins with."""

    value: TransferredValue


@dataclass(frozen=True, slots=True)
class ServerDefault:
    """Old rows hold a constant, which the server puts into words best."""


DeclaredDefault: TypeAlias = UnknownDefault | KnownDefault | ServerDefault


def classify_default(column: SourceColumn, *, mariadb: bool) -> DeclaredDefault:
    """What the declaration of a column says of the rows that were there before it."""
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
    # MySQL writes a constant as it is, without quotes; a default that is computed it marks, since 8.0 each of them.
    stamped = column.data_type in {"datetime", "timestamp"} and default.upper().startswith("CURRENT_TIMESTAMP")
    return "default_generated" not in column.extra.split() and not stamped


def _implicit_default(column: SourceColumn) -> DeclaredDefault:
    begin = _IMPLICIT_DEFAULTS.get(column.data_type)
    return (
        UnknownDefault(REASON_NO_IMPLICIT_DEFAULT.format(column.data_type))
        if begin is None
        else KnownDefault(begin(column))
    )


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
"""What a column that is not NULL begins with, where it has no default, in the form in which it would travel."""


def make_added_column(mapping: ColumnMapping, value: object, policies: Policies, *, since: BatchId) -> AddedColumn:
    """The column with what old rows hold, as their own values would have come through."""
    if value is None:
        return AddedColumn(since=since)
    found = _value_to_text(mapping, value)
    if not isinstance(found, ValueProblem):
        return AddedColumn(since=since, value=found)
    if policies.policy_for(found) is Policy.NULL:
        return AddedColumn(since=since)
    return AddedColumn(
        since=since, unknown_reason=f"its default meets {found}, whose policy is {policies.policy_for(found)}"
    )


def _value_to_text(mapping: ColumnMapping, value: object) -> str | ValueProblem:
    match mapping.travel:
        case TransferType.INTEGER:
            return _integer_to_text(mapping, int(str(value)))
        case TransferType.DOUBLE:
            number = float(str(value))
            return ValueProblem.OUT_OF_RANGE if 0 < abs(number) < _SMALLEST_DOUBLE else repr(number)
        case TransferType.TEXT:
            return _check_text(mapping, value.decode() if isinstance(value, bytes) else str(value))
        case TransferType.BYTES:
            return _bytes_to_text(mapping, value if isinstance(value, bytes) else str(value).encode())


def _integer_to_text(mapping: ColumnMapping, number: int) -> str | ValueProblem:
    if mapping.parquet.physical is PhysicalType.BOOLEAN:
        return ValueProblem.OUT_OF_RANGE if number not in {0, 1} else ("true" if number else "false")
    # What has 64 bits and no sign travels as the number with a sign of the same bits.
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
