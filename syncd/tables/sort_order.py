"""Order of a stream: its columns, the meaning of instants in it, and the index that serves it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.mysql_quoting import quote_name, quote_table
from syncd.datatypes.source_table import SourceColumn, SourceIndex, SourceTable
from syncd.errors import ConfigError, SourceUnfit
from syncd.settings import NullCursor, StreamSettings
from syncd.tables.order_clock import STEPS_PER_SECOND, OrderClock
from syncd.tables.order_column import OrderColumn, make_order_column
from watermarks.cursor import ValueKind

CURSOR_BY_KEY: Final = "id"
CURSOR_NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOrder:
    """The order of a table's rows: by an order column and then by key, or by key alone."""

    database: str
    table: str
    key: tuple[OrderColumn, ...]
    key_index: str
    """Serves the key alone, for the chunks of a first pass."""
    columns: tuple[OrderColumn, ...]
    """The columns of the stream's cursors."""
    index: str
    """Serves the columns."""
    clock: OrderClock | None
    """None if the key alone is the order."""
    nullable: bool = False
    """Whether the order column can be NULL; such rows have no place in the order."""
    is_auto_increment: bool = False
    """Whether the server numbers the key."""

    @property
    def table_name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def time_column(self) -> OrderColumn | None:
        """Return the order column, if there is one."""
        return self.columns[0] if self.clock else None


def resolve_order(table: SourceTable, settings: StreamSettings, *, zone: tzinfo = UTC) -> StreamOrder:
    """Return the order in which a stream reads the table; `zone` is that of those who write wall times.

    Raises:
        SourceUnfit: a key, column or index is missing; the hint is the statement to run.
        ConfigError: the type of the order column holds no time.
    """
    _require_base_table(table)
    key, key_index = _resolve_key(table, settings)
    key_columns = tuple(make_order_column(column) for column in key)
    if settings.cursor == CURSOR_BY_KEY:
        return StreamOrder(
            database=table.database,
            table=table.name,
            key=key_columns,
            key_index=key_index,
            columns=key_columns,
            index=key_index,
            clock=None,
            is_auto_increment=len(key) == 1 and "auto_increment" in key[0].extra,
        )
    stamp = _resolve_stamp(table, settings)
    clock = _resolve_clock(stamp, settings, zone)
    rest = tuple(column for column in key if column.name != stamp.name)
    return StreamOrder(
        database=table.database,
        table=table.name,
        key=key_columns,
        key_index=key_index,
        columns=(make_order_column(stamp), *(make_order_column(column) for column in rest)),
        index=_choose_index(table, (stamp, *rest)),
        clock=clock,
        nullable=stamp.nullable,
    )


def resolve_birth_column(
    table: SourceTable, settings: StreamSettings, *, zone: tzinfo
) -> tuple[OrderColumn, OrderClock]:
    """Return the column that holds the creation time of rows, with its clock: the one named, else the only one.

    Raises:
        ConfigError: there is none, or there are several.
    """
    if settings.start_by is not None:
        column = _require_column(table, settings.start_by, "first_run: by")
        return make_order_column(column), _resolve_clock(column, settings, zone)
    candidates = [column for column in table.columns if _is_insert_stamp(column)]
    if len(candidates) != 1:
        names = ", ".join(column.name for column in candidates) or "none"
        raise ConfigError(
            f"{table} is read by its key, and one column must contain the creation time of its rows;"
            f" candidates: {names}",
            hint="Name it: first_run: {from: INSTANT, by: COLUMN}. Or begin with `snapshot` or `now`.",
        )
    return make_order_column(candidates[0]), _resolve_clock(candidates[0], settings, zone)


def _is_insert_stamp(column: SourceColumn) -> bool:
    default = (column.default or "").lower()
    is_updated = "on update" in f"{default} {column.extra.lower()}"
    is_time = column.data_type in {"datetime", "timestamp"}
    return is_time and "current_timestamp" in default and not is_updated and not column.nullable


def must_check_nulls(order: StreamOrder, settings: StreamSettings) -> bool:
    """Return whether the planner has to make sure that no order column is NULL."""
    return order.nullable and settings.null_cursor is NullCursor.FAIL


def _require_base_table(table: SourceTable) -> None:
    if table.kind.upper() == "VIEW":
        raise SourceUnfit(
            f"{table} is a view: it has no key and no index of its own",
            hint="Read it whole: mode: replace, cursor: none. Or, if it has all columns of a base table, name that"
            " table and put the view's statement into `query`.",
        )


def _resolve_key(table: SourceTable, settings: StreamSettings) -> tuple[tuple[SourceColumn, ...], str]:
    if settings.key:
        key = tuple(_require_column(table, name, "key") for name in settings.key)
        return key, _unique_index(table, key)
    if table.primary_key:
        return tuple(_require_column(table, name, "key") for name in table.primary_key), "PRIMARY"
    raise SourceUnfit(f"{table} has no primary key", hint=_key_hint(table))


def _key_hint(table: SourceTable) -> str:
    where = quote_table(table.database, table.name)
    for index in table.indexes:
        columns = [table.find_column(name) for name in index.columns]
        if index.unique and index.whole and not any(column is None or column.nullable for column in columns):
            return f"Its index {index.name} is unique: set `key: [{', '.join(index.columns)}]` for this stream."
    return f"ALTER TABLE {where} ADD PRIMARY KEY (...); or read the whole table each time: cursor: none"


def _unique_index(table: SourceTable, key: tuple[SourceColumn, ...]) -> str:
    names = tuple(column.name for column in key)
    shown, where = ", ".join(names), quote_table(table.database, table.name)
    if nullable := [column.name for column in key if column.nullable]:
        raise SourceUnfit(
            f"key ({shown}) of {table} cannot be used: {', '.join(nullable)} may be NULL, and NULLs are never equal",
            hint=f"ALTER TABLE {where} MODIFY {quote_name(nullable[0])} ... NOT NULL",
        )
    for index in table.indexes:
        if index.unique and index.whole and index.visible and index.columns == names:
            return index.name
    raise SourceUnfit(
        f"key ({shown}) of {table} is not unique: no unique index has exactly these columns in this order",
        hint=f"CREATE UNIQUE INDEX syncd_key ON {where} ({_quote_names(names)})",
    )


def _require_column(table: SourceTable, name: str, use: str) -> SourceColumn:
    column = table.find_column(name)
    if column is None:
        raise SourceUnfit(
            f"{table} has no column {name}, named as `{use}` of the stream",
            hint=f"Its columns are {', '.join(column.name for column in table.columns)}.",
        )
    return column


def _resolve_stamp(table: SourceTable, settings: StreamSettings) -> SourceColumn:
    column = table.find_column(settings.cursor)
    if column is None and settings.cursor == StreamSettings.__dataclass_fields__["cursor"].default:
        raise SourceUnfit(
            f"{table} has no column {settings.cursor}",
            hint="Set `cursor` to its order column, to `id` for a table that only grows, or to `none`.",
        )
    return column or _require_column(table, settings.cursor, "cursor")


def _resolve_clock(stamp: SourceColumn, settings: StreamSettings, zone: tzinfo) -> OrderClock:
    column = make_order_column(stamp)
    if column.kind in {ValueKind.INSTANT, ValueKind.WALL}:
        return OrderClock(kind=column.kind, steps_per_second=10**stamp.fraction, zone=zone)
    if column.kind is ValueKind.INT and stamp.data_type.endswith("int"):
        if settings.cursor_unit is None:
            raise ConfigError(
                f"cursor {stamp.name} of {settings.name} is a number without a unit",
                hint="Set `cursor_unit: s`, `ms` or `us` for this stream.",
            )
        return OrderClock(kind=ValueKind.INT, steps_per_second=STEPS_PER_SECOND[settings.cursor_unit])
    raise ConfigError(
        f"cursor {stamp.name} of {settings.name} has type {stamp.column_type}, which is not a time",
        hint="An order column is a DATETIME, a TIMESTAMP, or an integer that counts s, ms or us since 1970.",
    )


def _choose_index(table: SourceTable, columns: tuple[SourceColumn, ...]) -> str:
    """Return the index that starts with these columns, in this order."""
    names = tuple(column.name for column in columns)
    fit = [index for index in table.indexes if index.visible and _index_columns(table, index)[: len(names)] == names]
    if fit:
        # Across partitions MariaDB does not follow the key that InnoDB appends: prefer an index that names it.
        def rank(index: SourceIndex) -> tuple[bool, bool, int, str]:
            appended = index.columns[: len(names)] != names
            return table.partitioned and appended, index.name == "PRIMARY", len(index.columns), index.name

        return min(fit, key=rank).name
    where = quote_table(table.database, table.name)
    enough = names[:1] if _appends_primary_key(table) and names[1:] == table.primary_key else names
    raise SourceUnfit(
        f"{table} has no index on ({', '.join(names)}): each batch would scan the whole table",
        hint=f"CREATE INDEX {quote_name(f'syncd_{names[0]}')} ON {where} ({_quote_names(enough)})",
    )


def has_usable_index(table: SourceTable, index: str, columns: Sequence[str]) -> bool:
    """Return whether the index exists, is visible, and still sorts the table by these columns first."""
    names = tuple(columns)
    return any(
        one.name == index and one.visible and _index_columns(table, one)[: len(names)] == names for one in table.indexes
    )


def _index_columns(table: SourceTable, index: SourceIndex) -> tuple[str, ...]:
    """Return the columns by which an index sorts its entries."""
    if not (index.whole and _appends_primary_key(table)) or index.unique:
        # Neither optimizer follows the key after the columns of a unique index.
        return index.columns
    return (*index.columns, *(name for name in table.primary_key if name not in index.columns))


def _appends_primary_key(table: SourceTable) -> bool:
    """Return whether secondary indexes end with the primary key."""
    return (table.engine or "").lower() == "innodb"


def _quote_names(names: tuple[str, ...]) -> str:
    return ", ".join(map(quote_name, names))


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
