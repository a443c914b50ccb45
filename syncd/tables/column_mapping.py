"""Mapping of a table's columns to their names and types in files and in Redshift."""

from collections.abc import Sequence
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.mysql_quoting import quote_name
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.datatypes.type_table import BOOLEAN_RULE, TypeMapping, find_type_rule
from syncd.errors import ConfigError, SourceUnfit
from syncd.settings import StreamSettings

MAX_NAME_BYTES: Final = 127
"""Redshift silently cuts longer names."""
MAX_COLUMNS: Final = 1_600
RESERVED_PREFIX: Final = "_syncd_"
"""Prefix of syncd's own columns."""
SYSTEM_COLUMNS: Final = frozenset({"oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_ASCII_TO_LOWER: Final = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
_VIEW_HINT: Final = "in a view of {table} that is read whole instead (mode: replace, cursor: none)"
_RENAME_HINT: Final = f"Rename it at the source, or rename or omit it {_VIEW_HINT}."


def map_columns(table: SourceTable, settings: StreamSettings) -> tuple[ColumnMapping, ...]:
    """Return the mapping of every column of a table, in its order.

    The statement that reads selects each `select` AS its `name`.

    Raises:
        SourceUnfit: a type is unknown, or a name is not valid in Redshift.
        ConfigError: a column under `boolean` does not exist or is no TINYINT(1).
    """
    _check_booleans(table, settings)
    boolean = {name.casefold() for name in settings.boolean}
    mappings = tuple(_map_column(table, column, boolean=column.name.casefold() in boolean) for column in table.columns)
    _check_names(table, mappings)
    return mappings


def fold_name(name: str) -> str:
    """Return a name as Redshift folds it: ASCII letters in lower case, all others unchanged."""
    return name.translate(_ASCII_TO_LOWER)


def _map_column(table: SourceTable, column: SourceColumn, *, boolean: bool) -> ColumnMapping:
    mapped = _resolve_type(table, column, boolean=boolean)
    return ColumnMapping(
        column=column.name,
        name=fold_name(column.name),
        select=mapped.select.replace("{c}", quote_name(column.name)),
        travel=mapped.travel,
        parquet=mapped.parquet,
        redshift=mapped.redshift,
        limit=mapped.limit,
        befalls=mapped.befalls,
        whole=mapped.whole,
    )


def _resolve_type(table: SourceTable, column: SourceColumn, *, boolean: bool) -> TypeMapping:
    rule = BOOLEAN_RULE if boolean else find_type_rule(column)
    if rule is None:
        raise SourceUnfit(
            f"column {table}.{column.name} has the unsupported type {column.column_type}",
            hint=f"Cast or omit it {_VIEW_HINT.format(table=table)}.",
        )
    return rule.map_type(column)


def _check_booleans(table: SourceTable, settings: StreamSettings) -> None:
    for name in settings.boolean:
        column = table.find_column(name)
        if column is None:
            raise ConfigError(f"{table} has no column {name}, named under `boolean`", hint="Check that name.")
        if column.data_type not in BOOLEAN_RULE.data_types or not BOOLEAN_RULE.applies_to(column):
            raise ConfigError(
                f"{table}.{name} is {column.column_type}; only TINYINT(1) can be boolean",
                hint=f"Remove {name} from `boolean`.",
            )


def _check_names(table: SourceTable, mappings: Sequence[ColumnMapping]) -> None:
    if len(mappings) > MAX_COLUMNS:
        raise SourceUnfit(
            f"{table} has {len(mappings)} columns; a Redshift table has at most {MAX_COLUMNS}",
            hint=f"Omit some {_VIEW_HINT.format(table=table)}.",
        )
    taken: dict[str, str] = {}
    for mapping in mappings:
        _check_name(table, mapping)
        # Stricter than Redshift's folding, which is not known for letters beyond ASCII.
        other = taken.setdefault(mapping.name.casefold(), mapping.column)
        if other is not mapping.column:
            raise SourceUnfit(
                f"{table}: columns {other} and {mapping.column} have the same name in Redshift",
                hint=_RENAME_HINT.format(table=table),
            )


def _check_name(table: SourceTable, mapping: ColumnMapping) -> None:
    reason = ""
    if len(mapping.name.encode()) > MAX_NAME_BYTES:
        reason = f"has more than {MAX_NAME_BYTES} bytes; Redshift would cut it"
    elif mapping.name in SYSTEM_COLUMNS:
        reason = "is that of a system column of Redshift"
    elif mapping.name.startswith(RESERVED_PREFIX):
        reason = f"begins with {RESERVED_PREFIX}, which is reserved for syncd"
    if reason:
        raise SourceUnfit(
            f"the name of column {table}.{mapping.column} {reason}", hint=_RENAME_HINT.format(table=table)
        )
