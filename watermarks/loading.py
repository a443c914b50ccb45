"""Loading: the order of effects by which the links of a chain reach one target, each of them once.

The target's ledger, written in one transaction with the rows, is the truth about
what is loaded; the loaded mark follows it. Pending batches are counted from the
document, in the order of extraction, and never found by listing.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Final, Protocol

from watermarks.batch import BatchId, BatchLink, ChainBroken
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.errors import DataInDoubt, Stale
from watermarks.extraction import BatchChain
from watermarks.history import ChangeKind, DocumentVersion, Fenced, Journal, StateMissing
from watermarks.lease import HeldClaim, HeldWatermark
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress, LoadProgress, Run


class FenceLost(Stale):
    """The target's fence is older than our claim: it was restored, or never got our epoch. Raise the fence again."""


class FenceAhead(DataInDoubt):
    """The target's fence is of an owner that the history does not know: the lake is older than the target."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LedgerKey:
    """Key of one loaded batch in a ledger. It has the load generation, so that a reset loads every batch again."""

    stream: StreamName
    load_generation: int
    batch: BatchId


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCycle:
    """Work of one transaction in a target."""

    stream: StreamName
    epoch: int
    load_progress: LoadProgress
    extract_progress: ExtractProgress
    due_links: tuple[BatchLink, ...]
    chain: BatchChain
    is_fenced: bool = False
    """True if the fence was at our epoch before, under this claim; if not, this transaction raises it."""

    def ledger_key(self, batch: BatchId) -> LedgerKey:
        return LedgerKey(stream=self.stream, load_generation=self.load_progress.load_generation_of(batch), batch=batch)

    def links_to_load(self, ledger: Container[LedgerKey]) -> Iterator[BatchLink]:
        """Yield what the ledger, read under the lock, lacks: lost batches first, then pending ones, in order.

        A lost link is read only when it is asked for, since one transaction may load the first of many.

        Raises:
            StateMissing: the link of a lost batch is missing.
        """
        yield from (self.chain.require_link(batch) for batch in self.find_lost_batches(ledger))
        yield from (link for link in self.due_links if self.ledger_key(link.id) not in ledger)

    def find_lost_batches(self, ledger: Container[LedgerKey]) -> tuple[BatchId, ...]:
        """Return the batches at or below the loaded mark that the ledger lacks, as after a restore of the target.

        A ledger can lack only its newest batches, since every transaction loads all that are lost, in order. So the
        first batch that the ledger holds ends the search, and the cost does not grow with age.
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
    """Result of one batch in a target."""

    rows: int
    """Rows in the ledger."""
    refused_rows: int = 0
    """Rows that the target refused and that were quarantined, by this process or an earlier one."""
    reason: str = ""
    """Reason why the first of these was refused, if known."""


class Target(Protocol):
    """Target of batches: one transaction a cycle, and no other writer under this stream's fence."""

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        """Lock, compare the fence, read the ledger, apply `cycle.links_to_load`, write ledger rows last, commit.

        Where the fence must rise (`require_fence`), end older sessions first and write our epoch in the same
        transaction; commit it even if no batch is to be loaded.

        The target may load only the first of them, if all are too many for one transaction. Return the result
        of each batch of the cycle that the ledger now holds, whichever process loaded it, and of each lost batch
        that it holds again. Rows rank by `BatchLink.rank`, then by cursor within one batch.

        Raises:
            OutcomeUnknown: the commit was sent and no answer came. The next cycle finds out under the lock.
            Fenced, FenceLost: the fence is not ours (`require_fence`).
        """
        ...


def require_fence(stored_epoch: int, epoch: int, *, was_raised: bool) -> bool:
    """Return True if the fence, read under its lock, must rise to our epoch; refuse the fence of another owner.

    Raises:
        Fenced: a later owner has raised it.
        FenceLost: it is below our epoch, although it was at our epoch before.
    """
    if stored_epoch > epoch:
        raise Fenced(
            f"the target's fence is at epoch {stored_epoch}, this process has epoch {epoch}",
            hint="Another process has taken over the stage and continues the work.",
        )
    if stored_epoch < epoch and was_raised:
        raise FenceLost(
            f"the target's fence is at epoch {stored_epoch}, this process has epoch {epoch}",
            hint="The warehouse was probably restored. The next load raises the fence again.",
        )
    return stored_epoch != epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Outcome of one call."""

    links: tuple[BatchLink, ...] = ()
    rows: int = 0
    """Rows of these links in the ledger."""
    reloaded_batches: int = 0
    """Batches at or below the mark that the ledger had lost and that were loaded again; more may be lost."""
    refused_by_batch: Mapping[BatchId, BatchLoadResult] = field(default_factory=dict[BatchId, BatchLoadResult])
    """Those of all these batches that had refused rows."""
    watermark: Watermark | None = None
    previous_batch: BatchId = BEFORE_FIRST_BATCH
    """Last batch loaded before these; a person left out the batches between."""


NOTHING_LOADED: Final = LoadResult()


class Loading:
    """Load stage of one stream into one target, while this process holds its claim."""

    def __init__(self, journal: Journal[Watermark], held: HeldClaim, get_target: Callable[[], Target]) -> None:
        """Begin; `get_target` is called for each transaction, and never where there is nothing to load."""
        self.chain = BatchChain(journal, held.stream)
        self._journal = journal
        self._held = held
        self._get_target = get_target
        self._document = HeldWatermark(journal, held)
        self._is_fenced = False
        self._last_loaded_link: BatchLink | None = None

    def load_next_batches(
        self,
        run: Run,
        *,
        max_batches: int,
        check_ledger: bool,
        max_rows: int | None = None,
        last_seen: DocumentVersion[Watermark] | None = None,
        on_loaded: Callable[[LoadResult], None] = lambda _result: None,
    ) -> LoadResult:
        """Load the next batches in one transaction; after its commit, move the mark.

        `max_rows` limits the rows of the batches together; one batch is always taken. `check_ledger` asks the
        ledger even if no batch is pending: nothing else shows that the warehouse was restored. `last_seen` is the
        document as the caller has just read it, and saves one request. `on_loaded` receives the result before the
        mark moves, with the document as it was. After a kill in between, the next call reports it again: so no
        event is lost with a process.

        Raises:
            Fenced: another process has taken the stage over; writes of this one do not count any more.
            FenceAhead: the target knows a later owner than the lake does.
        """
        started = self._journal.clock.monotonic()
        seen = self._read_version(last_seen)
        newest = seen.state if seen else self._journal.read_newest(self._held.stream.stem)
        state = self._document.require_owned(newest)
        load = state.load_progress
        extract = state.extract_progress or self._read_extract_progress(load)
        pending = tuple(islice(extract.batch_ids(after=load.last_batch), max_batches))
        if not pending and not check_ledger:
            return NOTHING_LOADED
        links = tuple(self._take_links(pending, max_rows, extract))
        cycle = LoadCycle(
            stream=self._held.stream,
            epoch=self._held.epoch,
            load_progress=load,
            extract_progress=extract,
            due_links=links,
            chain=self.chain,
            is_fenced=self._is_fenced,
        )
        by_batch = self._load(cycle)
        loaded = tuple(takewhile(lambda link: link.id in by_batch, links))
        result = _summarize(by_batch, loaded, state)
        on_loaded(result)
        timed_run = replace(run, seconds=run.seconds + self._journal.clock.monotonic() - started)
        watermark = self._advance(cycle, loaded, by_batch, timed_run, seen)
        self._last_loaded_link = loaded[-1] if loaded else self._last_loaded_link
        return replace(result, watermark=watermark)

    def record_failure(self, message: str, make_failure: Callable[[int], FailureRecord]) -> None:
        """Record a failure in the history; no mark moves. `make_failure` receives the number of the attempt."""

        def update(state: Watermark) -> Watermark:
            previous = state.failures.get(Stage.LOAD)
            return state.with_failure(Stage.LOAD, make_failure(previous.attempt + 1 if previous else 1))

        self._document.commit(update, ChangeKind.FAIL, reason=message)

    def _read_version(self, last_seen: DocumentVersion[Watermark] | None) -> DocumentVersion[Watermark] | None:
        """Return the document, or None if it lags behind the entry of this process's own takeover."""
        if last_seen is not None and not self._document.is_behind_claim(last_seen.state):
            return last_seen
        seen = self._journal.read_version(self._held.stream.stem)
        return None if seen is None or self._document.is_behind_claim(seen.state) else seen

    def _take_links(
        self, pending: Iterable[BatchId], max_rows: int | None, extract: ExtractProgress
    ) -> Iterator[BatchLink]:
        rows = 0
        previous: BatchLink | None = None
        for number, batch in enumerate(pending):
            link = self.chain.require_link(batch)
            previous = previous if number else self._previous_link(link, extract)
            _require_chained(previous, link, extract)
            if rows and max_rows is not None and rows + link.rows > max_rows:
                return
            yield link
            rows += link.rows
            previous = link

    def _previous_link(self, link: BatchLink, extract: ExtractProgress) -> BatchLink | None:
        """Return the link before the first one of a call; the one that was loaded last is not read again."""
        up_to = BatchId(link.id.generation, link.id.seq - 1)
        batch = next(extract.batch_ids_newest_first(up_to=up_to, after=BEFORE_FIRST_BATCH), None)
        if batch is None:
            return None
        if self._last_loaded_link is not None and self._last_loaded_link.id == batch:
            return self._last_loaded_link
        return self.chain.require_link(batch)

    def _read_extract_progress(self, load: LoadProgress) -> ExtractProgress:
        stream = self._held.stream.default_stream
        state = self._journal.read(stream.stem)
        if state is None:
            if load.last_batch == BEFORE_FIRST_BATCH:
                return ExtractProgress()  # not extracted yet
            raise StateMissing(f"{stream} has no watermark", hint="Extract the stream first.")
        return state.required_extract_progress

    def _load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        try:
            by_batch = self._get_target().load(cycle)
        except FenceLost:
            self._is_fenced = False  # our claim still holds, or the next entry would say so: raise the fence again
            raise
        except Fenced as error:
            # I11: a takeover is an entry of the history before it raises the fence. If the history has none, the
            # fence is not that of a takeover.
            self._document.require_owned(self._journal.read_newest(self._held.stream.stem))
            raise FenceAhead(
                error.message,
                hint="The lake was emptied or restored and the warehouse was not; no other process has taken over."
                " Drop the fence table. The ledger still shows which batches are loaded.",
            ) from error
        self._is_fenced = True
        return by_batch

    def _advance(
        self,
        cycle: LoadCycle,
        loaded: Sequence[BatchLink],
        by_batch: Mapping[BatchId, BatchLoadResult],
        run: Run,
        seen: DocumentVersion[Watermark] | None,
    ) -> Watermark | None:
        """Move the loaded mark over the batches in the ledger (I4), unless a person has moved it."""

        def update(state: Watermark) -> Watermark | None:
            if state.load_progress.load_generation != cycle.load_progress.load_generation:
                return None
            new_links = [link for link in loaded if link.id > state.load_progress.last_batch]
            for number, link in enumerate(new_links):
                # The batches of one transaction share its time.
                counted_run = replace(run, seconds=0.0) if number else run
                state = state.with_loaded_batch(
                    link, rows=by_batch[link.id].rows, run=counted_run, now=self._journal.clock.now()
                )
            return state if new_links else None

        return self._document.commit(update, ChangeKind.LOAD, last_seen=seen)


def _summarize(
    by_batch: Mapping[BatchId, BatchLoadResult], loaded: tuple[BatchLink, ...], state: Watermark
) -> LoadResult:
    reloaded = [batch for batch in by_batch if batch <= state.load_progress.last_batch]
    batches = (*reloaded, *(link.id for link in loaded))
    return LoadResult(
        links=loaded,
        rows=sum(by_batch[link.id].rows for link in loaded),
        reloaded_batches=len(reloaded),
        refused_by_batch={batch: by_batch[batch] for batch in batches if by_batch[batch].refused_rows},
        watermark=state,
        previous_batch=state.load_progress.last_loaded_batch,
    )


def _require_chained(previous: BatchLink | None, link: BatchLink, extract: ExtractProgress) -> None:
    """Refuse a link that is whole, but is not the one that was extracted.

    Raises:
        ChainBroken: the link, or the document, does not fit the chain.
    """
    is_broken = previous is not None and link.previous != previous.digest
    if is_broken or (link.id == extract.last_batch and link.digest != extract.last_link_digest):
        raise ChainBroken(
            f"batch {link.id} of {link.stream} is not the one that was extracted",
            hint="Restore it from the bucket's versions; it may have been edited by hand.",
        )
