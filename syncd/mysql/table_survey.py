"""Survey of every table of a source: descriptions, the server's estimates, and the ends of indexes.

No table is read whole. Each statement reads a bounded number of entries along one index, or is only explained, and
the server ends a statement that takes too long.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

from syncd.datatypes.mysql_quoting import decode_text, quote_name, quote_table, text_literal
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import SourceDown, SourceUnfit
from syncd.horizon import find_unstamped_change
from syncd.mysql.connection import open_connection_factory
from syncd.mysql.cursor_proposal import OrderChoice, TableProposal, TableSample, choose_order, propose_table
from syncd.mysql.query_plan import estimate_rows, explain_sql
from syncd.mysql.source import MySqlSource
from syncd.mysql.sql import any_null_sql, force_index
from syncd.settings import SourceSettings
from syncd.tables.sort_order import StreamOrder

TIE_SAMPLE_ENTRIES: Final = 1_000
"""Index entries that are sampled for ties."""
WIDTH_SAMPLE_ROWS: Final = 200
"""Rows that are sampled for the width of their texts."""
MAX_TEXT_COLUMNS: Final = 20
STATEMENT_TIMEOUT: Final = timedelta(seconds=5)
_SYSTEM_SCHEMAS: Final = "'mysql', 'sys', 'information_schema', 'performance_schema'"
_OLDEST_TRANSACTION_QUERY: Final = (
    "SELECT TIMESTAMPDIFF(SECOND, MIN(trx_started), CURRENT_TIMESTAMP) FROM information_schema.INNODB_TRX"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSurvey:
    """The proposals for all tables of a source."""

    proposals: tuple[TableProposal, ...]
    oldest_transaction_seconds: int | None
    """Age of the oldest open transaction; None if there is none, or the user may not see it."""


def survey_source(settings: SourceSettings) -> SourceSurvey:
    """Survey every table of the source's database; without a database, of all but the system schemas."""
    bounded = replace(settings, silence=STATEMENT_TIMEOUT)
    with open_connection_factory(bounded) as way, closing(MySqlSource(bounded, way.open_connection)) as source:
        return survey_tables(source, settings.database, zone_is_configured=settings.zone is not None)


def survey_tables(source: MySqlSource, database: str | None, *, zone_is_configured: bool = False) -> SourceSurvey:
    """Survey the tables over an open connection."""
    longest = _query_or_none(lambda: source.fetch_rows(_OLDEST_TRANSACTION_QUERY))
    tables = _list_tables(source, database)
    proposals = tuple(_propose_table(source, *each, zone_is_configured=zone_is_configured) for each in tables)
    seconds = longest[0][0] if longest else None
    return SourceSurvey(proposals=proposals, oldest_transaction_seconds=None if seconds is None else int(str(seconds)))


def _list_tables(source: MySqlSource, database: str | None) -> Sequence[tuple[str, str, int | None]]:
    where = f"TABLE_SCHEMA = {text_literal(database)}" if database else f"TABLE_SCHEMA NOT IN ({_SYSTEM_SCHEMAS})"
    rows = source.fetch_rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES"  # noqa: S608  # a literal
        f" WHERE {where} ORDER BY TABLE_SCHEMA, TABLE_NAME"
    )
    return [
        (decode_text(schema), decode_text(name), None if count is None else int(str(count)))
        for schema, name, count in rows
    ]


def _propose_table(
    source: MySqlSource, database: str, name: str, rows: int | None, *, zone_is_configured: bool
) -> TableProposal:
    try:
        table = source.describe_table(database, name)
    except SourceUnfit as error:
        return TableProposal(table=f"{database}.{name}", omitted_reason=f"{error.message}. {error.hint}".strip())
    choice = (
        choose_order(table) if table.kind.upper() == "BASE TABLE" else OrderChoice(order=None, column=None, stamp=None)
    )
    return propose_table(
        table, choice, _gather_evidence(source, table, choice, rows), is_zone_configured=zone_is_configured
    )


def _gather_evidence(source: MySqlSource, table: SourceTable, choice: OrderChoice, rows: int | None) -> TableSample:
    order, column = choice.order, choice.column
    if order is None or column is None:
        return TableSample(rows=rows)
    ties = _query_or_none(lambda: source.fetch_rows(_ties_query(order)))
    sampled, distinct = (int(str(one)) for one in ties[0]) if ties else (0, None)
    nulls = _query_or_none(lambda: source.fetch_rows(any_null_sql(order))) if order.nullable else ()
    unstamped = _query_or_none(lambda: find_unstamped_change(source.show_create_table(table.database, table.name)))
    return TableSample(
        rows=rows,
        has_nulls=None if nulls is None else bool(nulls),
        sampled_rows=sampled,
        distinct_stamps=distinct,
        rows_per_day=_estimate_rows_per_day(source, order, column),
        widest_bytes=_read_widest_texts(source, table, order),
        unproven=unstamped or "",
    )


def _ties_query(order: StreamOrder) -> str:
    """Return a query that counts entries and distinct stamps at the end of the index."""
    column = order.columns[0].sql
    table = force_index(order.database, order.table, order.index)
    newest = f"SELECT {column} AS c FROM {table} ORDER BY {column} DESC LIMIT {TIE_SAMPLE_ENTRIES}"  # noqa: S608  # quoted
    return f"SELECT COUNT(*), COUNT(DISTINCT c) FROM ({newest}) AS newest"  # noqa: S608  # as above


def _estimate_rows_per_day(source: MySqlSource, order: StreamOrder, column: SourceColumn) -> int | None:
    """Return the server's estimate from the index, without reading it."""
    if column.data_type not in {"datetime", "timestamp"}:
        return None
    # Not forced: MySQL does not estimate from an index that it is forced to use.
    where = f"{quote_name(column.name)} >= UTC_TIMESTAMP() - INTERVAL 1 DAY"
    hint = f"{'FORCE' if source.get_server_info().mariadb else 'USE'} INDEX ({quote_name(order.index)})"
    sql = f"SELECT 1 FROM {quote_table(order.database, order.table)} {hint} WHERE {where}"  # noqa: S608  # quoted
    lines = _query_or_none(lambda: source.fetch_rows(explain_sql(sql)))
    return estimate_rows(lines, mariadb=source.get_server_info().mariadb) if lines else None


def _read_widest_texts(source: MySqlSource, table: SourceTable, order: StreamOrder) -> dict[str, int]:
    texts = [column.name for column in table.columns if column.charset is not None][:MAX_TEXT_COLUMNS]
    if not texts:
        return {}
    by = ", ".join(f"{column.sql} DESC" for column in order.key)
    rows_sql = (
        f"SELECT {', '.join(map(quote_name, texts))} FROM {force_index(order.database, order.table, order.key_index)}"  # noqa: S608  # quoted
    )
    lengths = ", ".join(f"MAX(LENGTH({quote_name(name)}))" for name in texts)
    sql = f"SELECT {lengths} FROM ({rows_sql} ORDER BY {by} LIMIT {WIDTH_SAMPLE_ROWS}) AS newest"  # noqa: S608  # quoted
    rows = _query_or_none(lambda: source.fetch_rows(sql))
    return {name: int(str(size)) for name, size in zip(texts, rows[0], strict=True) if size is not None} if rows else {}


def _query_or_none(ask: Callable[[], T]) -> T | None:
    """Return the result; None if the query took too long or is not permitted."""
    try:
        return ask()
    except (SourceDown, SourceUnfit):
        return None
