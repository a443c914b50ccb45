"""All SQL that the extract stage sends to MySQL and MariaDB."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Final, Protocol, TypeAlias

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.mysql_quoting import quote_name, quote_table, text_literal
from syncd.errors import ConfigError
from syncd.tables.order_column import OrderColumn
from syncd.tables.sort_order import StreamOrder
from watermarks.cursor import Cursor, CursorValue, ValueKind
from watermarks.window import Window


class PositionColumn(Protocol):
    """A column of an order on any server: its SQL and the literals of its values."""

    @property
    def sql(self) -> str: ...
    @property
    def kind(self) -> ValueKind: ...
    def literal(self, value: CursorValue) -> str: ...


RangeTerms: TypeAlias = tuple[str, ...]
"""Conditions joined by AND: equality on the first columns and a range on one more. One range of an index."""

IndexRanges: TypeAlias = tuple[RangeTerms, ...]
"""Disjoint ranges of one index; none means no row, one without conditions means every row."""

_PLAIN_NAME: Final = re.compile(r"\w+", re.ASCII)
_QUOTES_AND_COMMENTS: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|/\*.*?\*/|\#[^\n]*|--(?=\s|$)[^\n]*""", re.DOTALL
)
"""Quoted texts, quoted names and comments: their content is not part of the statement."""
_BRACKETS: Final = re.compile(r"\((?:(?!\$\{window\})[^()])*\)")
"""Brackets around anything but the window."""
_ROW_LIMIT: Final = re.compile(r"\b(LIMIT|FETCH\s+(FIRST|NEXT))\b", re.IGNORECASE)

_PARTITION_SEPARATOR: Final = "#p#"
"""Separator of table and partition in InnoDB's names; MariaDB writes it in upper case."""

NO_ROWS: Final[IndexRanges] = ()
ALL_ROWS: Final[IndexRanges] = ((),)

_Columns: TypeAlias = Sequence[PositionColumn]
_Values: TypeAlias = Sequence[CursorValue]


def window_condition(columns: _Columns, window: Window) -> str:
    """Return the condition of a window's rows, as disjoint ranges expanded column by column.

    Neither optimizer reads a row constructor as a range, and `c >= w AND (c > w OR ...)` reads a deep tie from its
    start.
    """
    return _ranges_to_sql(_window_ranges(columns, window.low.values, window.high.values))


def after_condition(columns: _Columns, low: Cursor) -> str:
    """Return the condition of all rows after a cursor."""
    return _ranges_to_sql(_after_ranges(columns, low.values))


def upto_condition(columns: _Columns, high: Cursor) -> str:
    """Return the condition of all rows up to and including a cursor."""
    return _ranges_to_sql(_upto_ranges(columns, high.values))


def keys_condition(columns: _Columns, keys: Sequence[Cursor]) -> str:
    """Return the condition of the rows with these whole keys."""
    if len(columns) == 1:
        literals = ", ".join(columns[0].literal(key.values[0]) for key in keys)
        return f"{columns[0].sql} IN ({literals})"
    return _ranges_to_sql(
        tuple(
            tuple(f"{column.sql} = {column.literal(value)}" for column, value in zip(columns, key.values, strict=True))
            for key in keys
        )
    )


def _after_ranges(columns: _Columns, low: _Values) -> IndexRanges:
    if not low:
        # A shorter cursor comes before every row that begins with it; an equal row does not come after it.
        return ALL_ROWS if columns else NO_ROWS
    column, literal = columns[0], columns[0].literal(low[0])
    rest = _after_ranges(columns[1:], low[1:])
    if rest == ALL_ROWS:
        return ((f"{column.sql} >= {literal}",),)
    return (*_prefix_ranges(f"{column.sql} = {literal}", rest), (f"{column.sql} > {literal}",))


def _upto_ranges(columns: _Columns, high: _Values) -> IndexRanges:
    if not high:
        return NO_ROWS if columns else ALL_ROWS
    column, literal = columns[0], columns[0].literal(high[0])
    rest = _upto_ranges(columns[1:], high[1:])
    if rest == ALL_ROWS:
        return ((f"{column.sql} <= {literal}",),)
    return ((f"{column.sql} < {literal}",), *_prefix_ranges(f"{column.sql} = {literal}", rest))


def _window_ranges(columns: _Columns, low: _Values, high: _Values) -> IndexRanges:
    if not low or not high:
        return _upto_ranges(columns, high) if columns and not low else NO_ROWS
    column = columns[0]
    if low[0] == high[0]:
        return _prefix_ranges(
            f"{column.sql} = {column.literal(low[0])}", _window_ranges(columns[1:], low[1:], high[1:])
        )
    if column.kind is ValueKind.COLLATED:
        # Different texts can be equal in their collation, so both ends have to hold at once.
        return tuple((*one, *other) for one, other in product(_after_ranges(columns, low), _upto_ranges(columns, high)))
    begin, end = column.literal(low[0]), column.literal(high[0])
    first, last = _after_ranges(columns[1:], low[1:]), _upto_ranges(columns[1:], high[1:])
    from_begin, to_end = first == ALL_ROWS, last == ALL_ROWS
    middle = (f"{column.sql} {'>=' if from_begin else '>'} {begin}", f"{column.sql} {'<=' if to_end else '<'} {end}")
    return (
        *(NO_ROWS if from_begin else _prefix_ranges(f"{column.sql} = {begin}", first)),
        middle,
        *(NO_ROWS if to_end else _prefix_ranges(f"{column.sql} = {end}", last)),
    )


def _prefix_ranges(prefix: str, ranges: IndexRanges) -> IndexRanges:
    return tuple((prefix, *terms) for terms in ranges)


def _ranges_to_sql(ranges: IndexRanges) -> str:
    if ranges == ALL_ROWS:
        return "TRUE"
    if ranges == NO_ROWS:
        return "FALSE"
    return "(" + " OR ".join(f"({' AND '.join(terms)})" for terms in ranges) + ")"


def below_horizon_condition(column: OrderColumn, horizon: CursorValue, *, nulls: bool) -> str:
    """Return the condition of the rows of a first pass; rows without a position are part of it if wanted."""
    condition = f"{column.sql} < {column.literal(horizon)}"
    return f"({condition} OR {column.sql} IS NULL)" if nulls else condition


def probe_sql(order: StreamOrder, columns: Sequence[OrderColumn], index: str, where: str, *, rows: int) -> str:
    """Select the position of the n-th row that meets a condition, counted from 1."""
    by = ", ".join(column.sql for column in columns)
    return f"{_positions_sql(order, columns, index, where)} ORDER BY {by} LIMIT 1 OFFSET {rows - 1:d}"


def last_position_sql(
    order: StreamOrder, columns: Sequence[OrderColumn], index: str, where: str, *, before: int = 0
) -> str:
    """Select the position of the last row that meets a condition, or of the row `before` rows earlier."""
    by = ", ".join(f"{column.sql} DESC" for column in columns)
    return f"{_positions_sql(order, columns, index, where)} ORDER BY {by} LIMIT 1" + (
        f" OFFSET {before:d}" if before else ""
    )


def _positions_sql(order: StreamOrder, columns: Sequence[OrderColumn], index: str, where: str) -> str:
    # Without names: ORDER BY would prefer a name to the column, and sort by the transfer form.
    selects = ", ".join(column.probe_sql for column in columns)
    return f"SELECT {selects} FROM {force_index(order.database, order.table, index)} WHERE {where}"


def rows_after_sql(order: StreamOrder, low: Cursor, *, mariadb: bool) -> str:
    """Select 1 for each row after a cursor: for EXPLAIN only.

    MySQL does not estimate from an index that it is forced to use; it guesses one row.
    """
    hint = f"{'FORCE' if mariadb else 'USE'} INDEX ({quote_name(order.index)})"
    return (
        f"SELECT 1 FROM {quote_table(order.database, order.table)} {hint} WHERE {after_condition(order.columns, low)}"
    )


def new_rows_check_sql(order: StreamOrder, low: Cursor, *, identity: str) -> str:
    """Select the server's identity, the table's creation time, and whether any row comes after a cursor."""
    where = f"TABLE_SCHEMA = {text_literal(order.database)} AND TABLE_NAME = {text_literal(order.table)}"
    made = f"(SELECT CREATE_TIME FROM information_schema.TABLES WHERE {where})"
    table = force_index(order.database, order.table, order.index)
    rows = f"SELECT 1 FROM {table} WHERE {after_condition(order.columns, low)}"
    return f"SELECT {identity_expression(identity)}, {made}, EXISTS({rows})"


def visible_tables_sql(tables: Sequence[tuple[str, str]]) -> str:
    """Select database and name of those of the given tables that are visible."""
    named = (
        f"(TABLE_SCHEMA = {text_literal(database)} AND TABLE_NAME = {text_literal(table)})"
        for database, table in tables
    )
    return f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE {' OR '.join(named)}"


def before_triggers_sql(database: str, table: str) -> str:
    """Select name, event and statement of the triggers that may change a row before it is written."""
    where = f"EVENT_OBJECT_SCHEMA = {text_literal(database)} AND EVENT_OBJECT_TABLE = {text_literal(table)}"
    return (
        "SELECT TRIGGER_NAME, EVENT_MANIPULATION, ACTION_STATEMENT FROM information_schema.TRIGGERS"
        f" WHERE {where} AND ACTION_TIMING = 'BEFORE' AND EVENT_MANIPULATION IN ('INSERT', 'UPDATE')"
    )


def table_rows_sql(database: str, table: str) -> str:
    """Select the approximate number of rows of a table, as its engine counts."""
    where = f"TABLE_SCHEMA = {text_literal(database)} AND TABLE_NAME = {text_literal(table)}"
    return f"SELECT TABLE_ROWS FROM information_schema.TABLES WHERE {where}"


def position_of_key_sql(order: StreamOrder, key: Sequence[CursorValue]) -> str:
    """Select the position of the row with a key."""
    where = " AND ".join(
        f"{column.sql} = {column.literal(value)}" for column, value in zip(order.key, key, strict=True)
    )
    selects = ", ".join(column.select for column in order.columns)
    return f"SELECT {selects} FROM {quote_table(order.database, order.table)} WHERE {where}"


def stamps_of_keys_sql(order: StreamOrder, keys: Sequence[Cursor]) -> str:
    """Select the order column of the rows with these keys."""
    source = force_index(order.database, order.table, order.key_index)
    return f"SELECT {order.columns[0].select} FROM {source} WHERE {keys_condition(order.key, keys)}"


def any_null_sql(order: StreamOrder) -> str:
    """Select one row whose order column is NULL."""
    column = order.columns[0]
    return f"SELECT 1 FROM {force_index(order.database, order.table, order.index)} WHERE {column.sql} IS NULL LIMIT 1"


def row_at_position_sql(order: StreamOrder, at: Cursor, names: Sequence[str]) -> str:
    """Select 1, and these columns as text, of the row at a position."""
    shown = "".join(f", CAST({quote_name(name)} AS CHAR)" for name in names)
    where = " AND ".join(
        f"{column.sql} = {column.literal(value)}" for column, value in zip(order.columns, at.values, strict=True)
    )
    return f"SELECT 1{shown} FROM {force_index(order.database, order.table, order.index)} WHERE {where} LIMIT 1"


def first_key_sql(order: StreamOrder, since: str, *, low: int | None, end: int) -> str:
    """Select the first key from `low` up to but not including `end`, and whether a condition holds for its row."""
    key, table = order.columns[0].sql, force_index(order.database, order.table, order.index)
    where = f"{key} < {end:d}" + ("" if low is None else f" AND {key} >= {low:d}")
    return f"SELECT {key}, {since} FROM {table} WHERE {where} ORDER BY {key} LIMIT 1"


def lowest_recent_key_sql(order: StreamOrder, since: str, *, before: int, rows: int) -> str:
    """Select the lowest key whose row meets a condition, among the last `rows` rows before a key."""
    key, table = order.columns[0].sql, force_index(order.database, order.table, order.index)
    last = (
        f"SELECT {key} AS k, {since} AS holds FROM {table} WHERE {key} < {before:d} ORDER BY {key} DESC LIMIT {rows:d}"
    )
    return f"SELECT MIN(k) FROM ({last}) AS late WHERE holds"


def table_ids_sql(database: str, table: str, *, mariadb: bool, partitioned: bool = False) -> str | None:
    """Select InnoDB's own id and name of a table and of its partitions; None if InnoDB spells the name differently."""
    if not (_PLAIN_NAME.fullmatch(database) and _PLAIN_NAME.fullmatch(table)):
        return None
    name = f"{database}/{table}"
    prefix = f"{name}{_PARTITION_SEPARATOR}"
    partitions = f" OR LEFT(NAME, {len(prefix):d}) = {text_literal(prefix)}" if partitioned else ""
    view = "INNODB_SYS_TABLES" if mariadb else "INNODB_TABLES"
    return f"SELECT TABLE_ID, NAME FROM information_schema.{view} WHERE NAME = {text_literal(name)}{partitions}"


def parse_partition(name: str) -> str | None:
    """Return the partition of an InnoDB name; None if it names no partition, or is spelled differently."""
    partition = name.lower().partition(_PARTITION_SEPARATOR)[2].partition("#sp#")[0]
    return partition if _PLAIN_NAME.fullmatch(partition) else None


def any_row_upto_sql(
    order: StreamOrder, columns: Sequence[OrderColumn], index: str, high: Cursor, *, partitions: Sequence[str] = ()
) -> str:
    """Select one row up to and including a cursor, only in these partitions if some are named."""
    only = f" PARTITION ({', '.join(map(quote_name, partitions))})" if partitions else ""
    source = f"{quote_table(order.database, order.table)}{only} FORCE INDEX ({quote_name(index)})"
    return f"SELECT 1 FROM {source} WHERE {upto_condition(columns, high)} LIMIT 1"


def force_index(database: str, table: str, index: str) -> str:
    """Return the table with a forced index: a large window tempts both optimizers into a full scan."""
    return f"{quote_table(database, table)} FORCE INDEX ({quote_name(index)})"


def select_rows_sql(selects: Sequence[tuple[str, str]], source: str, where: str) -> str:
    """Select expressions under the given names, without ORDER BY and LIMIT, so that a wrapped query merges."""
    shown = ", ".join(f"{expression} AS {quote_name(name)}" for expression, name in selects)
    return f"SELECT {shown} FROM {source} WHERE {where}"


def custom_query_source(query: str, where: str) -> str:
    """Return a custom query as a table to read from, with the window's condition in its place.

    Raises:
        ConfigError: the query has no place for the condition, so every batch would read everything.
    """
    if "${window}" not in query:
        raise ConfigError(
            "the stream's `query` has no ${window}",
            hint="Add the window's condition, for example: SELECT ... FROM orders WHERE ${window}",
        )
    # On a line of its own, the bracket is not part of a trailing comment.
    return f"({query.strip().rstrip(';').replace('${window}', where)}\n) AS own"


def has_row_limit(query: str) -> bool:
    """Return whether a custom query limits its rows: the rest of a window would count as read."""
    plain, before = _QUOTES_AND_COMMENTS.sub(" ", query), ""
    while plain != before:
        plain, before = _BRACKETS.sub(" ", plain), plain
    return _ROW_LIMIT.search(plain) is not None


def column_defaults_sql(table: str, mappings: Sequence[ColumnMapping]) -> str:
    """Select the declared defaults of columns, each in the transfer form of the column's values.

    A table without rows returns nothing.
    """
    shown = (each.select.replace(quote_name(each.column), f"DEFAULT({quote_name(each.column)})") for each in mappings)
    return f"SELECT {', '.join(shown)} FROM {table} LIMIT 1"


def select_list(mappings: Sequence[ColumnMapping]) -> list[tuple[str, str]]:
    return [(mapping.select, mapping.name) for mapping in mappings]


MARIADB_IDENTITY_PREFIX: Final = "mariadb:"
"""Prefix of the identity of a MariaDB, which has no `server_uuid`."""


def identity_sql(*, mariadb: bool) -> str:
    """Return an expression whose value identifies one server's data and survives a restart.

    MariaDB has no identity of its own: its host, port and data directory stand for one. Its start time does not
    serve: notes and plans stay valid after a restart.
    """
    return (
        f"CONCAT('{MARIADB_IDENTITY_PREFIX}', @@hostname, ':', @@port, ':', @@server_id, ':', @@datadir)"
        if mariadb
        else "@@server_uuid"
    )


def identity_expression(identity: str) -> str:
    """Return the expression whose value must be this identity."""
    return identity_sql(mariadb=identity.startswith(MARIADB_IDENTITY_PREFIX))


def is_read_only_setting(value: object) -> bool:
    """Return whether a read-only variable is on; MariaDB 12 answers with a word, and has more than two."""
    return str(value).upper() not in {"0", "OFF"}


NO_SELECT_LIMIT: Final = 2**64 - 1
"""A `sql_select_limit` that cuts nothing; a server may set another for all its sessions."""

CURRENT_VERSION_SQL: Final = "/*M!100304 , system_versioning_asof = DEFAULT */"
"""Reads the current rows of MariaDB's versioned tables; a server may default its sessions to an earlier time."""

SERVER_CLOCK_SQL: Final = "SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)"


def parse_server_clock(rows: Sequence[Sequence[object]]) -> datetime:
    """Return the instant that `SERVER_CLOCK_SQL` selected."""
    return datetime.fromisoformat(str(rows[0][0])).replace(tzinfo=UTC)


SERVER_ZONE_SQL: Final = (
    "SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@global.time_zone))"
)
"""The server's own time zone in minutes ahead of UTC; NULL if the server does not know that zone."""
