"""Whether a table that is read by its key is still the one whose rows were read.

Keys that begin anew below the mark would be taken for read. That a table was emptied or made anew, a server shows
only to those who may see InnoDB's own tables. So each plan keeps a witness: the last row that it reads, by column.

Two marks of a table tell more, on both servers: InnoDB's number of it, and when it was made. TRUNCATE changes the
number alone; what alters a table in place, its counter too, changes the time alone; what writes it anew changes both;
what is done to rows changes none.
"""

import hashlib
import re
from datetime import timedelta
from typing import Any, Final

from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import SchemaDrift, SourceUnfit
from syncd.mysql.sql import row_at_position_sql, table_ids_sql
from syncd.ports.source import SourceDatabase
from syncd.tables.sort_order import StreamOrder
from watermarks.batch import Plan
from watermarks.cursor import Cursor, format_instant, parse_instant

CREATION_TIME_RESOLUTION: Final = timedelta(seconds=1)
"""Servers tell in whole seconds when a table was made."""
MAX_WITNESS_COLUMNS: Final = 32

_AUTO_INCREMENT_PATTERN: Final = re.compile(r"\bAUTO_INCREMENT=(\d+)")
_STABLE_TYPES_PATTERN: Final = re.compile(
    r"(tiny|small|medium|big)?int|decimal|(var)?char|date|datetime|timestamp|time|year|enum|set"
)
"""Types whose text is short, and the same whoever asks."""


def require_same_numbers(source: SourceDatabase, table: SourceTable, mark: Cursor, last: Cursor | None) -> None:
    """Make sure that a table which numbers its rows has not begun anew below the mark.

    Raises:
        SchemaDrift: it has: rows would come under numbers that are taken for read.
    """
    if mark and (following := find_restarted_number(source, table, mark, last)):
        raise _table_remade_error(
            f"{table} counts from {following} again, although its rows are read up to {mark}", table
        )


def find_restarted_number(
    source: SourceDatabase, table: SourceTable, position: Cursor, last: Cursor | None
) -> int | None:
    """The number that a table gives next, if it has given the one at a position already, to rows that are gone."""
    if last is not None and not last < position:
        return None
    match = _AUTO_INCREMENT_PATTERN.search(source.show_create_table(table.database, table.name))
    following = int(match[1]) if match else 1
    return following if following <= int(str(position.values[0].raw)) else None


def build_witness(source: SourceDatabase, order: StreamOrder, table: SourceTable, position: Cursor) -> dict[str, Any]:
    """What the next plan is to find again, or to be excused from finding by InnoDB's number of the table."""
    return {
        "at": position.to_texts(),
        "row": _read_row_digests(source, order, table, position),
        "id": read_table_id(source, table),
    }


def require_same_rows(
    source: SourceDatabase, order: StreamOrder, table: SourceTable, before: Plan, *, identity: str
) -> None:
    """Make sure that the row of a plan's witness is there as it was, or that the table is the same without it.

    Raises:
        SchemaDrift: it was emptied or made anew, as far as can be told.
    """
    told = before.draft.body["witness"]
    at = Cursor.from_texts(told["at"])
    if not at or told["row"] is None:
        return
    number = read_table_id(source, table) if told["id"] is not None else None
    same = number is not None and number == told["id"]
    if number is not None and not same and _was_created_at_same_time(table, before, identity=identity):
        raise _table_remade_error(f"{table} was emptied since it was read up to {at}", table)
    row = _read_row_digests(source, order, table, at)
    if row is not None:
        changed = [row[name] != digest for name, digest in told["row"].items() if name in row]
        altered = before.draft.body.get("created", _creation_text(table)) != _creation_text(table)
        # Whoever changes a row leaves most of it: where most differs, and the counter may have been put back, it is
        # another one.
        if not any(changed) or (same and not (altered and 2 * sum(changed) > len(changed))):
            return
    elif same:
        return
    what = "is gone" if row is None else "is another one"
    raise _table_remade_error(f"the row of {table} at {at}, up to which it is read, {what}", table)


def _was_created_at_same_time(table: SourceTable, before: Plan, *, identity: str) -> bool:
    """Whether a table has the time that it had for a plan of this server, and cannot have got it anew since."""
    body = before.draft.body
    t0 = (body.get("horizon") or {}).get("t0")
    if table.created is None or t0 is None or before.draft.basis.source_identity != identity:
        return False  # each of two servers numbers tables by itself
    return (
        body.get("created") == _creation_text(table) and parse_instant(t0) >= table.created + CREATION_TIME_RESOLUTION
    )


def _creation_text(table: SourceTable) -> str | None:
    return format_instant(table.created) if table.created else None


def _table_remade_error(message: str, table: SourceTable) -> SchemaDrift:
    return SchemaDrift(
        f"{message}: was it emptied or made anew?",
        hint=f"Read it from its start: syncd watermark reset -t {table} --mysql-only --reason 'made anew'. "
        "(With the right PROCESS a row that was only deleted or changed is told from that.)",
    )


def _read_row_digests(
    source: SourceDatabase, order: StreamOrder, table: SourceTable, position: Cursor
) -> dict[str, str] | None:
    names = [column.name for column in table.columns if _is_witness_column(column, order)][:MAX_WITNESS_COLUMNS]
    rows = source.fetch_rows(row_at_position_sql(order, position, names))
    if not rows:
        return None
    return {name: _digest(value) for name, value in zip(names, rows[0][1:], strict=True)}


def _is_witness_column(column: SourceColumn, order: StreamOrder) -> bool:
    """Whether the column's value is likely to differ in another row, and to stay in this one."""
    key = {each.name for each in order.key}
    stays = not column.is_generated and "on update" not in column.extra
    return stays and column.name not in key and _STABLE_TYPES_PATTERN.fullmatch(column.data_type) is not None


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def read_table_id(source: SourceDatabase, table: SourceTable) -> str | None:
    """InnoDB's number of the table: another one once it is emptied, made anew or rebuilt; None where it is not told."""
    sql = table_ids_sql(table.database, table.name, mariadb=source.get_server_info().mariadb)
    if sql is None:
        return None
    try:
        rows = source.fetch_rows(sql)
    except SourceUnfit:
        return None  # without the right PROCESS
    return str(rows[0][0]) if len(rows) == 1 else None
