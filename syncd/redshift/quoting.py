"""Names and values as Redshift reads them."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from watermarks.cursor import Kind, Value


def quoted(name: str) -> str:
    """An identifier, whatever stands in it; always in quotes, for the list of reserved words grows."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A constant text. Redshift reads backslashes in constants as PostgreSQL 8.0 did, so they are doubled."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """A table of the warehouse; a temporary one is in no schema."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}" if self.schema else quoted(self.name)

    def beside(self, name: str) -> Self:
        """Another table of the same schema."""
        return type(self)(schema=self.schema, name=name)


_CONSTANTS: Final = {
    Kind.INSTANT: "TIMESTAMP '{}'",
    Kind.WALL: "TIMESTAMP '{}'",
    Kind.DATE: "DATE '{}'",
    Kind.INT: "{}",
    Kind.DECIMAL: "{}",
}


def comparable(value: Value) -> bool:
    """Whether Redshift orders values of this kind as MySQL does, and files hold them as they are."""
    return value.kind in _CONSTANTS


def literal(value: Value) -> str:
    """A value of a position as a constant; of a comparable one only."""
    if isinstance(value.plain, Decimal):
        return f"{value.plain:f}"  # with an exponent it would be a double, which rounds
    _, _, text = str(value).partition(":")
    if value.kind in {Kind.INSTANT, Kind.WALL}:
        text = text.removesuffix("Z").replace("T", " ")
    return _CONSTANTS[value.kind].format(text)
