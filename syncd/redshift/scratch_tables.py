"""Scratch tables: filled by COPY from lists of files, and read as rows of the target."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncd.datatypes.columns import MAX_VARBYTE_BYTES, ColumnMapping
from syncd.lake import batch_number
from syncd.lake.manifest import Manifest
from syncd.lake.read_requests import Part
from syncd.redshift.column_types import TargetType, cast_sql, typed_constant
from syncd.redshift.quoting import BATCH_COLUMN, TableRef, column_ref, quote_name, quote_names, text_literal
from syncd.redshift.target_table import LOADED_AT, ExistingTable
from syncd.tables.column_defaults import AddedColumn
from watermarks.batch import BatchLink

SCRATCH_PREFIX: Final = "syncd_scratch_"
"""Prefix of scratch tables; no target is named like this."""
_DOCUMENT_TYPE: Final = TargetType("super")
_SCRATCH_DOCUMENT_TYPE: Final = TargetType("varbyte", (MAX_VARBYTE_BYTES,))
"""The type of a document in a scratch table: `ColumnMapping.scratch_type`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchLoad:
    """Files of consecutive batches with the same columns, and the scratch table that takes them all."""

    scratch: str
    links: tuple[BatchLink, ...]
    manifests: tuple[Manifest, ...]

    @property
    def columns(self) -> tuple[ColumnMapping, ...]:
        return self.manifests[0].columns

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(mapping.name for mapping in self.columns)

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for manifest in self.manifests for part in manifest.parts)

    @property
    def has_deleted_keys(self) -> bool:
        """True if its rows are keys of deleted rows."""
        return self.manifests[0].tombstones is not None

    @property
    def rows(self) -> int:
        return sum(manifest.rows for manifest in self.manifests)

    @property
    def table(self) -> str:
        return quote_name(self.scratch)

    def create_statement(self, *, distkey: str = "") -> str:
        """Return CREATE TEMP TABLE. The key holds no NULL: a later version would never match such a row."""
        key = set(self.manifests[0].identity.key)
        columns = [
            f"{quote_name(mapping.name)} {mapping.scratch_type}" + (" NOT NULL" if mapping.name in key else "")
            for mapping in self.columns
        ]
        columns.append(f"{BATCH_COLUMN} BIGINT NOT NULL")
        layout = f" DISTKEY ({quote_name(distkey)})" if distkey in self.column_names else ""
        return f"CREATE TEMP TABLE {self.table} ({', '.join(columns)}){layout}"

    def copy_statement(self, manifest: str, credentials: str) -> str:
        """Return COPY. Columns are in the order of the files, because COPY matches them by position, not by name."""
        names = quote_names((*self.column_names, batch_number.BATCH_COLUMN))
        return (
            f"COPY {self.table} ({names}) FROM {text_literal(manifest)}"
            f" {credentials} FORMAT AS PARQUET MANIFEST STATUPDATE OFF"
        )

    @property
    def drop_statement(self) -> str:
        return f"DROP TABLE {self.table}"


def group_loads(links: Sequence[BatchLink], manifests: Sequence[Manifest]) -> tuple[ScratchLoad, ...]:
    """Return one load for each set of columns; batches without files need none."""
    shapes: dict[tuple[object, ...], list[tuple[BatchLink, Manifest]]] = {}
    for link, manifest in zip(links, manifests, strict=True):
        if manifest.parts:
            shape = (manifest.columns, manifest.identity, manifest.tombstones is None)
            shapes.setdefault(shape, []).append((link, manifest))
    return tuple(
        ScratchLoad(
            scratch=f"{SCRATCH_PREFIX}{number}",
            links=tuple(link for link, _ in group),
            manifests=tuple(manifest for _, manifest in group),
        )
        for number, group in enumerate(shapes.values())
    )


def copy_manifest_body(files: Iterable[tuple[str, int]]) -> bytes:
    """Return the list of files for COPY, which requires each file with exactly this size."""
    entries = [{"url": url, "mandatory": True, "meta": {"content_length": size}} for url, size in files]
    return json.dumps({"entries": entries}, separators=(",", ":")).encode()


def role_clause(role: str) -> str:
    """Return the clause of COPY for reading by a role."""
    return "IAM_ROLE default" if role == "default" else f"IAM_ROLE {text_literal(role)}"


def key_clause(access: str, secret: str, token: str | None) -> str:
    """Return the clause of COPY for reading by keys, which then stand in the statement."""
    session = f" SESSION_TOKEN {text_literal(token)}" if token else ""
    return f"ACCESS_KEY_ID {text_literal(access)} SECRET_ACCESS_KEY {text_literal(secret)}{session}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchRows:
    """Rows of scratch tables in the columns and types of a target."""

    existing: ExistingTable
    """The current columns of the target."""
    loads: tuple[ScratchLoad, ...]
    delete_loads: tuple[ScratchLoad, ...] = ()
    """Keys of rows that were deleted at the source."""
    added_columns: Mapping[str, AddedColumn] = field(default_factory=dict[str, AddedColumn])
    """Columns that older batches lack, with the values for their rows."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The filled columns of the target: those in the files, and added columns with a value for older rows."""
        held = {name for load in self.loads for name in load.column_names}
        oldest = min((link.rank for load in self.loads for link in load.links), default=None)
        later = {name for name, added in self.added_columns.items() if oldest is not None and oldest < added.since}
        return tuple(name for name in self.existing.columns if name in held | later)

    def select_all(self) -> str:
        """Select all rows of all loads. A missing column is NULL; differing types become that of the target."""
        return " UNION ALL ".join(self._select(load) for load in self.loads)

    def _select(self, load: ScratchLoad) -> str:
        columns = [f"{self._value_or_default(load, name)} AS {quote_name(name)}" for name in self.column_names]
        return f"SELECT {', '.join((*columns, BATCH_COLUMN))} FROM {load.table}"

    def _value_or_default(self, load: ScratchLoad, name: str) -> str:
        """Return the value of a load's rows; in a column that was added after they were read, its default."""
        common_type = self._common_type(name)
        own = self.cast_value(load, name) if name in load.column_names else f"CAST(NULL AS {common_type})"
        added = self.added_columns.get(name)
        if added is None or min(link.rank for link in load.links) >= added.since:
            return own
        # In a scratch table a document is still its text.
        as_bytes = self._is_document(name) and added.value is not None
        value = typed_constant((added.value or "").encode().hex() if as_bytes else added.value, common_type)
        if max(link.rank for link in load.links) < added.since:
            return value
        return f"CASE WHEN {BATCH_COLUMN} < {batch_number.batch_to_number(added.since)} THEN {value} ELSE {own} END"

    def cast_value(self, load: ScratchLoad, name: str, *, rows: str = "") -> str:
        """Return a column of one load in the common type; a UNION would choose a type by rules of its own."""
        value = column_ref(rows, name) if rows else quote_name(name)
        if not self._has_mixed_types(name):
            return value
        [scratch_type] = (mapping.scratch_type for mapping in load.columns if mapping.name == name)
        return cast_sql(value, TargetType.from_text(scratch_type), self._common_type(name))

    def _is_document(self, name: str) -> bool:
        return self.existing.columns[name].type == _DOCUMENT_TYPE

    def _common_type(self, name: str) -> TargetType:
        """Return the type of a column that holds the values of all loads."""
        types = self._scratch_types(name)
        if self._has_mixed_types(name) or not types:
            return _SCRATCH_DOCUMENT_TYPE if self._is_document(name) else self.existing.columns[name].type.without_limit
        return types.pop()

    def _has_mixed_types(self, name: str) -> bool:
        """Return whether the files hold the column in another type than the target's, or in several."""
        types = self._scratch_types(name)
        type_name = (_SCRATCH_DOCUMENT_TYPE if self._is_document(name) else self.existing.columns[name].type).name
        return len(types) > 1 or any(type_.name != type_name for type_ in types)

    def _scratch_types(self, name: str) -> set[TargetType]:
        loads = (*self.loads, *self.delete_loads)
        types = (mapping.scratch_type for load in loads for mapping in load.columns if mapping.name == name)
        return set(map(TargetType.from_text, types))

    def insert(self, table: TableRef, rows: str, *, where: str = "") -> str:
        """Insert rows into a table with the columns and types of the target."""
        filled: list[tuple[str, str]] = []
        for name in self.column_names:
            value = quote_name(name)
            filled.append((value, f"JSON_PARSE({value})" if self._is_document(name) else value))
        if batch_number.BATCH_COLUMN in self.existing:
            filled.append((BATCH_COLUMN, BATCH_COLUMN))
        if LOADED_AT in self.existing:
            filled.append((quote_name(LOADED_AT), "GETDATE()"))
        columns, values = zip(*filled, strict=True)
        condition = f" WHERE {where}" if where else ""
        return f"INSERT INTO {table.sql} ({', '.join(columns)}) SELECT {', '.join(values)} FROM ({rows}) r{condition}"
