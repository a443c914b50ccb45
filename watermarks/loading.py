"""Landing: the order of effects by which the links of a chain reach one target, each of them once.

The target's own ledger, written in one transaction with the rows, is the truth
about what landed; the loaded mark follows it. What is due is counted from the
document, in the order of reading, and never found by listing.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Final, Protocol

from watermarks.batch import BatchId, BatchLink, ChainBroken
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.errors import DataInDoubt, Stale
from watermarks.extraction import BatchChain
from watermarks.history import ChangeKind, ChangeNote, DocumentVersion, Fenced, Journal, StateMissing
from watermarks.lease import HeldClaim, require_epoch
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress, LoadProgress, Run


class FenceLost(Stale):
    """The target's fence is older than our claim: it was restored, or never got ours. Raise it again."""


class FenceAhead(DataInDoubt):
    """The target's fence is of an owner that history does not know: the lake is older than the target."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LedgerKey:
    """What names one landed batch in a ledger. The load generation belongs to it: a reset lands everything anew."""

    stream: StreamName
    load_generation: int
    batch: BatchId


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCycle:
    """What one transaction is to bring about in a target."""

    stream: StreamName
    epoch: int
    load_progress: LoadProgress
    extract_progress: ExtractProgress
    due_links: tuple[BatchLink, ...]
    chain: BatchChain
    is_fenced: bool = False
    """Whether the target's fence has been at our epoch under this claim; if not, it rises with what lands."""

    def ledger_key(self, batch: BatchId) -> LedgerKey:
        return LedgerKey(stream=self.stream, load_generation=self.load_progress.load_generation_of(batch), batch=batch)

    def links_to_load(self, ledger: Container[LedgerKey]) -> Iterator[BatchLink]:
        """What the ledger, read under the lock, lacks: first what it lost, then what is due, in order of reading.

        A link that was lost is read when it is asked for: one transaction takes the first of many.

        Raises:
            StateMissing: it lost a batch whose link is gone.
        """
        yield from (self.chain.require_link(batch) for batch in self.find_lost_batches(ledger))
        yield from (link for link in self.due_links if self.ledger_key(link.id) not in ledger)

    def find_lost_batches(self, ledger: Container[LedgerKey]) -> tuple[BatchId, ...]:
        """Batches at or below the loaded mark that the ledger no longer holds: an older state was restored.

        What a ledger lacks is its newest: every cycle lands all of it, in order,
        in one transaction. So the first batch that is found ends the search,
        and its cost does not grow with age.
        """
        lost: list[BatchId] = []
        for batch in self.extract_progress.batch_ids_newest_first(
            up_to=self.load_progress.last_batch, after=BEFORE_FIRST_BATCH
        ):
            if self.load_progress.expects_in_ledger(batch):
                if self.ledger_key(batch) in ledger:
                    break
                lost.append(batch)
        return tuple(reversed(lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoadResult:
    """What a batch brought to a target."""

    rows: int
    """As the ledger has them."""
    refused_rows: int = 0
    """Rows of its files that the target did not take, and that were put aside, by whomever."""
    reason: str = ""
    """Why the first of these was refused, where that is known."""


class Target(Protocol):
    """Where batches land. One transaction a cycle; nobody else writes there under this stream's fence."""

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        """Lock, compare the fence, read the ledger, apply `cycle.to_land`, write ledger rows last, commit.

        Where the fence is to rise (`require_fence`), older sessions are ended first, and our epoch
        is written in the same transaction, which is committed even if nothing is to land.

        It may land only the first few of them, where all would be too many for one
        transaction. Returns what each batch of the cycle brought that the ledger now holds,
        whoever landed it, and each that it had lost and holds again. Rows rank by `Link.rank`, then by
        cursor within one batch.

        Raises:
            OutcomeUnknown: the commit was sent and no answer came. The next cycle settles it under the lock.
            Fenced, FenceLost: the fence is not ours (`require_fence`).
        """
        ...


def require_fence(stored_epoch: int, epoch: int, *, was_raised: bool) -> bool:
    """Whether the fence, read under its lock, is to rise to our epoch; refuse to write through another's.

    Raises:
        Fenced: a later owner has raised it.
        FenceLost: it is below ours, although it was at ours before.
    """
    if stored_epoch > epoch:
        raise Fenced(
            f"the target's fence is at epoch {stored_epoch}, ours is {epoch}",
            hint="Another process has taken over: leave it.",
        )
    if stored_epoch < epoch and was_raised:
        raise FenceLost(
            f"the target's fence is at epoch {stored_epoch}, ours is {epoch}", hint="Was the warehouse restored?"
        )
    return stored_epoch != epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one turn did."""

    links: tuple[BatchLink, ...] = ()
    rows: int = 0
    """Of these links, as the ledger has them."""
    reloaded_batches: int = 0
    """Batches at or below the mark that the ledger had lost and that were landed anew; there may be more of them."""
    refused_by_batch: Mapping[BatchId, BatchLoadResult] = field(default_factory=dict[BatchId, BatchLoadResult])
    """Of all these, the batches of which rows were put aside."""
    watermark: Watermark | None = None
    previous_batch: BatchId = BEFORE_FIRST_BATCH
    """The last batch that had landed before these; what lies between was left out by a person."""


NOTHING_LOADED: Final = LoadResult()


class Loading:
    """The load stage of one stream into one target, for as long as its claim is held."""

    def __init__(self, journal: Journal[Watermark], held: HeldClaim, target: Target) -> None:
        self.chain = BatchChain(journal, held.stream)
        self._journal = journal
        self._held = held
        self._target = target
        self._is_fenced = False
        self._last_loaded_link: BatchLink | None = None
        """The last link that we landed."""

    def load_next_batches(
        self,
        run: Run,
        *,
        max_batches: int,
        check_ledger: bool,
        max_rows: int | None = None,
        last_seen: DocumentVersion[Watermark] | None = None,
        on_loaded: Callable[[LoadResult], None] = lambda _landed: None,
    ) -> LoadResult:
        """Land the next batches, at most so many, in one transaction; then, and only then, move the mark.

        Where `rows` is given, no more batches are taken than have so many, one at least. `compare`
        asks the ledger even though nothing is due: a restored warehouse shows itself in no other way.
        `since` is what the caller has just seen of the document, and spares one request. `hear` is told what
        landed before the mark says so, with the document as it was: after a kill in between the next turn tells it
        again, and nothing that has to be told is lost with a process.

        Raises:
            Fenced: another process has taken the stage over; nothing of ours counts any more.
            FenceAhead: the target knows a later owner than the lake does.
        """
        began = self._journal.clock.monotonic()
        seen = self._read_version(last_seen)
        state = self._require_owned(seen.state if seen else self._journal.read_newest(self._held.stream.stem))
        extracted = state.extract_progress or self._read_extract_progress(state.load_progress)
        due = tuple(islice(extracted.batch_ids(after=state.load_progress.last_batch), max_batches))
        if not due and not check_ledger:
            return NOTHING_LOADED
        links = tuple(self._take_links(due, max_rows, extracted))
        cycle = LoadCycle(
            stream=self._held.stream,
            epoch=self._held.epoch,
            load_progress=state.load_progress,
            extract_progress=extracted,
            due_links=links,
            chain=self.chain,
            is_fenced=self._is_fenced,
        )
        brought = self._load(cycle)
        landed = tuple(takewhile(lambda link: link.id in brought, links))
        again = [batch for batch in brought if batch <= state.load_progress.last_batch]
        refused = {
            batch: brought[batch] for batch in (*again, *(link.id for link in landed)) if brought[batch].refused_rows
        }
        rows_landed = sum(brought[link.id].rows for link in landed)
        found = LoadResult(
            links=landed,
            rows=rows_landed,
            reloaded_batches=len(again),
            refused_by_batch=refused,
            watermark=state,
            previous_batch=state.load_progress.last_loaded_batch,
        )
        on_loaded(found)
        timed = replace(run, seconds=run.seconds + self._journal.clock.monotonic() - began)
        watermark = self._advance(cycle, landed, brought, timed, seen)
        self._last_loaded_link = landed[-1] if landed else self._last_loaded_link
        return replace(found, watermark=watermark)

    def _read_version(self, last_seen: DocumentVersion[Watermark] | None) -> DocumentVersion[Watermark] | None:
        """The document; None where it lags behind the entry of our own takeover."""
        if last_seen is not None and not self._is_behind(last_seen):
            return last_seen
        seen = self._journal.read_version(self._held.stream.stem)
        return None if seen is None or self._is_behind(seen) else seen

    def _is_behind(self, seen: DocumentVersion[Watermark]) -> bool:
        return seen.state.epochs.get(self._held.stage, 0) < self._held.epoch

    def _take_links(
        self, due: Iterable[BatchId], max_rows: int | None, extracted: ExtractProgress
    ) -> Iterator[BatchLink]:
        taken = 0
        before: BatchLink | None = None
        for number, batch in enumerate(due):
            link = self.chain.require_link(batch)
            before = before if number else self._previous_link(link, extracted)
            _require_chained(before, link, extracted)
            if taken and max_rows is not None and taken + link.rows > max_rows:
                return
            yield link
            taken += link.rows
            before = link

    def _previous_link(self, link: BatchLink, extracted: ExtractProgress) -> BatchLink | None:
        """The link that the first of a turn follows; the one that we landed last needs no reading."""
        upto = BatchId(link.id.generation, link.id.seq - 1)
        batch = next(extracted.batch_ids_newest_first(up_to=upto, after=BEFORE_FIRST_BATCH), None)
        if batch is None or (self._last_loaded_link is not None and self._last_loaded_link.id == batch):
            return self._last_loaded_link if batch else None
        return self.chain.require_link(batch)

    def record_failure(self, message: str, *, failure: FailureRecord) -> None:
        """Note a failure in history. No position moves."""

        def failed(state: Watermark | None) -> Watermark:
            return self._require_owned(state).with_failure(Stage.LOAD, failure)

        self._journal.commit(self._held.stream.stem, failed, self._make_note(ChangeKind.FAIL, message))

    def _read_extract_progress(self, load_progress: LoadProgress) -> ExtractProgress:
        state = self._journal.read(self._held.stream.default_stream.stem)
        if state is None:
            if load_progress.last_batch == BEFORE_FIRST_BATCH:
                return ExtractProgress()  # its first extraction is yet to come
            raise StateMissing(f"{self._held.stream.default_stream} has no watermark", hint="Extract first.")
        return state.required_extract_progress

    def _require_owned(self, state: Watermark | None) -> Watermark:
        if state is None:
            raise StateMissing(f"{self._held.stream} has no watermark, yet its stage is held")
        require_epoch(state, Stage.LOAD, self._held.epoch)
        return state

    def _load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        try:
            landed = self._target.load(cycle)
        except FenceLost:
            self._is_fenced = False  # our claim still stands, or the next entry would say so: raise it anew
            raise
        except Fenced as error:
            # I11: whoever takes over says so in history before the fence. What history knows nothing of is no takeover.
            self._require_owned(self._journal.read_newest(self._held.stream.stem))
            raise FenceAhead(
                error.message,
                hint="Nobody has taken over: the lake was emptied or restored, and the warehouse was not. Drop the"
                " fence's table; the ledger then tells what had landed.",
            ) from error
        self._is_fenced = True
        return landed

    def _advance(
        self,
        cycle: LoadCycle,
        landed: Sequence[BatchLink],
        brought: Mapping[BatchId, BatchLoadResult],
        run: Run,
        seen: DocumentVersion[Watermark] | None,
    ) -> Watermark | None:
        """Move the loaded mark over what the ledger holds (I4), unless a person moved it meanwhile."""

        def advanced(state: Watermark | None) -> Watermark | None:
            state = self._require_owned(state)
            if state.load_progress.load_generation != cycle.load_progress.load_generation:
                return None
            left = [link for link in landed if link.id > state.load_progress.last_batch]
            for number, link in enumerate(left):
                # Batches of one transaction have one time between them.
                counted = replace(run, seconds=0.0) if number else run
                state = state.with_loaded_batch(
                    link, rows=brought[link.id].rows, run=counted, now=self._journal.clock.now()
                )
            return state if left else None

        return self._journal.commit(self._held.stream.stem, advanced, self._make_note(ChangeKind.LOAD), last_seen=seen)

    def _make_note(self, change: ChangeKind, reason: str = "") -> ChangeNote:
        held = self._held
        return ChangeNote(change=change, author=held.process, reason=reason, stage=held.stage, epoch=held.epoch)


def _require_chained(before: BatchLink | None, link: BatchLink, extracted: ExtractProgress) -> None:
    """Refuse a link that is not the one which was extracted, though it is whole: somebody put it there.

    Raises:
        ChainBroken: the next link, or the document, names another one.
    """
    broken = before is not None and link.previous != before.digest
    if broken or (link.id == extracted.last_batch and link.digest != extracted.last_link_digest):
        raise ChainBroken(
            f"batch {link.id} of {link.stream} is not the one that was extracted",
            hint="Was it edited by hand? Restore it from the bucket's versions.",
        )
