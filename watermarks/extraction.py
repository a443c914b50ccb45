"""Extraction: the order of effects by which batches become links of the chain.

Plan, then files, then the link, then the history entry, then the document. Each
is created only if it does not exist, and looked for before it is created. So the
next process finishes a batch that was killed at any point, and of two writers
only one can succeed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan
from watermarks.batch_states import BatchEvent, BatchState, next_state
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.history import ChangeKind, Journal, StateMissing
from watermarks.lease import HeldClaim, HeldWatermark
from watermarks.names import StreamName, link_key, plan_key
from watermarks.progress import ExtractProgress, Run
from watermarks.store import put_once


class BatchProducer(Protocol):
    """Producer of the content of batches; the one part that differs between sources."""

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        """Return the content of the next batch, or None if there is nothing to do now. Write nothing."""
        ...

    def is_plan_current(self, plan: Plan) -> bool:
        """Return True if the source is still as it was when the plan was made."""
        ...

    def write_files(self, plan: Plan) -> BatchOutput:
        """Read the rows of the plan and write them to files with names that were never used."""
        ...

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete files that no link names and none will name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractResult:
    """Outcome of one call."""

    state: BatchState | None
    """Final state of the batch; None if there was nothing to do."""
    link: BatchLink | None = None
    watermark: Watermark | None = None
    """The watermark afterwards."""


NOTHING_EXTRACTED: Final = ExtractResult(state=None)


class BatchChain:
    """Plans and links of one stream in the store."""

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
        """Read a link that must exist according to the document. Raises StateMissing if it does not."""
        link = self.read_link(batch)
        if link is None:
            raise StateMissing(
                f"{link_key(self.stream, batch)} is missing, although it is a link of the chain",
                hint="Restore it from the bucket's versions.",
            )
        return link

    def create_plan(self, plan: Plan) -> Plan:
        """Write the plan of its number; return the one that was first."""
        put = put_once(self._store, plan_key(self.stream, plan.id), plan.to_bytes())
        return plan if put.is_ours else Plan.from_bytes(put.body, location="plan", stream=self.stream, batch=plan.id)

    def create_link(self, link: BatchLink) -> BatchLink:
        """Write the link of its number; return the one that was first."""
        put = put_once(self._store, link_key(self.stream, link.id), link.to_bytes())
        if put.is_ours:
            return link
        return BatchLink.from_bytes(put.body, location="link", stream=self.stream, batch=link.id)


class Extraction:
    """Extract stage of one stream, while this process holds its claim."""

    def __init__(self, journal: Journal[Watermark], held: HeldClaim, producer: BatchProducer) -> None:
        self.chain = BatchChain(journal, held.stream)
        self._journal = journal
        self._held = held
        self._producer = producer
        self._document = HeldWatermark(journal, held)

    def extract_next_batch(self, run: Run) -> ExtractResult:
        """Extend the chain by one link: finish a batch that was begun, or plan a new one.

        Raises:
            Fenced: another process has taken the stage over; writes of this one do not count any more.
        """
        started = self._journal.clock.monotonic()
        watermark = self._document.read()
        next_batch = watermark.required_extract_progress.next_batch
        plan = self.chain.read_plan(next_batch) or self._create_next_plan(watermark)
        if plan is None:
            return NOTHING_EXTRACTED
        link = self.chain.read_link(plan.id) or self._create_next_link(plan, watermark)
        timed_run = replace(run, seconds=run.seconds + self._journal.clock.monotonic() - started)
        return ExtractResult(state=_final_state(link), link=link, watermark=self._advance(link, timed_run))

    def record_failure(self, message: str, make_failure: Callable[[int], FailureRecord]) -> None:
        """Record a failure in the history; no mark moves. `make_failure` receives the number of the attempt."""

        def update(state: Watermark) -> Watermark:
            previous = state.failures.get(Stage.EXTRACT)
            return state.with_failure(Stage.EXTRACT, make_failure(previous.attempt + 1 if previous else 1))

        self._document.commit(update, ChangeKind.FAIL, reason=message)

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
        """Carry a plan out, or abandon it if its basis changed; the first link of its number wins."""
        extract = watermark.required_extract_progress
        if plan.draft.basis.mark != extract.cursor or not self._producer.is_plan_current(plan):
            return self._abandon_plan(plan, extract)
        output = self._producer.write_files(plan)
        own_link = BatchLink.from_completed_plan(
            plan,
            output,
            previous=extract.last_link_digest,
            nonce=self._journal.make_nonce(),
            epoch=self._held.epoch,
            made_at=self._journal.clock.now(),
        )
        link = self.chain.create_link(own_link)
        # I7: delete only what the winning link does not name. A process that was paused may lose to its own earlier
        # write, whose answer it never got.
        if unused := [name for name in output.files if name not in link.files]:
            self._producer.delete_files(unused)
        return link

    def _abandon_plan(self, plan: Plan, extract: ExtractProgress) -> BatchLink:
        next_state(BatchState.PLANNED, BatchEvent.ABANDON)
        return self.chain.create_link(
            BatchLink.from_abandoned_plan(
                plan,
                "the table, the server or the mark changed after the plan was made",
                previous=extract.last_link_digest,
                nonce=self._journal.make_nonce(),
                epoch=self._held.epoch,
                made_at=self._journal.clock.now(),
                mark=extract.cursor,
            )
        )

    def _advance(self, link: BatchLink, run: Run) -> Watermark | None:
        """Move the mark by an existing link (I2), unless another process has done so."""

        def update(state: Watermark) -> Watermark | None:
            if state.required_extract_progress.next_batch != link.id:
                return None
            return state.with_link(link, run=run, now=self._journal.clock.now())

        return self._document.commit(
            update, ChangeKind.ABANDON if link.kind is BatchKind.ABANDONED else ChangeKind.EXTRACT
        )


def _final_state(link: BatchLink) -> BatchState:
    if link.kind is BatchKind.ABANDONED:
        return BatchState.ABANDONED
    return next_state(BatchState.CLAIMED, BatchEvent.FINISH if link.files else BatchEvent.FIND_NOTHING)
