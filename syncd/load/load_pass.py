"""One pass of the load stage over one stream: claim, load what is due in as few transactions as fit.

It needs the lake and the warehouse, and nothing of the source.
"""

import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import count
from typing import Final

from syncd.concurrency.stage_pass import StagePass
from syncd.errors import TransactionConflict, WarehouseDown, WarehouseStillDown
from syncd.events import BatchesLoaded, LedgerBehind, LoadRetried, RowsQuarantined
from syncd.lake.column_history import incomplete_column_events, reports_columns
from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.errors import HintedError, NotOwner, OutcomeUnknown, StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import DocumentVersion, Journal
from watermarks.lease import HeldClaim
from watermarks.loading import NOTHING_LOADED, FenceLost, LedgerKey, Loading, LoadResult, Target
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress, Run

MAX_BATCHES_PER_TRANSACTION: Final = 1_000
LOAD_ATTEMPTS: Final = 6
FIRST_RETRY_SECONDS: Final = 0.5
"""Each further wait is twice as long, give or take."""
RETRYABLE_ERRORS: Final = (TransactionConflict, OutcomeUnknown, FenceLost, WarehouseDown)
"""Errors that the next attempt may not meet again."""


class LoadState(StrEnum):
    """Result of a pass, in one word."""

    LOADED = "loaded"
    NOTHING = "nothing new"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """Result of one pass over one stream."""

    stream: StreamName
    batches: int = 0
    rows: int = 0
    files: int = 0
    last_batch: BatchId = BEFORE_FIRST_BATCH
    """The last batch that is loaded."""
    mark: Cursor = START_CURSOR
    quarantined: int = 0
    """Rows of the loaded batches that are not in the target: the warehouse refused them, and they are in quarantine."""
    incomplete_columns: tuple[str, ...] = ()
    """Columns that were added or altered, and that older rows do not have right; with the command that repairs them."""
    pending_batches: int = 0
    """Batches that are extracted and not loaded."""
    complete_before: datetime | None = None
    """Rows committed at the source before this instant are in the target; None where it is not known."""
    seconds: float = 0.0
    preview: Mapping[str, object] | None = None
    """In a dry run: the batches that are due now."""
    error: HintedError | None = None

    @property
    def state(self) -> LoadState:
        if self.error is not None:
            return LoadState.FAILED
        if self.preview is not None:
            return LoadState.PLANNED
        return LoadState.LOADED if self.batches else LoadState.NOTHING


class LoadPass:
    """Runs the load stage of one stream, any number of times."""

    def __init__(
        self,
        stage: StagePass,
        *,
        journal: Journal[Watermark],
        get_target: Callable[[], Target],
        rows_per_transaction: int,
        appends: bool = False,
        is_in_ledger: Callable[[LedgerKey], bool] = lambda _key: True,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create a pass whose transactions take batches of `rows_per_transaction` rows, one batch at least.

        `get_target` is called only when there is something to load, so that other passes open no session.
        `is_in_ledger` tells by a cheap query whether the warehouse's ledger has a batch; it is called where nothing is
        due.
        """
        self._stage = stage
        self._stream = stage.stream
        self._emit = stage.emit
        self._clock = stage.clock
        self._journal = journal
        self._get_target = get_target
        self._rows_per_transaction = rows_per_transaction
        self._appends = appends
        self._is_in_ledger = is_in_ledger
        self._pause = pause
        self._held_loading: tuple[HeldClaim, Loading] | None = None
        self._outcome = LoadOutcome(stream=stage.stream)

    def execute(self, run: Run, *, limit: int | None = None, compare: bool = False) -> LoadOutcome:
        """Load until nothing is due; with a `limit`, whole batches up to so many rows, and one at least.

        An error is part of the outcome. With `compare` the warehouse's ledger is read even though nothing is due.
        """
        self._outcome = LoadOutcome(stream=self._stream)
        with self._stage.time_and_catch() as end:
            version = self._journal.read_version(self._stream.stem)
            due = self._find_due_batches(version.state if version else None)
            compare = compare or (not due and version is not None and self._is_ledger_behind(version.state))
            if due or compare:
                most = None if limit is None else sum(1 for _ in self._read_links_within(limit, due))
                claim_keeper = self._stage.claim_keeper
                with claim_keeper.hold(self._stage.get_process()) as held, self._begin_loading(held) as loading:
                    self._load_batches(run, loading, most=most, compare=compare, since=version)
        return replace(self._outcome, error=end.error, seconds=end.seconds)

    def preview(self, *, limit: int | None = None) -> LoadOutcome:
        """Return the batches that `execute` would load now. Nothing is written, and the warehouse is not asked."""
        self._outcome = LoadOutcome(stream=self._stream)
        with self._stage.time_and_catch() as end:
            due = self._find_due_batches(self._journal.read(self._stream.stem))
            links = tuple(self._read_links_within(limit, due))
            if links:
                preview = {
                    "first": str(links[0].id),
                    "last": str(links[-1].id),
                    "batches": len(links),
                    "rows": sum(link.rows for link in links),
                    "files": sum(len(link.files) for link in links),
                }
                self._outcome = replace(self._outcome, preview=preview)
        return replace(self._outcome, error=end.error, seconds=end.seconds)

    def _read_links_within(self, limit: int | None, due: Iterable[BatchId]) -> Iterator[BatchLink]:
        """Read the first due batches whose rows keep to the limit; one at least."""
        chain = BatchChain(self._journal, self._stream)
        rows = 0
        for number, batch in enumerate(due):
            link = chain.require_link(batch)
            rows += link.rows
            if number and limit is not None and rows > limit:
                return
            yield link

    def _is_ledger_behind(self, watermark: Watermark) -> bool:
        """Return whether the ledger lacks the newest loaded batch; an unreachable warehouse counts as no."""
        progress, chain = watermark.load_progress, self._find_extract_progress(watermark)
        ids = chain.batch_ids_newest_first(up_to=progress.last_batch, after=BEFORE_FIRST_BATCH) if chain else iter(())
        newest = next(filter(progress.expects_in_ledger, ids), None)
        if newest is None:
            return False
        key = LedgerKey(stream=self._stream, load_generation=progress.load_generation_of(newest), batch=newest)
        try:
            return not self._is_in_ledger(key)
        except WarehouseDown:
            return False

    def _find_extract_progress(self, watermark: Watermark | None) -> ExtractProgress | None:
        if watermark is not None and watermark.extract_progress is not None:
            return watermark.extract_progress
        first = self._journal.read(self._stream.default_stream.stem)
        return first.extract_progress if first else None

    @contextmanager
    def _begin_loading(self, held: HeldClaim) -> Generator[Loading]:
        """Begin to load under a claim, or go on under the one of the last pass; record the error that ends it."""
        if self._held_loading is None or self._held_loading[0] != held:
            self._held_loading = held, Loading(self._journal, held, self._get_target)
        loading = self._held_loading[1]
        try:
            yield loading
        except (NotOwner, StateUnreadable):
            raise  # the document is another process's by now, or must not be written at all
        except Exception as error:  # noqa: BLE001  # a bug is recorded as any failure is
            failure = self._stage.record_failure(error, loading.record_failure)
            raise failure from failure.__cause__

    def _find_due_batches(self, watermark: Watermark | None) -> tuple[BatchId, ...]:
        """Return the batches that wait, according to the documents."""
        chain = self._find_extract_progress(watermark)
        if chain is None:
            return ()
        last = watermark.load_progress.last_batch if watermark else BEFORE_FIRST_BATCH
        if watermark is not None:
            self._outcome = replace(self._outcome, last_batch=last, mark=watermark.load_progress.cursor)
        due = tuple(chain.batch_ids(after=last))
        self._outcome = replace(self._outcome, pending_batches=len(due))
        return due

    def _load_batches(
        self, run: Run, loading: Loading, *, most: int | None, compare: bool, since: DocumentVersion[Watermark] | None
    ) -> None:
        while True:
            left = MAX_BATCHES_PER_TRANSACTION
            if most is not None:
                left = min(left, most - self._outcome.batches)
            began = self._clock.monotonic()
            result = self._load_with_retries(run, loading, max_batches=left, compare=compare, since=since)
            since = None
            if result is NOTHING_LOADED:
                return
            # The batches that the ledger has lost may be too many for one transaction.
            compare = compare and result.reloaded_batches > 0
            self._record_loaded(result, seconds=self._clock.monotonic() - began)
            if result.links and self._outcome.batches == most:
                return
            if result.links and not compare and not self._outcome.pending_batches:
                return

    def _load_with_retries(
        self, run: Run, loading: Loading, *, max_batches: int, compare: bool, since: DocumentVersion[Watermark] | None
    ) -> LoadResult:
        """Load, and try again after errors that pass by themselves; the ledger settles an unknown outcome."""
        for attempt in count(1):
            try:
                return loading.load_next_batches(
                    run,
                    max_batches=max_batches,
                    check_ledger=compare,
                    max_rows=self._rows_per_transaction,
                    last_seen=since,
                    on_loaded=self._on_loaded,
                )
            except WarehouseStillDown:
                raise  # another stream has already waited for it
            except RETRYABLE_ERRORS as error:
                if attempt == LOAD_ATTEMPTS:
                    raise
                wait = FIRST_RETRY_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311  # jitter, no secret
                self._emit(LoadRetried(stream=self._stream, error=error, seconds=wait))
                self._pause(wait)
                since = None
        raise AssertionError

    def _record_loaded(self, result: LoadResult, *, seconds: float) -> None:
        links, watermark, outcome = result.links, result.watermark, self._outcome
        if watermark is not None:
            pending = max(outcome.pending_batches - len(links), 0)
            if watermark.extract_progress is not None:
                pending = watermark.extract_progress.count_batches(after=watermark.load_progress.last_batch)
            outcome = replace(
                outcome,
                last_batch=watermark.load_progress.last_batch,
                mark=watermark.load_progress.cursor,
                pending_batches=pending,
            )
        files = sum(len(link.files) for link in links)
        self._outcome = replace(
            outcome,
            batches=outcome.batches + len(links),
            rows=outcome.rows + result.rows,
            files=outcome.files + files,
        )
        self._report_quarantined(result)
        if result.reloaded_batches:
            self._emit(LedgerBehind(stream=self._stream, batches=result.reloaded_batches))
        if links:
            self._emit(
                BatchesLoaded(
                    stream=self._stream,
                    first=links[0].id,
                    last=links[-1].id,
                    batches=len(links),
                    rows=result.rows,
                    files=files,
                    mark=self._outcome.mark,
                    seconds=seconds,
                )
            )

    def _on_loaded(self, result: LoadResult) -> None:
        """Report incomplete columns before the mark says that the batches are loaded; once, if called again."""
        for event in incomplete_column_events(
            self._stream, result.links, after=self._find_last_reporting_batch(result), appends=self._appends
        ):
            if event.description not in self._outcome.incomplete_columns:
                self._emit(event)
                columns = (*self._outcome.incomplete_columns, event.description)
                self._outcome = replace(self._outcome, incomplete_columns=columns)

    def _find_last_reporting_batch(self, result: LoadResult) -> BatchId:
        """Return the last batch before these that reported its columns; mostly that is the last batch.

        Where batches were skipped, the next batch with a report repeats theirs.
        """
        state = result.watermark
        if (
            state is None
            or state.extract_progress is None
            or not (result.links and state.load_progress.skipped_batches)
        ):
            return result.previous_batch
        chain = BatchChain(self._journal, self._stream)
        before = filter(
            state.load_progress.expects_in_ledger,
            state.extract_progress.batch_ids_newest_first(up_to=result.previous_batch, after=BEFORE_FIRST_BATCH),
        )
        return next((batch for batch in before if reports_columns(chain.require_link(batch))), BEFORE_FIRST_BATCH)

    def _report_quarantined(self, result: LoadResult) -> None:
        """Count and report the rows of these batches that are not in the target, whichever attempt refused them."""
        for batch, loaded in result.refused_by_batch.items():
            self._outcome = replace(self._outcome, quarantined=self._outcome.quarantined + loaded.refused_rows)
            look = f"syncd quarantine show -t {self._stream.table_name} --batch {batch}"
            reason = loaded.reason or f"an earlier attempt was refused ({look})"
            self._emit(RowsQuarantined(stream=self._stream, batch=batch, rows=loaded.refused_rows, reason=reason))
