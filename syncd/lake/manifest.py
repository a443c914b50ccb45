"""Manifest of a batch: what its link says of each file, and the tombstones of a batch of deleted keys."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from syncd.datatypes.columns import ColumnMapping, LogicalType, ParquetType, PhysicalType, TransferType, ValueProblem
from syncd.lake.read_requests import Part, ReadResult
from syncd.tables.column_changes import RedeclaredColumn
from syncd.tables.column_defaults import AddedColumn
from syncd.tables.sort_order import NO_IDENTITY, RowIdentity
from watermarks.batch import BatchId, BatchLink, BatchOutput
from watermarks.cursor import Cursor, format_instant, parse_instant
from watermarks.errors import StateUnreadable
from watermarks.progress import BEFORE_FIRST_BATCH
from watermarks.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstones:
    """Statement of a batch of keys: the source has no row with any of them.

    It deletes versions whose order column is at most that of `upto`, which were committed before the source was
    checked: a row that was inserted again since has a later stamp, and stays.
    """

    upto: Cursor
    """Only its first value counts; if rows have no order column, none does."""
    last_read: BatchId = BEFORE_FIRST_BATCH
    """Versions of this batch and earlier ones were read before the check: they are deleted, whatever their stamp."""
    checked_at: datetime
    """When the source was checked."""

    def to_fields(self) -> dict[str, Any]:
        return {"upto": self.upto.to_texts(), "seen": str(self.last_read), "gone_at": format_instant(self.checked_at)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(
            upto=Cursor.from_texts(fields["upto"]),
            last_read=BatchId.from_text(fields["seen"]) if "seen" in fields else BEFORE_FIRST_BATCH,
            checked_at=parse_instant(fields["gone_at"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Files, columns and plan of one batch."""

    schema: str
    """The fingerprint of the table that was read."""
    columns: tuple[ColumnMapping, ...]
    """The columns of its files, in their order; the column with the batch number follows them."""
    parts: tuple[Part, ...]
    identity: RowIdentity = NO_IDENTITY
    windows: tuple[Window, ...] = ()
    """The ranges of the order that were read; none if the table was read by key, or whole."""
    quarantined_parts: tuple[Part, ...] = ()
    problem_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    plan: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Body of the plan: its horizon and the reason for it, the index, the range of a back-fill."""
    added_columns: Mapping[str, AddedColumn] = field(default_factory=dict[str, AddedColumn])
    """Columns that older batches lack, and the values that rows read before have in them."""
    declarations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Declaration of each column at the source; empty in older manifests, and if no row was read."""
    redeclared_columns: Mapping[str, RedeclaredColumn] = field(default_factory=dict[str, RedeclaredColumn])
    """Columns whose values an ALTER may have changed in rows that older batches have read."""
    tombstones: Tombstones | None = None
    """Set if its files hold keys of deleted rows, and no rows."""

    @property
    def is_whole_table(self) -> bool:
        """Return whether it is a whole table without a key."""
        return not self.identity.key

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def quarantined_rows(self) -> int:
        return sum(part.rows for part in self.quarantined_parts)

    @classmethod
    def from_read(
        cls,
        read: ReadResult,
        *,
        schema: str,
        columns: tuple[ColumnMapping, ...],
        identity: RowIdentity,
        windows: tuple[Window, ...],
        plan: Mapping[str, Any],
        added_columns: Mapping[str, AddedColumn] | None = None,
        declarations: Mapping[str, str] | None = None,
        redeclared_columns: Mapping[str, RedeclaredColumn] | None = None,
    ) -> Self:
        """Build the manifest of a batch that was read; its parts are ordered by key, whatever task ended first."""
        return cls(
            schema=schema,
            columns=columns,
            identity=identity,
            windows=windows,
            parts=tuple(sorted(read.parts, key=lambda part: part.key)),
            quarantined_parts=tuple(sorted(read.quarantined_parts, key=lambda part: part.key)),
            problem_counts=dict(sorted(read.problem_counts.items())),
            plan=plan,
            added_columns=added_columns or {},
            declarations=declarations or {},
            redeclared_columns=redeclared_columns or {},
        )

    def to_filled(self) -> BatchOutput:
        """Return the output that becomes the link of the batch."""
        return BatchOutput(rows=self.rows, files=tuple(part.key for part in self.parts), body=self.to_fields())

    def to_fields(self) -> dict[str, Any]:
        return {
            "schema": self.schema,
            "columns": [_mapping_to_fields(mapping) for mapping in self.columns],
            "identity": {"key": list(self.identity.key), "cursor": self.identity.cursor},
            "windows": [window.to_texts() for window in self.windows],
            "parts": [part.to_fields() for part in self.parts],
            "quarantined": [part.to_fields() for part in self.quarantined_parts],
            "troubles": dict(self.problem_counts),
            "plan": dict(self.plan),
            "added": {name: one.to_fields() for name, one in self.added_columns.items()},
            "declared": dict(self.declarations),
            "redeclared": {name: one.to_fields() for name, one in self.redeclared_columns.items()},
            "tombstones": self.tombstones.to_fields() if self.tombstones else None,
        }

    @classmethod
    def from_link(cls, link: BatchLink) -> Self:
        """Parse the manifest of a link.

        Raises:
            StateUnreadable: the link has no manifest, or contradicts it.
        """
        try:
            manifest = cls.from_fields(link.body)
        except (KeyError, TypeError, ValueError) as error:
            raise StateUnreadable(f"batch {link.id} of {link.stream} has no valid manifest: {error!r}") from error
        if manifest.rows != link.rows or tuple(part.key for part in manifest.parts) != link.files:
            raise StateUnreadable(f"the manifest of batch {link.id} of {link.stream} contradicts its link")
        return manifest

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Parse the fields of a manifest; older links lack the newer fields."""
        tombstones = fields.get("tombstones")
        return cls(
            schema=fields["schema"],
            columns=tuple(_mapping_from_fields(one) for one in fields["columns"]),
            identity=_identity_from_fields(fields["identity"]),
            windows=tuple(Window.from_texts(bounds) for bounds in fields["windows"]),
            parts=tuple(Part.from_fields(one) for one in fields["parts"]),
            quarantined_parts=tuple(Part.from_fields(one) for one in fields["quarantined"]),
            problem_counts=fields["troubles"],
            plan=fields["plan"],
            added_columns={name: AddedColumn.from_fields(one) for name, one in fields.get("added", {}).items()},
            declarations=fields.get("declared", {}),
            redeclared_columns={
                name: RedeclaredColumn.from_fields(one) for name, one in fields.get("redeclared", {}).items()
            },
            tombstones=Tombstones.from_fields(tombstones) if tombstones else None,
        )


def identity_from_link(link: BatchLink) -> RowIdentity | None:
    """Return the columns that identify a row of a batch; None if it was abandoned."""
    fields: Mapping[str, Any] | None = link.body.get("identity")
    return None if fields is None else _identity_from_fields(fields)


def windows_from_link(link: BatchLink) -> tuple[Window, ...]:
    """Return the ranges of the order that a batch read."""
    return tuple(Window.from_texts(bounds) for bounds in link.body.get("windows", ()))


def is_automatic_reread(link: BatchLink) -> bool:
    """Return whether the batch reads a range again because the server, or its clock, changed."""
    return "again" in link.body.get("plan", {})


def is_tombstone_batch(link: BatchLink) -> bool:
    """Return whether the files of a batch hold keys of deleted rows, and no rows."""
    return bool(link.body.get("tombstones"))


def _identity_from_fields(fields: Mapping[str, Any]) -> RowIdentity:
    return RowIdentity(key=tuple(fields["key"]), cursor=fields["cursor"])


def _mapping_to_fields(mapping: ColumnMapping) -> dict[str, Any]:
    parquet = {key: value for key, value in asdict(mapping.parquet).items() if value is not None}
    return {**asdict(mapping), "parquet": parquet}


def _mapping_from_fields(fields: Mapping[str, Any]) -> ColumnMapping:
    stored: dict[str, Any] = dict(fields["parquet"])
    stored |= {"physical": PhysicalType(stored["physical"]), "meaning": LogicalType(stored["meaning"])}
    typed: dict[str, Any] = {
        "travel": TransferType(fields["travel"]),
        "parquet": ParquetType(**stored),
        "befalls": tuple(map(ValueProblem, fields["befalls"])),
    }
    return ColumnMapping(**{**fields, **typed})
