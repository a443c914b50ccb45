"""Columns of a file that identify a row and its version."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceTable
from syncd.errors import ConfigError
from syncd.settings import StreamSettings
from syncd.tables.sort_order import CURSOR_BY_KEY, CURSOR_NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIdentity:
    """The key and the order column of one stream, by their names in files."""

    key: tuple[str, ...]
    """Columns that are never NULL. Empty if the table is read whole each time."""
    cursor: str | None = None
    """Of two versions of a row in one batch, the one with the higher value is newer; None if there are no two."""


NO_IDENTITY: Final = RowIdentity(key=())


def resolve_identity(table: SourceTable, settings: StreamSettings, mappings: Sequence[ColumnMapping]) -> RowIdentity:
    """Return the identity of a stream's rows.

    Raises:
        ConfigError: a column of the key, or the order column, is not read.
    """
    if settings.cursor == CURSOR_NONE:
        return NO_IDENTITY
    key = tuple(_find_mapped_name(table, name, mappings) for name in settings.key or table.primary_key)
    if settings.cursor == CURSOR_BY_KEY:
        return RowIdentity(key=key)
    return RowIdentity(key=key, cursor=_find_mapped_name(table, settings.cursor, mappings))


def _find_mapped_name(table: SourceTable, column: str, mappings: Sequence[ColumnMapping]) -> str:
    folded = column.casefold()
    for mapping in mappings:
        if mapping.column.casefold() == folded:
            return mapping.name
    raise ConfigError(
        f"column {table}.{column} of the key or order is not among the columns that are read",
        hint=f"Select {column} in `query` too.",
    )
