"""Extraction: the order of effects by which one batch after another becomes a link of the chain.

Sealed plan, then files, then the link, then the history's entry, then the
document. Each of them is created only where nothing stands, and each is looked
for before it is made: so a turn that was killed anywhere is finished by the
next one, whoever takes it, and no two writers can both be right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from watermarks.batch import BatchId, Draft, Filled, Kind, Link, Plan
from watermarks.batch_states import Event, State, move
from watermarks.document import Failure, Stage, Watermark
from watermarks.history import Change, Journal, Note, StateMissing
from watermarks.lease import Held, read_held, require_epoch
from watermarks.names import StreamName, link_key, plan_key
from watermarks.progress import Run
from watermarks.store import put_once


class Producer(Protocol):
    """Whoever makes the content of batches: the one part that differs from source to source."""

    def propose(self, watermark: Watermark) -> Draft | None:
        """What the next batch should move; None when there is nothing to do now. Writes nothing."""
        ...

    def holds(self, plan: Plan) -> bool:
        """Whether the world that the plan was made for is still there."""
        ...

    def fill(self, plan: Plan) -> Filled:
        """Read what the plan says and write it to files with names never used before."""
        ...

    def drop(self, files: Sequence[str]) -> None:
        """Remove files that no link names and none ever will."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn did."""

    state: State | None
    """Where the batch ended; None when there was nothing to do."""
    link: Link | None = None
    watermark: Watermark | None = None


IDLE: Final = Turn(state=None)


class Chain:
    """The links of one stream, as they lie in the store."""

    def __init__(self, journal: Journal[Watermark], stream: StreamName) -> None:
        self.stream = stream.default
        self._journal = journal
        self._store = journal.store

    def plan(self, batch: BatchId) -> Plan | None:
        key = plan_key(self.stream, batch)
        stored = self._store.read(key)
        return Plan.of_bytes(stored.body, at=key, stream=self.stream, id=batch) if stored else None

    def link(self, batch: BatchId) -> Link | None:
        key = link_key(self.stream, batch)
        stored = self._store.read(key)
        return Link.of_bytes(stored.body, at=key, stream=self.stream, id=batch) if stored else None

    def required(self, batch: BatchId) -> Link:
        """A link that the document says is there.

        Raises:
            StateMissing: it is not.
        """
        link = self.link(batch)
        if link is None:
            raise StateMissing(
                f"{link_key(self.stream, batch)} is gone, although it is a link of the chain",
                hint="Restore it from the bucket's versions.",
            )
        return link

    def seal(self, plan: Plan) -> Plan:
        """Make this the plan of its number, or learn which one is."""
        kept = put_once(self._store, plan_key(self.stream, plan.id), plan.to_bytes())
        return plan if kept.ours else Plan.of_bytes(kept.body, at="plan", stream=self.stream, id=plan.id)

    def close(self, link: Link) -> Link:
        """Make this the link of its number, or learn which one is."""
        kept = put_once(self._store, link_key(self.stream, link.id), link.to_bytes())
        return link if kept.ours else Link.of_bytes(kept.body, at="link", stream=self.stream, id=link.id)

    def origin_of(self, batch: BatchId) -> BatchId:
        """What a replay of this batch ranks by: the batch that first read its rows, through every replay between."""
        return self.required(batch).rank


class Extraction:
    """The extract stage of one stream, for as long as its claim is held."""

    def __init__(self, journal: Journal[Watermark], held: Held, producer: Producer) -> None:
        self.chain = Chain(journal, held.stream)
        self._journal = journal
        self._held = held
        self._producer = producer
        self._stem = held.stream.stem

    def turn(self, run: Run) -> Turn:
        """Bring the chain one link further: take up what is there, or plan anew.

        Raises:
            Fenced: another process has taken the stage over; nothing of ours counts any more.
        """
        began = self._journal.clock.monotonic()
        watermark = self._read()
        plan = self.chain.plan(watermark.chain.next) or self._planned(watermark)
        if plan is None:
            return IDLE
        link = self.chain.link(plan.id) or self._made(plan, watermark)
        timed = replace(run, seconds=run.seconds + self._journal.clock.monotonic() - began)
        return Turn(state=_end_of(link), link=link, watermark=self._advance(link, timed))

    def fail(self, message: str, *, retry_in: Callable[[int], Failure]) -> None:
        """Note a failure in history. No position moves; `retry_in` turns the attempt's number into the failure."""

        def failed(state: Watermark | None) -> Watermark:
            state = self._mine(state)
            before = state.failures.get(Stage.EXTRACT)
            return state.with_failure(Stage.EXTRACT, retry_in(before.attempt + 1 if before else 1))

        self._journal.commit(self._stem, failed, self._note(Change.FAIL, message))

    def _read(self) -> Watermark:
        return self._mine(read_held(self._journal, self._held))

    def _mine(self, state: Watermark | None) -> Watermark:
        if state is None:
            raise StateMissing(f"{self._held.stream} has no watermark, yet its stage is held")
        require_epoch(state, Stage.EXTRACT, self._held.epoch)
        return state

    def _planned(self, watermark: Watermark) -> Plan | None:
        draft = self._producer.propose(watermark)
        if draft is None:
            return None
        return self.chain.seal(
            Plan(
                stream=self.chain.stream,
                id=watermark.chain.next,
                draft=draft,
                nonce=self._journal.nonce(),
                epoch=self._held.epoch,
                planned_at=self._journal.clock.now(),
            )
        )

    def _made(self, plan: Plan, watermark: Watermark) -> Link:
        """Carry a plan out, or abandon it where its world is gone; the first link at its number wins."""
        same_mark = plan.draft.world.mark == watermark.chain.cursor
        if not (same_mark and self._producer.holds(plan)):
            return self._abandoned(plan, watermark)
        filled = self._producer.fill(plan)
        mine = Link.done(
            plan,
            filled,
            previous=watermark.chain.chain,
            nonce=self._journal.nonce(),
            epoch=self._held.epoch,
            at=self._journal.clock.now(),
        )
        link = self.chain.close(mine)
        # I7: only what the winner does not name may go; a woken writer may have been beaten by its own earlier answer.
        if lost := [name for name in filled.files if name not in link.files]:
            self._producer.drop(lost)
        return link

    def _abandoned(self, plan: Plan, watermark: Watermark) -> Link:
        move(State.PLANNED, Event.ABANDON)
        return self.chain.close(
            Link.abandoned(
                plan,
                "the world it was planned for is gone",
                previous=watermark.chain.chain,
                nonce=self._journal.nonce(),
                epoch=self._held.epoch,
                at=self._journal.clock.now(),
                mark=watermark.chain.cursor,
            )
        )

    def _advance(self, link: Link, run: Run) -> Watermark | None:
        """Move the mark by a link that stands (I2). Where the number is no longer the next, others were first."""

        def advanced(state: Watermark | None) -> Watermark | None:
            state = self._mine(state)
            if state.chain.next != link.id:
                return None
            return state.with_link(link, run=run, at=self._journal.clock.now())

        change = Change.ABANDON if link.kind is Kind.ABANDONED else Change.EXTRACT
        return self._journal.commit(self._stem, advanced, self._note(change))

    def _note(self, change: Change, why: str = "") -> Note:
        held = self._held
        return Note(change=change, who=held.process, why=why, stage=held.stage, epoch=held.epoch)


def _end_of(link: Link) -> State:
    if link.kind is Kind.ABANDONED:
        return State.ABANDONED
    return move(State.CLAIMED, Event.FINISH if link.files else Event.FIND_NOTHING)
