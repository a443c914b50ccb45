"""One pass of the load stage over one stream: claim, land what is due in as few transactions as fit.

It needs the lake and the warehouse, and nothing of the source.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

from syncd.concurrency.running_pass import is_interrupted
from syncd.concurrency.stage_claim import ClaimKeeper
from syncd.errors import TransactionConflict, WarehouseDown, WarehouseStillDown, to_hinted_error
from syncd.events import BatchesLoaded, EventListener, LedgerBehind, LoadRetried, RowsQuarantined, StreamFailed
from syncd.extract.column_additions import incomplete_column_events, reports_columns
from syncd.extract.extract_pass import FIRST_RETRY_DELAY, MAX_RETRY_DELAY
from watermarks.batch import BatchId, BatchLink
from watermarks.clock import Clock
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.errors import HintedError, NotOwner, OutcomeUnknown, StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import DocumentVersion, Journal
from watermarks.lease import HeldClaim, ProcessLease
from watermarks.loading import NOTHING_LOADED, FenceLost, LedgerKey, Loading, LoadResult, Target
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress, Run

MAX_BATCHES_PER_TRANSACTION: Final = 1_000
"""Of one transaction."""
LOAD_ATTEMPTS: Final = 6
FIRST_RETRY_SECONDS: Final = 0.5
"""Seconds; each further one is twice as long, give or take."""
RETRYABLE_ERRORS: Final = (TransactionConflict, OutcomeUnknown, FenceLost, WarehouseDown)
"""What the next try may meet no more."""


class LoadState(StrEnum):
    """How a pass ended, in one word."""

    LOADED = "loaded"
    NOTHING = "nothing new"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """What one pass over one stream came to."""

    stream: StreamName
    batches: int = 0
    rows: int = 0
    files: int = 0
    last_batch: BatchId = BEFORE_FIRST_BATCH
    """The last batch that is loaded."""
    mark: Cursor = START_CURSOR
    quarantined: int = 0
    """Rows that are not in the target by what landed: the warehouse refused them, and they were put aside."""
    incomplete_columns: tuple[str, ...] = ()
    """Columns that came by now, and that rows read before do not have right; with what mends it."""
    pending_batches: int = 0
    """Batches that are extracted and not loaded."""
    complete_before: datetime | None = None
    """What was committed at the source before it is in the target; None where that is not known."""
    seconds: float = 0.0
    preview: Mapping[str, object] | None = None
    """Of a dry run: what would be loaded of what is extracted by now."""
    error: HintedError | None = None

    @property
    def state(self) -> LoadState:
        if self.error is not None:
            return LoadState.FAILED
        if self.preview is not None:
            return LoadState.PLANNED
        return LoadState.LOADED if self.batches else LoadState.NOTHING


class LoadPass:
    """Runs the load stage of one stream, as often as asked; `owner` is asked only when there is something to do.

    The claim stays in `claiming` from pass to pass: whoever made that gives it back.
    """

    def __init__(
        self,
        *,
        stream: StreamName,
        journal: Journal[Watermark],
        get_process: Callable[[], ProcessLease],
        target: Target,
        clock: Clock,
        emit: EventListener,
        rows_per_transaction: int,
        claim_keeper: ClaimKeeper,
        appends: bool = False,
        is_in_ledger: Callable[[LedgerKey], bool] = lambda _key: True,
        pause: Callable[[float], None] = time.sleep,
        explain_interruption: Callable[[HintedError], HintedError] = lambda error: error,
    ) -> None:
        """Prepare; a transaction takes batches of so many `rows`, one batch at least.

        `holds` says, by a look that costs little, whether the warehouse's ledger has a batch; it is asked where
        nothing is due. `named` says what a pass that was ended from outside failed by.
        """
        self._stream = stream
        self._journal = journal
        self._get_process = get_process
        self._target = target
        self._clock = clock
        self._emit = emit
        self._rows_per_transaction = rows_per_transaction
        self._pause = pause
        self._claim_keeper = claim_keeper
        self._appends = appends
        self._explain_interruption = explain_interruption
        self._is_in_ledger = is_in_ledger
        self._held_loading: tuple[HeldClaim, Loading] | None = None
        self._so_far = LoadOutcome(stream=stream)

    def execute(self, run: Run, *, limit: int | None = None, compare: bool = False) -> LoadOutcome:
        """Land until nothing is due; with a `limit`, whole batches up to so many rows, and one at least.

        What goes wrong is part of the outcome.

        With `compare` the warehouse's ledger is asked even though nothing is due.
        """
        return self._run_timed(partial(self._execute, run, limit=limit, compare=compare))

    def preview(self, *, limit: int | None = None) -> LoadOutcome:
        """What `once` would land of what is extracted by now. Nothing is written, and the warehouse is not asked."""
        return self._run_timed(partial(self._preview, limit=limit))

    def _preview(self, *, limit: int | None) -> None:
        links = tuple(self._read_links_within(limit, self._find_due_batches(self._journal.read(self._stream.stem))))
        if links:
            planned = {
                "first": str(links[0].id),
                "last": str(links[-1].id),
                "batches": len(links),
                "rows": sum(link.rows for link in links),
                "files": sum(len(link.files) for link in links),
            }
            self._so_far = replace(self._so_far, preview=planned)

    def _read_links_within(self, limit: int | None, due: Iterable[BatchId]) -> Iterator[BatchLink]:
        """The first batches that are due, so many that their rows keep to the limit; one at least."""
        chain = BatchChain(self._journal, self._stream)
        rows = 0
        for number, batch in enumerate(due):
            link = chain.require_link(batch)
            rows += link.rows
            if number and limit is not None and rows > limit:
                return
            yield link

    def _run_timed(self, act: Callable[[], None]) -> LoadOutcome:
        began = self._clock.monotonic()
        self._so_far = LoadOutcome(stream=self._stream)
        try:
            act()
        except Exception as error:  # noqa: BLE001  # no stream may stop another, not even by a bug of ours
            failure = to_hinted_error(error)
            if not isinstance(failure, NotOwner):  # whoever has the stage goes on with it
                self._emit(StreamFailed(stream=self._stream, error=failure.message, hint=failure.hint))
            self._so_far = replace(self._so_far, error=failure)
        return replace(self._so_far, seconds=self._clock.monotonic() - began)

    def _execute(self, run: Run, *, limit: int | None, compare: bool) -> None:
        seen = self._journal.read_version(self._stream.stem)
        due = self._find_due_batches(seen.state if seen else None)
        compare = compare or (not due and seen is not None and self._is_ledger_behind(seen.state))
        if not due and not compare:
            return
        most = None if limit is None else sum(1 for _ in self._read_links_within(limit, due))
        with self._claim_keeper.hold(self._get_process()) as held:
            self._run_recording_failure(
                self._loading_for(held), partial(self._load_batches, run, most=most, compare=compare, since=seen)
            )

    def _is_ledger_behind(self, watermark: Watermark) -> bool:
        """Whether the ledger seems to lack what the mark says has landed; a warehouse that is away tells nothing."""
        half, chain = watermark.load_progress, self._find_extracted_half(watermark)
        ids = chain.batch_ids_newest_first(up_to=half.last_batch, after=BEFORE_FIRST_BATCH) if chain else iter(())
        newest = next(filter(half.expects_in_ledger, ids), None)
        if newest is None:
            return False
        key = LedgerKey(stream=self._stream, load_generation=half.load_generation_of(newest), batch=newest)
        try:
            return not self._is_in_ledger(key)
        except WarehouseDown:
            return False

    def _find_extracted_half(self, watermark: Watermark | None) -> ExtractProgress | None:
        if watermark is not None and watermark.extract_progress is not None:
            return watermark.extract_progress
        first = self._journal.read(self._stream.default_stream.stem)
        return first.extract_progress if first else None

    def _run_recording_failure(self, loading: Loading, load: Callable[[Loading], None]) -> None:
        """Land; whatever goes wrong is an entry of history, but for an end that says nothing of the stream."""
        try:
            load(loading)
        except (NotOwner, StateUnreadable):
            raise  # not ours to write any more, or not to be written to at all
        except Exception as error:  # noqa: BLE001  # a bug is noted as any failure is
            failure = self._explain_interruption(to_hinted_error(error))
            if not is_interrupted(failure):
                loading.record_failure(failure.message, failure=self._build_failure(failure))
            raise failure from failure.__cause__

    def _loading_for(self, held: HeldClaim) -> Loading:
        if self._held_loading is None or self._held_loading[0] != held:
            self._held_loading = held, Loading(self._journal, held, self._target)
        return self._held_loading[1]

    def _find_due_batches(self, watermark: Watermark | None) -> tuple[BatchId, ...]:
        """What waits, as the documents say."""
        chain = self._find_extracted_half(watermark)
        if chain is None:
            return ()
        last = watermark.load_progress.last_batch if watermark else BEFORE_FIRST_BATCH
        if watermark is not None:
            self._so_far = replace(self._so_far, last_batch=last, mark=watermark.load_progress.cursor)
        due = tuple(chain.batch_ids(after=last))
        self._so_far = replace(self._so_far, pending_batches=len(due))
        return due

    def _load_batches(
        self, run: Run, loading: Loading, *, most: int | None, compare: bool, since: DocumentVersion[Watermark] | None
    ) -> None:
        while True:
            left = (
                MAX_BATCHES_PER_TRANSACTION
                if most is None
                else min(MAX_BATCHES_PER_TRANSACTION, most - self._so_far.batches)
            )
            began = self._clock.monotonic()
            turn = partial(
                loading.load_next_batches,
                run,
                max_batches=left,
                check_ledger=compare,
                max_rows=self._rows_per_transaction,
                on_loaded=self._on_loaded,
            )
            landed = self._run_with_retries(partial(turn, since=since), turn)
            since = None
            if landed is NOTHING_LOADED:
                return
            # What the ledger has lost may be too much for one transaction.
            compare = compare and landed.reloaded_batches > 0
            self._record_loaded(landed, seconds=self._clock.monotonic() - began)
            if landed.links and self._so_far.batches == most:
                return
            if landed.links and not compare and not self._so_far.pending_batches:
                return

    def _run_with_retries(self, first: Callable[[], LoadResult], again: Callable[[], LoadResult]) -> LoadResult:
        """A turn, again after what passes by itself; an unknown outcome is settled by the ledger."""
        turn = first
        for attempt in range(1, LOAD_ATTEMPTS):
            try:
                return turn()
            except WarehouseStillDown:
                raise  # another stream has waited for it already
            except RETRYABLE_ERRORS as error:
                wait = FIRST_RETRY_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311  # jitter, no secret
                self._emit(LoadRetried(stream=self._stream, error=error.message, seconds=wait))
                self._pause(wait)
                turn = again
        return turn()

    def _record_loaded(self, landed: LoadResult, *, seconds: float) -> None:
        links, watermark = landed.links, landed.watermark
        so_far = self._so_far
        if watermark is not None:
            waiting = max(so_far.pending_batches - len(links), 0)
            if watermark.extract_progress is not None:
                waiting = sum(1 for _ in watermark.extract_progress.batch_ids(after=watermark.load_progress.last_batch))
            so_far = replace(
                so_far,
                last_batch=watermark.load_progress.last_batch,
                mark=watermark.load_progress.cursor,
                pending_batches=waiting,
            )
        rows, files = landed.rows, sum(len(link.files) for link in links)
        self._so_far = replace(
            so_far, batches=so_far.batches + len(links), rows=so_far.rows + rows, files=so_far.files + files
        )
        self._report_quarantined(landed)
        if landed.reloaded_batches:
            self._emit(LedgerBehind(stream=self._stream, batches=landed.reloaded_batches))
        if links:
            self._emit(
                BatchesLoaded(
                    stream=self._stream,
                    first=links[0].id,
                    last=links[-1].id,
                    batches=len(links),
                    rows=rows,
                    files=files,
                    mark=self._so_far.mark,
                    seconds=seconds,
                )
            )

    def _on_loaded(self, landed: LoadResult) -> None:
        """Tell what is incomplete while the mark does not say yet that these have landed; once, if asked again."""
        for event in incomplete_column_events(
            self._stream, landed.links, after=self._find_last_reporting_batch(landed), appends=self._appends
        ):
            if event.description not in self._so_far.incomplete_columns:
                self._emit(event)
                self._so_far = replace(
                    self._so_far, incomplete_columns=(*self._so_far.incomplete_columns, event.description)
                )

    def _find_last_reporting_batch(self, landed: LoadResult) -> BatchId:
        """The last batch before these that told what it knew of columns; another than the last one matters seldom.

        Where batches were left out, what they would have told is told by the next one that tells anything.
        """
        state = landed.watermark
        if (
            state is None
            or state.extract_progress is None
            or not (landed.links and state.load_progress.skipped_batches)
        ):
            return landed.previous_batch
        chain = BatchChain(self._journal, self._stream)
        before = filter(
            state.load_progress.expects_in_ledger,
            state.extract_progress.batch_ids_newest_first(up_to=landed.previous_batch, after=BEFORE_FIRST_BATCH),
        )
        return next((batch for batch in before if reports_columns(chain.require_link(batch))), BEFORE_FIRST_BATCH)

    def _report_quarantined(self, landed: LoadResult) -> None:
        """Count and tell the rows that are not in the target by this landing, whoever sifted them out of its files."""
        for batch, brought in landed.refused_by_batch.items():
            self._so_far = replace(self._so_far, quarantined=self._so_far.quarantined + brought.refused_rows)
            look = f"syncd quarantine show -t {self._stream.table_name} --batch {batch}"
            reason = brought.reason or f"an earlier attempt was refused ({look})"
            self._emit(RowsQuarantined(stream=self._stream, batch=batch, rows=brought.refused_rows, reason=reason))

    def _build_failure(self, error: HintedError) -> FailureRecord:
        state = self._journal.read(self._stream.stem)
        before = state.failures.get(Stage.LOAD) if state else None
        attempt = before.attempt + 1 if before else 1
        now = self._clock.now()
        wait = min(FIRST_RETRY_DELAY * 2 ** min(attempt - 1, 10), MAX_RETRY_DELAY)
        return FailureRecord(message=error.message, attempt=attempt, failed_at=now, retry_at=now + wait)
