"""All SQL that the extract stage sends to MySQL and MariaDB."""

import re
from collections.abc import Sequence
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
    """A column of an order, of whatever server: how it is written, and how values of it are."""

    @property
    def sql(self) -> str: ...
    @property
    def kind(self) -> ValueKind: ...
    def literal(self, value: CursorValue) -> str: ...


RangeTerms: TypeAlias = tuple[str, ...]
"""Conditions that hold together: equal on the first columns, a range on one more. One range of an index."""

IndexRanges: TypeAlias = tuple[RangeTerms, ...]
"""Disjoint ranges of one index; none is no row, one without conditions is every row."""

_PLAIN_NAME: Final = re.compile(r"\w+", re.ASCII)
_QUOTES_AND_COMMENTS: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|/\*.*?\*/|\#[^\n]*|--(?=\s|$)[^\n]*""", re.DOTALL
)
"""Texts, names in backticks and comments: what stands in them is no word of a statement."""
_BRACKETS: Final = re.compile(r"\((?:(?!\$\{window\})[^()])*\)")
"""Brackets around anything but the window."""
_ROW_LIMIT: Final = re.compile(r"\b(LIMIT|FETCH\s+(FIRST|NEXT))\b", re.IGNORECASE)

_PARTITION_SEPARATOR: Final = "#p#"
"""What stands between a table and its partition in InnoDB's names; MariaDB writes it in capitals."""

NO_ROWS: Final[IndexRanges] = ()
ALL_ROWS: Final[IndexRanges] = ((),)

_Columns: TypeAlias = Sequence[PositionColumn]
_Values: TypeAlias = Sequence[CursorValue]


def window_condition(columns: _Columns, window: Window) -> str:
    """The condition of a window's rows, as disjoint ranges expanded column by column.

    Neither optimiser reads a row constructor as a range, and `c >= w AND (c > w OR ...)`
    reads a deep tie from its start.
    """
    return _ranges_to_sql(_window_ranges(columns, window.low.values, window.high.values))


def after_condition(columns: _Columns, low: Cursor) -> str:
    """The condition of all rows that stand behind a cursor."""
    return _ranges_to_sql(_after_ranges(columns, low.values))


def upto_condition(columns: _Columns, high: Cursor) -> str:
    """The condition of all rows that do not stand behind a cursor."""
    return _ranges_to_sql(_upto_ranges(columns, high.values))


def keys_condition(columns: _Columns, keys: Sequence[Cursor]) -> str:
    """The condition of the rows at these positions: whole keys."""
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
        # A shorter cursor stands before every row that begins with it; an equal row does not stand behind.
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
        # Texts that differ can still be one to their collation: both ends have to hold at once.
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
    """The condition of the rows of a first pass; those without a position belong to it, when wanted."""
    condition = f"{column.sql} < {column.literal(horizon)}"
    return f"({condition} OR {column.sql} IS NULL)" if nulls else condition


def probe_sql(order: StreamOrder, columns: Sequence[OrderColumn], index: str, where: str, *, rows: int) -> str:
    """Reads the position of the row with this number among those of the condition, counted from 1."""
    by = ", ".join(column.sql for column in columns)
    return f"{_positions_sql(order, columns, index, where)} ORDER BY {by} LIMIT 1 OFFSET {rows - 1:d}"


def last_position_sql(
    order: StreamOrder, columns: Sequence[OrderColumn], index: str, where: str, *, before: int = 0
) -> str:
    """Reads the position of the last row of the condition, or of the one so many rows before it."""
    by = ", ".join(f"{column.sql} DESC" for column in columns)
    return f"{_positions_sql(order, columns, index, where)} ORDER BY {by} LIMIT 1" + (
        f" OFFSET {before:d}" if before else ""
    )


def _positions_sql(order: StreamOrder, columns: Sequence[OrderColumn], index: str, where: str) -> str:
    # Without names: ORDER BY would find a name before the column, and sort by the travelling form.
    selects = ", ".join(column.probe_sql for column in columns)
    return f"SELECT {selects} FROM {force_index(order.database, order.table, index)} WHERE {where}"


def rows_after_sql(order: StreamOrder, low: Cursor, *, mariadb: bool) -> str:
    """Reads 1 for each row behind a cursor: to be explained, not to be run.

    MySQL does not look into an index that it is forced to take, and guesses one row.
    """
    hint = f"{'FORCE' if mariadb else 'USE'} INDEX ({quote_name(order.index)})"
    return (
        f"SELECT 1 FROM {quote_table(order.database, order.table)} {hint} WHERE {after_condition(order.columns, low)}"
    )


def new_rows_check_sql(order: StreamOrder, low: Cursor, *, identity: str) -> str:
    """Reads which server answers, when the table was made, and whether any row stands behind a cursor."""
    where = f"TABLE_SCHEMA = {text_literal(order.database)} AND TABLE_NAME = {text_literal(order.table)}"
    made = f"(SELECT CREATE_TIME FROM information_schema.TABLES WHERE {where})"
    table = force_index(order.database, order.table, order.index)
    rows = f"SELECT 1 FROM {table} WHERE {after_condition(order.columns, low)}"
    return f"SELECT {identity_expression(identity)}, {made}, EXISTS({rows})"


def visible_tables_sql(tables: Sequence[tuple[str, str]]) -> str:
    """Reads database and name of those tables, of databases and names, that are to be seen."""
    named = (
        f"(TABLE_SCHEMA = {text_literal(database)} AND TABLE_NAME = {text_literal(table)})"
        for database, table in tables
    )
    return f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE {' OR '.join(named)}"


def before_triggers_sql(database: str, table: str) -> str:
    """Reads name, event and statement of the triggers that may change a row before it is written."""
    where = f"EVENT_OBJECT_SCHEMA = {text_literal(database)} AND EVENT_OBJECT_TABLE = {text_literal(table)}"
    return (
        "SELECT TRIGGER_NAME, EVENT_MANIPULATION, ACTION_STATEMENT FROM information_schema.TRIGGERS"
        f" WHERE {where} AND ACTION_TIMING = 'BEFORE' AND EVENT_MANIPULATION IN ('INSERT', 'UPDATE')"
    )


def table_rows_sql(database: str, table: str) -> str:
    """Reads about how many rows a table has, as its engine keeps count."""
    where = f"TABLE_SCHEMA = {text_literal(database)} AND TABLE_NAME = {text_literal(table)}"
    return f"SELECT TABLE_ROWS FROM information_schema.TABLES WHERE {where}"


def position_of_key_sql(order: StreamOrder, key: Sequence[CursorValue]) -> str:
    """Reads where the row with a key stands in the order."""
    where = " AND ".join(
        f"{column.sql} = {column.literal(value)}" for column, value in zip(order.key, key, strict=True)
    )
    selects = ", ".join(column.select for column in order.columns)
    return f"SELECT {selects} FROM {quote_table(order.database, order.table)} WHERE {where}"


def stamps_of_keys_sql(order: StreamOrder, keys: Sequence[Cursor]) -> str:
    """Reads what the rows with these keys hold in the order column."""
    source = force_index(order.database, order.table, order.key_index)
    return f"SELECT {order.columns[0].select} FROM {source} WHERE {keys_condition(order.key, keys)}"


def any_null_sql(order: StreamOrder) -> str:
    """Reads one row whose order column is NULL."""
    column = order.columns[0]
    return f"SELECT 1 FROM {force_index(order.database, order.table, order.index)} WHERE {column.sql} IS NULL LIMIT 1"


def row_at_position_sql(order: StreamOrder, at: Cursor, names: Sequence[str]) -> str:
    """Reads 1, and these columns as text, of the row at a position."""
    shown = "".join(f", CAST({quote_name(name)} AS CHAR)" for name in names)
    where = " AND ".join(
        f"{column.sql} = {column.literal(value)}" for column, value in zip(order.columns, at.values, strict=True)
    )
    return f"SELECT 1{shown} FROM {force_index(order.database, order.table, order.index)} WHERE {where} LIMIT 1"


def first_key_sql(order: StreamOrder, since: str, *, low: int | None, end: int) -> str:
    """Reads the first key from one number up to, not including, another; and whether a condition holds for its row."""
    key, table = order.columns[0].sql, force_index(order.database, order.table, order.index)
    where = f"{key} < {end:d}" + ("" if low is None else f" AND {key} >= {low:d}")
    return f"SELECT {key}, {since} FROM {table} WHERE {where} ORDER BY {key} LIMIT 1"


def lowest_recent_key_sql(order: StreamOrder, since: str, *, before: int, rows: int) -> str:
    """Reads the lowest key for whose row a condition holds, among the last so many rows before a key."""
    key, table = order.columns[0].sql, force_index(order.database, order.table, order.index)
    last = (
        f"SELECT {key} AS k, {since} AS holds FROM {table} WHERE {key} < {before:d} ORDER BY {key} DESC LIMIT {rows:d}"
    )
    return f"SELECT MIN(k) FROM ({last}) AS late WHERE holds"


def table_id_sql(database: str, table: str, *, mariadb: bool) -> str | None:
    """Reads InnoDB's own number of a table; None where InnoDB writes its name in another way."""
    if not (_PLAIN_NAME.fullmatch(database) and _PLAIN_NAME.fullmatch(table)):
        return None
    shown = "INNODB_SYS_TABLES" if mariadb else "INNODB_TABLES"
    return f"SELECT TABLE_ID FROM information_schema.{shown} WHERE NAME = {text_literal(f'{database}/{table}')}"


def table_ids_sql(database: str, table: str, *, mariadb: bool, partitioned: bool) -> str | None:
    """Reads InnoDB's own numbers of a table and of its partitions, each with its name; None as with `table_id`."""
    if not (_PLAIN_NAME.fullmatch(database) and _PLAIN_NAME.fullmatch(table)):
        return None
    name = f"{database}/{table}"
    begin = f"{name}{_PARTITION_SEPARATOR}"
    parts = f" OR LEFT(NAME, {len(begin):d}) = {text_literal(begin)}" if partitioned else ""
    shown = "INNODB_SYS_TABLES" if mariadb else "INNODB_TABLES"
    return f"SELECT TABLE_ID, NAME FROM information_schema.{shown} WHERE NAME = {text_literal(name)}{parts}"


def parse_partition(name: str) -> str | None:
    """The partition that InnoDB's name is of; None where it is of none, or written in another way."""
    partition = name.lower().partition(_PARTITION_SEPARATOR)[2].partition("#sp#")[0]
    return partition if _PLAIN_NAME.fullmatch(partition) else None


def any_row_upto_sql(
    order: StreamOrder, columns: Sequence[OrderColumn], index: str, high: Cursor, *, partitions: Sequence[str] = ()
) -> str:
    """Reads one row that does not stand behind a cursor; in these partitions, where some are named."""
    only = f" PARTITION ({', '.join(map(quote_name, partitions))})" if partitions else ""
    source = f"{quote_table(order.database, order.table)}{only} FORCE INDEX ({quote_name(index)})"
    return f"SELECT 1 FROM {source} WHERE {upto_condition(columns, high)} LIMIT 1"


def force_index(database: str, table: str, index: str) -> str:
    """The table, to be read by this index: a large window tempts both optimisers into a full scan."""
    return f"{quote_table(database, table)} FORCE INDEX ({quote_name(index)})"


def select_rows_sql(selects: Sequence[tuple[str, str]], source: str, where: str) -> str:
    """Reads expressions under the names given; no ORDER BY and no LIMIT, so that it can be wrapped and merges."""
    shown = ", ".join(f"{expression} AS {quote_name(name)}" for expression, name in selects)
    return f"SELECT {shown} FROM {source} WHERE {where}"


def custom_query_source(query: str, where: str) -> str:
    """SQL of one's own, with the window's condition put in its place, as a table to read from.

    Raises:
        ConfigError: it has no such place: every batch would read everything.
    """
    if "${window}" not in query:
        raise ConfigError(
            "the stream's own query has no ${window}",
            hint="Write the window's condition into it, such as: SELECT ... FROM orders WHERE ${window}",
        )
    # On a line of its own, the bracket is not part of a comment at the end.
    return f"({query.strip().rstrip(';').replace('${window}', where)}\n) AS own"


def has_row_limit(query: str) -> bool:
    """Whether SQL of one's own gives only some rows of a window: the others would count as read."""
    plain, before = _QUOTES_AND_COMMENTS.sub(" ", query), ""
    while plain != before:
        plain, before = _BRACKETS.sub(" ", plain), plain
    return _ROW_LIMIT.search(plain) is not None


def column_defaults_sql(table: str, mappings: Sequence[ColumnMapping]) -> str:
    """Reads the declared defaults of columns, each in the form in which the column's values travel.

    Of a table without rows nothing comes.
    """
    shown = (each.select.replace(quote_name(each.column), f"DEFAULT({quote_name(each.column)})") for each in mappings)
    return f"SELECT {', '.join(shown)} FROM {table} LIMIT 1"


def select_list(mappings: Sequence[ColumnMapping]) -> list[tuple[str, str]]:
    return [(passage.select, passage.name) for passage in mappings]


MARIADB_IDENTITY_PREFIX: Final = "mariadb:"
"""What identities of MariaDB begin with: it has no `server_uuid`."""


def identity_sql(*, mariadb: bool) -> str:
    """An expression whose value tells one server's data from every other's, and outlives a restart.

    MariaDB has no identity of its own: where it runs and where its data lies stand for one. (Its start time would
    change with every restart, after which notes and plans are as good as before.)
    """
    return (
        f"CONCAT('{MARIADB_IDENTITY_PREFIX}', @@hostname, ':', @@port, ':', @@server_id, ':', @@datadir)"
        if mariadb
        else "@@server_uuid"
    )


def parse_identity(raw: object) -> str:
    """The identity as a server has told it: as text, or as its bytes."""
    return raw.decode() if isinstance(raw, bytes) else str(raw)


def identity_expression(identity: str) -> str:
    """The expression whose value this identity must be."""
    return identity_sql(mariadb=identity.startswith(MARIADB_IDENTITY_PREFIX))


def is_read_only_setting(value: object) -> bool:
    """Whether a server's variable bars writing; MariaDB 12 answers with a word, and knows more than two."""
    return str(value).upper() not in {"0", "OFF"}


NO_SELECT_LIMIT: Final = 2**64 - 1
"""`sql_select_limit` that cuts nothing; a server may have another for all its sessions."""

CURRENT_VERSION_SQL: Final = "/*M!100304 , system_versioning_asof = DEFAULT */"
"""Of a versioned table of MariaDB the rows of now; a server may show all its sessions those of an earlier time."""

SERVER_CLOCK_SQL: Final = "SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)"

SERVER_ZONE_SQL: Final = (
    "SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@global.time_zone))"
)
"""How many minutes the server's own zone is ahead of UTC; NULL where it does not know that zone."""
