"""Columns that came or were altered: which ones a batch is the first to read, and what older rows hold in them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from syncd.datatypes.columns import ColumnMapping, Policies
from syncd.datatypes.mysql_quoting import quote_table
from syncd.datatypes.source_table import SourceTable
from syncd.events import ColumnIncomplete, TableReplaced
from syncd.lake.manifest import Manifest, is_tombstone_batch
from syncd.mysql.sql import column_defaults_sql
from syncd.ports.source import SourceDatabase
from syncd.tables.column_changes import RedeclaredColumn, merge_redeclared
from syncd.tables.column_defaults import (
    REASON_RENAMED,
    AddedColumn,
    KnownDefault,
    ServerDefault,
    UnknownDefault,
    classify_default,
    make_added_column,
)
from syncd.tables.table_identity import find_replacing_batch
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.cursor import START_CURSOR
from watermarks.names import StreamName


def find_added_columns(
    source: SourceDatabase,
    table: SourceTable,
    mappings: Sequence[ColumnMapping],
    policies: Policies,
    *,
    before: Manifest | None,
    batch: BatchId,
) -> Mapping[str, AddedColumn]:
    """Every column that came into the chain by this batch or an earlier one, and is there still.

    Instead of the table's own words, the server is asked for each default: quotes, zones and character sets are its
    affair, and the answer travels as values do.
    """
    if before is None:
        return {}
    known = {passage.name for passage in before.columns}
    names = {passage.name for passage in mappings}
    kept = {name: one for name, one in before.added_columns.items() if name in names & known}
    new = [passage for passage in mappings if passage.name not in known]
    if not new:
        return kept
    told = dict(_read_added_columns(source, table, new, policies, batch))
    renamed = {
        name: AddedColumn(since=batch, unknown_reason=REASON_RENAMED.format(was))
        for name, was in _find_renamed_columns(before.columns, mappings)
    }
    return {**kept, **told, **renamed}


def _find_renamed_columns(before: Sequence[ColumnMapping], now: Sequence[ColumnMapping]) -> Iterator[tuple[str, str]]:
    """Columns that may have had another name before: one of that type is gone from that very place.

    The server keeps a column's place and values when it renames it, and tells nobody what it was called.
    """
    both = {passage.name for passage in before} & {passage.name for passage in now}
    gone = {
        (behind, passage.redshift, passage.parquet): passage.name
        for behind, passage in _with_preceding_column(before, both)
    }
    for behind, passage in _with_preceding_column(now, both):
        if was := gone.get((behind, passage.redshift, passage.parquet)):
            yield passage.name, was


def _with_preceding_column(
    mappings: Sequence[ColumnMapping], both: Collection[str]
) -> Iterator[tuple[str | None, ColumnMapping]]:
    """The columns that are not in both tables, each with the one before it that is."""
    behind: str | None = None
    for passage in mappings:
        if passage.name in both:
            behind = passage.name
        else:
            yield behind, passage


def _read_added_columns(
    source: SourceDatabase, table: SourceTable, new: Sequence[ColumnMapping], policies: Policies, batch: BatchId
) -> Iterator[tuple[str, AddedColumn]]:
    mariadb = source.get_server_info().mariadb
    columns = {column.name: column for column in table.columns}
    told = {passage.name: classify_default(columns[passage.column], mariadb=mariadb) for passage in new}
    asked = [passage for passage in new if isinstance(told[passage.name], ServerDefault)]
    answers = _query_defaults(source, table, asked)
    for passage in new:
        match told[passage.name]:
            case UnknownDefault(why):
                yield passage.name, AddedColumn(since=batch, unknown_reason=why)
            case KnownDefault(value):
                yield passage.name, make_added_column(passage, value, policies, since=batch)
            case ServerDefault():
                yield passage.name, make_added_column(passage, answers.get(passage.name), policies, since=batch)


def _query_defaults(
    source: SourceDatabase, table: SourceTable, mappings: Sequence[ColumnMapping]
) -> Mapping[str, object]:
    """What the server says; nothing of a table without rows, in which no older row can hold anything."""
    if not mappings:
        return {}
    rows = source.fetch_rows(column_defaults_sql(quote_table(table.database, table.name), mappings))
    return {passage.name: value for row in rows for passage, value in zip(mappings, row, strict=True)}


def find_redeclared_columns(
    plan: Plan, declared: Mapping[str, str], before: Manifest | None
) -> Mapping[str, RedeclaredColumn]:
    """Every column whose values may have changed by this batch or an earlier one, without a stamp.

    None where a generation begins with the table's first row: all that was read before is read again by it.
    """
    windows = plan.draft.windows
    anew = plan.id.seq == 1 and bool(windows) and windows[0].low == START_CURSOR
    if before is None or anew:
        return {}
    return merge_redeclared(before.declarations, declared, before.redeclared_columns, batch=plan.id)


def reports_columns(link: BatchLink) -> bool:
    """Whether a batch says what it knows of columns: one that was abandoned, a replay and tombstones say nothing."""
    return link.kind not in {BatchKind.ABANDONED, BatchKind.REPLAY} and not is_tombstone_batch(link)


def incomplete_column_events(
    stream: StreamName, links: Iterable[BatchLink], *, after: BatchId, appends: bool
) -> Iterator[ColumnIncomplete | TableReplaced]:
    """What has to be told of batches that landed behind another: columns whose older values nobody knows, and rows.

    Where the batch that brought such a column was left out, the next one that says it again brings it.
    """
    for link in links:
        remade = find_replacing_batch(link.body.get("plan", {})) if reports_columns(link) else None
        if not (reports_columns(link) and (link.body.get("added") or link.body.get("redeclared") or remade)):
            continue
        if remade is not None and after < remade <= link.id:
            again = _refill_hint(stream, link, timed=True, appends=appends, why="another table")
            find = f"To find and mend them: syncd verify -t {stream.table_name} --repair --yes."
            yield TableReplaced(stream=stream, since=remade, hint=f"{find} {again}")
        manifest = Manifest.from_link(link)
        timed = manifest.identity.cursor is not None
        told = partial(ColumnIncomplete, stream=stream)
        for name, came in manifest.added_columns.items():
            if came.unknown_reason and after < came.since <= link.id:
                hint = _refill_hint(stream, link, timed=timed, appends=appends, why="a column was added")
                yield told(column=name, since=came.since, why=came.unknown_reason, hint=hint)
        for name, bent in manifest.redeclared_columns.items():
            if after < bent.since <= link.id:
                hint = _refill_hint(stream, link, timed=timed, appends=appends, why="a column was altered")
                yield told(column=name, since=bent.since, why=bent.reason, hint=hint, kept=True)
        after = link.id


def remade_table_events(plan: Plan) -> Iterator[TableReplaced]:
    """What has to be told of a batch that lands nowhere: that it met another table than those before it."""
    if find_replacing_batch(plan.draft.body) == plan.id:
        yield TableReplaced(stream=plan.stream, since=plan.id, hint=_reread_hint(plan.stream, plan.planned_at))


def _refill_hint(stream: StreamName, link: BatchLink, *, timed: bool, appends: bool, why: str) -> str:
    table = stream.table_name
    lost = ", which takes out older versions, and what is gone at the source" if appends else ""
    if timed:
        return _reread_hint(stream, link.made_at, lost=lost)
    return f"To read them again{lost}: syncd watermark reset -t {table} --mysql-only --reason '{why}'"


def _reread_hint(stream: StreamName, upto: datetime, *, lost: str = "") -> str:
    until = upto + timedelta(seconds=1)  # it is said in whole ones
    table = stream.table_name
    return f"To read them again{lost}: syncd run -t {table} --from 1970-01-01 --until {until:%Y-%m-%dT%H:%M:%SZ}"
