"""Extraction: the order of effects by which one batch after another becomes a link of the chain.

Sealed plan, then files, then the link, then the history's entry, then the
document. Each of them is created only where nothing stands, and each is looked
for before it is made: so a turn that was killed anywhere is finished by the
next one, whoever takes it, and no two writers can both be right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan
from watermarks.batch_states import BatchEvent, BatchState, next_state
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.history import ChangeKind, ChangeNote, Journal, StateMissing
from watermarks.lease import HeldClaim, read_claimed_watermark, require_epoch
from watermarks.names import StreamName, link_key, plan_key
from watermarks.progress import Run
from watermarks.store import put_once


class BatchProducer(Protocol):
    """Whoever makes the content of batches: the one part that differs from source to source."""

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        """What the next batch should move; None when there is nothing to do now. Writes nothing."""
        ...

    def is_plan_current(self, plan: Plan) -> bool:
        """Whether the world that the plan was made for is still there."""
        ...

    def write_files(self, plan: Plan) -> BatchOutput:
        """Read what the plan says and write it to files with names never used before."""
        ...

    def delete_files(self, files: Sequence[str]) -> None:
        """Remove files that no link names and none ever will."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractResult:
    """What one turn did."""

    state: BatchState | None
    """Where the batch ended; None when there was nothing to do."""
    link: BatchLink | None = None
    watermark: Watermark | None = None


NOTHING_EXTRACTED: Final = ExtractResult(state=None)


class BatchChain:
    """The links of one stream, as they lie in the store."""

    def __init__(self, journal: Journal[Watermark], stream: StreamName) -> None:
        self.stream = stream.default_stream
        self._journal = journal
        self._store = journal.store

    def read_plan(self, batch: BatchId) -> Plan | None:
        key = plan_key(self.stream, batch)
        stored = self._store.read(key)
        return Plan.from_bytes(stored.body, location=key, stream=self.stream, batch=batch) if stored else None

    def read_link(self, batch: BatchId) -> BatchLink | None:
        key = link_key(self.stream, batch)
        stored = self._store.read(key)
        return BatchLink.from_bytes(stored.body, location=key, stream=self.stream, batch=batch) if stored else None

    def require_link(self, batch: BatchId) -> BatchLink:
        """A link that the document says is there.

        Raises:
            StateMissing: it is not.
        """
        link = self.read_link(batch)
        if link is None:
            raise StateMissing(
                f"{link_key(self.stream, batch)} is gone, although it is a link of the chain",
                hint="Restore it from the bucket's versions.",
            )
        return link

    def create_plan(self, plan: Plan) -> Plan:
        """Make this the plan of its number, or learn which one is."""
        kept = put_once(self._store, plan_key(self.stream, plan.id), plan.to_bytes())
        return plan if kept.is_ours else Plan.from_bytes(kept.body, location="plan", stream=self.stream, batch=plan.id)

    def create_link(self, link: BatchLink) -> BatchLink:
        """Make this the link of its number, or learn which one is."""
        kept = put_once(self._store, link_key(self.stream, link.id), link.to_bytes())
        return (
            link
            if kept.is_ours
            else BatchLink.from_bytes(kept.body, location="link", stream=self.stream, batch=link.id)
        )

    def find_origin(self, batch: BatchId) -> BatchId:
        """What a replay of this batch ranks by: the batch that first read its rows, through every replay between."""
        return self.require_link(batch).rank


class Extraction:
    """The extract stage of one stream, for as long as its claim is held."""

    def __init__(self, journal: Journal[Watermark], held: HeldClaim, producer: BatchProducer) -> None:
        self.chain = BatchChain(journal, held.stream)
        self._journal = journal
        self._held = held
        self._producer = producer
        self._stem = held.stream.stem

    def extract_next_batch(self, run: Run) -> ExtractResult:
        """Bring the chain one link further: take up what is there, or plan anew.

        Raises:
            Fenced: another process has taken the stage over; nothing of ours counts any more.
        """
        began = self._journal.clock.monotonic()
        watermark = self._read()
        plan = self.chain.read_plan(watermark.required_extract_progress.next_batch) or self._create_next_plan(watermark)
        if plan is None:
            return NOTHING_EXTRACTED
        link = self.chain.read_link(plan.id) or self._create_next_link(plan, watermark)
        timed = replace(run, seconds=run.seconds + self._journal.clock.monotonic() - began)
        return ExtractResult(state=_final_state(link), link=link, watermark=self._advance(link, timed))

    def record_failure(self, message: str, *, make_failure: Callable[[int], FailureRecord]) -> None:
        """Note a failure in history. No position moves; `retry_in` turns the attempt's number into the failure."""

        def failed(state: Watermark | None) -> Watermark:
            state = self._require_owned(state)
            before = state.failures.get(Stage.EXTRACT)
            return state.with_failure(Stage.EXTRACT, make_failure(before.attempt + 1 if before else 1))

        self._journal.commit(self._stem, failed, self._make_note(ChangeKind.FAIL, message))

    def _read(self) -> Watermark:
        return self._require_owned(read_claimed_watermark(self._journal, self._held))

    def _require_owned(self, state: Watermark | None) -> Watermark:
        if state is None:
            raise StateMissing(f"{self._held.stream} has no watermark, yet its stage is held")
        require_epoch(state, Stage.EXTRACT, self._held.epoch)
        return state

    def _create_next_plan(self, watermark: Watermark) -> Plan | None:
        draft = self._producer.propose_batch(watermark)
        if draft is None:
            return None
        return self.chain.create_plan(
            Plan(
                stream=self.chain.stream,
                id=watermark.required_extract_progress.next_batch,
                draft=draft,
                nonce=self._journal.make_nonce(),
                epoch=self._held.epoch,
                planned_at=self._journal.clock.now(),
            )
        )

    def _create_next_link(self, plan: Plan, watermark: Watermark) -> BatchLink:
        """Carry a plan out, or abandon it where its world is gone; the first link at its number wins."""
        same_mark = plan.draft.basis.mark == watermark.required_extract_progress.cursor
        if not (same_mark and self._producer.is_plan_current(plan)):
            return self._abandon_plan(plan, watermark)
        filled = self._producer.write_files(plan)
        mine = BatchLink.from_completed_plan(
            plan,
            filled,
            previous=watermark.required_extract_progress.last_link_digest,
            nonce=self._journal.make_nonce(),
            epoch=self._held.epoch,
            made_at=self._journal.clock.now(),
        )
        link = self.chain.create_link(mine)
        # I7: only what the winner does not name may go; a woken writer may have been beaten by its own earlier answer.
        if lost := [name for name in filled.files if name not in link.files]:
            self._producer.delete_files(lost)
        return link

    def _abandon_plan(self, plan: Plan, watermark: Watermark) -> BatchLink:
        next_state(BatchState.PLANNED, BatchEvent.ABANDON)
        return self.chain.create_link(
            BatchLink.from_abandoned_plan(
                plan,
                "the world it was planned for is gone",
                previous=watermark.required_extract_progress.last_link_digest,
                nonce=self._journal.make_nonce(),
                epoch=self._held.epoch,
                made_at=self._journal.clock.now(),
                mark=watermark.required_extract_progress.cursor,
            )
        )

    def _advance(self, link: BatchLink, run: Run) -> Watermark | None:
        """Move the mark by a link that stands (I2). Where the number is no longer the next, others were first."""

        def advanced(state: Watermark | None) -> Watermark | None:
            state = self._require_owned(state)
            if state.required_extract_progress.next_batch != link.id:
                return None
            return state.with_link(link, run=run, now=self._journal.clock.now())

        change = ChangeKind.ABANDON if link.kind is BatchKind.ABANDONED else ChangeKind.EXTRACT
        return self._journal.commit(self._stem, advanced, self._make_note(change))

    def _make_note(self, change: ChangeKind, reason: str = "") -> ChangeNote:
        held = self._held
        return ChangeNote(change=change, author=held.process, reason=reason, stage=held.stage, epoch=held.epoch)


def _final_state(link: BatchLink) -> BatchState:
    if link.kind is BatchKind.ABANDONED:
        return BatchState.ABANDONED
    return next_state(BatchState.CLAIMED, BatchEvent.FINISH if link.files else BatchEvent.FIND_NOTHING)
