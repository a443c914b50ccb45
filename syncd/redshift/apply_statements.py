"""How rows in scratch tables become rows of the target: the statements of each mode, in their order."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from syncd.datatypes.columns import MAX_VARBYTE_BYTES
from syncd.errors import SchemaDrift
from syncd.lake import batch_number
from syncd.lake.manifest import Manifest
from syncd.lake.tombstones import Tombstones
from syncd.redshift.casts import cast_sql
from syncd.redshift.column_types import TargetType
from syncd.redshift.constants import scratch_constant, typed_constant
from syncd.redshift.copy_statement import ScratchLoad
from syncd.redshift.order_ranges import join_ranges, order_range_condition
from syncd.redshift.quoting import TableRef, quote_name, text_literal, value_literal
from syncd.redshift.target_table import DELETED_AT, LOADED_AT, VALID_TO, ExistingTable
from syncd.settings import Mode
from syncd.tables.column_defaults import AddedColumn
from syncd.tables.row_identity import RowIdentity
from watermarks.batch import BatchId, BatchKind, BatchLink

BATCH_COLUMN: Final = quote_name(batch_number.BATCH_COLUMN)
PLACE_COLUMN: Final = quote_name("_syncd_place")
JOIN_ALIAS: Final = "syncd_joined"
"""What an UPDATE joins to the target: where a table has the very name of what is joined to it, no server takes them."""
_DOCUMENT_TYPE: Final = TargetType("super")
_SCRATCH_DOCUMENT_TYPE: Final = TargetType("varbyte", (MAX_VARBYTE_BYTES,))
"""In which a document comes: `Passage.scratch`."""


def column_ref(rows: str, name: str) -> str:
    return f"{rows}.{quote_name(name)}"


def batch_number_sql(rows: str) -> str:
    """The number of the batch that read a row; rows that were there before us are older than all."""
    return f"COALESCE({rows}.{BATCH_COLUMN}, 0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSqlBuilder:
    """Everything that the statements of one landing are made of."""

    table: TableRef
    existing: ExistingTable
    """The target's columns as they are by now."""
    loads: tuple[ScratchLoad, ...]
    delete_loads: tuple[ScratchLoad, ...] = ()
    """Keys of rows that are gone at the source."""
    read_batches: tuple[tuple[BatchLink, Manifest], ...] = ()
    """Every batch of the landing that read something, in order; those that found no row too."""
    added_columns: Mapping[str, AddedColumn] = field(default_factory=dict[str, AddedColumn])
    """Columns that rows of older batches lack, and what they hold in these."""
    reloaded_upto: BatchId | None = None
    """Batches up to this one have landed before, and so may what came after them; None: none has."""
    later_tombstones: Mapping[BatchId, Tombstones] = field(default_factory=dict[BatchId, Tombstones])
    """Tombstones by which rows are marked whose keys a replay brings, the oldest first."""

    @property
    def identity(self) -> RowIdentity:
        """That of the newest batch: loads are in the order in which shapes came up."""
        loads = self.loads or self.delete_loads
        if not loads:
            return self.read_batches[-1][1].identity
        return max(loads, key=lambda load: load.links[-1].id).manifests[-1].identity

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of the target that are filled: by the files, or by what their rows lack and hold all the same."""
        held = {name for load in self.loads for name in load.column_names}
        oldest = min((link.rank for load in self.loads for link in load.links), default=None)
        later = {name for name, one in self.added_columns.items() if oldest is not None and oldest < one.since}
        return tuple(name for name in self.existing.columns if name in held | later)

    def match_condition(self, one: str | ScratchLoad, other: str | ScratchLoad, *, cursor: bool = False) -> str:
        """The condition under which two rows are one and the same, or one version of it; those of a load are cast."""
        conditions = [self._equal_condition(name, one, other) for name in self.identity.key]
        if cursor and self.identity.cursor:
            mine, yours = (self.value(each, self.identity.cursor) for each in (one, other))
            conditions.append(f"({mine} = {yours} OR ({mine} IS NULL AND {yours} IS NULL))")
        return " AND ".join(conditions)

    def value(self, rows: str | ScratchLoad, name: str) -> str:
        """A column of these rows, so that it compares with what the target holds."""
        return column_ref(rows, name) if isinstance(rows, str) else self._cast_to_common_type(rows, name, of=rows.table)

    def _equal_condition(self, name: str, one: str | ScratchLoad, other: str | ScratchLoad) -> str:
        mine, yours = self.value(one, name), self.value(other, name)
        if not self.is_text_column(name):
            return f"{mine} = {yours}"
        # Redshift does not see blanks at the end of a text, and MySQL may.
        return f"{mine} = {yours} AND OCTET_LENGTH({mine}) = OCTET_LENGTH({yours})"

    def group_by_columns(self, rows: str, *, cursor: bool = False) -> str:
        """What makes rows one, or one version of it."""
        found: list[str] = []
        for name in self.identity.key:
            mine = column_ref(rows, name)
            found += [mine, f"OCTET_LENGTH({mine})"] if self.is_text_column(name) else [mine]
        if cursor and self.identity.cursor:
            found.append(column_ref(rows, self.identity.cursor))
        return ", ".join(found)

    def version_order(self, rows: str, direction: str) -> str:
        """The order of the versions of a row; the oldest is lowest."""
        found = [batch_number_sql(rows)]
        if self.identity.cursor:
            cursor = column_ref(rows, self.identity.cursor)
            # NULL is older than everything; where it sorts by itself is not the same everywhere.
            found += [f"CASE WHEN {cursor} IS NULL THEN 0 ELSE 1 END", cursor]
        return ", ".join(f"{each} {direction}" for each in found)

    def newer_condition(self, load: ScratchLoad) -> str:
        """The condition under which a row of the target came after one of a load."""
        mine, yours = batch_number_sql(self.table.sql), batch_number_sql(load.table)
        if self.identity.cursor is None:
            return f"{mine} > {yours}"
        cursors = f"{column_ref(self.table.sql, self.identity.cursor)} > {self.value(load, self.identity.cursor)}"
        return f"({mine} > {yours} OR ({mine} = {yours} AND {cursors}))"

    def tombstone_condition(self, tombstones: Tombstones, rows: str | ScratchLoad, *, seen_condition: str) -> str:
        """The condition under which tombstones mean a version that was read before them.

        `seen`: the condition of having been read when it was looked, which counts whatever the stamp; or empty.
        """
        if self.identity.cursor is None:
            return "TRUE"
        cursor = self.value(rows, self.identity.cursor)
        bounds = f"{cursor} IS NULL OR {cursor} <= {value_literal(tombstones.upto.values[0])}"
        if seen_condition and VALID_TO not in self.existing:  # none ends before it began
            bounds += f" OR {seen_condition}"
        return f"({bounds})"

    def tombstone_condition_for(self, origin: BatchId, tombstones: Tombstones, rows: str | ScratchLoad) -> str:
        """The same of versions which that batch first read."""
        return self.tombstone_condition(
            tombstones, rows, seen_condition="TRUE" if origin <= tombstones.last_read else ""
        )

    @property
    def missed_tombstones(self) -> Iterator[tuple[BatchId, BatchId, Tombstones]]:
        """What a replay's rows were not there for: the batch that first read them, and tombstones since."""
        for origin in dict.fromkeys(link.rank for load in self.replay_loads for link in load.links if _is_replay(link)):
            yield from ((origin, number, each) for number, each in self.later_tombstones.items() if number > origin)

    @property
    def replay_loads(self) -> tuple[ScratchLoad, ...]:
        """The loads that bring something back."""
        return tuple(load for load in self.loads if any(map(_is_replay, load.links)))

    def replayed_rows(self, origin: BatchId | None = None) -> str:
        """The rows of the target whose keys replays bring back: of what that batch first read, or of all; as `t`."""
        keys = self.select_keys(self.replay_loads, number=batch_number.batch_to_number(origin) if origin else None)
        return f"{self.table.sql} t JOIN ({keys}) b ON {self.match_condition('t', 'b')}"

    def key_columns(self, rows: str) -> str:
        return ", ".join(column_ref(rows, name) for name in self.identity.key)

    def is_text_column(self, name: str) -> bool:
        return name in self.existing and self.existing.columns[name].type.is_text

    def select_all_rows(self) -> str:
        """All rows of all loads, columns that a load lacks as NULL; where loads differ in a type, in the target's."""
        return " UNION ALL ".join(self._select_rows(load) for load in self.loads)

    def select_keys(self, loads: Iterable[ScratchLoad], *, number: int | None = None) -> str:
        """The key of each row of these loads, or of one batch of theirs, once: joined to it, nothing becomes more.

        Grouped as rows are told apart: UNION and DISTINCT take texts for one that differ in blanks at their ends.
        """
        rows = " UNION ALL ".join(self._select_key(load) for load in loads)
        condition = "" if number is None else f" WHERE r.{BATCH_COLUMN} = {number}"
        return f"SELECT {self.key_columns('r')} FROM ({rows}) r{condition} GROUP BY {self.group_by_columns('r')}"

    def _select_key(self, load: ScratchLoad) -> str:
        columns = [f"{self._cast_to_common_type(load, name)} AS {quote_name(name)}" for name in self.identity.key]
        return f"SELECT {', '.join((*columns, BATCH_COLUMN))} FROM {load.table}"

    def select_versions(self, keys: str, position_sql: str) -> str:
        """Each version that the target has of these keys, once, and its place among those of its row."""
        assert self.identity.cursor is not None
        known = ", ".join(column_ref("t", name) for name in (*self.identity.key, self.identity.cursor))
        each = (
            f"SELECT {known}, {batch_number_sql('t')} AS {BATCH_COLUMN} FROM {self.table.sql} t JOIN ({keys}) k ON {self.match_condition('t', 'k')}"
            f" GROUP BY {self.group_by_columns('t', cursor=True)}, {batch_number_sql('t')}"
        )
        return f"SELECT {known}, t.{BATCH_COLUMN}, {position_sql} AS {PLACE_COLUMN} FROM ({each}) t"

    def _select_rows(self, load: ScratchLoad) -> str:
        columns = [f"{self._value_or_default(load, name)} AS {quote_name(name)}" for name in self.column_names]
        return f"SELECT {', '.join((*columns, BATCH_COLUMN))} FROM {load.table}"

    def _value_or_default(self, load: ScratchLoad, name: str) -> str:
        """The value of a load's rows; in a column that was added after they were read, its default."""
        nothing = f"CAST(NULL AS {self._common_type(name)})"
        own = self._cast_to_common_type(load, name) if name in load.column_names else nothing
        one = self.added_columns.get(name)
        if one is None or min(link.rank for link in load.links) >= one.since:
            return own
        value = scratch_constant(one.value, self._common_type(name), document=self._is_document(name))
        if max(link.rank for link in load.links) < one.since:
            return value
        return f"CASE WHEN {BATCH_COLUMN} < {batch_number.batch_to_number(one.since)} THEN {value} ELSE {own} END"

    def _cast_to_common_type(self, load: ScratchLoad, name: str, *, of: str = "") -> str:
        """A column of one load in the type of all: a union would choose by rules of its own."""
        value = column_ref(of, name) if of else quote_name(name)
        if not self._has_mixed_types(name):
            return value
        [was] = (each.scratch_type for each in load.columns if each.name == name)
        return cast_sql(value, TargetType.from_text(was), self._common_type(name))

    def _is_document(self, name: str) -> bool:
        return self.existing.columns[name].type == _DOCUMENT_TYPE

    def _common_type(self, name: str) -> TargetType:
        """The type of a column in which all loads come together."""
        types = self._scratch_types(name)
        if self._has_mixed_types(name) or not types:
            return _SCRATCH_DOCUMENT_TYPE if self._is_document(name) else self.existing.columns[name].type.without_limit
        return types.pop()

    def _has_mixed_types(self, name: str) -> bool:
        """Whether files hold the column in types of which the target's is not the only one."""
        types = self._scratch_types(name)
        kind = (_SCRATCH_DOCUMENT_TYPE if self._is_document(name) else self.existing.columns[name].type).name
        return len(types) > 1 or any(each.name != kind for each in types)

    def _scratch_types(self, name: str) -> set[TargetType]:
        loads = (*self.loads, *self.delete_loads)
        loaded = (each.scratch_type for load in loads for each in load.columns if each.name == name)
        return set(map(TargetType.from_text, loaded))

    def insert(self, rows: str, *, where: str = "") -> str:
        """Put rows into the target, typed as it is."""
        filled = [(quote_name(name), self._target_value(name)) for name in self.column_names]
        if batch_number.BATCH_COLUMN in self.existing:
            filled.append((BATCH_COLUMN, BATCH_COLUMN))
        if LOADED_AT in self.existing:
            filled.append((quote_name(LOADED_AT), "GETDATE()"))
        columns, values = zip(*filled, strict=True)
        condition = f" WHERE {where}" if where else ""
        return (
            f"INSERT INTO {self.table.sql} ({', '.join(columns)}) SELECT {', '.join(values)} FROM ({rows}) r{condition}"
        )

    def _target_value(self, name: str) -> str:
        return f"JSON_PARSE({quote_name(name)})" if self._is_document(name) else quote_name(name)

    def insert_newest(self, *, cursor: bool = False) -> str:
        """The insertion of the newest version of each row, or of each version once."""
        numbered = (
            f"SELECT m.*, ROW_NUMBER() OVER (PARTITION BY {self.group_by_columns('m', cursor=cursor)}"
            f" ORDER BY {self.version_order('m', 'DESC')}) AS {PLACE_COLUMN} FROM ({self.select_all_rows()}) m"
        )
        return self.insert(numbered, where=f"{PLACE_COLUMN} = 1")


def _is_replay(link: BatchLink) -> bool:
    return link.kind is BatchKind.REPLAY


def later_tombstones_query(landing: LoadSqlBuilder) -> str:
    """By which batches of tombstones rows are marked whose keys the replays of a landing bring."""
    return f"SELECT DISTINCT {batch_number_sql('t')} FROM {landing.replayed_rows()} WHERE {column_ref('t', DELETED_AT)} IS NOT NULL"


def load_statements(landing: LoadSqlBuilder, mode: Mode) -> tuple[str, ...]:
    """What makes the scratch tables' rows part of the target."""
    if mode is Mode.REPLACE:
        # Not TRUNCATE, which would commit what has been done so far.
        return (
            f"DELETE FROM {landing.table.sql}",
            *((landing.insert(landing.select_all_rows()),) if landing.loads else ()),
        )
    if not landing.loads:
        return tuple(_delete_reread_ranges(landing)) if mode is Mode.APPEND else ()
    return (*_discard_outdated_rows(landing, versions=mode is not Mode.UPSERT), *_STATEMENTS_BY_MODE[mode](landing))


def fill_added_columns(
    landing: LoadSqlBuilder, loaded: Collection[BatchId], *, previous: ExistingTable
) -> Iterator[str]:
    """Give the rows of the target what they hold in columns that came after them; one statement a batch that had some.

    `landed`: the batches of this landing. A column comes with one of them; or with a later one than the first that had
    it, where that one was left out. `stood`: the target before it got them. One that had such a column had it from
    before it was dropped at the source, or from somebody else: what stands there is no longer true.
    """
    news: dict[BatchId, list[str]] = {}
    for name, one in landing.added_columns.items():
        came = one.since in loaded or name not in previous
        if came and name in landing.existing and (one.value is not None or name in previous):
            news.setdefault(one.since, []).append(name)
    ranked = batch_number.BATCH_COLUMN in landing.existing
    for since, names in sorted(news.items()):
        values = (
            f"{quote_name(n)} = {typed_constant(landing.added_columns[n].value, landing.existing.columns[n].type)}"
            for n in names
        )
        older = (
            f" WHERE {batch_number_sql(landing.table.sql)} < {batch_number.batch_to_number(since)}" if ranked else ""
        )
        yield f"UPDATE {landing.table.sql} SET {', '.join(values)}{older}"


def _discard_outdated_rows(landing: LoadSqlBuilder, *, versions: bool) -> Iterator[str]:
    """Take rows that were read before others of the target out of the way: of the row, or of this version."""
    ranked = batch_number.BATCH_COLUMN in landing.existing
    replays = [(load, link) for load in landing.replay_loads for link in load.links if _is_replay(link)]
    if replays and not ranked:
        stream = replays[0][1].stream
        raise SchemaDrift(
            f"{landing.table} has no column {batch_number.BATCH_COLUMN}: nothing tells which of two versions is newer",
            hint=f"ALTER TABLE {landing.table.sql} ADD COLUMN {BATCH_COLUMN} BIGINT;  Then, to number the rows that stand:"
            f" syncd watermark reset -t {stream.table_name} --redshift-only",
        )
    older = [(load, "=", link.rank) for load, link in replays]
    if landing.reloaded_upto and ranked:
        # Landed again, over what came after them: no reader shall see a row as it once was.
        older += [
            (load, "<=", landing.reloaded_upto) for load in landing.loads if load.links[0].id <= landing.reloaded_upto
        ]
    for load, sign, rank in older:
        yield (
            f"DELETE FROM {load.table} USING {landing.table.sql}"
            f" WHERE {load.table}.{BATCH_COLUMN} {sign} {batch_number.batch_to_number(rank)}"
            f" AND {landing.newer_condition(load)}"
            f" AND {landing.match_condition(load, landing.table.sql, cursor=versions)}{_exclude_returned_rows(landing, load)}"
        )


def _exclude_returned_rows(landing: LoadSqlBuilder, load: ScratchLoad) -> str:
    """Of what a replay brings, a row that is marked outranks none that its tombstones do not mean: it had come back."""
    table = landing.table.sql
    return "".join(
        f" AND NOT ({load.table}.{BATCH_COLUMN} = {batch_number.batch_to_number(origin)} AND {column_ref(table, DELETED_AT)} IS NOT NULL"
        f" AND {batch_number_sql(table)} = {batch_number.batch_to_number(number)} AND NOT {landing.tombstone_condition_for(origin, each, load)})"
        for origin, number, each in landing.missed_tombstones
    )


def _upsert(landing: LoadSqlBuilder) -> Iterator[str]:
    yield from _delete_matching_rows(landing)
    yield landing.insert_newest()


def _delete_matching_rows(landing: LoadSqlBuilder, *, cursor: bool = False) -> Iterator[str]:
    for load in landing.loads:
        yield (
            f"DELETE FROM {landing.table.sql} USING {load.table}"
            f" WHERE {landing.match_condition(landing.table.sql, load, cursor=cursor)}"
        )


def _append(landing: LoadSqlBuilder) -> Iterator[str]:
    """What lies in a range that was read again goes, and what was read there comes."""
    yield from _delete_reread_ranges(landing)
    yield from _delete_matching_rows(landing, cursor=True)
    yield landing.insert_newest(cursor=True)
    yield from _mark_replayed_rows(landing)


def _delete_reread_ranges(landing: LoadSqlBuilder) -> Iterator[str]:
    """Take out what lies in the ranges that were read, whether a row was found there or not."""
    ranked = batch_number.BATCH_COLUMN in landing.existing
    for one in join_ranges(landing.read_batches, reloading=landing.reloaded_upto is not None):
        if condition := order_range_condition(one, landing.identity, landing.existing):
            # What a later batch has read of the range stays, where an earlier one lands again.
            older = (
                f" AND {batch_number_sql(landing.table.sql)} < {batch_number.batch_to_number(one.first_batch)}"
                if ranked
                else ""
            )
            yield f"DELETE FROM {landing.table.sql} WHERE {condition}{older}"


def _history(landing: LoadSqlBuilder) -> Iterator[str]:
    """Every version of a row once; each ends where the next one begins."""
    yield from _delete_matching_rows(landing, cursor=True)
    yield landing.insert_newest(cursor=True)
    yield from _order_replayed_versions(landing)
    yield _update_valid_to(landing)


def _mark_replayed_rows(landing: LoadSqlBuilder) -> Iterator[str]:
    """Mark what a replay brings of rows that were found gone meanwhile: what has marked the others means it as well."""
    table = landing.table.sql
    for origin, number, tombstones in landing.missed_tombstones:
        others = (
            f"SELECT {landing.key_columns('t')} FROM {landing.replayed_rows(origin)} WHERE {column_ref('t', DELETED_AT)} IS NOT NULL"
            f" AND {batch_number_sql('t')} = {batch_number.batch_to_number(number)} GROUP BY {landing.group_by_columns('t')}"
        )
        yield (
            f"UPDATE {table} SET {mark_deleted_assignments(number, tombstones)} FROM ({others}) {JOIN_ALIAS}"
            f" WHERE {landing.match_condition(table, JOIN_ALIAS)}"
            f" AND {batch_number_sql(table)} = {batch_number.batch_to_number(origin)} AND {landing.tombstone_condition_for(origin, tombstones, table)}"
            f" AND {column_ref(table, DELETED_AT)} IS NULL"
        )


def _order_replayed_versions(landing: LoadSqlBuilder) -> Iterator[str]:
    """Put what a replay brings behind the version that was marked in its absence, where it is the later one.

    Of a version that is marked nothing tells any more which batch read it, so the order column decides between the two.
    What comes behind takes the number of the tombstones, and their mark if they mean it.
    """
    assert landing.identity.cursor is not None
    table, cursor = landing.table.sql, landing.identity.cursor
    mine, before = column_ref(table, cursor), column_ref(JOIN_ALIAS, cursor)
    for origin, number, tombstones in landing.missed_tombstones:
        later = ", ".join(str(batch_number.batch_to_number(each)) for each in landing.later_tombstones if each > origin)
        # What the first tombstones since have marked; whatever later ones met was read after these.
        first = f"ROW_NUMBER() OVER (PARTITION BY {landing.group_by_columns('t')} ORDER BY {landing.version_order('t', 'ASC')})"
        versions = (
            f"SELECT {landing.key_columns('t')}, {column_ref('t', cursor)}, {batch_number_sql('t')} AS {BATCH_COLUMN}, {first} AS {PLACE_COLUMN}"
            f" FROM {landing.replayed_rows(origin)} WHERE {batch_number_sql('t')} IN ({later})"
        )
        meant = landing.tombstone_condition_for(origin, tombstones, table)
        yield (
            f"UPDATE {table} SET {BATCH_COLUMN} = {batch_number.batch_to_number(number)},"
            f" {quote_name(DELETED_AT)} = CASE WHEN {meant} THEN {_deleted_at(tombstones)} END,"
            f" {quote_name(VALID_TO)} = CASE WHEN {meant} THEN {value_literal(tombstones.upto.values[0])} END"
            f" FROM ({versions}) {JOIN_ALIAS} WHERE {landing.match_condition(table, JOIN_ALIAS)} AND {JOIN_ALIAS}.{PLACE_COLUMN} = 1"
            f" AND {JOIN_ALIAS}.{BATCH_COLUMN} = {batch_number.batch_to_number(number)}"
            f" AND {batch_number_sql(table)} = {batch_number.batch_to_number(origin)}"
            f" AND ({mine} > {before} OR ({mine} IS NOT NULL AND {before} IS NULL))"
        )


def _deleted_at(tombstones: Tombstones) -> str:
    at = tombstones.checked_at.replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"CAST({text_literal(at)} AS TIMESTAMP)"


def mark_deleted_assignments(number: BatchId, tombstones: Tombstones) -> str:
    """What a row that is gone says: since when, and by which batch, so that no replay of older ones brings it back."""
    return (
        f"{quote_name(DELETED_AT)} = {_deleted_at(tombstones)}, {BATCH_COLUMN} = {batch_number.batch_to_number(number)}"
    )


def _update_valid_to(landing: LoadSqlBuilder) -> str:
    """Say anew when each version of the touched rows ended: late ones have come between."""
    assert landing.identity.cursor is not None
    table, cursor = landing.table.sql, landing.identity.cursor
    window = f"OVER (PARTITION BY {landing.group_by_columns('t')} ORDER BY {landing.version_order('t', 'ASC')})"
    # One that a version without a position follows has ended too; when, nobody knows.
    known = f"CASE WHEN LEAD(t.{BATCH_COLUMN}) {window} IS NOT NULL THEN {column_ref('t', cursor)} END"
    next_one = f"COALESCE(LEAD({column_ref('t', cursor)}) {window}, {known})"
    versions = landing.select_versions(landing.select_keys(landing.loads), next_one)
    following, began = f"{JOIN_ALIAS}.{PLACE_COLUMN}", column_ref(JOIN_ALIAS, cursor)
    return (
        f"UPDATE {table} SET {quote_name(VALID_TO)} = CASE {_keep_earlier_end(landing, following)}"
        f"WHEN {following} < {began} THEN {began} ELSE {following} END"
        f" FROM ({versions}) {JOIN_ALIAS} WHERE {landing.match_condition(table, JOIN_ALIAS, cursor=True)}"
        f" AND {batch_number_sql(table)} = {JOIN_ALIAS}.{BATCH_COLUMN}"
    )


def _keep_earlier_end(landing: LoadSqlBuilder, following: str) -> str:
    """A version whose row was found gone ended then, whenever the next one began."""
    if DELETED_AT not in landing.existing:
        return ""
    gone, end = (column_ref(landing.table.sql, name) for name in (DELETED_AT, VALID_TO))
    return f"WHEN {gone} IS NOT NULL AND ({following} IS NULL OR {end} < {following}) THEN {end} "


_STATEMENTS_BY_MODE: Final[dict[Mode, Callable[[LoadSqlBuilder], Iterator[str]]]] = {
    Mode.UPSERT: _upsert,
    Mode.APPEND: _append,
    Mode.HISTORY: _history,
}
