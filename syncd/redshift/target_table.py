"""Target tables: the columns that files need, the columns that exist, and the statements between the two."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.errors import SchemaDrift
from syncd.lake import batch_number
from syncd.lake.manifest import Manifest
from syncd.redshift.column_types import TargetType, cast_sql, text_column_width
from syncd.redshift.quoting import BATCH_COLUMN, TableRef, quote_name, quote_names, text_literal
from syncd.settings import Deletes, MetadataColumn, Mode, TargetSettings
from syncd.tables.column_mapping import MAX_NAME_BYTES, fold_name
from watermarks.batch import BatchId

LOADED_AT: Final = "_syncd_loaded_at"
VALID_TO: Final = "_syncd_valid_to"
"""In a table that keeps history: the time at which the next version began; NULL for the newest."""
DELETED_AT: Final = "_syncd_deleted_at"
"""The time at which a check found the row deleted at the source; NULL: no check did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredColumn:
    """Column that files need."""

    name: str
    type: TargetType
    narrowest_type: TargetType
    """The narrowest type that holds the values in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingColumn:
    """Column in the catalog."""

    type: TargetType
    not_null: bool = False
    has_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTable:
    """Columns of a table in the catalog."""

    columns: Mapping[str, ExistingColumn] = field(default_factory=dict[str, ExistingColumn])

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def is_text_column(self, name: str) -> bool:
        return name in self.columns and self.columns[name].type.is_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """Columns that a target lacks, and columns that are too narrow."""

    add: tuple[RequiredColumn, ...] = ()
    widen: tuple[RequiredColumn, ...] = ()


def required_columns(manifests: Sequence[Manifest]) -> tuple[RequiredColumn, ...]:
    """Return the columns of the newest manifest, followed by those that only older ones have."""
    columns: dict[str, RequiredColumn] = {}
    for manifest in reversed(manifests):
        widths = _value_widths(manifest)
        for mapping in manifest.columns:
            wanted = _required_column(mapping, widths.get(mapping.name, 0))
            columns[mapping.name] = _join_columns(columns.get(mapping.name, wanted), wanted)
    return tuple(columns.values())


def _value_widths(manifest: Manifest) -> Mapping[str, int]:
    widths: dict[str, int] = {}
    for part in manifest.parts:
        for name, width in part.widths.items():
            widths[name] = max(width, widths.get(name, 0))
    for name, added in manifest.added_columns.items():
        if added.value is not None:
            widths[name] = max(len(added.value.encode()), widths.get(name, 0))
    return widths


def _required_column(mapping: ColumnMapping, widest: int) -> RequiredColumn:
    declared = TargetType.from_text(mapping.redshift)
    if not declared.is_text:
        return RequiredColumn(name=mapping.name, type=declared, narrowest_type=declared)
    fit = TargetType(declared.name, (text_column_width(declared.width, widest),))
    return RequiredColumn(name=mapping.name, type=fit, narrowest_type=TargetType(declared.name, (max(widest, 1),)))


def _join_columns(newer: RequiredColumn, older: RequiredColumn) -> RequiredColumn:
    """Return the column that holds both; where neither type does, the newer one, which the older files do not fit."""
    type_ = older.type if older.type.can_hold(newer.type) else newer.type
    needed = older.narrowest_type if older.narrowest_type.can_hold(newer.narrowest_type) else newer.narrowest_type
    return RequiredColumn(name=newer.name, type=type_, narrowest_type=needed)


def own_columns(manifest: Manifest, settings: TargetSettings, mode: Mode) -> tuple[RequiredColumn, ...]:
    """Return syncd's own columns of a new table."""
    types: dict[str, TargetType] = {}
    # Deletes and history tell versions, and older rows from newer ones, by the number of the batch.
    if MetadataColumn.BATCH in settings.notes or mode is Mode.HISTORY or applies_deletes(settings, mode):
        types[batch_number.BATCH_COLUMN] = TargetType("bigint")
    if MetadataColumn.LOADED_AT in settings.notes:
        types[LOADED_AT] = TargetType.from_text("timestamp")
    cursor = next((mapping for mapping in manifest.columns if mapping.name == manifest.identity.cursor), None)
    if mode is Mode.HISTORY and cursor is not None:
        types[VALID_TO] = TargetType.from_text(cursor.redshift)
    if marks_deletes(settings, mode):
        types[DELETED_AT] = TargetType.from_text("timestamp")
    return tuple(RequiredColumn(name=name, type=type_, narrowest_type=type_) for name, type_ in types.items())


def applies_deletes(settings: TargetSettings, mode: Mode) -> bool:
    """Return whether deletes at the source change this target."""
    return settings.deletes is not Deletes.IGNORE and mode is not Mode.REPLACE


def marks_deletes(settings: TargetSettings, mode: Mode) -> bool:
    """Return whether deleted rows stay in the target with a mark."""
    return applies_deletes(settings, mode) and (settings.deletes is Deletes.SOFT or mode is Mode.HISTORY)


def require_no_ended_versions(table: TableRef, existing: ExistingTable, mode: Mode) -> None:
    """Make sure that a table which keeps no history holds no ended versions.

    Raises:
        SchemaDrift: it kept history; in another mode, its old versions would stay beside the new ones.
    """
    if VALID_TO not in existing or mode in {Mode.HISTORY, Mode.REPLACE}:
        return
    ended = f"DELETE FROM {table.sql} WHERE {quote_name(VALID_TO)} IS NOT NULL; " if mode is Mode.UPSERT else ""
    raise SchemaDrift(
        f"{table} has the column {VALID_TO}, which only `mode: history` keeps, but the mode is now {mode}",
        hint=f"Set `mode: history` again, or: {ended}ALTER TABLE {table.sql} DROP COLUMN {quote_name(VALID_TO)};",
    )


def plan_table_changes(
    table: TableRef,
    existing: ExistingTable,
    required: Iterable[RequiredColumn],
    *,
    newest_columns: Iterable[RequiredColumn] = (),
) -> TableChanges:
    """Return what the table lacks for the files.

    `newest_columns` are those of the newest files: where the table takes these, older ones of another type are cast.

    Raises:
        SchemaDrift: the table needs a change that only an operator should make; the hint is the SQL.
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
    """Return whether a column differs from older files because the source's type changed, or will by widening."""
    if newest is None or (standing.type.is_text and old.type.is_text):
        return False
    return standing.type.can_hold(newest.narrowest_type) or (
        standing.type.is_text and newest.type.is_text and not standing.has_default
    )


def _type_drift(table: TableRef, column: RequiredColumn, existing: ExistingTable) -> SchemaDrift:
    return SchemaDrift(
        f"{table}.{column.name} is {existing.columns[column.name].type}, but the source's column is now {column.type}",
        hint=manual_type_change(table, column, existing),
    )


def manual_type_change(table: TableRef, column: RequiredColumn, existing: ExistingTable) -> str:
    """Return the statements that give a column another type where ALTER COLUMN cannot."""
    standing = existing.columns[column.name]
    new_name = quote_name(_free_name(column.name, existing))
    name = quote_name(column.name)
    value = name if standing.type.name == column.type.name else cast_sql(name, standing.type, column.type)
    return (
        f"ALTER TABLE {table.sql} ADD COLUMN {new_name} {column.type};"
        f" UPDATE {table.sql} SET {new_name} = {value}; ALTER TABLE {table.sql} DROP COLUMN {name};"
        f" ALTER TABLE {table.sql} RENAME COLUMN {new_name} TO {name};"
    )


def _free_name(name: str, existing: ExistingTable) -> str:
    """Return an unused column name, because the statements would overwrite an existing column."""
    short = name.encode()[: MAX_NAME_BYTES - len("_new_99")].decode(errors="ignore")
    numbered = (f"{short}_new_{number}" for number in count(2))
    return next(candidate for candidate in chain((f"{short}_new",), numbered) if candidate not in existing)


def _require_nullable_extra_columns(table: TableRef, existing: ExistingTable, filled_names: set[str]) -> None:
    for name, column in existing.columns.items():
        if column.not_null and not column.has_default and name not in filled_names and not name.startswith("_syncd_"):
            raise SchemaDrift(
                f"{table}.{name} is NOT NULL, but the source has no such column",
                hint=f"ALTER TABLE {table.sql} DROP COLUMN {quote_name(name)};",
            )


def create_table_statements(
    table: TableRef, columns: Sequence[RequiredColumn], settings: TargetSettings, *, comment: str
) -> tuple[str, ...]:
    """Return the statements that create the table.

    They declare no key and no default: both prevent widening, and Redshift trusts a declared key without a check.
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
        *(f"GRANT SELECT ON {table.sql} TO {_grantee(grant)}" for grant in settings.grants),
    )


def _grantee(grant: str) -> str:
    """Return a configured grantee with its name quoted: names of IAM users have colons, and others hyphens."""
    kind, _, name = grant.rpartition(" ")
    if grant.lower() == "public" or name.startswith('"'):
        return grant
    return f"{kind} {quote_name(name)}".strip()


def _column_definition(column: RequiredColumn, encodings: Mapping[str, str]) -> str:
    encoding = encodings.get(column.name)
    return f"{quote_name(column.name)} {column.type}" + (f" ENCODE {encoding}" if encoding else "")


def add_column_statements(table: TableRef, columns: Iterable[RequiredColumn]) -> tuple[str, ...]:
    """Return one statement for each column: Redshift adds one at a time."""
    return tuple(f"ALTER TABLE {table.sql} ADD COLUMN {quote_name(each.name)} {each.type}" for each in columns)


def widen_column_statements(table: TableRef, columns: Iterable[RequiredColumn]) -> tuple[str, ...]:
    """Return the statements, which Redshift refuses inside a transaction."""
    return tuple(f"ALTER TABLE {table.sql} ALTER COLUMN {quote_name(each.name)} TYPE {each.type}" for each in columns)


def columns_query(table: TableRef) -> str:
    """Return the query for columns with type, NOT NULL and DEFAULT; it has no row where the table does not exist."""
    return (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef"
        ' FROM pg_attribute a JOIN pg_class c ON c."oid" = a.attrelid JOIN pg_namespace n ON n."oid" = c.relnamespace'
        f" WHERE n.nspname = {text_literal(table.schema)} AND c.relname = {text_literal(table.name)}"
        " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )


def rows_by_key_query(table: TableRef, key: Mapping[str, str], columns: Sequence[str]) -> str:
    """Return the query for a 1 and some columns of the rows with a key; untyped constants take the column's type."""
    where = " AND ".join(f"{quote_name(name)} = {text_literal(text)}" for name, text in key.items())
    return f"SELECT {', '.join(('1', *map(quote_name, columns)))} FROM {table.sql} WHERE {where} LIMIT 100"


def any_row_query(table: TableRef) -> str:
    return f"SELECT 1 FROM {table.sql} LIMIT 1"


def any_row_since_query(batch: BatchId, table: TableRef) -> str:
    """Return the query for a row with the number of this batch or a later one."""
    return f"SELECT 1 FROM {table.sql} WHERE {BATCH_COLUMN} >= {batch_number.batch_to_number(batch)} LIMIT 1"


def reset_batch_numbers_statement(table: TableRef) -> str:
    """Return the statement that makes the rows of a table older than those of any batch."""
    return f"UPDATE {table.sql} SET {BATCH_COLUMN} = 0"


def parse_existing_table(rows: Iterable[Sequence[object]]) -> ExistingTable | None:
    """Return the table in rows of `columns_query`; None where there are none."""
    columns = {
        str(name): ExistingColumn(
            type=TargetType.from_text(str(kind)), not_null=bool(not_null), has_default=bool(default)
        )
        for name, kind, not_null, default in rows
    }
    return ExistingTable(columns=columns) if columns else None
