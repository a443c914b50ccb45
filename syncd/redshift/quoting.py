"""Names, values and expressions over rows as SQL of Redshift."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from syncd.lake import batch_number
from watermarks.cursor import CursorValue, ValueKind


def quote_name(name: str) -> str:
    """Quote an identifier. Every name is quoted, because the list of reserved words grows."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """Quote a text constant. Redshift treats backslashes as escapes, as PostgreSQL 8.0 did, so they are doubled."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def quote_names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_name, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """Name of a table in the warehouse; a temporary table has no schema."""

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
    """Return whether Redshift orders values of this kind as MySQL does, and files hold them unchanged."""
    return value.kind in _LITERAL_FORMATS


def value_literal(value: CursorValue) -> str:
    """Return a comparable value of a position as a constant."""
    if isinstance(value.raw, Decimal):
        return f"{value.raw:f}"  # an exponent would make it a double, which rounds
    _, _, text = str(value).partition(":")
    if value.kind in {ValueKind.INSTANT, ValueKind.WALL}:
        text = text.removesuffix("Z").replace("T", " ")
    return _LITERAL_FORMATS[value.kind].format(text)


BATCH_COLUMN: Final = quote_name(batch_number.BATCH_COLUMN)


def column_ref(rows: str, name: str) -> str:
    return f"{rows}.{quote_name(name)}"


def batch_number_sql(rows: str) -> str:
    """Return the number of the batch that read a row; rows from before syncd are older than all."""
    return f"COALESCE({rows}.{BATCH_COLUMN}, 0)"


def group_by_columns(rows: str, names: Iterable[str], is_text: Callable[[str], bool]) -> str:
    """Return the expressions that distinguish rows; Redshift ignores trailing blanks of texts, so lengths count too."""
    columns: list[str] = []
    for name in names:
        column = column_ref(rows, name)
        columns += [column, f"OCTET_LENGTH({column})"] if is_text(name) else [column]
    return ", ".join(columns)


def version_order(rows: str, cursor: str | None, direction: str, *, by_batch: bool = True) -> str:
    """Return the order of the versions of a row; the oldest is lowest, and NULL is older than every value."""
    keys = [batch_number_sql(rows)] if by_batch else []
    if cursor:
        column = column_ref(rows, cursor)
        # Servers differ in where they sort NULL.
        keys += [f"CASE WHEN {column} IS NULL THEN 0 ELSE 1 END", column]
    return ", ".join(f"{key} {direction}" for key in keys)
