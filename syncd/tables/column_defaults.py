"""What a column that was added holds in the rows from before it: its default, where that is a constant.

ADD COLUMN gives old rows the default and stamps none of them, so that no later batch reads them for it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Self, TypeAlias

from syncd.datatypes.columns import Meaning, Passage, Physical, Policies, Policy, Travel, Trouble
from syncd.datatypes.source_table import Column
from syncd.datatypes.type_table import UNSIGNED_DIGITS
from watermarks.batch import BatchId

NUMBERED: Final = "the server numbered its rows"
RENAMED: Final = "it stands where {} stood, and may be that column by another name"
GENERATED: Final = "its values are computed"
NO_ZERO: Final = "what a {} holds that is not NULL and was never given is not known"

# A constant as MariaDB writes one: NULL, a number, a text, bits or bytes. Whatever else it writes is computed.
_CONSTANT: Final = re.compile(
    r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?|(_\w+ ?)?'(?:[^'\\]|''|\\.)*'|[bx]'[0-9a-f]*'|0x[0-9a-f]+",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_FIRST_MEMBER: Final = re.compile(r"enum\('((?:[^']|'')*)'", re.IGNORECASE | re.DOTALL)
_ZERO_DATE: Final = re.compile(r"\d{4}-(00-\d\d|\d\d-00)")
_SMALLEST_DOUBLE: Final = 2.0**-1022
_BITS: Final = 2**64

Travelled: TypeAlias = int | float | str | bytes | None
"""A value in the form in which it leaves the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A column that older batches of the chain did not have."""

    since: BatchId
    """The first batch that read it."""
    value: str | None = None
    """What it holds in rows that were read before, as text; None: NULL."""
    unknown: str = ""
    """Why nobody knows what it holds there; empty where that is known."""

    def fields(self) -> dict[str, Any]:
        return {"since": str(self.since), "value": self.value, "unknown": self.unknown}

    @classmethod
    def of_fields(cls, found: Mapping[str, Any]) -> Self:
        return cls(since=BatchId.of_text(found["since"]), value=found["value"], unknown=found["unknown"])


@dataclass(frozen=True, slots=True)
class Unknown:
    """Old rows hold something that cannot be told from the declaration."""

    why: str


@dataclass(frozen=True, slots=True)
class Given:
    """Old rows hold this; of a column that is not NULL and has no default, what its type begins with."""

    value: Travelled


@dataclass(frozen=True, slots=True)
class Asked:
    """Old rows hold a constant, which the server puts into words best."""


Declared: TypeAlias = Unknown | Given | Asked


def declared(column: Column, *, mariadb: bool) -> Declared:
    """What the declaration of a column says of the rows that were there before it."""
    if column.generated:
        return Unknown(GENERATED)
    if "auto_increment" in column.extra:
        return Unknown(NUMBERED)
    default = column.default
    if default is None or (mariadb and default.upper() == "NULL"):
        return Given(None) if column.nullable else _implicit(column)
    if _is_constant(column, default, mariadb=mariadb):
        return Asked()
    return Unknown(f"its default is an expression: {default}")


def _is_constant(column: Column, default: str, *, mariadb: bool) -> bool:
    if mariadb:
        return _CONSTANT.fullmatch(default) is not None
    # MySQL writes a constant as it is, without quotes; a default that is computed it marks, since 8.0 each of them.
    stamped = column.data_type in {"datetime", "timestamp"} and default.upper().startswith("CURRENT_TIMESTAMP")
    return "default_generated" not in column.extra.split() and not stamped


def _implicit(column: Column) -> Declared:
    begin = _BEGINNINGS.get(column.data_type)
    return Unknown(NO_ZERO.format(column.data_type)) if begin is None else Given(begin(column))


def _midnight(column: Column) -> str:
    return "00:00:00" + ("." + "0" * column.fraction if column.fraction else "")


def _first_member(column: Column) -> bytes:
    match = _FIRST_MEMBER.match(column.column_type)
    return match[1].replace("''", "'").encode() if match else b""


_BEGINNINGS: Final[Mapping[str, Callable[[Column], Travelled]]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"), lambda _: 0),
    **dict.fromkeys(("float", "double"), lambda _: 0.0),
    "decimal": lambda column: f"{0:.{column.scale or 0}f}",
    "date": lambda _: "0000-00-00",
    **dict.fromkeys(("datetime", "timestamp"), lambda _: "0000-00-00 00:00:00"),
    "time": _midnight,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "set"), lambda _: b""),
    **dict.fromkeys(("varbinary", "tinyblob", "blob", "mediumblob", "longblob"), lambda _: b""),
    "binary": lambda column: bytes(column.length or column.octets or 0),
    "enum": _first_member,
    "json": lambda _: b"null",
}
"""What a column that is not NULL begins with, where it has no default, in the form in which it would travel."""


def added(passage: Passage, value: object, policies: Policies, *, since: BatchId) -> Added:
    """The column with what old rows hold, as their own values would have come through."""
    if value is None:
        return Added(since=since)
    found = _text_of(passage, value)
    if not isinstance(found, Trouble):
        return Added(since=since, value=found)
    if policies.of(found) is Policy.NULL:
        return Added(since=since)
    return Added(since=since, unknown=f"its default meets {found}, whose policy is {policies.of(found)}")


def _text_of(passage: Passage, value: object) -> str | Trouble:
    match passage.travel:
        case Travel.INTEGER:
            return _integer(passage, int(str(value)))
        case Travel.DOUBLE:
            number = float(str(value))
            return Trouble.OUT_OF_RANGE if 0 < abs(number) < _SMALLEST_DOUBLE else repr(number)
        case Travel.TEXT:
            return _printed(passage, value.decode() if isinstance(value, bytes) else str(value))
        case Travel.BYTES:
            return _bytes(passage, value if isinstance(value, bytes) else str(value).encode())


def _integer(passage: Passage, number: int) -> str | Trouble:
    if passage.parquet.physical is Physical.BOOLEAN:
        return Trouble.OUT_OF_RANGE if number not in {0, 1} else ("true" if number else "false")
    # What has 64 bits and no sign travels as the number with a sign of the same bits.
    unsigned = number < 0 and passage.parquet.precision == UNSIGNED_DIGITS
    return str(number + _BITS if unsigned else number)


def _printed(passage: Passage, text: str) -> str | Trouble:
    if passage.parquet.meaning not in {Meaning.DATE, Meaning.TIMESTAMP_MICROS}:
        return text
    if _ZERO_DATE.match(text):
        return Trouble.ZERO_DATE
    form = date if passage.parquet.meaning is Meaning.DATE else datetime
    try:
        form.fromisoformat(text)
    except ValueError:
        return Trouble.OUT_OF_RANGE
    return text


def _bytes(passage: Passage, value: bytes) -> str | Trouble:
    if passage.limit is not None and len(value) > passage.limit:
        return Trouble.OVERSIZE
    if passage.parquet.meaning is not Meaning.UTF8 and passage.redshift != "SUPER":
        return value.hex()
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return Trouble.INVALID_TEXT
    return Trouble.INVALID_TEXT if "\0" in text else text
