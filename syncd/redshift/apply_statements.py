"""Statements of each mode that turn rows of scratch tables into rows of the target."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from syncd.errors import SchemaDrift
from syncd.lake.batch_number import batch_to_number
from syncd.lake.manifest import Tombstones
from syncd.redshift.column_types import typed_constant
from syncd.redshift.load_sql import JOIN_ALIAS, PLACE_COLUMN, LoadSqlBuilder, is_replay
from syncd.redshift.order_ranges import join_ranges, order_range_condition
from syncd.redshift.quoting import (
    BATCH_COLUMN,
    batch_number_sql,
    column_ref,
    quote_name,
    text_literal,
    value_literal,
    version_order,
)
from syncd.redshift.scratch_tables import ScratchLoad
from syncd.redshift.target_table import DELETED_AT, VALID_TO, ExistingTable
from syncd.settings import Mode
from watermarks.batch import BatchId


def later_tombstones_query(sql: LoadSqlBuilder) -> str:
    """Return the query for the batches of tombstones that marked rows whose keys the replays bring."""
    marked = f"{column_ref('t', DELETED_AT)} IS NOT NULL"
    return f"SELECT DISTINCT {batch_number_sql('t')} FROM {sql.replayed_rows()} WHERE {marked}"


def load_statements(sql: LoadSqlBuilder, mode: Mode) -> tuple[str, ...]:
    """Return the statements that make the rows of the scratch tables part of the target."""
    if mode is Mode.REPLACE:
        # Not TRUNCATE, which would commit what has been done so far.
        inserts = (sql.scratch.insert(sql.table, sql.scratch.select_all()),) if sql.loads else ()
        return (f"DELETE FROM {sql.table.sql}", *inserts)
    if not sql.loads:
        return tuple(_delete_reread_ranges(sql)) if mode is Mode.APPEND else ()
    return (*_discard_outdated_rows(sql, versions=mode is not Mode.UPSERT), *_STATEMENTS_BY_MODE[mode](sql))


def fill_added_columns(sql: LoadSqlBuilder, loaded: Collection[BatchId], *, previous: ExistingTable) -> Iterator[str]:
    """Yield the statements that fill added columns in older rows of the target, one for each batch that added any.

    A column comes with one of the `loaded` batches, or with a later batch than its first where that one was skipped.
    A column that the `previous` table had is from before it was dropped at the source, or from another writer:
    its content is no longer true.
    """
    names_by_batch: dict[BatchId, list[str]] = {}
    columns = sql.existing.columns
    for name, added in sql.scratch.added_columns.items():
        is_new = added.since in loaded or name not in previous
        if is_new and name in columns and (added.value is not None or name in previous):
            names_by_batch.setdefault(added.since, []).append(name)
    for since, names in sorted(names_by_batch.items()):
        values = (
            f"{quote_name(name)} = {typed_constant(sql.scratch.added_columns[name].value, columns[name].type)}"
            for name in names
        )
        numbered = sql.has_batch_numbers
        older = f" WHERE {batch_number_sql(sql.table.sql)} < {batch_to_number(since)}" if numbered else ""
        yield f"UPDATE {sql.table.sql} SET {', '.join(values)}{older}"


def _discard_outdated_rows(sql: LoadSqlBuilder, *, versions: bool) -> Iterator[str]:
    """Delete scratch rows that are older than the target's version of the row, or of this version of it."""
    replays = [(load, link) for load in sql.replay_loads for link in load.links if is_replay(link)]
    if replays and not sql.has_batch_numbers:
        raise SchemaDrift(
            f"{sql.table} has no column _syncd_batch, so the newer of two versions of a row is unknown",
            hint=f"ALTER TABLE {sql.table.sql} ADD COLUMN {BATCH_COLUMN} BIGINT;  Then, to number the existing rows:"
            f" syncd watermark reset -t {replays[0][1].stream.table_name} --redshift-only",
        )
    older = [(load, "=", link.rank) for load, link in replays]
    upto = sql.reloaded_upto
    if upto and sql.has_batch_numbers:
        # Loaded again over later batches: no reader may see a row in an earlier state.
        older += [(load, "<=", upto) for load in sql.loads if load.links[0].id <= upto]
    for load, sign, rank in older:
        match = sql.match_condition(load, sql.table.sql, cursor=versions)
        yield (
            f"DELETE FROM {load.table} USING {sql.table.sql}"
            f" WHERE {load.table}.{BATCH_COLUMN} {sign} {batch_to_number(rank)}"
            f" AND {sql.newer_condition(load)} AND {match}{_exclude_returned_rows(sql, load)}"
        )


def _exclude_returned_rows(sql: LoadSqlBuilder, load: ScratchLoad) -> str:
    """Return the condition that keeps a replay's row where the tombstones of the marked row do not apply to it.

    Such a row had come back at the source.
    """
    table = sql.table.sql
    return "".join(
        f" AND NOT ({load.table}.{BATCH_COLUMN} = {batch_to_number(origin)}"
        f" AND {column_ref(table, DELETED_AT)} IS NOT NULL"
        f" AND {batch_number_sql(table)} = {batch_to_number(number)}"
        f" AND NOT {sql.tombstone_condition_for(origin, tombstones, load)})"
        for origin, number, tombstones in sql.missed_tombstones
    )


def _delete_matching_rows(sql: LoadSqlBuilder, *, cursor: bool = False) -> Iterator[str]:
    for load in sql.loads:
        match = sql.match_condition(sql.table.sql, load, cursor=cursor)
        yield f"DELETE FROM {sql.table.sql} USING {load.table} WHERE {match}"


def _upsert(sql: LoadSqlBuilder) -> Iterator[str]:
    yield from _delete_matching_rows(sql)
    yield sql.insert_newest()


def _append(sql: LoadSqlBuilder) -> Iterator[str]:
    """Yield the statements that replace the content of ranges that were read again, and append the rest."""
    yield from _delete_reread_ranges(sql)
    yield from _delete_matching_rows(sql, cursor=True)
    yield sql.insert_newest(cursor=True)
    yield from _mark_replayed_rows(sql)


def _delete_reread_ranges(sql: LoadSqlBuilder) -> Iterator[str]:
    """Yield the statements that empty the ranges that were read, also where no row was found."""
    for order_range in join_ranges(sql.read_batches, reloading=sql.reloaded_upto is not None):
        if condition := order_range_condition(order_range, sql.identity, sql.existing):
            older = ""
            if sql.has_batch_numbers:
                # Rows that a later batch read stay, where an earlier one is loaded again.
                older = f" AND {batch_number_sql(sql.table.sql)} < {batch_to_number(order_range.first_batch)}"
            yield f"DELETE FROM {sql.table.sql} WHERE {condition}{older}"


def _mark_replayed_rows(sql: LoadSqlBuilder) -> Iterator[str]:
    """Yield the statements that mark replayed versions of rows that tombstones marked since the replay's batch."""
    table = sql.table.sql
    for origin, number, tombstones in sql.missed_tombstones:
        marked = (
            f"SELECT {sql.key_columns('t')} FROM {sql.replayed_rows(origin)}"
            f" WHERE {column_ref('t', DELETED_AT)} IS NOT NULL"
            f" AND {batch_number_sql('t')} = {batch_to_number(number)} GROUP BY {sql.group_by_columns('t')}"
        )
        yield (
            f"UPDATE {table} SET {mark_deleted_assignments(number, tombstones)} FROM ({marked}) {JOIN_ALIAS}"
            f" WHERE {sql.match_condition(table, JOIN_ALIAS)}"
            f" AND {batch_number_sql(table)} = {batch_to_number(origin)}"
            f" AND {sql.tombstone_condition_for(origin, tombstones, table)}"
            f" AND {column_ref(table, DELETED_AT)} IS NULL"
        )


def _history(sql: LoadSqlBuilder) -> Iterator[str]:
    """Yield the statements that keep each version once, ending where the next begins."""
    yield from _delete_matching_rows(sql, cursor=True)
    yield sql.insert_newest(cursor=True)
    yield from _order_replayed_versions(sql)
    yield _update_valid_to(sql)


def _order_replayed_versions(sql: LoadSqlBuilder) -> Iterator[str]:
    """Yield the statements that put replayed versions behind a version that was marked meanwhile, where they are later.

    A marked version no longer shows which batch read it, so the order column decides between the two. The version
    behind takes the number of the tombstones, and their mark if they apply to it.
    """
    assert sql.identity.cursor is not None
    table, cursor = sql.table.sql, sql.identity.cursor
    mine, before = column_ref(table, cursor), column_ref(JOIN_ALIAS, cursor)
    for origin, number, tombstones in sql.missed_tombstones:
        later = ", ".join(str(batch_to_number(batch)) for batch in sql.later_tombstones if batch > origin)
        # Only the first tombstones since count: later ones marked versions that were read after these.
        versions = (
            f"SELECT {sql.key_columns('t')}, {column_ref('t', cursor)}, {batch_number_sql('t')} AS {BATCH_COLUMN},"
            f" {sql.version_rank('t', 'ASC')} AS {PLACE_COLUMN}"
            f" FROM {sql.replayed_rows(origin)} WHERE {batch_number_sql('t')} IN ({later})"
        )
        applies = sql.tombstone_condition_for(origin, tombstones, table)
        yield (
            f"UPDATE {table} SET {BATCH_COLUMN} = {batch_to_number(number)},"
            f" {quote_name(DELETED_AT)} = CASE WHEN {applies} THEN {_deleted_at(tombstones)} END,"
            f" {quote_name(VALID_TO)} = CASE WHEN {applies} THEN {value_literal(tombstones.upto.values[0])} END"
            f" FROM ({versions}) {JOIN_ALIAS} WHERE {sql.match_condition(table, JOIN_ALIAS)}"
            f" AND {JOIN_ALIAS}.{PLACE_COLUMN} = 1"
            f" AND {JOIN_ALIAS}.{BATCH_COLUMN} = {batch_to_number(number)}"
            f" AND {batch_number_sql(table)} = {batch_to_number(origin)}"
            f" AND ({mine} > {before} OR ({mine} IS NOT NULL AND {before} IS NULL))"
        )


def _deleted_at(tombstones: Tombstones) -> str:
    checked_at = tombstones.checked_at.replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"CAST({text_literal(checked_at)} AS TIMESTAMP)"


def mark_deleted_assignments(number: BatchId, tombstones: Tombstones) -> str:
    """Return the assignments that mark a deleted row; with its batch number no replay of older batches restores it."""
    return f"{quote_name(DELETED_AT)} = {_deleted_at(tombstones)}, {BATCH_COLUMN} = {batch_to_number(number)}"


def _update_valid_to(sql: LoadSqlBuilder) -> str:
    """Return the statement that ends each version of the touched rows anew, because late versions came between."""
    assert sql.identity.cursor is not None
    table, cursor = sql.table.sql, sql.identity.cursor
    order = version_order("t", cursor, "ASC")
    window = f"OVER (PARTITION BY {sql.group_by_columns('t')} ORDER BY {order})"
    # A version before one without a position has ended too, at an unknown time.
    own_begin = f"CASE WHEN LEAD(t.{BATCH_COLUMN}) {window} IS NOT NULL THEN {column_ref('t', cursor)} END"
    next_begin = f"COALESCE(LEAD({column_ref('t', cursor)}) {window}, {own_begin})"
    versions = sql.select_versions(sql.select_keys(sql.loads), next_begin)
    following, began = f"{JOIN_ALIAS}.{PLACE_COLUMN}", column_ref(JOIN_ALIAS, cursor)
    return (
        f"UPDATE {table} SET {quote_name(VALID_TO)} = CASE {_keep_earlier_end(sql, following)}"
        f"WHEN {following} < {began} THEN {began} ELSE {following} END"
        f" FROM ({versions}) {JOIN_ALIAS} WHERE {sql.match_condition(table, JOIN_ALIAS, cursor=True)}"
        f" AND {batch_number_sql(table)} = {JOIN_ALIAS}.{BATCH_COLUMN}"
    )


def _keep_earlier_end(sql: LoadSqlBuilder, following: str) -> str:
    """Return the branch for a version whose row was deleted: it ended then, even if the next began later."""
    if DELETED_AT not in sql.existing:
        return ""
    deleted_at, end = (column_ref(sql.table.sql, name) for name in (DELETED_AT, VALID_TO))
    return f"WHEN {deleted_at} IS NOT NULL AND ({following} IS NULL OR {end} < {following}) THEN {end} "


_STATEMENTS_BY_MODE: Final[Mapping[Mode, Callable[[LoadSqlBuilder], Iterator[str]]]] = {
    Mode.UPSERT: _upsert,
    Mode.APPEND: _append,
    Mode.HISTORY: _history,
}
