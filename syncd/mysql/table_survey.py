"""A short look at every table of a source: descriptions, guesses of the server, and the ends of indexes.

No table is read whole: each statement reads a bounded number of entries along one index, or is only explained, and
the server ends whatever takes longer than its time.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

from syncd.datatypes.mysql_quoting import qualified, quoted, text_literal
from syncd.datatypes.source_table import Column, Table
from syncd.errors import SourceDown, SourceUnfit
from syncd.horizon import unstamped
from syncd.mysql.connection_factory import way_to
from syncd.mysql.cursor_proposal import Choice, Evidence, Proposal, choose, propose
from syncd.mysql.query_plan import estimate, explain
from syncd.mysql.source import MySqlSource
from syncd.mysql.sql import any_null, hinted
from syncd.settings import SourceSettings
from syncd.tables.sort_order import Order

NEWEST: Final = 1_000
"""Entries of an index that are looked at for ties."""
WIDE: Final = 200
"""Rows that are looked at for the width of their texts."""
MOST_TEXTS: Final = 20
WITHIN: Final = timedelta(seconds=5)
"""How long one statement may take."""
_SYSTEM: Final = "'mysql', 'sys', 'information_schema', 'performance_schema'"
_LONGEST: Final = "SELECT TIMESTAMPDIFF(SECOND, MIN(trx_started), CURRENT_TIMESTAMP) FROM information_schema.INNODB_TRX"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A source as it was found."""

    proposals: tuple[Proposal, ...]
    longest: int | None
    """Seconds for which the oldest open transaction is open; None where that may not be seen, or there is none."""


def survey(settings: SourceSettings) -> Survey:
    """Look at every table of the source's database, or of all but the server's own where it names none."""
    bounded = replace(settings, silence=WITHIN)
    with way_to(bounded) as way, closing(MySqlSource(bounded, way.open)) as source:
        return look(source, settings.database, zone_told=settings.zone is not None)


def look(source: MySqlSource, database: str | None, *, zone_told: bool = False) -> Survey:
    """The same over a connection that stands."""
    longest = _unless_late(lambda: source.rows(_LONGEST))
    found = [_proposal(source, *one, zone_told=zone_told) for one in _tables(source, database)]
    seconds = longest[0][0] if longest else None
    return Survey(proposals=tuple(found), longest=None if seconds is None else int(str(seconds)))


def _tables(source: MySqlSource, database: str | None) -> Sequence[tuple[str, str, int | None]]:
    where = f"TABLE_SCHEMA = {text_literal(database)}" if database else f"TABLE_SCHEMA NOT IN ({_SYSTEM})"
    rows = source.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES"  # noqa: S608  # a literal
        f" WHERE {where} ORDER BY TABLE_SCHEMA, TABLE_NAME"
    )
    return [(_text(schema), _text(name), None if count is None else int(str(count))) for schema, name, count in rows]


def _proposal(source: MySqlSource, database: str, name: str, rows: int | None, *, zone_told: bool) -> Proposal:
    try:
        table = source.table(database, name)
    except SourceUnfit as error:
        return Proposal(table=f"{database}.{name}", left_out=f"{error.message}. {error.hint}".strip())
    choice = choose(table) if table.kind.upper() == "BASE TABLE" else Choice(order=None, column=None, stamp=None)
    return propose(table, choice, _evidence(source, table, choice, rows), zone_told=zone_told)


def _evidence(source: MySqlSource, table: Table, choice: Choice, rows: int | None) -> Evidence:
    order, column = choice.order, choice.column
    if order is None or column is None:
        return Evidence(rows=rows)
    ties = _unless_late(lambda: source.rows(_ties(order)))
    sampled, distinct = (int(str(one)) for one in ties[0]) if ties else (0, None)
    nulls = _unless_late(lambda: source.rows(any_null(order))) if order.nullable else ()
    told = _unless_late(lambda: unstamped(source.created_by(table.database, table.name)))
    return Evidence(
        rows=rows,
        nulls=None if nulls is None else bool(nulls),
        sampled=sampled,
        distinct=distinct,
        rows_per_day=_rows_per_day(source, order, column),
        widest=_widest(source, table, order),
        unproven=told or "",
    )


def _ties(order: Order) -> str:
    """Counts stamps among the newest entries of the index."""
    column = order.columns[0].sql
    table = hinted(order.database, order.table, order.index)
    newest = f"SELECT {column} AS c FROM {table} ORDER BY {column} DESC LIMIT {NEWEST}"  # noqa: S608  # quoted
    return f"SELECT COUNT(*), COUNT(DISTINCT c) FROM ({newest}) AS newest"  # noqa: S608  # as above


def _rows_per_day(source: MySqlSource, order: Order, column: Column) -> int | None:
    """As the server guesses it from the index, without reading it."""
    if column.data_type not in {"datetime", "timestamp"}:
        return None
    # Not forced: MySQL does not look into an index that it is forced to take.
    where = f"{quoted(column.name)} >= UTC_TIMESTAMP() - INTERVAL 1 DAY"
    hint = f"{'FORCE' if source.server().mariadb else 'USE'} INDEX ({quoted(order.index)})"
    sql = f"SELECT 1 FROM {qualified(order.database, order.table)} {hint} WHERE {where}"  # noqa: S608  # quoted
    lines = _unless_late(lambda: source.rows(explain(sql)))
    return estimate(lines, mariadb=source.server().mariadb) if lines else None


def _widest(source: MySqlSource, table: Table, order: Order) -> dict[str, int]:
    texts = [column.name for column in table.columns if column.charset is not None][:MOST_TEXTS]
    if not texts:
        return {}
    by = ", ".join(f"{column.sql} DESC" for column in order.key)
    some = f"SELECT {', '.join(map(quoted, texts))} FROM {hinted(order.database, order.table, order.key_index)}"  # noqa: S608  # quoted
    lengths = ", ".join(f"MAX(LENGTH({quoted(name)}))" for name in texts)
    sql = f"SELECT {lengths} FROM ({some} ORDER BY {by} LIMIT {WIDE}) AS newest"  # noqa: S608  # quoted
    rows = _unless_late(lambda: source.rows(sql))
    return {name: int(str(size)) for name, size in zip(texts, rows[0], strict=True) if size is not None} if rows else {}


def _unless_late(ask: Callable[[], T]) -> T | None:
    """The answer; none where it took too long, or may not be had."""
    try:
        return ask()
    except (SourceDown, SourceUnfit):
        return None


def _text(raw: object) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw)
