"""The columns of one table on their way: each with its name in files and the way of its type."""

from collections.abc import Sequence
from typing import Final

from syncd.datatypes.columns import Passage
from syncd.datatypes.mysql_quoting import quoted
from syncd.datatypes.source_table import Column, Table
from syncd.datatypes.type_table import AS_BOOLEAN, Way, rule_of
from syncd.errors import ConfigError, SourceUnfit
from syncd.settings import StreamSettings

LONGEST_NAME: Final = 127
"""Bytes; Redshift cuts a longer name without a word."""
MOST_COLUMNS: Final = 1_600
OURS: Final = "_syncd_"
"""What the names of our own columns begin with."""
SYSTEM_NAMES: Final = frozenset({"oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_UPPER: Final = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
_A_VIEW: Final = "in a view of {table} that is read whole in its place (mode: replace, cursor: none)"
_BY_VIEW: Final = f"Give it another name at the source; or another name, or none, {_A_VIEW}."


def passages(table: Table, settings: StreamSettings) -> tuple[Passage, ...]:
    """The way of every column of a table, in its order.

    The statement that reads selects each `select` AS its `name`.

    Raises:
        SourceUnfit: a type is unknown, or a name cannot be a column's in Redshift.
        ConfigError: a column is called boolean that cannot be.
    """
    _check_booleans(table, settings)
    boolean = {name.casefold() for name in settings.boolean}
    found = tuple(_passage(table, column, boolean=column.name.casefold() in boolean) for column in table.columns)
    _check_names(table, found)
    return found


def folded(name: str) -> str:
    """A name as Redshift folds it: ASCII letters to lower case, all else as it is."""
    return name.translate(_UPPER)


def _passage(table: Table, column: Column, *, boolean: bool) -> Passage:
    way = _way(table, column, boolean=boolean)
    return Passage(
        column=column.name,
        name=folded(column.name),
        select=way.select.replace("{c}", quoted(column.name)),
        travel=way.travel,
        parquet=way.parquet,
        redshift=way.redshift,
        limit=way.limit,
        befalls=way.befalls,
        whole=way.whole,
    )


def _way(table: Table, column: Column, *, boolean: bool) -> Way:
    rule = AS_BOOLEAN if boolean else rule_of(column)
    if rule is None:
        raise SourceUnfit(
            f"{table}.{column.name} is of type {column.column_type}, which syncd does not know",
            hint=f"Cast it, or leave it out, {_A_VIEW.format(table=table)}.",
        )
    return rule.way(column)


def _check_booleans(table: Table, settings: StreamSettings) -> None:
    for name in settings.boolean:
        column = table.column(name)
        if column is None:
            raise ConfigError(f"{table} has no column {name} to be boolean", hint="Is the name under `boolean` right?")
        if column.data_type not in AS_BOOLEAN.data_types or not AS_BOOLEAN.when(column):
            raise ConfigError(
                f"{table}.{name} is {column.column_type}; only TINYINT(1) can be boolean",
                hint=f"Take {name} out of `boolean`.",
            )


def _check_names(table: Table, found: Sequence[Passage]) -> None:
    if len(found) > MOST_COLUMNS:
        raise SourceUnfit(
            f"{table} has {len(found)} columns, and Redshift's tables at most {MOST_COLUMNS}",
            hint=f"Leave some out, {_A_VIEW.format(table=table)}.",
        )
    taken: dict[str, str] = {}
    for passage in found:
        _check_name(table, passage)
        # Stricter than Redshift's folding, which is not known for letters beyond ASCII.
        other = taken.setdefault(passage.name.casefold(), passage.column)
        if other is not passage.column:
            raise SourceUnfit(
                f"{table}: columns {other} and {passage.column} are one name in Redshift",
                hint=_BY_VIEW.format(table=table),
            )


def _check_name(table: Table, passage: Passage) -> None:
    reason = ""
    if len(passage.name.encode()) > LONGEST_NAME:
        reason = f"is longer than {LONGEST_NAME} bytes, where Redshift would cut it"
    elif passage.name in SYSTEM_NAMES:
        reason = "is a column that every table of Redshift has already"
    elif passage.name.startswith(OURS):
        reason = f"begins with {OURS}, as only our own columns do"
    if reason:
        raise SourceUnfit(f"{table}.{passage.column} {reason}", hint=_BY_VIEW.format(table=table))
