"""A target table: as the files of a landing want it, as it is found, and what makes the one of the other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from syncd.datatypes.columns import Passage
from syncd.errors import SchemaDrift
from syncd.lake import batch_number
from syncd.lake.manifest import Manifest
from syncd.redshift.casts import cast
from syncd.redshift.column_types import TargetType, text_width
from syncd.redshift.quoting import TableRef, listed, quoted, text_literal
from syncd.settings import Deletes, Mode, Note, TargetSettings
from syncd.tables.column_mapping import LONGEST_NAME, folded
from watermarks.batch import BatchId

LOADED_AT: Final = "_syncd_loaded_at"
VALID_TO: Final = "_syncd_valid_to"
"""Of a table that keeps history: when the version was followed by the next; NULL for the newest."""


DELETED_AT: Final = "_syncd_deleted_at"
"""When a row was found to be gone at the source; NULL: it is there, as far as anybody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One column as the files want it."""

    name: str
    type: TargetType
    needed: TargetType
    """The narrowest type that holds what is in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundColumn:
    """One column as the catalog has it."""

    type: TargetType
    not_null: bool = False
    default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A table as it stands."""

    columns: Mapping[str, FoundColumn] = field(default_factory=dict[str, FoundColumn])

    def __contains__(self, name: str) -> bool:
        return name in self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a target lacks."""

    add: tuple[Wanted, ...] = ()
    widen: tuple[Wanted, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.widen)


def wanted_columns(manifests: Sequence[Manifest]) -> tuple[Wanted, ...]:
    """The columns of the newest manifest, and behind them those that only older ones have."""
    columns: dict[str, Wanted] = {}
    for manifest in reversed(manifests):
        widths = _widest(manifest)
        for passage in manifest.passages:
            wanted = _wanted(passage, widths.get(passage.name, 0))
            before = columns.setdefault(passage.name, wanted)
            columns[passage.name] = _joined(before, wanted)
    return tuple(columns.values())


def _widest(manifest: Manifest) -> Mapping[str, int]:
    widths: dict[str, int] = {}
    for part in manifest.parts:
        for name, width in part.widths.items():
            widths[name] = max(width, widths.get(name, 0))
    for name, one in manifest.added.items():
        if one.value is not None:
            widths[name] = max(len(one.value.encode()), widths.get(name, 0))
    return widths


def _wanted(passage: Passage, widest: int) -> Wanted:
    declared = TargetType.of_text(passage.redshift)
    if not declared.text:
        return Wanted(name=passage.name, type=declared, needed=declared)
    fit = TargetType(declared.name, (text_width(declared.width, widest),))
    return Wanted(name=passage.name, type=fit, needed=TargetType(declared.name, (max(widest, 1),)))


def _joined(newer: Wanted, older: Wanted) -> Wanted:
    """What holds both; where neither type does, the newer stands, and the files of the older one will not fit."""
    type_ = older.type if older.type.holds(newer.type) else newer.type
    needed = older.needed if older.needed.holds(newer.needed) else newer.needed
    return Wanted(name=newer.name, type=type_, needed=needed)


def noted(settings: TargetSettings, mode: Mode, cursor: TargetType | None) -> tuple[Wanted, ...]:
    """Our own columns of a new table."""
    found: list[tuple[str, TargetType]] = []
    if Note.BATCH in settings.notes or demands_rank(settings, mode):
        found.append((batch_number.COLUMN, TargetType("bigint")))
    if Note.LOADED_AT in settings.notes:
        found.append((LOADED_AT, TargetType.of_text("timestamp")))
    if mode is Mode.HISTORY and cursor is not None:
        found.append((VALID_TO, cursor))
    if marks(settings, mode):
        found.append((DELETED_AT, TargetType.of_text("timestamp")))
    return tuple(Wanted(name=name, type=type_, needed=type_) for name, type_ in found)


def buries(settings: TargetSettings, mode: Mode) -> bool:
    """Whether rows that are gone at the source are anything to this target."""
    return settings.deletes is not Deletes.IGNORE and mode is not Mode.REPLACE


def demands_rank(settings: TargetSettings, mode: Mode) -> bool:
    """Whether every row has to say which batch read it: versions are told apart by it, and what is older than news."""
    return mode is Mode.HISTORY or buries(settings, mode)


def marks(settings: TargetSettings, mode: Mode) -> bool:
    """Whether rows that are gone stay, and say so."""
    return buries(settings, mode) and (settings.deletes is Deletes.SOFT or mode is Mode.HISTORY)


def require_no_ends(table: TableRef, found: Found, mode: Mode) -> None:
    """Make sure that a table which is no history holds no versions that have ended.

    Raises:
        SchemaDrift: it was one; a mode that ends no version would leave what stands there beside what comes.
    """
    if VALID_TO not in found or mode in {Mode.HISTORY, Mode.REPLACE}:
        return
    ended = f"DELETE FROM {table.sql} WHERE {quoted(VALID_TO)} IS NOT NULL; " if mode is Mode.UPSERT else ""
    raise SchemaDrift(
        f"{table} says until when each version of a row held, and the mode is {mode} now",
        hint=f"Name `mode: history` again, or: {ended}ALTER TABLE {table.sql} DROP COLUMN {quoted(VALID_TO)};",
    )


def changes(table: TableRef, found: Found, wanted: Iterable[Wanted], *, now: Iterable[Wanted] = ()) -> Changes:
    """What the table lacks to take the files.

    `now` are the columns of the newest files that there are: where the table takes these, older ones of another type
    are cast.

    Raises:
        SchemaDrift: something that only a person should change; the hint is the SQL.
    """
    add: list[Wanted] = []
    widen: list[Wanted] = []
    newest = {column.name: column for column in now}
    for column in wanted:
        standing = found.columns.get(column.name)
        if standing is None:
            add.append(column)
        elif standing.type.holds(column.needed):
            continue
        elif standing.type.text and column.type.text and not standing.default:
            widen.append(column)
        elif not _has_followed(standing, column, newest.get(column.name)):
            raise _drifted(table, column, found)
    _require_no_demands(table, found, {column.name for column in wanted})
    return Changes(add=tuple(add), widen=tuple(widen))


def _has_followed(standing: FoundColumn, old: Wanted, newest: Wanted | None) -> bool:
    """Whether a column is of another type than older files because the source's is, or becomes so by widening."""
    if newest is None or (standing.type.text and old.type.text):
        return False
    return standing.type.holds(newest.needed) or (standing.type.text and newest.type.text and not standing.default)


def _drifted(table: TableRef, column: Wanted, found: Found) -> SchemaDrift:
    return SchemaDrift(
        f"{table}.{column.name} is {found.columns[column.name].type}, and the source's column is {column.type} now",
        hint=by_hand(table, column, found),
    )


def by_hand(table: TableRef, column: Wanted, found: Found) -> str:
    """The statements that give a column another type, whatever stands in the way of altering it."""
    standing = found.columns[column.name]
    beside = quoted(_free_name(column.name, found))
    name = quoted(column.name)
    value = name if standing.type.name == column.type.name else cast(name, standing.type, column.type)
    return (
        f"ALTER TABLE {table.sql} ADD COLUMN {beside} {column.type};"
        f" UPDATE {table.sql} SET {beside} = {value}; ALTER TABLE {table.sql} DROP COLUMN {name};"
        f" ALTER TABLE {table.sql} RENAME COLUMN {beside} TO {name};"
    )


def _free_name(name: str, found: Found) -> str:
    """A name that no column of the table has: who runs the statements one by one would write into one that had it."""
    short = name.encode()[: LONGEST_NAME - len("_new_99")].decode(errors="ignore")
    numbered = (f"{short}_new_{number}" for number in count(2))
    return next(each for each in chain((f"{short}_new",), numbered) if each not in found)


def _require_no_demands(table: TableRef, found: Found, named: set[str]) -> None:
    for name, column in found.columns.items():
        if column.not_null and not column.default and name not in named and not name.startswith("_syncd_"):
            raise SchemaDrift(
                f"{table}.{name} must not be NULL, and the source has no such column",
                hint=f"ALTER TABLE {table.sql} DROP COLUMN {quoted(name)};",
            )


def create_statements(
    table: TableRef, columns: Sequence[Wanted], settings: TargetSettings, *, about: str
) -> tuple[str, ...]:
    """The statements that make the table.

    No key and no default is declared: both would stand in the way of widening, and Redshift believes a key that lies.
    """
    encodings = {folded(name): encoding for name, encoding in settings.encode.items()}
    defined = [_defined(column, encodings) for column in columns]
    layout = ""
    if settings.distkey:
        layout += f" DISTKEY ({quoted(folded(settings.distkey))})"
    if settings.sortkey:
        layout += f" COMPOUND SORTKEY ({listed(map(folded, settings.sortkey))})"
    return (
        f"CREATE TABLE {table.sql} ({', '.join(defined)}){layout}",
        f"COMMENT ON TABLE {table.sql} IS {text_literal(about)}",
        *(f"GRANT SELECT ON {table.sql} TO {_grantee(whom)}" for whom in settings.grants),
    )


def _grantee(whom: str) -> str:
    """Whom to let read, as configured: names of users that IAM lends have colons, and others hyphens."""
    kind, _, name = whom.rpartition(" ")
    if whom.lower() == "public" or name.startswith('"'):
        return whom
    return f"{kind} {quoted(name)}".strip()


def _defined(column: Wanted, encodings: Mapping[str, str]) -> str:
    encoding = encodings.get(column.name)
    return f"{quoted(column.name)} {column.type}" + (f" ENCODE {encoding}" if encoding else "")


def add_statements(table: TableRef, columns: Iterable[Wanted]) -> tuple[str, ...]:
    """One statement a column: Redshift takes no more."""
    return tuple(f"ALTER TABLE {table.sql} ADD COLUMN {quoted(one.name)} {one.type}" for one in columns)


def widen_statements(table: TableRef, columns: Iterable[Wanted]) -> tuple[str, ...]:
    """These are refused inside a transaction."""
    return tuple(f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(one.name)} TYPE {one.type}" for one in columns)


def found_statement(table: TableRef) -> str:
    """The columns of a table with type, NOT NULL and whether there is a default; no row where there is no table."""
    return (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef"
        ' FROM pg_attribute a JOIN pg_class c ON c."oid" = a.attrelid JOIN pg_namespace n ON n."oid" = c.relnamespace'
        f" WHERE n.nspname = {text_literal(table.schema)} AND c.relname = {text_literal(table.name)}"
        " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )


def rows_with(table: TableRef, key: Mapping[str, str], columns: Sequence[str]) -> str:
    """What rows with a key hold in some columns, behind a 1; constants without a type take that of their column."""
    where = " AND ".join(f"{quoted(name)} = {text_literal(text)}" for name, text in key.items())
    return f"SELECT {', '.join(('1', *map(quoted, columns)))} FROM {table.sql} WHERE {where} LIMIT 100"


def any_row(table: TableRef) -> str:
    return f"SELECT 1 FROM {table.sql} LIMIT 1"


def any_row_from(batch: BatchId, table: TableRef) -> str:
    """A row with the number of this batch, or of a later one."""
    number = batch_number.number_of(batch)
    return f"SELECT 1 FROM {table.sql} WHERE {quoted(batch_number.COLUMN)} >= {number} LIMIT 1"


def unnumber_statement(table: TableRef) -> str:
    """What makes the rows of a table older than those of any batch."""
    return f"UPDATE {table.sql} SET {quoted(batch_number.COLUMN)} = 0"


def found_of(rows: Iterable[Sequence[object]]) -> Found | None:
    """What the catalog told."""
    columns = {
        str(name): FoundColumn(type=TargetType.of_text(str(kind)), not_null=bool(not_null), default=bool(default))
        for name, kind, not_null, default in rows
    }
    return Found(columns=columns) if columns else None
