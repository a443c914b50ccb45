"""The manifest of a batch: what its link says of each file, beyond what `watermarks` itself keeps."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from syncd.datatypes.columns import ColumnMapping, LogicalType, ParquetType, PhysicalType, TransferType, ValueProblem
from syncd.lake.tombstones import Tombstones
from syncd.lake.window_reads import Part, ReadResult
from syncd.tables.column_changes import RedeclaredColumn
from syncd.tables.column_defaults import AddedColumn
from syncd.tables.row_identity import NO_IDENTITY, RowIdentity
from watermarks.batch import BatchLink, BatchOutput
from watermarks.errors import StateUnreadable
from watermarks.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One batch as the loader, the cleaner and an auditor meet it."""

    schema: str
    """The fingerprint of the table that was read."""
    columns: tuple[ColumnMapping, ...]
    """The columns of its files, in the files' order; behind them stands the number of the batch."""
    parts: tuple[Part, ...]
    identity: RowIdentity = NO_IDENTITY
    windows: tuple[Window, ...] = ()
    """The ranges of the order that were read; none where the table was read by key, or whole."""
    quarantined_parts: tuple[Part, ...] = ()
    problem_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    plan: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the plan said of itself: its horizon and why, the index, the range of a back-fill."""
    added_columns: Mapping[str, AddedColumn] = field(default_factory=dict[str, AddedColumn])
    """Columns that older batches of the chain lack, and what rows hold in them that were read before."""
    declarations: Mapping[str, str] = field(default_factory=dict[str, str])
    """How the source declares each column; empty in manifests of before, and where no row was read."""
    redeclared_columns: Mapping[str, RedeclaredColumn] = field(default_factory=dict[str, RedeclaredColumn])
    """Columns whose values an ALTER may have changed in rows that older batches of the chain have read."""
    tombstones: Tombstones | None = None
    """Where its files hold keys of rows that are gone, and no rows."""

    @property
    def is_whole_table(self) -> bool:
        """Whether it is a whole table, read at once, in which no column says what row it is."""
        return not self.identity.key

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def quarantined_rows(self) -> int:
        """How many rows lie in quarantine."""
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
        """The manifest of what a reader wrote; parts in the order of their keys, whatever task ended first."""
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
        """What `watermarks` makes a link of."""
        return BatchOutput(rows=self.rows, files=tuple(part.key for part in self.parts), body=self.to_fields())

    def to_fields(self) -> dict[str, Any]:
        return {
            "schema": self.schema,
            "columns": [_mapping_to_fields(passage) for passage in self.columns],
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
        """The manifest inside a link that was carried out.

        Raises:
            StateUnreadable: there is none in it.
        """
        try:
            manifest = cls.from_fields(link.body)
        except (KeyError, TypeError, ValueError) as error:
            raise StateUnreadable(f"batch {link.id} of {link.stream} has no manifest of ours: {error!r}") from error
        if manifest.rows != link.rows or tuple(part.key for part in manifest.parts) != link.files:
            raise StateUnreadable(f"the manifest of batch {link.id} of {link.stream} contradicts its link")
        return manifest

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """The manifest that `fields` wrote; what is younger than a link of old may be missing in it."""
        buried = fields.get("tombstones")
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
            tombstones=Tombstones.from_fields(buried) if buried else None,
        )


def identity_from_link(link: BatchLink) -> RowIdentity | None:
    """By what a link tells rows apart; None of one that was abandoned."""
    found: Mapping[str, Any] | None = link.body.get("identity")
    return None if found is None else _identity_from_fields(found)


def windows_from_link(link: BatchLink) -> tuple[Window, ...]:
    """The ranges of the order that a link says were read."""
    return tuple(Window.from_texts(bounds) for bounds in link.body.get("windows", ()))


def is_automatic_reread(link: BatchLink) -> bool:
    """Whether a link's range was read again without a person's asking: the server, or its clock, was another."""
    return "again" in link.body.get("plan", {})


def is_tombstone_batch(link: BatchLink) -> bool:
    """Whether a link's files hold keys of rows that are gone, and no rows."""
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
