"""Columns that were added or altered: the batch that reads them first, and what older rows hold in them."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from syncd.datatypes.columns import ColumnMapping, Policies
from syncd.datatypes.mysql_quoting import quote_table
from syncd.datatypes.source_table import SourceTable
from syncd.lake.manifest import Manifest
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
from watermarks.batch import BatchId, Plan
from watermarks.cursor import START_CURSOR


def find_added_columns(
    source: SourceDatabase,
    table: SourceTable,
    mappings: Sequence[ColumnMapping],
    policies: Policies,
    *,
    before: Manifest | None,
    batch: BatchId,
) -> Mapping[str, AddedColumn]:
    """Return the columns that were added by this batch or an earlier one of the chain, and still exist.

    The server evaluates each default, rather than syncd its text in the table's definition: the server knows quotes,
    zones and character sets, and its answer travels as values do.
    """
    if before is None:
        return {}
    known = {mapping.name for mapping in before.columns}
    names = {mapping.name for mapping in mappings}
    kept = {name: column for name, column in before.added_columns.items() if name in names & known}
    new = [mapping for mapping in mappings if mapping.name not in known]
    if not new:
        return kept
    added = dict(_read_added_columns(source, table, new, policies, batch))
    renamed = {
        name: AddedColumn(since=batch, unknown_reason=REASON_RENAMED.format(was))
        for name, was in _find_renamed_columns(before.columns, mappings)
    }
    return {**kept, **added, **renamed}


def _find_renamed_columns(before: Sequence[ColumnMapping], now: Sequence[ColumnMapping]) -> Iterator[tuple[str, str]]:
    """Return columns that may have had another name before: one of their type is gone from their very place.

    The server keeps a column's place and values when it renames it, and does not record the old name.
    """
    both = {mapping.name for mapping in before} & {mapping.name for mapping in now}
    gone = {
        (preceding, mapping.redshift, mapping.parquet): mapping.name
        for preceding, mapping in _with_preceding_column(before, both)
    }
    for preceding, mapping in _with_preceding_column(now, both):
        if old_name := gone.get((preceding, mapping.redshift, mapping.parquet)):
            yield mapping.name, old_name


def _with_preceding_column(
    mappings: Sequence[ColumnMapping], both: Collection[str]
) -> Iterator[tuple[str | None, ColumnMapping]]:
    """Return the columns that are not in both tables, each with the last column before it that is."""
    preceding: str | None = None
    for mapping in mappings:
        if mapping.name in both:
            preceding = mapping.name
        else:
            yield preceding, mapping


def _read_added_columns(
    source: SourceDatabase, table: SourceTable, new: Sequence[ColumnMapping], policies: Policies, batch: BatchId
) -> Iterator[tuple[str, AddedColumn]]:
    mariadb = source.get_server_info().mariadb
    columns = {column.name: column for column in table.columns}
    defaults = {mapping.name: classify_default(columns[mapping.column], mariadb=mariadb) for mapping in new}
    unanswered = [mapping for mapping in new if isinstance(defaults[mapping.name], ServerDefault)]
    answers = _query_defaults(source, table, unanswered)
    for mapping in new:
        match defaults[mapping.name]:
            case UnknownDefault(why):
                yield mapping.name, AddedColumn(since=batch, unknown_reason=why)
            case KnownDefault(value):
                yield mapping.name, make_added_column(mapping, value, policies, since=batch)
            case ServerDefault():
                yield mapping.name, make_added_column(mapping, answers.get(mapping.name), policies, since=batch)


def _query_defaults(
    source: SourceDatabase, table: SourceTable, mappings: Sequence[ColumnMapping]
) -> Mapping[str, object]:
    """Return the defaults that the server evaluates; nothing for a table without rows, which has no older row."""
    if not mappings:
        return {}
    rows = source.fetch_rows(column_defaults_sql(quote_table(table.database, table.name), mappings))
    return {mapping.name: value for row in rows for mapping, value in zip(mappings, row, strict=True)}


def find_redeclared_columns(
    plan: Plan, declared: Mapping[str, str], before: Manifest | None
) -> Mapping[str, RedeclaredColumn]:
    """Return the columns whose values may have changed by this batch or an earlier one, without a new stamp.

    None where a generation begins with the table's first row: it reads all older rows again.
    """
    windows = plan.draft.windows
    begins_anew = plan.id.seq == 1 and bool(windows) and windows[0].low == START_CURSOR
    if before is None or begins_anew:
        return {}
    return merge_redeclared(before.declarations, declared, before.redeclared_columns, batch=plan.id)
