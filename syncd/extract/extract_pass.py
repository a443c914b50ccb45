"""One pass of the extract stage over one stream: look, claim, extract batch after batch."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from syncd.concurrency.running_pass import is_interrupted
from syncd.concurrency.stage_claim import ClaimKeeper
from syncd.errors import SchemaDrift, ServerChanged, TableAltered, to_hinted_error
from syncd.events import BatchAbandoned, BatchExtracted, EventListener, StreamFailed
from syncd.extract.orphan_sweep import OrphanSweeper
from syncd.lake.manifest import Manifest
from syncd.ports.source import PartStore
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, Plan
from watermarks.clock import Clock
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import FailureRecord, Watermark
from watermarks.errors import HintedError, NotOwner, StateUnreadable
from watermarks.extraction import BatchChain, BatchProducer, Extraction
from watermarks.history import Journal
from watermarks.lease import HeldClaim, ProcessLease
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, Run

if TYPE_CHECKING:
    from watermarks.store import Revision

FIRST_RETRY_DELAY: Final = timedelta(seconds=10)
MAX_RETRY_DELAY: Final = timedelta(minutes=15)
MAX_ABANDONED_IN_A_ROW: Final = 3


class PlansKeepExpiring(SchemaDrift):
    """Whatever is planned, the world is another one a moment later."""


class ExtractState(StrEnum):
    """How a pass ended, in one word."""

    EXTRACTED = "extracted"
    NOTHING = "nothing new"
    WAITING = "waiting"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractOutcome:
    """What one pass over one stream came to."""

    stream: StreamName
    batches: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    quarantined: int = 0
    mark_before: Cursor = START_CURSOR
    mark: Cursor = START_CURSOR
    proven: bool = False
    last_batch: BatchId = BEFORE_FIRST_BATCH
    """The last batch that is extracted."""
    complete_before: datetime | None = None
    """What was committed at the source before it is in the lake; None where that is not known."""
    pending_batches: int = 0
    """Batches that are extracted and not loaded into the first target."""
    wait_reason: str = ""
    """Why there is no more to read yet, in words."""
    seconds: float = 0.0
    preview: Mapping[str, object] | None = None
    """Of a dry run: what the next batch would be."""
    error: HintedError | None = None

    @property
    def state(self) -> ExtractState:
        if self.error is not None:
            return ExtractState.FAILED
        if self.preview is not None:
            return ExtractState.PLANNED
        return (
            ExtractState.EXTRACTED
            if self.batches
            else ExtractState.WAITING
            if self.wait_reason
            else ExtractState.NOTHING
        )

    def with_batch(self, link: BatchLink, watermark: Watermark) -> "ExtractOutcome":
        """The outcome with one more batch in it."""
        done = Manifest.from_link(link) if link.kind is not BatchKind.ABANDONED else None
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + link.rows,
            files=self.files + len(link.files),
            bytes=self.bytes + (done.bytes if done else 0),
            quarantined=self.quarantined + (done.quarantined_rows if done else 0),
            mark=watermark.required_extract_progress.cursor,
            last_batch=watermark.required_extract_progress.last_batch,
            pending_batches=_count_pending(watermark),
            proven=watermark.required_extract_progress.proven,
        )


def _count_pending(watermark: Watermark) -> int:
    return watermark.required_extract_progress.count_batches(after=watermark.load_progress.last_batch)


class PassProducer(BatchProducer, Protocol):
    """Whoever makes the batches of a pass: what reads from MySQL, or what brings rows back from quarantine."""

    @property
    def wait_reason(self) -> str:
        """What is in the way of more, in words; empty when there is no more."""
        ...

    @property
    def complete_before(self) -> datetime | None:
        """What was committed at the source before it is in the lake, as far as the last proposal tells."""
        ...

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        """What there is to do; writes nothing."""
        ...

    def prepare(self, draft: BatchDraft) -> None:
        """Get ready for what is going to be sealed; raises nothing."""
        ...


class ExtractPass:
    """Runs the extract stage of one stream, as often as asked.

    The claim stays in `claiming` from pass to pass: whoever made that gives it back.

    `owner` gives the process under whose lease it is done; it is asked only when there is something to do.
    """

    def __init__(
        self,
        *,
        stream: StreamName,
        journal: Journal[Watermark],
        get_process: Callable[[], ProcessLease],
        producer: PassProducer,
        parts: PartStore,
        clock: Clock,
        emit: EventListener,
        claim_keeper: ClaimKeeper,
        explain_interruption: Callable[[HintedError], HintedError] = lambda error: error,
    ) -> None:
        """Prepare; `named` says what a pass that was ended from outside failed by."""
        self._stream = stream
        self._journal = journal
        self._get_process = get_process
        self._producer = producer
        self._clock = clock
        self._emit = emit
        self._claim_keeper = claim_keeper
        self._explain_interruption = explain_interruption
        self._chain = BatchChain(journal, stream)
        self._so_far = ExtractOutcome(stream=stream)
        self._orphan_sweeper = OrphanSweeper(self._chain, parts, emit)
        self._next_batch = BatchId(1, 1)
        """The number that is being worked on."""
        self.revision: Revision | None = None
        """Of the document, as it was when the pass began."""

    def preview(self) -> ExtractOutcome:
        """What the next batch would be. Nothing is written."""
        return self._run_timed(self._preview)

    def execute(self, run: Run) -> ExtractOutcome:
        """Extract until nothing is due; what goes wrong, a bug too, is part of the outcome.

        A stream with nothing to do is left as it is: no claim, no entry, no session of Spark.
        """
        return self._run_timed(partial(self._execute, run))

    def _run_timed(self, act: Callable[[], ExtractOutcome]) -> ExtractOutcome:
        began = self._clock.monotonic()
        self._so_far = ExtractOutcome(stream=self._stream)
        try:
            outcome = act()
        except Exception as error:  # noqa: BLE001  # no stream may stop another, not even by a bug of ours
            failure = to_hinted_error(error)
            if not isinstance(failure, NotOwner):  # whoever has the stage goes on with it
                self._emit(StreamFailed(stream=self._stream, error=failure.message, hint=failure.hint))
            outcome = replace(self._so_far, error=failure)
        return replace(outcome, seconds=self._clock.monotonic() - began)

    def _read_watermark(self) -> tuple[Watermark, Plan | None]:
        """Where the stream stands, and the plan that somebody sealed for its next number."""
        seen = self._journal.read_version(self._stream.stem)
        self.revision = seen.revision if seen else None
        watermark = seen.state if seen else Watermark.new(self._stream, created_at=self._clock.now())
        half = watermark.required_extract_progress
        self._so_far = replace(
            self._so_far,
            mark_before=half.cursor,
            mark=half.cursor,
            last_batch=half.last_batch,
            proven=half.proven,
            pending_batches=_count_pending(watermark),
        )
        return watermark, self._chain.read_plan(half.next_batch)

    def _preview(self) -> ExtractOutcome:
        watermark, plan = self._read_watermark()
        draft = plan.draft if plan else self._producer.preview(watermark)
        if draft is None:
            return self._idle_outcome()
        return replace(self._so_far, preview={"sealed": plan is not None, **draft.to_fields()})

    def _execute(self, run: Run) -> ExtractOutcome:
        watermark, plan = self._read_watermark()
        draft = plan.draft if plan else self._producer.preview(watermark)
        if draft is None:
            return self._idle_outcome()
        self._next_batch = watermark.required_extract_progress.next_batch
        self._orphan_sweeper.begin(watermark.required_extract_progress.last_batch, plan)
        if not self._claim_keeper.is_owned_by_other:  # who only watches another owner wants no reader
            self._producer.prepare(draft)
        with self._claim_keeper.hold(self._get_process()) as held:
            self._extract(held, run)
        return self._idle_outcome()

    def _idle_outcome(self) -> ExtractOutcome:
        """The outcome where nothing more is due now."""
        return replace(
            self._so_far, wait_reason=self._producer.wait_reason, complete_before=self._producer.complete_before
        )

    def _extract(self, held: HeldClaim, run: Run) -> None:
        extraction = Extraction(self._journal, held, self._producer)
        try:
            self._extract_batches(extraction, run)
        except StateUnreadable:
            raise  # nothing is to be written at all
        except NotOwner:
            self._sweep_best_effort()  # what we wrote since another has the stage, nobody else will look for
            raise
        except Exception as error:  # noqa: BLE001  # a bug is noted as any failure is
            failure = self._explain_interruption(to_hinted_error(error))
            if not is_interrupted(failure):
                extraction.record_failure(failure.message, make_failure=partial(self._build_failure, failure.message))
            self._sweep_best_effort()
            # Who carries its plan out has another epoch then: by that whoever comes after sees that it was tried twice.
            self._claim_keeper.release()
            raise failure from failure.__cause__

    def _extract_batches(self, extraction: Extraction, run: Run) -> None:
        abandoned = in_vain = 0
        while True:
            began = self._clock.monotonic()
            try:
                turn = extraction.extract_next_batch(run)
            except (TableAltered, ServerChanged):
                # The next turn finds the plan's world gone, and abandons it; one that is as it was again is not.
                in_vain += 1
                if in_vain > MAX_ABANDONED_IN_A_ROW:
                    raise
                self._orphan_sweeper.remember_plan_of(self._next_batch)
                continue
            if turn.link is None:
                return
            if turn.watermark is None:  # others were first
                self._sweep_best_effort()
                return
            if turn.link.kind is BatchKind.ABANDONED:
                abandoned += 1
            else:
                abandoned = in_vain = 0
            if abandoned > MAX_ABANDONED_IN_A_ROW:
                raise PlansKeepExpiring(
                    f"{abandoned} plans of {self._stream} in a row were out of date before they were carried out",
                    hint="Does somebody alter the table, or do two servers answer at one address?",
                )
            self._next_batch = turn.watermark.required_extract_progress.next_batch
            self._so_far = self._so_far.with_batch(turn.link, turn.watermark)
            self._report_batch(turn.link, seconds=self._clock.monotonic() - began)
            # Before the next batch is begun: whatever comes of that, this number is not looked at again.
            self._orphan_sweeper.sweep()

    def _build_failure(self, message: str, attempt: int) -> FailureRecord:
        now = self._clock.now()
        wait = min(FIRST_RETRY_DELAY * 2 ** min(attempt - 1, 10), MAX_RETRY_DELAY)
        return FailureRecord(message=message, attempt=attempt, failed_at=now, retry_at=now + wait)

    def _report_batch(self, link: BatchLink, *, seconds: float) -> None:
        if link.kind is BatchKind.ABANDONED:
            self._emit(BatchAbandoned(stream=self._stream, batch=link.id))
            return
        manifest = Manifest.from_link(link)
        self._emit(
            BatchExtracted(
                stream=self._stream,
                batch=link.id,
                kind=link.kind,
                rows=link.rows,
                files=len(link.files),
                bytes=manifest.bytes,
                quarantined=manifest.quarantined_rows,
                mark=self._so_far.mark,
                seconds=seconds,
            )
        )

    def _sweep_best_effort(self) -> None:
        # The error that led here is the one to tell; what stays is swept with the next batch, or by its age.
        with suppress(HintedError):
            self._orphan_sweeper.remember_plan_of(self._next_batch)
            self._orphan_sweeper.sweep()
