"""The two halves of a watermark: how far extraction has come, and how far one target's load has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from watermarks.batch import BatchId, ChainBroken, Kind, Link, Snapshot
from watermarks.cursor import START, Cursor
from watermarks.errors import DataInDoubt


class OutOfTurn(DataInDoubt):
    """A batch that is not the next one."""


class Strategy(StrEnum):
    """How the last run worked, or that a person set the mark."""

    SEQUENTIAL = "sequential"
    INTER_TABLE = "inter-table"
    INTRA_TABLE = "intra-table"
    MANUAL = "manual_cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass over a stream: what an advance says of itself."""

    id: str
    strategy: Strategy = Strategy.SEQUENTIAL
    seconds: float = 0.0
    """Time that was spent on this batch before its turn; the turn adds its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts, summed batch by batch from manifests and ledger: of the last run, and of the stream's life."""

    run: str | None = None
    run_rows: int = 0
    run_files: int = 0
    rows: int = 0
    files: int = 0
    batches: int = 0
    milliseconds: int = 0

    def plus(self, run: Run, *, rows: int, files: int) -> Self:
        """The counts after one more batch; those of the run begin anew with each run."""
        same = self.run == run.id
        return replace(
            self,
            run=run.id,
            run_rows=rows + (self.run_rows if same else 0),
            run_files=files + (self.run_files if same else 0),
            rows=self.rows + rows,
            files=self.files + files,
            batches=self.batches + 1,
            milliseconds=self.milliseconds + round(run.seconds * 1000),
        )


NO_COUNTS: Final = Tally()

ORIGIN: Final = BatchId(1, 0)
"""Before the first batch of any chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """How far a stream is extracted: a mark, and every closed generation before it."""

    generation: int = 1
    seq: int = 0
    cursor: Cursor = START
    began: Cursor = START
    """Where this generation began: what lies before it, this generation does not promise."""
    snapshot: Snapshot | None = None
    closed: Mapping[int, int] = field(default_factory=dict[int, int])
    """The last number of each earlier generation: what every target lands before it goes on."""
    chain: str | None = None
    """The digest of the newest link, which the next one will name."""
    at: datetime | None = None
    strategy: Strategy = Strategy.SEQUENTIAL
    proven: bool = False
    """Whether no row of this generation at or below the mark can still be committed."""
    source_identity: str | None = None
    tally: Tally = NO_COUNTS

    @property
    def last(self) -> BatchId:
        return BatchId(self.generation, self.seq)

    @property
    def next(self) -> BatchId:
        return self.last.next

    def ids(self, *, after: BatchId) -> Iterator[BatchId]:
        """The numbers of the chain behind one, in the order in which they were read; nothing is listed anywhere."""
        for generation in (*sorted(self.closed), self.generation):
            if generation < after.generation:
                continue
            first = after.seq + 1 if generation == after.generation else 1
            for seq in range(first, self.end_of(generation) + 1):
                yield BatchId(generation, seq)

    def count(self, *, after: BatchId) -> int:
        """How many numbers of the chain lie behind one; it costs the same at any age."""
        generations = (one for one in (*self.closed, self.generation) if one >= after.generation)
        skipped = {after.generation: after.seq}
        return sum(max(self.end_of(one) - skipped.get(one, 0), 0) for one in generations)

    def ids_back(self, *, upto: BatchId, after: BatchId) -> Iterator[BatchId]:
        """The numbers of the chain from one back to the one behind another, newest first."""
        for generation in (self.generation, *sorted(self.closed, reverse=True)):
            if not after.generation <= generation <= upto.generation:
                continue
            end = self.end_of(generation)
            last = min(upto.seq, end) if generation == upto.generation else end
            first = after.seq + 1 if generation == after.generation else 1
            for seq in range(last, first - 1, -1):
                yield BatchId(generation, seq)

    def end_of(self, generation: int) -> int:
        """The last number of a generation; 0 when it has none, or never was."""
        return self.seq if generation == self.generation else self.closed.get(generation, 0)

    def holds(self, batch: BatchId) -> bool:
        """Whether the number is a link of the chain."""
        return 1 <= batch.seq <= self.end_of(batch.generation)

    def with_link(self, link: Link, *, run: Run, at: datetime) -> Self:
        """The half after the next link of the chain.

        Raises:
            OutOfTurn: it is not the next one.
            ChainBroken: it does not follow the newest one.
        """
        if link.id != self.next:
            raise OutOfTurn(
                f"batch {link.id} does not follow {self.last}",
                hint="See what happened between: syncd watermark history",
            )
        if link.previous != self.chain:
            raise ChainBroken(
                f"batch {link.id} follows {link.previous}, the newest link is {self.chain}",
                hint="Audit the chain: syncd audit",
            )
        self._require_way(link)
        return replace(
            self,
            seq=link.id.seq,
            cursor=link.high,
            snapshot=link.snapshot or self.snapshot,
            chain=link.digest,
            at=at,
            strategy=run.strategy,
            proven=self._proven_with(link),
            source_identity=self.source_identity if link.kind is Kind.ABANDONED else link.source_identity,
            tally=self.tally.plus(run, rows=link.rows, files=len(link.files)),
        )

    def _proven_with(self, link: Link) -> bool:
        """Whether everything from where this generation began up to the mark is proven, once the link is done."""
        moves = link.kind is Kind.INCREMENT or (link.snapshot is not None and link.snapshot.done)
        return link.proven and (self.proven or self.cursor == self.began) if moves else self.proven

    def _require_way(self, link: Link) -> None:
        if link.kind not in {Kind.INCREMENT, Kind.SNAPSHOT} and link.high != self.cursor:
            raise DataInDoubt(f"batch {link.id} of kind {link.kind} would move the mark to {link.high}")
        fixed = self.snapshot.horizon if self.snapshot else None
        if link.snapshot and fixed is not None and link.snapshot.horizon != fixed:
            raise DataInDoubt(f"batch {link.id} has horizon {link.snapshot.horizon}, its first pass began with {fixed}")

    def anew(self, cursor: Cursor, *, snapshot: Snapshot | None) -> Self:
        """A new generation that starts at a cursor chosen by a person; the old one is closed where it stands."""
        return replace(
            self,
            generation=self.generation + 1,
            seq=0,
            cursor=cursor,
            began=cursor,
            snapshot=snapshot,
            closed=MappingProxyType({**self.closed, self.generation: self.seq}),
            strategy=Strategy.MANUAL,
            proven=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Skipped:
    """Batches that a person told a target to leave out: those after one, up to and including another."""

    after: BatchId
    upto: BatchId

    def __contains__(self, batch: BatchId) -> bool:
        return self.after < batch <= self.upto


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Landings:
    """Batches that an earlier load generation landed and this one builds on: after one, up to and including another."""

    load_generation: int
    after: BatchId
    upto: BatchId

    def __contains__(self, batch: BatchId) -> bool:
        return self.after < batch <= self.upto


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """How far one target is loaded."""

    load_generation: int = 1
    """Raised by every set or reset of this half, and part of the ledger's key: so the ledger cannot undo it."""
    base: BatchId = ORIGIN
    """Where this load generation began: the ledger holds what came after under it."""
    earlier: tuple[Landings, ...] = ()
    """What lies before the base, and under which load generation the ledger holds it."""
    last: BatchId = ORIGIN
    cursor: Cursor = START
    skipped: tuple[Skipped, ...] = ()
    at: datetime | None = None
    folded: int = 0
    """Files of all batches up to `last`: the count that stands for their names."""
    tally: Tally = NO_COUNTS

    def expects(self, batch: BatchId) -> bool:
        """Whether the ledger must hold this batch of the chain."""
        if batch > self.last or any(batch in span for span in self.skipped):
            return False
        return batch > self.base or any(batch in span for span in self.earlier)

    @property
    def last_landed(self) -> BatchId:
        """The last batch that is not left out."""
        last = self.last
        for span in reversed(self.skipped):
            last = span.after if span.upto == last else last
        return last

    def landed_under(self, batch: BatchId) -> int:
        """The load generation under which the ledger holds a batch, or will."""
        return next((span.load_generation for span in self.earlier if batch in span), self.load_generation)

    def with_landed(self, link: Link, *, rows: int, run: Run, at: datetime) -> Self:
        """The half after one more batch; the caller has seen that none is left out between."""
        if link.id <= self.last:
            raise OutOfTurn(f"batch {link.id} is landed already, {self.last} is the last")
        return replace(
            self,
            last=link.id,
            cursor=link.high,
            at=at,
            folded=self.folded + len(link.files),
            tally=self.tally.plus(run, rows=rows, files=len(link.files)),
        )

    def skipping(self, upto: BatchId) -> Self:
        """The half with the batches up to one left out for ever."""
        if upto <= self.last:
            raise OutOfTurn(f"batch {upto} is landed already, {self.last} is the last")
        return replace(self, last=upto, skipped=(*self.skipped, Skipped(after=self.last, upto=upto)))

    def anew(self, base: BatchId, *, cursor: Cursor) -> Self:
        """A new load generation that begins after a batch chosen by a person."""
        left_out = (Skipped(after=self.last, upto=base),) if base > self.last else ()
        return replace(
            self._upto(base),
            load_generation=self.load_generation + 1,
            cursor=cursor,
            skipped=self._skipped(base) + left_out,
        )

    def back_at(self, before: Self) -> Self:
        """A new load generation that begins where an earlier state of this half stood, on what had landed by then.

        What has begun to land again lands to its end: what a later batch had taken out would stand there for ever.

        Raises:
            OutOfTurn: batches that a person had left out would land with it.
        """
        again = self.base < self.last < before.last
        if again and any(self.last < span.upto for span in before.skipped):
            raise OutOfTurn(
                f"batches up to {self.last} of {before.last} have landed again, and behind them some were left out",
                hint="Let it land to where they begin, by syncd run --load-only --limit, and leave them out again.",
            )
        base = self.last if again else before.last
        return replace(
            before._upto(base),
            load_generation=self.load_generation + 1,
            cursor=self.cursor if again else before.cursor,
            skipped=before._skipped(base) if again else before.skipped,
            tally=self.tally,
        )

    def _upto(self, base: BatchId) -> Self:
        """This half as what a new load generation builds on: the ledger still has to hold what lies before."""
        landed = (*self.earlier, Landings(load_generation=self.load_generation, after=self.base, upto=self.last))
        cut = (replace(span, upto=min(span.upto, base)) for span in landed)
        return replace(
            self,
            base=base,
            last=base,
            earlier=tuple(span for span in cut if span.after < span.upto),
            folded=self.folded if base == self.last else 0,
        )

    def _skipped(self, base: BatchId) -> tuple[Skipped, ...]:
        cut = (replace(span, upto=min(span.upto, base)) for span in self.skipped)
        return tuple(span for span in cut if span.after < span.upto)
