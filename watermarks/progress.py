"""The two halves of a watermark: how far extraction has come, and how far one target's load has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from watermarks.batch import BatchId, BatchKind, BatchLink, ChainBroken, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import DataInDoubt


class BatchOutOfOrder(DataInDoubt):
    """A batch that is not the next one."""


class RunStrategy(StrEnum):
    """How the last run worked, or that a person set the mark."""

    SEQUENTIAL = "sequential"
    INTER_TABLE = "inter-table"
    INTRA_TABLE = "intra-table"
    MANUAL = "manual_cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass over a stream: what an advance says of itself."""

    id: str
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    seconds: float = 0.0
    """Time that was spent on this batch before its turn; the turn adds its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressCounts:
    """Counts, summed batch by batch from manifests and ledger: of the last run, and of the stream's life."""

    run: str | None = None
    run_rows: int = 0
    run_files: int = 0
    rows: int = 0
    files: int = 0
    batches: int = 0
    milliseconds: int = 0

    def with_batch(self, run: Run, *, batch_rows: int, batch_files: int) -> Self:
        """The counts after one more batch; those of the run begin anew with each run."""
        same = self.run == run.id
        return replace(
            self,
            run=run.id,
            run_rows=batch_rows + (self.run_rows if same else 0),
            run_files=batch_files + (self.run_files if same else 0),
            rows=self.rows + batch_rows,
            files=self.files + batch_files,
            batches=self.batches + 1,
            milliseconds=self.milliseconds + round(run.seconds * 1000),
        )


ZERO_COUNTS: Final = ProgressCounts()

BEFORE_FIRST_BATCH: Final = BatchId(1, 0)
"""Before the first batch of any chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractProgress:
    """How far a stream is extracted: a mark, and every closed generation before it."""

    generation: int = 1
    seq: int = 0
    cursor: Cursor = START_CURSOR
    generation_start: Cursor = START_CURSOR
    """Where this generation began: what lies before it, this generation does not promise."""
    snapshot: SnapshotProgress | None = None
    closed_generations: Mapping[int, int] = field(default_factory=dict[int, int])
    """The last number of each earlier generation: what every target lands before it goes on."""
    last_link_digest: str | None = None
    """The digest of the newest link, which the next one will name."""
    extracted_at: datetime | None = None
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    proven: bool = False
    """Whether no row of this generation at or below the mark can still be committed."""
    source_identity: str | None = None
    counts: ProgressCounts = ZERO_COUNTS

    @property
    def last_batch(self) -> BatchId:
        return BatchId(self.generation, self.seq)

    @property
    def next_batch(self) -> BatchId:
        return self.last_batch.next

    def batch_ids(self, *, after: BatchId) -> Iterator[BatchId]:
        """The numbers of the chain behind one, in the order in which they were read; nothing is listed anywhere."""
        for generation in (*sorted(self.closed_generations), self.generation):
            if generation < after.generation:
                continue
            first = after.seq + 1 if generation == after.generation else 1
            for seq in range(first, self.last_seq_of(generation) + 1):
                yield BatchId(generation, seq)

    def count_batches(self, *, after: BatchId) -> int:
        """How many numbers of the chain lie behind one; it costs the same at any age."""
        generations = (one for one in (*self.closed_generations, self.generation) if one >= after.generation)
        skipped = {after.generation: after.seq}
        return sum(max(self.last_seq_of(one) - skipped.get(one, 0), 0) for one in generations)

    def batch_ids_newest_first(self, *, up_to: BatchId, after: BatchId) -> Iterator[BatchId]:
        """The numbers of the chain from one back to the one behind another, newest first."""
        for generation in (self.generation, *sorted(self.closed_generations, reverse=True)):
            if not after.generation <= generation <= up_to.generation:
                continue
            end = self.last_seq_of(generation)
            last = min(up_to.seq, end) if generation == up_to.generation else end
            first = after.seq + 1 if generation == after.generation else 1
            for seq in range(last, first - 1, -1):
                yield BatchId(generation, seq)

    def last_seq_of(self, generation: int) -> int:
        """The last number of a generation; 0 when it has none, or never was."""
        return self.seq if generation == self.generation else self.closed_generations.get(generation, 0)

    def has_batch(self, batch: BatchId) -> bool:
        """Whether the number is a link of the chain."""
        return 1 <= batch.seq <= self.last_seq_of(batch.generation)

    def with_link(self, link: BatchLink, *, run: Run, now: datetime) -> Self:
        """The half after the next link of the chain.

        Raises:
            OutOfTurn: it is not the next one.
            ChainBroken: it does not follow the newest one.
        """
        if link.id != self.next_batch:
            raise BatchOutOfOrder(
                f"batch {link.id} does not follow {self.last_batch}",
                hint="See what happened between: syncd watermark history",
            )
        if link.previous != self.last_link_digest:
            raise ChainBroken(
                f"batch {link.id} follows {link.previous}, the newest link is {self.last_link_digest}",
                hint="Audit the chain: syncd audit",
            )
        self._require_consistent_link(link)
        return replace(
            self,
            seq=link.id.seq,
            cursor=link.high,
            snapshot=link.snapshot or self.snapshot,
            last_link_digest=link.digest,
            extracted_at=now,
            strategy=run.strategy,
            proven=self._is_proven_with(link),
            source_identity=self.source_identity if link.kind is BatchKind.ABANDONED else link.source_identity,
            counts=self.counts.with_batch(run, batch_rows=link.rows, batch_files=len(link.files)),
        )

    def _is_proven_with(self, link: BatchLink) -> bool:
        """Whether everything from where this generation began up to the mark is proven, once the link is done."""
        moves = link.kind is BatchKind.INCREMENT or (link.snapshot is not None and link.snapshot.done)
        return link.proven and (self.proven or self.cursor == self.generation_start) if moves else self.proven

    def _require_consistent_link(self, link: BatchLink) -> None:
        if link.kind not in {BatchKind.INCREMENT, BatchKind.SNAPSHOT} and link.high != self.cursor:
            raise DataInDoubt(f"batch {link.id} of kind {link.kind} would move the mark to {link.high}")
        fixed = self.snapshot.horizon if self.snapshot else None
        if link.snapshot and fixed is not None and link.snapshot.horizon != fixed:
            raise DataInDoubt(f"batch {link.id} has horizon {link.snapshot.horizon}, its first pass began with {fixed}")

    def with_new_generation(self, cursor: Cursor, *, snapshot: SnapshotProgress | None) -> Self:
        """A new generation that starts at a cursor chosen by a person; the old one is closed where it stands."""
        return replace(
            self,
            generation=self.generation + 1,
            seq=0,
            cursor=cursor,
            generation_start=cursor,
            snapshot=snapshot,
            closed_generations=MappingProxyType({**self.closed_generations, self.generation: self.seq}),
            strategy=RunStrategy.MANUAL,
            proven=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SkippedBatches:
    """Batches that a person told a target to leave out: those after one, up to and including another."""

    after: BatchId
    up_to: BatchId

    def __contains__(self, batch: BatchId) -> bool:
        return self.after < batch <= self.up_to


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EarlierLoads:
    """Batches that an earlier load generation landed and this one builds on: after one, up to and including another."""

    load_generation: int
    after: BatchId
    up_to: BatchId

    def __contains__(self, batch: BatchId) -> bool:
        return self.after < batch <= self.up_to


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """How far one target is loaded."""

    load_generation: int = 1
    """Raised by every set or reset of this half, and part of the ledger's key: so the ledger cannot undo it."""
    base: BatchId = BEFORE_FIRST_BATCH
    """Where this load generation began: the ledger holds what came after under it."""
    earlier_loads: tuple[EarlierLoads, ...] = ()
    """What lies before the base, and under which load generation the ledger holds it."""
    last_batch: BatchId = BEFORE_FIRST_BATCH
    cursor: Cursor = START_CURSOR
    skipped_batches: tuple[SkippedBatches, ...] = ()
    loaded_at: datetime | None = None
    file_count: int = 0
    """Files of all batches up to `last`: the count that stands for their names."""
    counts: ProgressCounts = ZERO_COUNTS

    def expects_in_ledger(self, batch: BatchId) -> bool:
        """Whether the ledger must hold this batch of the chain."""
        if batch > self.last_batch or any(batch in span for span in self.skipped_batches):
            return False
        return batch > self.base or any(batch in span for span in self.earlier_loads)

    @property
    def last_loaded_batch(self) -> BatchId:
        """The last batch that is not left out."""
        last = self.last_batch
        for span in reversed(self.skipped_batches):
            last = span.after if span.up_to == last else last
        return last

    def load_generation_of(self, batch: BatchId) -> int:
        """The load generation under which the ledger holds a batch, or will."""
        return next((span.load_generation for span in self.earlier_loads if batch in span), self.load_generation)

    def with_loaded_batch(self, link: BatchLink, *, rows: int, run: Run, now: datetime) -> Self:
        """The half after one more batch; the caller has seen that none is left out between."""
        if link.id <= self.last_batch:
            raise BatchOutOfOrder(f"batch {link.id} is landed already, {self.last_batch} is the last")
        return replace(
            self,
            last_batch=link.id,
            cursor=link.high,
            loaded_at=now,
            file_count=self.file_count + len(link.files),
            counts=self.counts.with_batch(run, batch_rows=rows, batch_files=len(link.files)),
        )

    def with_batches_skipped(self, up_to: BatchId) -> Self:
        """The half with the batches up to one left out for ever."""
        if up_to <= self.last_batch:
            raise BatchOutOfOrder(f"batch {up_to} is landed already, {self.last_batch} is the last")
        return replace(
            self,
            last_batch=up_to,
            skipped_batches=(*self.skipped_batches, SkippedBatches(after=self.last_batch, up_to=up_to)),
        )

    def with_new_generation(self, base: BatchId, *, cursor: Cursor) -> Self:
        """A new load generation that begins after a batch chosen by a person."""
        left_out = (SkippedBatches(after=self.last_batch, up_to=base),) if base > self.last_batch else ()
        return replace(
            self._with_base(base),
            load_generation=self.load_generation + 1,
            cursor=cursor,
            skipped_batches=self._skipped_up_to(base) + left_out,
        )

    def with_rollback_to(self, earlier: Self) -> Self:
        """A new load generation that begins where an earlier state of this half stood, on what had landed by then.

        What has begun to land again lands to its end: what a later batch had taken out would stand there for ever.

        Raises:
            OutOfTurn: batches that a person had left out would land with it.
        """
        again = self.base < self.last_batch < earlier.last_batch
        if again and any(self.last_batch < span.up_to for span in earlier.skipped_batches):
            raise BatchOutOfOrder(
                f"batches up to {self.last_batch} of {earlier.last_batch} are loaded again, and later ones were skipped",
                hint="Let it land to where they begin, by syncd run --load-only --limit, and leave them out again.",
            )
        base = self.last_batch if again else earlier.last_batch
        return replace(
            earlier._with_base(base),
            load_generation=self.load_generation + 1,
            cursor=self.cursor if again else earlier.cursor,
            skipped_batches=earlier._skipped_up_to(base) if again else earlier.skipped_batches,
            counts=self.counts,
        )

    def _with_base(self, base: BatchId) -> Self:
        """This half as what a new load generation builds on: the ledger still has to hold what lies before."""
        landed = (
            *self.earlier_loads,
            EarlierLoads(load_generation=self.load_generation, after=self.base, up_to=self.last_batch),
        )
        cut = (replace(span, up_to=min(span.up_to, base)) for span in landed)
        return replace(
            self,
            base=base,
            last_batch=base,
            earlier_loads=tuple(span for span in cut if span.after < span.up_to),
            file_count=self.file_count if base == self.last_batch else 0,
        )

    def _skipped_up_to(self, base: BatchId) -> tuple[SkippedBatches, ...]:
        cut = (replace(span, up_to=min(span.up_to, base)) for span in self.skipped_batches)
        return tuple(span for span in cut if span.after < span.up_to)
