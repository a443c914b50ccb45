"""One pass of the extract stage over one stream: preview, claim, extract batch after batch."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from syncd.concurrency.stage_pass import StagePass
from syncd.errors import SchemaDrift, ServerChanged, TableAltered
from syncd.events import BatchAbandoned, BatchExtracted
from syncd.extract.orphan_sweep import OrphanSweeper
from syncd.lake.manifest import Manifest
from syncd.ports.source import PartStore
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, Plan
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.errors import HintedError, NotOwner, StateUnreadable
from watermarks.extraction import BatchChain, BatchProducer, Extraction
from watermarks.history import Journal
from watermarks.lease import HeldClaim
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, Run

if TYPE_CHECKING:
    from watermarks.store import Revision

MAX_ABANDONED_IN_A_ROW: Final = 3


class PlansKeepExpiring(SchemaDrift):
    """Every plan of a stream is out of date before it is carried out."""


class ExtractState(StrEnum):
    """Result of a pass, in one word."""

    EXTRACTED = "extracted"
    NOTHING = "nothing new"
    WAITING = "waiting"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractOutcome:
    """Result of one pass over one stream."""

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
    """Rows committed at the source before this instant are in the lake; None where it is not known."""
    pending_batches: int = 0
    """Batches that are extracted and not loaded into the first target."""
    wait_reason: str = ""
    """The reason why there is no more to read yet."""
    seconds: float = 0.0
    preview: Mapping[str, object] | None = None
    """In a dry run: the next batch."""
    error: HintedError | None = None

    @property
    def state(self) -> ExtractState:
        if self.error is not None:
            return ExtractState.FAILED
        if self.preview is not None:
            return ExtractState.PLANNED
        if self.batches:
            return ExtractState.EXTRACTED
        return ExtractState.WAITING if self.wait_reason else ExtractState.NOTHING

    def with_batch(self, link: BatchLink, watermark: Watermark) -> "ExtractOutcome":
        """Return the outcome with one more batch."""
        progress = watermark.required_extract_progress
        manifest = Manifest.from_link(link) if link.kind is not BatchKind.ABANDONED else None
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + link.rows,
            files=self.files + len(link.files),
            bytes=self.bytes + (manifest.bytes if manifest else 0),
            quarantined=self.quarantined + (manifest.quarantined_rows if manifest else 0),
            mark=progress.cursor,
            last_batch=progress.last_batch,
            pending_batches=_count_pending(watermark),
            proven=progress.proven,
        )


def _count_pending(watermark: Watermark) -> int:
    return watermark.required_extract_progress.count_batches(after=watermark.load_progress.last_batch)


class PassProducer(BatchProducer, Protocol):
    """Maker of the batches of a pass: from MySQL, from quarantine, or from the differences of a comparison."""

    @property
    def wait_reason(self) -> str:
        """The obstacle to more batches; empty when there are none."""
        ...

    @property
    def complete_before(self) -> datetime | None:
        """Rows committed at the source before this instant are in the lake, as of the last proposal."""
        ...

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        """Return the draft of the next batch; write nothing."""
        ...

    def prepare(self, draft: BatchDraft) -> None:
        """Get ready to carry out a draft, while claim and plan are written; raises nothing."""
        ...


class ExtractPass:
    """Runs the extract stage of one stream, any number of times."""

    def __init__(
        self, stage: StagePass, *, journal: Journal[Watermark], producer: PassProducer, parts: PartStore
    ) -> None:
        self._stage = stage
        self._stream = stage.stream
        self._emit = stage.emit
        self._clock = stage.clock
        self._journal = journal
        self._producer = producer
        self._chain = BatchChain(journal, stage.stream)
        self._outcome = ExtractOutcome(stream=stage.stream)
        self._orphan_sweeper = OrphanSweeper(self._chain, parts, stage.emit)
        self._next_batch = BatchId(1, 1)
        """The number of the batch in progress."""
        self.revision: Revision | None = None
        """The revision of the document when the pass began."""

    def preview(self) -> ExtractOutcome:
        """Return the next batch without writing anything."""
        self._outcome = ExtractOutcome(stream=self._stream)
        with self._stage.time_and_catch() as end:
            watermark, plan = self._read_watermark()
            draft = plan.draft if plan else self._producer.preview(watermark)
            if draft is None:
                self._note_idle()
            else:
                self._outcome = replace(
                    self._outcome, preview={"already_planned": plan is not None, **draft.to_fields()}
                )
        return replace(self._outcome, error=end.error, seconds=end.seconds)

    def execute(self, run: Run) -> ExtractOutcome:
        """Extract until nothing is due; an error, a bug too, is part of the outcome.

        A stream with nothing to do is left as it is: no claim, no entry, no Spark session.
        """
        self._outcome = ExtractOutcome(stream=self._stream)
        with self._stage.time_and_catch() as end:
            watermark, plan = self._read_watermark()
            draft = plan.draft if plan else self._producer.preview(watermark)
            if draft is not None:
                progress, claim_keeper = watermark.required_extract_progress, self._stage.claim_keeper
                self._next_batch = progress.next_batch
                self._orphan_sweeper.begin(progress.last_batch, plan)
                if not claim_keeper.is_owned_by_other:  # a pass that only waits for the owner needs no reader
                    self._producer.prepare(draft)
                with claim_keeper.hold(self._stage.get_process()) as held, self._begin_extraction(held) as extraction:
                    self._extract_batches(extraction, run)
            self._note_idle()
        return replace(self._outcome, error=end.error, seconds=end.seconds)

    def _read_watermark(self) -> tuple[Watermark, Plan | None]:
        """Read the document, and the plan that a process may have sealed for the next number."""
        version = self._journal.read_version(self._stream.stem)
        self.revision = version.revision if version else None
        watermark = version.state if version else Watermark.new(self._stream, created_at=self._clock.now())
        progress = watermark.required_extract_progress
        self._outcome = replace(
            self._outcome,
            mark_before=progress.cursor,
            mark=progress.cursor,
            last_batch=progress.last_batch,
            proven=progress.proven,
            pending_batches=_count_pending(watermark),
        )
        return watermark, self._chain.read_plan(progress.next_batch)

    def _note_idle(self) -> None:
        """Note why nothing more is due now."""
        self._outcome = replace(
            self._outcome, wait_reason=self._producer.wait_reason, complete_before=self._producer.complete_before
        )

    @contextmanager
    def _begin_extraction(self, held: HeldClaim) -> Generator[Extraction]:
        """Begin to extract under a claim; record the error that ends it, and sweep the files that it leaves."""
        extraction = Extraction(self._journal, held, self._producer)
        try:
            yield extraction
        except StateUnreadable:
            raise  # nothing must be written at all
        except NotOwner:
            self._sweep_best_effort()  # the new owner does not look for files that this process wrote since
            raise
        except Exception as error:  # noqa: BLE001  # a bug is recorded as any failure is
            failure = self._stage.record_failure(error, extraction.record_failure)
            self._sweep_best_effort()
            # The plan is then carried out under another epoch, which shows the next pass that it was tried twice.
            self._stage.claim_keeper.release()
            raise failure from failure.__cause__

    def _extract_batches(self, extraction: Extraction, run: Run) -> None:
        abandoned = failed_reads = 0
        while True:
            began = self._clock.monotonic()
            try:
                result = extraction.extract_next_batch(run)
            except (TableAltered, ServerChanged):
                # The next turn abandons the plan if it is out of date; it carries out one that is current again.
                failed_reads += 1
                if failed_reads > MAX_ABANDONED_IN_A_ROW:
                    raise
                self._orphan_sweeper.remember_plan_of(self._next_batch)
                continue
            if result.link is None:
                return
            if result.watermark is None:  # another process was first
                self._sweep_best_effort()
                return
            if result.link.kind is BatchKind.ABANDONED:
                abandoned += 1
            else:
                abandoned = failed_reads = 0
            if abandoned > MAX_ABANDONED_IN_A_ROW:
                raise PlansKeepExpiring(
                    f"{abandoned} plans of {self._stream} in a row were out of date before they could be executed",
                    hint="Check whether the table is being altered, or two servers answer at one address.",
                )
            self._next_batch = result.watermark.required_extract_progress.next_batch
            self._outcome = self._outcome.with_batch(result.link, result.watermark)
            self._report_batch(result.link, seconds=self._clock.monotonic() - began)
            # Before the next batch begins: whatever happens to it, this number is not swept again.
            self._orphan_sweeper.sweep()

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
                mark=self._outcome.mark,
                seconds=seconds,
            )
        )

    def _sweep_best_effort(self) -> None:
        # The caller raises the error that matters. Files that stay are swept with the next batch, or by their age.
        with suppress(HintedError):
            self._orphan_sweeper.remember_plan_of(self._next_batch)
            self._orphan_sweeper.sweep()
