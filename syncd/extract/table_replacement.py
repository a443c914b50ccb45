"""Detection of a table that was emptied or made anew since its rows were read.

A table that is read by its key: keys that begin anew below the mark would be taken for read. The server shows that a
table was emptied or made anew only to accounts that may see InnoDB's own tables. So each plan keeps a witness: the last
row that it reads, by column.

A table that is read by its stamps: rows of another table with stamps at or below the mark are read by no later batch.
`RemadeTableDetector` finds whether there are any.

Two facts about a table tell more, on both servers: InnoDB's number of it, and the time when it was made. TRUNCATE
changes the number alone; a change of the table in place, of its counter too, changes the time alone; a change that
writes it anew changes both; changes of rows change none.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from syncd.datatypes.mysql_quoting import decode_text
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import SchemaDrift, SourceUnfit
from syncd.extract.plan_rules import ProposalContext
from syncd.mysql.sql import (
    MARIADB_IDENTITY_PREFIX,
    any_row_upto_sql,
    parse_partition,
    row_at_position_sql,
    table_ids_sql,
)
from syncd.ports.source import SourceDatabase
from syncd.tables.sort_order import StreamOrder
from syncd.tables.table_identity import MAX_PARTITIONS, TableIncarnation
from watermarks.batch import BatchId, BatchKind, Plan
from watermarks.cursor import Cursor, format_instant, parse_instant
from watermarks.extraction import BatchChain

CREATION_TIME_RESOLUTION: Final = timedelta(seconds=1)
"""Servers report in whole seconds when a table was made."""
MAX_WITNESS_COLUMNS: Final = 32

_AUTO_INCREMENT_PATTERN: Final = re.compile(r"\bAUTO_INCREMENT=(\d+)")
_STABLE_TYPES_PATTERN: Final = re.compile(
    r"(tiny|small|medium|big)?int|decimal|(var)?char|date|datetime|timestamp|time|year|enum|set"
)
"""Types whose text is short, and the same on every connection."""


def require_same_numbers(source: SourceDatabase, table: SourceTable, mark: Cursor, last: Cursor | None) -> None:
    """Check that a table which numbers its rows has not begun anew below the mark.

    Raises:
        SchemaDrift: it has: new rows would get numbers that are taken for read.
    """
    if mark and (following := find_restarted_number(source, table, mark, last)):
        raise _table_remade_error(
            f"the AUTO_INCREMENT of {table} is back at {following}, although rows were read up to {mark}", table
        )


def find_restarted_number(
    source: SourceDatabase, table: SourceTable, position: Cursor, last: Cursor | None
) -> int | None:
    """Return the number that a table gives next, if rows that are gone had already passed it; None if not."""
    if last is not None and not last < position:
        return None
    match = _AUTO_INCREMENT_PATTERN.search(source.show_create_table(table.database, table.name))
    following = int(match[1]) if match else 1
    return following if following <= int(str(position.values[0].raw)) else None


def build_witness(source: SourceDatabase, order: StreamOrder, table: SourceTable, position: Cursor) -> dict[str, Any]:
    """Return the row that the next plan checks; InnoDB's number of the table excuses a row that is gone."""
    return {
        "at": position.to_texts(),
        "row": _read_row_digests(source, order, table, position),
        "id": read_table_id(source, table),
    }


def require_same_rows(
    source: SourceDatabase, order: StreamOrder, table: SourceTable, before: Plan, *, identity: str
) -> None:
    """Check that the witness row of a plan is there as it was, or that the table is the same without it.

    Raises:
        SchemaDrift: the table was emptied or made anew, as far as the server shows.
    """
    witness = before.draft.body["witness"]
    position = Cursor.from_texts(witness["at"])
    if not position or witness["row"] is None:
        return
    number = read_table_id(source, table) if witness["id"] is not None else None
    is_same_table = number is not None and number == witness["id"]
    if number is not None and not is_same_table and _was_created_at_same_time(table, before, identity=identity):
        raise _table_remade_error(f"{table} was emptied after it was read up to {position}", table)
    row = _read_row_digests(source, order, table, position)
    if row is not None:
        changed = [row[name] != digest for name, digest in witness["row"].items() if name in row]
        altered = before.draft.body.get("created", _creation_text(table)) != _creation_text(table)
        # An update leaves most of a row. Where most differs, and the counter may have been put back, it is another row.
        if not any(changed) or (is_same_table and not (altered and 2 * sum(changed) > len(changed))):
            return
    elif is_same_table:
        return
    problem = "is gone" if row is None else "is a different row now"
    raise _table_remade_error(f"the last row read from {table}, at {position}, {problem}", table)


def read_table_id(source: SourceDatabase, table: SourceTable) -> str | None:
    """Return InnoDB's number of the table, which changes when it is emptied, made anew or rebuilt; None if hidden."""
    sql = table_ids_sql(table.database, table.name, mariadb=source.get_server_info().mariadb)
    if sql is None:
        return None
    try:
        rows = source.fetch_rows(sql)
    except SourceUnfit:
        return None  # without the right PROCESS
    return str(rows[0][0]) if len(rows) == 1 else None


def _was_created_at_same_time(table: SourceTable, before: Plan, *, identity: str) -> bool:
    """Return whether a table has the time that a plan of this server recorded, and cannot have got it anew since."""
    body = before.draft.body
    t0 = (body.get("horizon") or {}).get("t0")
    if table.created is None or t0 is None or before.draft.basis.source_identity != identity:
        return False  # each server numbers tables by itself
    return (
        body.get("created") == _creation_text(table) and parse_instant(t0) >= table.created + CREATION_TIME_RESOLUTION
    )


def _creation_text(table: SourceTable) -> str | None:
    return format_instant(table.created) if table.created else None


def _table_remade_error(message: str, table: SourceTable) -> SchemaDrift:
    return SchemaDrift(
        f"{message}: the table may have been emptied or created again",
        hint=f"Read it from its start: syncd watermark reset -t {table} --mysql-only --reason 'created again'. "
        "(With the privilege PROCESS, syncd recognises a row that was only deleted or changed.)",
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
    """Return whether the column's value is likely to differ in another row, and to stay in this one."""
    key = {each.name for each in order.key}
    stays = not column.is_generated and "on update" not in column.extra
    return stays and column.name not in key and _STABLE_TYPES_PATTERN.fullmatch(column.data_type) is not None


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


@dataclass(kw_only=True)
class RemadeTableDetector:
    """Facts about the table of one stream, from the plan before and over the batches of one run."""

    source: SourceDatabase
    history: BatchChain
    _known_by_batch: dict[BatchId, TableIncarnation] = field(default_factory=dict[BatchId, TableIncarnation])
    """By the number of the plan that recorded them; a plan that was proposed and not sealed may be among them."""

    def remember_plan(self, plan: Plan) -> None:
        """Remember the facts that a plan of an earlier run recorded."""
        self._known_by_batch.setdefault(plan.id, TableIncarnation.from_plan(plan))

    def detect(self, context: ProposalContext, *, now: datetime) -> TableIncarnation:
        """Return which table the name leads to now, for the next plan.

        It is reported as replaced only where the other table has rows at or below the position that is read.
        """
        incarnation = self._known_by_batch[context.progress.next_batch] = self._detect(context, now=now)
        return incarnation

    def _detect(self, context: ProposalContext, *, now: datetime) -> TableIncarnation:
        chain, table, facts = context.progress, context.table, context.facts
        observed = TableIncarnation(
            identity=facts.identity, created_at=format_instant(facts.created) if facts.created else None
        )
        at = max((batch for batch in self._known_by_batch if batch <= chain.last_batch), default=None)
        if at is None or at.generation != chain.generation:
            return replace(
                observed.with_checked_at(now),
                innodb_ids=frozenset(self._read_table_ids(table, observed.identity) or ()) or None,
            )
        before = self._known_by_batch[at]
        replaced_in = before.replaced_in
        if replaced_in == at and self._is_abandoned(at):
            replaced_in = chain.next_batch  # an abandoned batch has reported it to no reader
        if before.has_current_ids(observed, now=now):
            return replace(before, replaced_in=replaced_in)
        numbers = self._read_table_ids(table, observed.identity)
        incarnation = replace(
            observed.with_checked_at(now),
            innodb_ids=frozenset(numbers) if numbers else None,
            replaced_in=replaced_in,
        )
        others = incarnation.new_innodb_ids(before)
        names = [name for number, name in (numbers or {}).items() if others is not None and number in others]
        if (others is None or names) and self._has_rows(context, names):
            return replace(incarnation, replaced_in=chain.next_batch)
        return incarnation

    def _is_abandoned(self, batch: BatchId) -> bool:
        link = self.history.read_link(batch)
        return link is None or link.kind is BatchKind.ABANDONED

    def _has_rows(self, context: ProposalContext, names: list[str]) -> bool:
        """Return whether a row lies at or below the read position, in these partitions or, without names, anywhere."""
        order, snapshot = context.order, context.progress.snapshot
        partitions = [parse_partition(name) for name in names]
        only = [each for each in partitions if each is not None] if None not in partitions else []
        if snapshot is not None and not snapshot.done:
            sql = any_row_upto_sql(order, order.key, order.key_index, snapshot.reached_key, partitions=only)
        else:
            sql = any_row_upto_sql(order, order.columns, order.index, context.progress.cursor, partitions=only)
        return bool(self.source.fetch_rows(sql))

    def _read_table_ids(self, table: SourceTable, identity: str) -> Mapping[str, str] | None:
        """Return InnoDB's names of the table and its partitions, by number; None if they are hidden or too many."""
        mariadb = identity.startswith(MARIADB_IDENTITY_PREFIX)
        sql = table_ids_sql(table.database, table.name, mariadb=mariadb, partitioned=table.partitioned)
        if sql is None:
            return None
        try:
            rows = self.source.fetch_rows(sql)
        except SourceUnfit:
            return None  # without the right PROCESS
        return {str(number): decode_text(name) for number, name in rows} if 0 < len(rows) <= MAX_PARTITIONS else None
