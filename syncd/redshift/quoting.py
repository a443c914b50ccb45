"""Names and values as Redshift reads them."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from watermarks.cursor import CursorValue, ValueKind


def quote_name(name: str) -> str:
    """An identifier, whatever stands in it; always in quotes, for the list of reserved words grows."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A constant text. Redshift reads backslashes in constants as PostgreSQL 8.0 did, so they are doubled."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def quote_names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_name, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """A table of the warehouse; a temporary one is in no schema."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        return f"{quote_name(self.schema)}.{quote_name(self.name)}" if self.schema else quote_name(self.name)

    def sibling(self, name: str) -> Self:
        """Another table of the same schema."""
        return type(self)(schema=self.schema, name=name)


_LITERAL_FORMATS: Final = {
    ValueKind.INSTANT: "TIMESTAMP '{}'",
    ValueKind.WALL: "TIMESTAMP '{}'",
    ValueKind.DATE: "DATE '{}'",
    ValueKind.INT: "{}",
    ValueKind.DECIMAL: "{}",
}


def is_comparable(value: CursorValue) -> bool:
    """Whether Redshift orders values of this kind as MySQL does, and files hold them as they are."""
    return value.kind in _LITERAL_FORMATS


def value_literal(value: CursorValue) -> str:
    """A value of a position as a constant; of a comparable one only."""
    if isinstance(value.raw, Decimal):
        return f"{value.raw:f}"  # with an exponent it would be a double, which rounds
    _, _, text = str(value).partition(":")
    if value.kind in {ValueKind.INSTANT, ValueKind.WALL}:
        text = text.removesuffix("Z").replace("T", " ")
    return _LITERAL_FORMATS[value.kind].format(text)
