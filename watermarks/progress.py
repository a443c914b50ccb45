"""Extract progress of a stream and load progress of one target: the two parts of a watermark."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self, TypeVar

from watermarks.batch import BatchId, BatchKind, BatchLink, ChainBroken, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.errors import DataInDoubt


class BatchOutOfOrder(DataInDoubt):
    """A batch out of order."""


class RunStrategy(StrEnum):
    """Strategy of the last run; MANUAL after a person set a mark."""

    SEQUENTIAL = "sequential"
    INTER_TABLE = "inter-table"
    INTRA_TABLE = "intra-table"
    MANUAL = "manual_cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass over a stream, as an advance of a mark records it."""

    id: str
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    seconds: float = 0.0
    """Time spent on this batch before the stage starts; the stage adds its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressCounts:
    """Counts of the last run and of the stream's life, added batch by batch from manifests and ledger."""

    run: str | None = None
    run_rows: int = 0
    run_files: int = 0
    rows: int = 0
    files: int = 0
    batches: int = 0
    milliseconds: int = 0

    def with_batch(self, run: Run, *, batch_rows: int, batch_files: int) -> Self:
        """Add one batch; the counts of the run start at zero with each run."""
        is_same_run = self.run == run.id
        return replace(
            self,
            run=run.id,
            run_rows=batch_rows + (self.run_rows if is_same_run else 0),
            run_files=batch_files + (self.run_files if is_same_run else 0),
            rows=self.rows + batch_rows,
            files=self.files + batch_files,
            batches=self.batches + 1,
            milliseconds=self.milliseconds + round(run.seconds * 1000),
        )


ZERO_COUNTS: Final = ProgressCounts()

BEFORE_FIRST_BATCH: Final = BatchId(1, 0)
"""Number before the first batch of every chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractProgress:
    """Extracted mark of a stream, with every closed generation before it."""

    generation: int = 1
    seq: int = 0
    cursor: Cursor = START_CURSOR
    generation_start: Cursor = START_CURSOR
    """Start of this generation; it makes no promise about rows before it."""
    snapshot: SnapshotProgress | None = None
    closed_generations: Mapping[int, int] = field(default_factory=dict[int, int])
    """Last number of each earlier generation; every target loads these first."""
    last_link_digest: str | None = None
    """Digest of the newest link; the next link names it."""
    extracted_at: datetime | None = None
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    proven: bool = False
    """True if no row of this generation at or below the mark can still be committed."""
    source_identity: str | None = None
    counts: ProgressCounts = ZERO_COUNTS

    @property
    def last_batch(self) -> BatchId:
        return BatchId(self.generation, self.seq)

    @property
    def next_batch(self) -> BatchId:
        return self.last_batch.next

    def batch_ids(self, *, after: BatchId) -> Iterator[BatchId]:
        """Yield the batch numbers after one, in the order of extraction; nothing is listed in the store."""
        for generation in (*sorted(self.closed_generations), self.generation):
            yield from (BatchId(generation, seq) for seq in self._seqs(generation, after=after))

    def count_batches(self, *, after: BatchId) -> int:
        """Count the batches after one, without visiting each."""
        return sum(
            len(self._seqs(generation, after=after)) for generation in (*self.closed_generations, self.generation)
        )

    def batch_ids_newest_first(self, *, up_to: BatchId, after: BatchId) -> Iterator[BatchId]:
        """Yield the batch numbers in `(after, up_to]`, newest first."""
        for generation in (self.generation, *sorted(self.closed_generations, reverse=True)):
            seqs = self._seqs(generation, after=after, up_to=up_to)
            yield from (BatchId(generation, seq) for seq in reversed(seqs))

    def _seqs(self, generation: int, *, after: BatchId, up_to: BatchId | None = None) -> range:
        """Return the numbers of a generation in `(after, up_to]`."""
        if generation < after.generation or (up_to and generation > up_to.generation):
            return range(0)
        last = self.last_seq_of(generation)
        if up_to and generation == up_to.generation:
            last = min(last, up_to.seq)
        return range(after.seq + 1 if generation == after.generation else 1, last + 1)

    def last_seq_of(self, generation: int) -> int:
        """Return the last number of a generation; 0 if it has no batch or never existed."""
        return self.seq if generation == self.generation else self.closed_generations.get(generation, 0)

    def has_batch(self, batch: BatchId) -> bool:
        return 1 <= batch.seq <= self.last_seq_of(batch.generation)

    def with_link(self, link: BatchLink, *, run: Run, now: datetime) -> Self:
        """Advance by the next link of the chain.

        Raises:
            BatchOutOfOrder: it is not the next one.
            ChainBroken: it names another link than the newest as the one before it.
        """
        if link.id != self.next_batch:
            raise BatchOutOfOrder(
                f"batch {link.id} does not follow {self.last_batch}",
                hint="See the changes of the mark: syncd watermark history",
            )
        if link.previous != self.last_link_digest:
            raise ChainBroken(
                f"batch {link.id} follows {link.previous}, but the newest link is {self.last_link_digest}",
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
        """Return True if every row from the start of this generation to the mark is proven with this link."""
        moves_mark = link.kind is BatchKind.INCREMENT or (link.snapshot is not None and link.snapshot.done)
        if not moves_mark:
            return self.proven
        return link.proven and (self.proven or self.cursor == self.generation_start)

    def _require_consistent_link(self, link: BatchLink) -> None:
        if link.kind not in {BatchKind.INCREMENT, BatchKind.SNAPSHOT} and link.high != self.cursor:
            raise DataInDoubt(f"batch {link.id} of kind {link.kind} would move the mark to {link.high}")
        horizon = self.snapshot.horizon if self.snapshot else None
        if link.snapshot and horizon is not None and link.snapshot.horizon != horizon:
            raise DataInDoubt(f"batch {link.id} has horizon {link.snapshot.horizon}, but its snapshot has {horizon}")

    def with_new_generation(self, cursor: Cursor, *, snapshot: SnapshotProgress | None) -> Self:
        """Start a new generation at a cursor chosen by a person, and close the old one where it stands."""
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
    """Batches in `(after, up_to]` that a person left out of one target."""

    after: BatchId
    up_to: BatchId

    def __contains__(self, batch: BatchId) -> bool:
        return self.after < batch <= self.up_to


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EarlierLoads:
    """Batches in `(after, up_to]` that an earlier load generation loaded and this one keeps."""

    load_generation: int
    after: BatchId
    up_to: BatchId

    def __contains__(self, batch: BatchId) -> bool:
        return self.after < batch <= self.up_to


SpanT = TypeVar("SpanT", SkippedBatches, EarlierLoads)


def _cut_spans(spans: Iterable[SpanT], up_to: BatchId) -> tuple[SpanT, ...]:
    """Return the spans without the batches after one."""
    cut = (replace(span, up_to=min(span.up_to, up_to)) for span in spans)
    return tuple(span for span in cut if span.after < span.up_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """Loaded mark of one target."""

    load_generation: int = 1
    """Raised by every set or reset of the loaded mark. It is part of the ledger key, so no ledger row undoes them."""
    base: BatchId = BEFORE_FIRST_BATCH
    """Batch after which this load generation began; the ledger holds later batches under it."""
    earlier_loads: tuple[EarlierLoads, ...] = ()
    """Batches before the base, with the load generation under which the ledger holds them."""
    last_batch: BatchId = BEFORE_FIRST_BATCH
    cursor: Cursor = START_CURSOR
    skipped_batches: tuple[SkippedBatches, ...] = ()
    loaded_at: datetime | None = None
    file_count: int = 0
    """Number of files of all batches up to `last_batch`, kept in place of their names."""
    counts: ProgressCounts = ZERO_COUNTS

    def expects_in_ledger(self, batch: BatchId) -> bool:
        """Return True if the ledger must hold this batch of the chain."""
        if batch > self.last_batch or any(batch in span for span in self.skipped_batches):
            return False
        return batch > self.base or any(batch in span for span in self.earlier_loads)

    @property
    def last_loaded_batch(self) -> BatchId:
        """Last batch that was not left out."""
        last = self.last_batch
        for span in reversed(self.skipped_batches):
            last = span.after if span.up_to == last else last
        return last

    def load_generation_of(self, batch: BatchId) -> int:
        """Return the load generation under which the ledger holds a batch, or will."""
        return next((span.load_generation for span in self.earlier_loads if batch in span), self.load_generation)

    def with_loaded_batch(self, link: BatchLink, *, rows: int, run: Run, now: datetime) -> Self:
        """Advance by one batch; the caller ensures that no pending batch lies between."""
        if link.id <= self.last_batch:
            raise BatchOutOfOrder(f"batch {link.id} is already loaded: the last loaded batch is {self.last_batch}")
        return replace(
            self,
            last_batch=link.id,
            cursor=link.high,
            loaded_at=now,
            file_count=self.file_count + len(link.files),
            counts=self.counts.with_batch(run, batch_rows=rows, batch_files=len(link.files)),
        )

    def with_batches_skipped(self, up_to: BatchId) -> Self:
        """Leave out the pending batches up to one for good."""
        if up_to <= self.last_batch:
            raise BatchOutOfOrder(f"batch {up_to} is already loaded: the last loaded batch is {self.last_batch}")
        return replace(
            self,
            last_batch=up_to,
            skipped_batches=(*self.skipped_batches, SkippedBatches(after=self.last_batch, up_to=up_to)),
        )

    def with_new_generation(self, base: BatchId, *, cursor: Cursor) -> Self:
        """Start a new load generation after a batch chosen by a person."""
        skipped = (SkippedBatches(after=self.last_batch, up_to=base),) if base > self.last_batch else ()
        return replace(
            self._with_base(base),
            load_generation=self.load_generation + 1,
            cursor=cursor,
            skipped_batches=_cut_spans(self.skipped_batches, base) + skipped,
        )

    def with_rollback_to(self, earlier: Self) -> Self:
        """Start a new load generation where an earlier state of this target stood, on the batches loaded by then.

        A reload that has begun is not cut off: it goes on from the batches that it has loaded again. Otherwise rows
        that a later batch had removed would stay in the target for good.

        Raises:
            BatchOutOfOrder: the reload would then also load batches that a person had left out.
        """
        is_reloading = self.base < self.last_batch < earlier.last_batch
        if is_reloading and any(self.last_batch < span.up_to for span in earlier.skipped_batches):
            raise BatchOutOfOrder(
                f"a reload is at batch {self.last_batch} of {earlier.last_batch}, and batches ahead of it were"
                " skipped before",
                hint="Load up to these batches with syncd run --load-only --limit, then skip them again.",
            )
        base = self.last_batch if is_reloading else earlier.last_batch
        return replace(
            earlier._with_base(base),
            load_generation=self.load_generation + 1,
            cursor=self.cursor if is_reloading else earlier.cursor,
            skipped_batches=_cut_spans(earlier.skipped_batches, base) if is_reloading else earlier.skipped_batches,
            counts=self.counts,
        )

    def _with_base(self, base: BatchId) -> Self:
        """Make a batch the base of a new load generation; the ledger still has to hold the batches before it."""
        current = EarlierLoads(load_generation=self.load_generation, after=self.base, up_to=self.last_batch)
        return replace(
            self,
            base=base,
            last_batch=base,
            earlier_loads=_cut_spans((*self.earlier_loads, current), base),
            file_count=self.file_count if base == self.last_batch else 0,
        )
