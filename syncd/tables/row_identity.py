"""Which columns of a file say what row it is, and which version of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import Passage
from syncd.datatypes.source_table import Table
from syncd.errors import ConfigError
from syncd.settings import StreamSettings
from syncd.tables.sort_order import BY_KEY, WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The key and the order column of one stream, by their names in files."""

    key: tuple[str, ...]
    """None of these is ever NULL. Empty where the table is read whole each time."""
    cursor: str | None = None
    """Of two versions of a row in one batch, the higher is the newer one; None where there are no two."""


NO_IDENTITY: Final = Identity(key=())


def identity_of(table: Table, settings: StreamSettings, passages: Sequence[Passage]) -> Identity:
    """The identity of a stream's rows.

    Raises:
        ConfigError: a column of the key, or the order column, is not among those that are read.
    """
    if settings.cursor == WHOLE:
        return NO_IDENTITY
    key = tuple(_name(table, name, passages) for name in settings.key or table.primary)
    if settings.cursor == BY_KEY:
        return Identity(key=key)
    return Identity(key=key, cursor=_name(table, settings.cursor, passages))


def _name(table: Table, column: str, passages: Sequence[Passage]) -> str:
    folded = column.casefold()
    found = next((passage.name for passage in passages if passage.column.casefold() == folded), None)
    if found is None:
        raise ConfigError(
            f"{table}.{column} says which row it is, and is not among the columns that are read",
            hint=f"Select {column} in `query` too.",
        )
    return found
