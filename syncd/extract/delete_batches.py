"""Burying: a batch of keys whose rows are gone at the source, made for whoever found out.

The keys are written before the plan is sealed, and the plan names their files: so whoever finds the plan after a kill
can finish it, and needs to know nothing but the plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncd.datatypes.columns import Passage
from syncd.datatypes.source_table import Table
from syncd.extract.plan_rules import Span
from syncd.lake.manifest import Manifest
from syncd.lake.tombstones import Tombstones
from syncd.lake.window_reads import Part
from syncd.redshift.quoting import comparable
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import passages
from syncd.tables.row_identity import Identity, identity_of
from watermarks.batch import BatchId, Draft, Filled, Kind, Plan, World
from watermarks.cursor import instant_text
from watermarks.document import Watermark
from watermarks.errors import Misuse
from watermarks.extraction import Producer

_MANIFEST: Final = "manifest"


def burial_of(plan: Plan) -> Manifest | None:
    """The manifest of a plan that buries rows; None where it is a plan to read some."""
    found = plan.draft.body.get(_MANIFEST)
    return Manifest.of_fields(found) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Keys that a source no longer has, and up to which versions that is sure."""

    table: Table
    """As it was when it was looked."""
    source_identity: str
    settings: StreamSettings
    tombstones: Tombstones

    def __post_init__(self) -> None:
        cursor = self.identity.cursor
        upto = self.tombstones.upto.values
        if not self.identity.key:
            raise Misuse(f"{self.table} is read whole: what is gone at the source goes with the next batch")
        if cursor is not None and not (upto and comparable(upto[0])):
            raise Misuse(f"{self.table}: rows that are gone want a bound by {cursor}")

    @property
    def identity(self) -> Identity:
        return identity_of(self.table, self.settings, passages(self.table, self.settings))

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The columns of the files: the key's, in its order."""
        by_name = {passage.name: passage for passage in passages(self.table, self.settings)}
        return tuple(by_name[name] for name in self.identity.key)

    def draft(self, watermark: Watermark, parts: Sequence[Part]) -> Draft:
        """What is sealed: the whole manifest, and the facts by which any plan is found to hold still."""
        table, mark = self.table, watermark.chain.cursor
        manifest = Manifest(
            schema=table.fingerprint,
            passages=self.passages,
            identity=self.identity,
            parts=tuple(parts),
            tombstones=self.tombstones,
        )
        return Draft(
            kind=Kind.REPAIR,
            world=World(mark=mark, source_identity=self.source_identity, schema=table.fingerprint),
            high=mark,
            body={
                "span": Span.NONE,
                "database": table.database,
                "table": table.name,
                "created": instant_text(table.created) if table.created else None,
                _MANIFEST: manifest.fields(),
            },
        )


@dataclass(kw_only=True)
class Burial:
    """A producer of one batch of tombstones; what else stands in the chain's next place, it has carried out first."""

    gone: Gone
    write: Callable[[BatchId, Sequence[Passage]], Sequence[Part]]
    """Writes the keys to files of the batch with this number; see `syncd.s3.tombstone_files`."""
    inner: Producer
    """Whoever carries out the plans of the stream."""
    proposed: bool = field(default=False, init=False)

    def propose(self, watermark: Watermark) -> Draft | None:
        if self.proposed:
            return None
        self.proposed = True
        return self.gone.draft(watermark, self.write(watermark.chain.next, self.gone.passages))

    def holds(self, plan: Plan) -> bool:
        return self.inner.holds(plan)

    def fill(self, plan: Plan) -> Filled:
        return self.inner.fill(plan)

    def drop(self, files: Sequence[str]) -> None:
        self.inner.drop(files)
