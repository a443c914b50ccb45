"""Burying: a batch of keys whose rows are gone at the source, made for whoever found out.

The keys are written before the plan is sealed, and the plan names their files: so whoever finds the plan after a kill
can finish it, and needs to know nothing but the plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.source_table import SourceTable
from syncd.extract.plan_rules import PlanSpan
from syncd.lake.manifest import Manifest
from syncd.lake.tombstones import Tombstones
from syncd.lake.window_reads import Part
from syncd.redshift.quoting import is_comparable
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import map_columns
from syncd.tables.row_identity import RowIdentity, resolve_identity
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchOutput, Plan, PlanBasis
from watermarks.cursor import format_instant
from watermarks.document import Watermark
from watermarks.errors import Misuse
from watermarks.extraction import BatchProducer

_MANIFEST_FIELD: Final = "manifest"


def find_delete_manifest(plan: Plan) -> Manifest | None:
    """The manifest of a plan that buries rows; None where it is a plan to read some."""
    found = plan.draft.body.get(_MANIFEST_FIELD)
    return Manifest.from_fields(found) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedKeys:
    """Keys that a source no longer has, and up to which versions that is sure."""

    table: SourceTable
    """As it was when it was looked."""
    source_identity: str
    settings: StreamSettings
    tombstones: Tombstones

    def __post_init__(self) -> None:
        cursor = self.identity.cursor
        upto = self.tombstones.upto.values
        if not self.identity.key:
            raise Misuse(f"{self.table} is read whole: what is gone at the source goes with the next batch")
        if cursor is not None and not (upto and is_comparable(upto[0])):
            raise Misuse(f"{self.table}: rows that are gone want a bound by {cursor}")

    @property
    def identity(self) -> RowIdentity:
        return resolve_identity(self.table, self.settings, map_columns(self.table, self.settings))

    @property
    def key_columns(self) -> tuple[ColumnMapping, ...]:
        """The columns of the files: the key's, in its order."""
        by_name = {passage.name: passage for passage in map_columns(self.table, self.settings)}
        return tuple(by_name[name] for name in self.identity.key)

    def draft(self, watermark: Watermark, parts: Sequence[Part]) -> BatchDraft:
        """What is sealed: the whole manifest, and the facts by which any plan is found to hold still."""
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


@dataclass(kw_only=True)
class DeleteBatchProducer:
    """A producer of one batch of tombstones; what else stands in the chain's next place, it has carried out first."""

    deleted_keys: DeletedKeys
    write_keys: Callable[[BatchId, Sequence[ColumnMapping]], Sequence[Part]]
    """Writes the keys to files of the batch with this number; see `syncd.s3.part_files`."""
    executor: BatchProducer
    """Whoever carries out the plans of the stream."""
    has_proposed: bool = field(default=False, init=False)

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        if self.has_proposed:
            return None
        self.has_proposed = True
        return self.deleted_keys.draft(
            watermark, self.write_keys(watermark.required_extract_progress.next_batch, self.deleted_keys.key_columns)
        )

    def is_plan_current(self, plan: Plan) -> bool:
        return self.executor.is_plan_current(plan)

    def write_files(self, plan: Plan) -> BatchOutput:
        return self.executor.write_files(plan)

    def delete_files(self, files: Sequence[str]) -> None:
        self.executor.delete_files(files)
