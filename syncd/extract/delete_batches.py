"""Batches of keys whose rows were deleted at the source.

The keys are written before the plan is sealed, and the plan names their files: so after a kill the next process can
finish the batch from the plan alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceTable
from syncd.extract.plan_rules import PlanSpan
from syncd.lake.manifest import Manifest, Tombstones
from syncd.lake.read_requests import Part
from syncd.redshift.quoting import is_comparable
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from syncd.tables.sort_order import RowIdentity, resolve_identity
from watermarks.batch import BatchDraft, BatchKind, Plan, PlanBasis
from watermarks.cursor import format_instant
from watermarks.document import Watermark
from watermarks.errors import Misuse

_MANIFEST_FIELD: Final = "manifest"


def find_delete_manifest(plan: Plan) -> Manifest | None:
    """Return the manifest of a plan of deleted keys; None for a plan that reads rows."""
    fields = plan.draft.body.get(_MANIFEST_FIELD)
    return Manifest.from_fields(fields) if fields else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedKeys:
    """Keys that a source no longer has, and the versions up to which that is certain."""

    table: SourceTable
    """The table at the time of the comparison."""
    source_identity: str
    settings: StreamSettings
    tombstones: Tombstones

    def __post_init__(self) -> None:
        cursor = self.identity.cursor
        upto = self.tombstones.upto.values
        if not self.identity.key:
            raise Misuse(f"{self.table} is read whole: the next batch removes rows that were deleted at the source")
        if cursor is not None and not (upto and is_comparable(upto[0])):
            raise Misuse(f"deleted rows of {self.table} need an upper bound of {cursor}")

    @property
    def identity(self) -> RowIdentity:
        return resolve_identity(self.table, self.settings, map_columns(self.table, self.settings))

    @property
    def key_columns(self) -> tuple[ColumnMapping, ...]:
        """Return the columns of the files: those of the key, in its order."""
        by_name = {mapping.name: mapping for mapping in map_columns(self.table, self.settings)}
        return tuple(by_name[name] for name in self.identity.key)

    def draft(self, watermark: Watermark, parts: Sequence[Part]) -> BatchDraft:
        """Return the draft: the whole manifest, and the facts by which any plan is checked to be current."""
        table, mark = self.table, watermark.required_extract_progress.cursor
        manifest = Manifest(
            schema=table.fingerprint,
            columns=self.key_columns,
            identity=self.identity,
            parts=tuple(parts),
            tombstones=self.tombstones,
        )
        return BatchDraft(
            kind=BatchKind.REPAIR,
            basis=PlanBasis(mark=mark, source_identity=self.source_identity, schema=table.fingerprint),
            high=mark,
            body={
                "span": PlanSpan.NONE,
                "database": table.database,
                "table": table.name,
                "created": format_instant(table.created) if table.created else None,
                _MANIFEST_FIELD: manifest.to_fields(),
            },
        )
