"""The columns of one table on their way: each with its name in files and the way of its type."""

from collections.abc import Sequence
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.mysql_quoting import quote_name
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.datatypes.type_table import BOOLEAN_RULE, TypeMapping, find_type_rule
from syncd.errors import ConfigError, SourceUnfit
from syncd.settings import StreamSettings

MAX_NAME_BYTES: Final = 127
"""Bytes; Redshift cuts a longer name without a word."""
MAX_COLUMNS: Final = 1_600
RESERVED_PREFIX: Final = "_syncd_"
"""What the names of our own columns begin with."""
SYSTEM_COLUMNS: Final = frozenset({"oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_ASCII_TO_LOWER: Final = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
_VIEW_HINT: Final = "in a view of {table} that is read whole in its place (mode: replace, cursor: none)"
_RENAME_HINT: Final = f"Give it another name at the source; or another name, or none, {_VIEW_HINT}."


def map_columns(table: SourceTable, settings: StreamSettings) -> tuple[ColumnMapping, ...]:
    """The way of every column of a table, in its order.

    The statement that reads selects each `select` AS its `name`.

    Raises:
        SourceUnfit: a type is unknown, or a name cannot be a column's in Redshift.
        ConfigError: a column is called boolean that cannot be.
    """
    _check_booleans(table, settings)
    boolean = {name.casefold() for name in settings.boolean}
    found = tuple(_map_column(table, column, boolean=column.name.casefold() in boolean) for column in table.columns)
    _check_names(table, found)
    return found


def fold_name(name: str) -> str:
    """A name as Redshift folds it: ASCII letters to lower case, all else as it is."""
    return name.translate(_ASCII_TO_LOWER)


def _map_column(table: SourceTable, column: SourceColumn, *, boolean: bool) -> ColumnMapping:
    way = _resolve_type(table, column, boolean=boolean)
    return ColumnMapping(
        column=column.name,
        name=fold_name(column.name),
        select=way.select.replace("{c}", quote_name(column.name)),
        travel=way.travel,
        parquet=way.parquet,
        redshift=way.redshift,
        limit=way.limit,
        befalls=way.befalls,
        whole=way.whole,
    )


def _resolve_type(table: SourceTable, column: SourceColumn, *, boolean: bool) -> TypeMapping:
    rule = BOOLEAN_RULE if boolean else find_type_rule(column)
    if rule is None:
        raise SourceUnfit(
            f"{table}.{column.name} is of type {column.column_type}, which syncd does not know",
            hint=f"Cast it, or leave it out, {_VIEW_HINT.format(table=table)}.",
        )
    return rule.map_type(column)


def _check_booleans(table: SourceTable, settings: StreamSettings) -> None:
    for name in settings.boolean:
        column = table.find_column(name)
        if column is None:
            raise ConfigError(f"{table} has no column {name} to be boolean", hint="Is the name under `boolean` right?")
        if column.data_type not in BOOLEAN_RULE.data_types or not BOOLEAN_RULE.applies_to(column):
            raise ConfigError(
                f"{table}.{name} is {column.column_type}; only TINYINT(1) can be boolean",
                hint=f"Take {name} out of `boolean`.",
            )


def _check_names(table: SourceTable, mappings: Sequence[ColumnMapping]) -> None:
    if len(mappings) > MAX_COLUMNS:
        raise SourceUnfit(
            f"{table} has {len(mappings)} columns, and Redshift's tables at most {MAX_COLUMNS}",
            hint=f"Leave some out, {_VIEW_HINT.format(table=table)}.",
        )
    taken: dict[str, str] = {}
    for passage in mappings:
        _check_name(table, passage)
        # Stricter than Redshift's folding, which is not known for letters beyond ASCII.
        other = taken.setdefault(passage.name.casefold(), passage.column)
        if other is not passage.column:
            raise SourceUnfit(
                f"{table}: columns {other} and {passage.column} are one name in Redshift",
                hint=_RENAME_HINT.format(table=table),
            )


def _check_name(table: SourceTable, mapping: ColumnMapping) -> None:
    reason = ""
    if len(mapping.name.encode()) > MAX_NAME_BYTES:
        reason = f"is longer than {MAX_NAME_BYTES} bytes, where Redshift would cut it"
    elif mapping.name in SYSTEM_COLUMNS:
        reason = "is a column that every table of Redshift has already"
    elif mapping.name.startswith(RESERVED_PREFIX):
        reason = f"begins with {RESERVED_PREFIX}, as only our own columns do"
    if reason:
        raise SourceUnfit(f"{table}.{mapping.column} {reason}", hint=_RENAME_HINT.format(table=table))
