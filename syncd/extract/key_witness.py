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

from syncd.datatypes.source_table import Column, Table
from syncd.errors import SchemaDrift, SourceUnfit
from syncd.mysql.sql import row_at, table_id
from syncd.ports.source import Source
from syncd.tables.sort_order import Order
from watermarks.batch import Plan
from watermarks.cursor import Cursor, instant_of, instant_text

MADE_WITHIN: Final = timedelta(seconds=1)
"""Servers tell in whole seconds when a table was made."""
MOST_COLUMNS: Final = 32

_NEXT: Final = re.compile(r"\bAUTO_INCREMENT=(\d+)")
_WHOLE: Final = re.compile(r"(tiny|small|medium|big)?int|decimal|(var)?char|date|datetime|timestamp|time|year|enum|set")
"""Types whose text is short, and the same whoever asks."""


def require_same_numbers(source: Source, table: Table, mark: Cursor, last: Cursor | None) -> None:
    """Make sure that a table which numbers its rows has not begun anew below the mark.

    Raises:
        SchemaDrift: it has: rows would come under numbers that are taken for read.
    """
    if mark and (following := begins_anew(source, table, mark, last)):
        raise _made_anew(f"{table} counts from {following} again, although its rows are read up to {mark}", table)


def begins_anew(source: Source, table: Table, at: Cursor, last: Cursor | None) -> int | None:
    """The number that a table gives next, if it has given the one at a position already, to rows that are gone."""
    if last is not None and not last < at:
        return None
    match = _NEXT.search(source.created_by(table.database, table.name))
    following = int(match[1]) if match else 1
    return following if following <= int(str(at.values[0].plain)) else None


def witness_of(source: Source, order: Order, table: Table, at: Cursor) -> dict[str, Any]:
    """What the next plan is to find again, or to be excused from finding by InnoDB's number of the table."""
    return {"at": at.texts(), "row": _row(source, order, table, at), "id": id_of(source, table)}


def require_same_rows(source: Source, order: Order, table: Table, before: Plan, *, identity: str) -> None:
    """Make sure that the row of a plan's witness is there as it was, or that the table is the same without it.

    Raises:
        SchemaDrift: it was emptied or made anew, as far as can be told.
    """
    told = before.draft.body["witness"]
    at = Cursor.of_texts(told["at"])
    if not at or told["row"] is None:
        return
    number = id_of(source, table) if told["id"] is not None else None
    same = number is not None and number == told["id"]
    if number is not None and not same and _made_at_same_time(table, before, identity=identity):
        raise _made_anew(f"{table} was emptied since it was read up to {at}", table)
    row = _row(source, order, table, at)
    if row is not None:
        changed = [row[name] != digest for name, digest in told["row"].items() if name in row]
        altered = before.draft.body.get("created", _made(table)) != _made(table)
        # Whoever changes a row leaves most of it: where most differs, and the counter may have been put back, it is
        # another one.
        if not any(changed) or (same and not (altered and 2 * sum(changed) > len(changed))):
            return
    elif same:
        return
    what = "is gone" if row is None else "is another one"
    raise _made_anew(f"the row of {table} at {at}, up to which it is read, {what}", table)


def _made_at_same_time(table: Table, before: Plan, *, identity: str) -> bool:
    """Whether a table has the time that it had for a plan of this server, and cannot have got it anew since."""
    body = before.draft.body
    t0 = (body.get("horizon") or {}).get("t0")
    if table.created is None or t0 is None or before.draft.world.source_identity != identity:
        return False  # each of two servers numbers tables by itself
    return body.get("created") == _made(table) and instant_of(t0) >= table.created + MADE_WITHIN


def _made(table: Table) -> str | None:
    return instant_text(table.created) if table.created else None


def _made_anew(message: str, table: Table) -> SchemaDrift:
    return SchemaDrift(
        f"{message}: was it emptied or made anew?",
        hint=f"Read it from its start: syncd watermark reset -t {table} --mysql-only --reason 'made anew'. "
        "(With the right PROCESS a row that was only deleted or changed is told from that.)",
    )


def _row(source: Source, order: Order, table: Table, at: Cursor) -> dict[str, str] | None:
    names = [column.name for column in table.columns if _tells(column, order)][:MOST_COLUMNS]
    rows = source.rows(row_at(order, at, names))
    if not rows:
        return None
    return {name: _digest(value) for name, value in zip(names, rows[0][1:], strict=True)}


def _tells(column: Column, order: Order) -> bool:
    """Whether the column's value is likely to differ in another row, and to stay in this one."""
    key = {each.name for each in order.key}
    stays = not column.generated and "on update" not in column.extra
    return stays and column.name not in key and _WHOLE.fullmatch(column.data_type) is not None


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def id_of(source: Source, table: Table) -> str | None:
    """InnoDB's number of the table: another one once it is emptied, made anew or rebuilt; None where it is not told."""
    sql = table_id(table.database, table.name, mariadb=source.server().mariadb)
    if sql is None:
        return None
    try:
        rows = source.rows(sql)
    except SourceUnfit:
        return None  # without the right PROCESS
    return str(rows[0][0]) if len(rows) == 1 else None
