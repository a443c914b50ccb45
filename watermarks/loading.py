"""Landing: the order of effects by which the links of a chain reach one target, each of them once.

The target's own ledger, written in one transaction with the rows, is the truth
about what landed; the loaded mark follows it. What is due is counted from the
document, in the order of reading, and never found by listing.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Final, Protocol

from watermarks.batch import BatchId, ChainBroken, Link
from watermarks.document import Failure, Stage, Watermark
from watermarks.errors import DataInDoubt, Stale
from watermarks.extraction import Chain
from watermarks.history import Change, Fenced, Journal, Note, Seen, StateMissing
from watermarks.lease import Held, require_epoch
from watermarks.names import StreamName
from watermarks.progress import ORIGIN, Extracted, Loaded, Run


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
class Cycle:
    """What one transaction is to bring about in a target."""

    stream: StreamName
    epoch: int
    half: Loaded
    extracted: Extracted
    due: tuple[Link, ...]
    chain: Chain
    fenced: bool = False
    """Whether the target's fence has been at our epoch under this claim; if not, it rises with what lands."""

    def key(self, batch: BatchId) -> LedgerKey:
        return LedgerKey(stream=self.stream, load_generation=self.half.landed_under(batch), batch=batch)

    def to_land(self, ledger: Container[LedgerKey]) -> Iterator[Link]:
        """What the ledger, read under the lock, lacks: first what it lost, then what is due, in order of reading.

        A link that was lost is read when it is asked for: one transaction takes the first of many.

        Raises:
            StateMissing: it lost a batch whose link is gone.
        """
        yield from (self.chain.required(batch) for batch in self.lost(ledger))
        yield from (link for link in self.due if self.key(link.id) not in ledger)

    def lost(self, ledger: Container[LedgerKey]) -> tuple[BatchId, ...]:
        """Batches at or below the loaded mark that the ledger no longer holds: an older state was restored.

        What a ledger lacks is its newest: every cycle lands all of it, in order,
        in one transaction. So the first batch that is found ends the search,
        and its cost does not grow with age.
        """
        lost: list[BatchId] = []
        for batch in self.extracted.ids_back(upto=self.half.last, after=ORIGIN):
            if self.half.expects(batch):
                if self.key(batch) in ledger:
                    break
                lost.append(batch)
        return tuple(reversed(lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What a batch brought to a target."""

    rows: int
    """As the ledger has them."""
    refused: int = 0
    """Rows of its files that the target did not take, and that were put aside, by whomever."""
    reason: str = ""
    """Why the first of these was refused, where that is known."""


class Target(Protocol):
    """Where batches land. One transaction a cycle; nobody else writes there under this stream's fence."""

    def land(self, cycle: Cycle) -> Mapping[BatchId, Brought]:
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


def require_fence(stored: int, epoch: int, *, fenced: bool) -> bool:
    """Whether the fence, read under its lock, is to rise to our epoch; refuse to write through another's.

    Raises:
        Fenced: a later owner has raised it.
        FenceLost: it is below ours, although it was at ours before.
    """
    if stored > epoch:
        raise Fenced(
            f"the target's fence is at epoch {stored}, ours is {epoch}",
            hint="Another process has taken over: leave it.",
        )
    if stored < epoch and fenced:
        raise FenceLost(f"the target's fence is at epoch {stored}, ours is {epoch}", hint="Was the warehouse restored?")
    return stored != epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What one turn did."""

    links: tuple[Link, ...] = ()
    rows: int = 0
    """Of these links, as the ledger has them."""
    again: int = 0
    """Batches at or below the mark that the ledger had lost and that were landed anew; there may be more of them."""
    refused: Mapping[BatchId, Brought] = field(default_factory=dict[BatchId, Brought])
    """Of all these, the batches of which rows were put aside."""
    watermark: Watermark | None = None
    after: BatchId = ORIGIN
    """The last batch that had landed before these; what lies between was left out by a person."""


NOTHING: Final = Landed()


class Landing:
    """The load stage of one stream into one target, for as long as its claim is held."""

    def __init__(self, journal: Journal[Watermark], held: Held, target: Target) -> None:
        self.chain = Chain(journal, held.stream)
        self._journal = journal
        self._held = held
        self._target = target
        self._fenced = False
        self._newest: Link | None = None
        """The last link that we landed."""

    def turn(
        self,
        run: Run,
        *,
        most: int,
        compare: bool,
        rows: int | None = None,
        since: Seen[Watermark] | None = None,
        hear: Callable[[Landed], None] = lambda _landed: None,
    ) -> Landed:
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
        seen = self._seen(since)
        state = self._mine(seen.state if seen else self._journal.newest(self._held.stream.stem))
        extracted = state.extracted or self._extracted(state.loaded)
        due = tuple(islice(extracted.ids(after=state.loaded.last), most))
        if not due and not compare:
            return NOTHING
        links = tuple(self._taken(due, rows, extracted))
        cycle = Cycle(
            stream=self._held.stream,
            epoch=self._held.epoch,
            half=state.loaded,
            extracted=extracted,
            due=links,
            chain=self.chain,
            fenced=self._fenced,
        )
        brought = self._land(cycle)
        landed = tuple(takewhile(lambda link: link.id in brought, links))
        again = [batch for batch in brought if batch <= state.loaded.last]
        refused = {batch: brought[batch] for batch in (*again, *(link.id for link in landed)) if brought[batch].refused}
        rows_landed = sum(brought[link.id].rows for link in landed)
        found = Landed(
            links=landed,
            rows=rows_landed,
            again=len(again),
            refused=refused,
            watermark=state,
            after=state.loaded.last_landed,
        )
        hear(found)
        timed = replace(run, seconds=run.seconds + self._journal.clock.monotonic() - began)
        watermark = self._advance(cycle, landed, brought, timed, seen)
        self._newest = landed[-1] if landed else self._newest
        return replace(found, watermark=watermark)

    def _seen(self, since: Seen[Watermark] | None) -> Seen[Watermark] | None:
        """The document; None where it lags behind the entry of our own takeover."""
        if since is not None and not self._behind(since):
            return since
        seen = self._journal.seen(self._held.stream.stem)
        return None if seen is None or self._behind(seen) else seen

    def _behind(self, seen: Seen[Watermark]) -> bool:
        return seen.state.epochs.get(self._held.stage, 0) < self._held.epoch

    def _taken(self, due: Iterable[BatchId], rows: int | None, extracted: Extracted) -> Iterator[Link]:
        taken = 0
        before: Link | None = None
        for number, batch in enumerate(due):
            link = self.chain.required(batch)
            before = before if number else self._before(link, extracted)
            _require_chained(before, link, extracted)
            if taken and rows is not None and taken + link.rows > rows:
                return
            yield link
            taken += link.rows
            before = link

    def _before(self, link: Link, extracted: Extracted) -> Link | None:
        """The link that the first of a turn follows; the one that we landed last needs no reading."""
        upto = BatchId(link.id.generation, link.id.seq - 1)
        batch = next(extracted.ids_back(upto=upto, after=ORIGIN), None)
        if batch is None or (self._newest is not None and self._newest.id == batch):
            return self._newest if batch else None
        return self.chain.required(batch)

    def fail(self, message: str, *, failure: Failure) -> None:
        """Note a failure in history. No position moves."""

        def failed(state: Watermark | None) -> Watermark:
            return self._mine(state).with_failure(Stage.LOAD, failure)

        self._journal.commit(self._held.stream.stem, failed, self._note(Change.FAIL, message))

    def _extracted(self, half: Loaded) -> Extracted:
        state = self._journal.read(self._held.stream.default.stem)
        if state is None:
            if half.last == ORIGIN:
                return Extracted()  # its first extraction is yet to come
            raise StateMissing(f"{self._held.stream.default} has no watermark", hint="Extract first.")
        return state.chain

    def _mine(self, state: Watermark | None) -> Watermark:
        if state is None:
            raise StateMissing(f"{self._held.stream} has no watermark, yet its stage is held")
        require_epoch(state, Stage.LOAD, self._held.epoch)
        return state

    def _land(self, cycle: Cycle) -> Mapping[BatchId, Brought]:
        try:
            landed = self._target.land(cycle)
        except FenceLost:
            self._fenced = False  # our claim still stands, or the next entry would say so: raise it anew
            raise
        except Fenced as error:
            # I11: whoever takes over says so in history before the fence. What history knows nothing of is no takeover.
            self._mine(self._journal.newest(self._held.stream.stem))
            raise FenceAhead(
                error.message,
                hint="Nobody has taken over: the lake was emptied or restored, and the warehouse was not. Drop the"
                " fence's table; the ledger then tells what had landed.",
            ) from error
        self._fenced = True
        return landed

    def _advance(
        self,
        cycle: Cycle,
        landed: Sequence[Link],
        brought: Mapping[BatchId, Brought],
        run: Run,
        seen: Seen[Watermark] | None,
    ) -> Watermark | None:
        """Move the loaded mark over what the ledger holds (I4), unless a person moved it meanwhile."""

        def advanced(state: Watermark | None) -> Watermark | None:
            state = self._mine(state)
            if state.loaded.load_generation != cycle.half.load_generation:
                return None
            left = [link for link in landed if link.id > state.loaded.last]
            for number, link in enumerate(left):
                # Batches of one transaction have one time between them.
                counted = replace(run, seconds=0.0) if number else run
                state = state.with_landed(link, rows=brought[link.id].rows, run=counted, at=self._journal.clock.now())
            return state if left else None

        return self._journal.commit(self._held.stream.stem, advanced, self._note(Change.LOAD), since=seen)

    def _note(self, change: Change, why: str = "") -> Note:
        held = self._held
        return Note(change=change, who=held.process, why=why, stage=held.stage, epoch=held.epoch)


def _require_chained(before: Link | None, link: Link, extracted: Extracted) -> None:
    """Refuse a link that is not the one which was extracted, though it is whole: somebody put it there.

    Raises:
        ChainBroken: the next link, or the document, names another one.
    """
    broken = before is not None and link.previous != before.digest
    if broken or (link.id == extracted.last and link.digest != extracted.chain):
        raise ChainBroken(
            f"batch {link.id} of {link.stream} is not the one that was extracted",
            hint="Was it edited by hand? Restore it from the bucket's versions.",
        )
