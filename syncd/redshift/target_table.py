"""A target table: as the files of a landing want it, as it is found, and what makes the one of the other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.errors import SchemaDrift
from syncd.lake import batch_number
from syncd.lake.manifest import Manifest
from syncd.redshift.casts import cast_sql
from syncd.redshift.column_types import TargetType, text_column_width
from syncd.redshift.quoting import TableRef, quote_name, quote_names, text_literal
from syncd.settings import Deletes, MetadataColumn, Mode, TargetSettings
from syncd.tables.column_mapping import MAX_NAME_BYTES, fold_name
from watermarks.batch import BatchId

LOADED_AT: Final = "_syncd_loaded_at"
VALID_TO: Final = "_syncd_valid_to"
"""Of a table that keeps history: when the version was followed by the next; NULL for the newest."""


DELETED_AT: Final = "_syncd_deleted_at"
"""When a row was found to be gone at the source; NULL: it is there, as far as anybody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredColumn:
    """One column as the files want it."""

    name: str
    type: TargetType
    narrowest_type: TargetType
    """The narrowest type that holds what is in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingColumn:
    """One column as the catalog has it."""

    type: TargetType
    not_null: bool = False
    has_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTable:
    """A table as it stands."""

    columns: Mapping[str, ExistingColumn] = field(default_factory=dict[str, ExistingColumn])

    def __contains__(self, name: str) -> bool:
        return name in self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """What a target lacks."""

    add: tuple[RequiredColumn, ...] = ()
    widen: tuple[RequiredColumn, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.widen)


def required_columns(manifests: Sequence[Manifest]) -> tuple[RequiredColumn, ...]:
    """The columns of the newest manifest, and behind them those that only older ones have."""
    columns: dict[str, RequiredColumn] = {}
    for manifest in reversed(manifests):
        widths = _value_widths(manifest)
        for passage in manifest.columns:
            wanted = _required_column(passage, widths.get(passage.name, 0))
            before = columns.setdefault(passage.name, wanted)
            columns[passage.name] = _join_columns(before, wanted)
    return tuple(columns.values())


def _value_widths(manifest: Manifest) -> Mapping[str, int]:
    widths: dict[str, int] = {}
    for part in manifest.parts:
        for name, width in part.widths.items():
            widths[name] = max(width, widths.get(name, 0))
    for name, one in manifest.added_columns.items():
        if one.value is not None:
            widths[name] = max(len(one.value.encode()), widths.get(name, 0))
    return widths


def _required_column(mapping: ColumnMapping, widest: int) -> RequiredColumn:
    declared = TargetType.from_text(mapping.redshift)
    if not declared.is_text:
        return RequiredColumn(name=mapping.name, type=declared, narrowest_type=declared)
    fit = TargetType(declared.name, (text_column_width(declared.width, widest),))
    return RequiredColumn(name=mapping.name, type=fit, narrowest_type=TargetType(declared.name, (max(widest, 1),)))


def _join_columns(newer: RequiredColumn, older: RequiredColumn) -> RequiredColumn:
    """What holds both; where neither type does, the newer stands, and the files of the older one will not fit."""
    type_ = older.type if older.type.can_hold(newer.type) else newer.type
    needed = older.narrowest_type if older.narrowest_type.can_hold(newer.narrowest_type) else newer.narrowest_type
    return RequiredColumn(name=newer.name, type=type_, narrowest_type=needed)


def own_columns(settings: TargetSettings, mode: Mode, cursor: TargetType | None) -> tuple[RequiredColumn, ...]:
    """Our own columns of a new table."""
    found: list[tuple[str, TargetType]] = []
    if MetadataColumn.BATCH in settings.notes or needs_batch_number(settings, mode):
        found.append((batch_number.BATCH_COLUMN, TargetType("bigint")))
    if MetadataColumn.LOADED_AT in settings.notes:
        found.append((LOADED_AT, TargetType.from_text("timestamp")))
    if mode is Mode.HISTORY and cursor is not None:
        found.append((VALID_TO, cursor))
    if marks_deletes(settings, mode):
        found.append((DELETED_AT, TargetType.from_text("timestamp")))
    return tuple(RequiredColumn(name=name, type=type_, narrowest_type=type_) for name, type_ in found)


def applies_deletes(settings: TargetSettings, mode: Mode) -> bool:
    """Whether rows that are gone at the source are anything to this target."""
    return settings.deletes is not Deletes.IGNORE and mode is not Mode.REPLACE


def needs_batch_number(settings: TargetSettings, mode: Mode) -> bool:
    """Whether every row has to say which batch read it: versions are told apart by it, and what is older than news."""
    return mode is Mode.HISTORY or applies_deletes(settings, mode)


def marks_deletes(settings: TargetSettings, mode: Mode) -> bool:
    """Whether rows that are gone stay, and say so."""
    return applies_deletes(settings, mode) and (settings.deletes is Deletes.SOFT or mode is Mode.HISTORY)


def require_no_ended_versions(table: TableRef, existing: ExistingTable, mode: Mode) -> None:
    """Make sure that a table which is no history holds no versions that have ended.

    Raises:
        SchemaDrift: it was one; a mode that ends no version would leave what stands there beside what comes.
    """
    if VALID_TO not in existing or mode in {Mode.HISTORY, Mode.REPLACE}:
        return
    ended = f"DELETE FROM {table.sql} WHERE {quote_name(VALID_TO)} IS NOT NULL; " if mode is Mode.UPSERT else ""
    raise SchemaDrift(
        f"{table} says until when each version of a row held, and the mode is {mode} now",
        hint=f"Name `mode: history` again, or: {ended}ALTER TABLE {table.sql} DROP COLUMN {quote_name(VALID_TO)};",
    )


def plan_table_changes(
    table: TableRef,
    existing: ExistingTable,
    required: Iterable[RequiredColumn],
    *,
    newest_columns: Iterable[RequiredColumn] = (),
) -> TableChanges:
    """What the table lacks to take the files.

    `now` are the columns of the newest files that there are: where the table takes these, older ones of another type
    are cast.

    Raises:
        SchemaDrift: something that only a person should change; the hint is the SQL.
    """
    add: list[RequiredColumn] = []
    widen: list[RequiredColumn] = []
    newest = {column.name: column for column in newest_columns}
    for column in required:
        standing = existing.columns.get(column.name)
        if standing is None:
            add.append(column)
        elif standing.type.can_hold(column.narrowest_type):
            continue
        elif standing.type.is_text and column.type.is_text and not standing.has_default:
            widen.append(column)
        elif not _follows_source_type(standing, column, newest.get(column.name)):
            raise _type_drift(table, column, existing)
    _require_nullable_extra_columns(table, existing, {column.name for column in required})
    return TableChanges(add=tuple(add), widen=tuple(widen))


def _follows_source_type(standing: ExistingColumn, old: RequiredColumn, newest: RequiredColumn | None) -> bool:
    """Whether a column is of another type than older files because the source's is, or becomes so by widening."""
    if newest is None or (standing.type.is_text and old.type.is_text):
        return False
    return standing.type.can_hold(newest.narrowest_type) or (
        standing.type.is_text and newest.type.is_text and not standing.has_default
    )


def _type_drift(table: TableRef, column: RequiredColumn, existing: ExistingTable) -> SchemaDrift:
    return SchemaDrift(
        f"{table}.{column.name} is {existing.columns[column.name].type}, and the source's column is {column.type} now",
        hint=manual_type_change(table, column, existing),
    )


def manual_type_change(table: TableRef, column: RequiredColumn, existing: ExistingTable) -> str:
    """The statements that give a column another type, whatever stands in the way of altering it."""
    standing = existing.columns[column.name]
    beside = quote_name(_free_name(column.name, existing))
    name = quote_name(column.name)
    value = name if standing.type.name == column.type.name else cast_sql(name, standing.type, column.type)
    return (
        f"ALTER TABLE {table.sql} ADD COLUMN {beside} {column.type};"
        f" UPDATE {table.sql} SET {beside} = {value}; ALTER TABLE {table.sql} DROP COLUMN {name};"
        f" ALTER TABLE {table.sql} RENAME COLUMN {beside} TO {name};"
    )


def _free_name(name: str, existing: ExistingTable) -> str:
    """A name that no column of the table has: who runs the statements one by one would write into one that had it."""
    short = name.encode()[: MAX_NAME_BYTES - len("_new_99")].decode(errors="ignore")
    numbered = (f"{short}_new_{number}" for number in count(2))
    return next(each for each in chain((f"{short}_new",), numbered) if each not in existing)


def _require_nullable_extra_columns(table: TableRef, existing: ExistingTable, filled_names: set[str]) -> None:
    for name, column in existing.columns.items():
        if column.not_null and not column.has_default and name not in filled_names and not name.startswith("_syncd_"):
            raise SchemaDrift(
                f"{table}.{name} must not be NULL, and the source has no such column",
                hint=f"ALTER TABLE {table.sql} DROP COLUMN {quote_name(name)};",
            )


def create_table_statements(
    table: TableRef, columns: Sequence[RequiredColumn], settings: TargetSettings, *, comment: str
) -> tuple[str, ...]:
    """The statements that make the table.

    No key and no default is declared: both would stand in the way of widening, and Redshift believes a key that lies.
    """
    encodings = {fold_name(name): encoding for name, encoding in settings.encode.items()}
    defined = [_column_definition(column, encodings) for column in columns]
    layout = ""
    if settings.distkey:
        layout += f" DISTKEY ({quote_name(fold_name(settings.distkey))})"
    if settings.sortkey:
        layout += f" COMPOUND SORTKEY ({quote_names(map(fold_name, settings.sortkey))})"
    return (
        f"CREATE TABLE {table.sql} ({', '.join(defined)}){layout}",
        f"COMMENT ON TABLE {table.sql} IS {text_literal(comment)}",
        *(f"GRANT SELECT ON {table.sql} TO {_grantee(whom)}" for whom in settings.grants),
    )


def _grantee(grant: str) -> str:
    """Whom to let read, as configured: names of users that IAM lends have colons, and others hyphens."""
    kind, _, name = grant.rpartition(" ")
    if grant.lower() == "public" or name.startswith('"'):
        return grant
    return f"{kind} {quote_name(name)}".strip()


def _column_definition(column: RequiredColumn, encodings: Mapping[str, str]) -> str:
    encoding = encodings.get(column.name)
    return f"{quote_name(column.name)} {column.type}" + (f" ENCODE {encoding}" if encoding else "")


def add_column_statements(table: TableRef, columns: Iterable[RequiredColumn]) -> tuple[str, ...]:
    """One statement a column: Redshift takes no more."""
    return tuple(f"ALTER TABLE {table.sql} ADD COLUMN {quote_name(one.name)} {one.type}" for one in columns)


def widen_column_statements(table: TableRef, columns: Iterable[RequiredColumn]) -> tuple[str, ...]:
    """These are refused inside a transaction."""
    return tuple(f"ALTER TABLE {table.sql} ALTER COLUMN {quote_name(one.name)} TYPE {one.type}" for one in columns)


def columns_query(table: TableRef) -> str:
    """The columns of a table with type, NOT NULL and whether there is a default; no row where there is no table."""
    return (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef"
        ' FROM pg_attribute a JOIN pg_class c ON c."oid" = a.attrelid JOIN pg_namespace n ON n."oid" = c.relnamespace'
        f" WHERE n.nspname = {text_literal(table.schema)} AND c.relname = {text_literal(table.name)}"
        " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )


def rows_by_key_query(table: TableRef, key: Mapping[str, str], columns: Sequence[str]) -> str:
    """What rows with a key hold in some columns, behind a 1; constants without a type take that of their column."""
    where = " AND ".join(f"{quote_name(name)} = {text_literal(text)}" for name, text in key.items())
    return f"SELECT {', '.join(('1', *map(quote_name, columns)))} FROM {table.sql} WHERE {where} LIMIT 100"


def any_row_query(table: TableRef) -> str:
    return f"SELECT 1 FROM {table.sql} LIMIT 1"


def any_row_since_query(batch: BatchId, table: TableRef) -> str:
    """A row with the number of this batch, or of a later one."""
    number = batch_number.batch_to_number(batch)
    return f"SELECT 1 FROM {table.sql} WHERE {quote_name(batch_number.BATCH_COLUMN)} >= {number} LIMIT 1"


def reset_batch_numbers_statement(table: TableRef) -> str:
    """What makes the rows of a table older than those of any batch."""
    return f"UPDATE {table.sql} SET {quote_name(batch_number.BATCH_COLUMN)} = 0"


def parse_existing_table(rows: Iterable[Sequence[object]]) -> ExistingTable | None:
    """What the catalog told."""
    columns = {
        str(name): ExistingColumn(
            type=TargetType.from_text(str(kind)), not_null=bool(not_null), has_default=bool(default)
        )
        for name, kind, not_null, default in rows
    }
    return ExistingTable(columns=columns) if columns else None
