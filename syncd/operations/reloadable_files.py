"""Checks before batches are loaded again: their rows have to be in files that stay."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from syncd.concurrency.thread_helpers import map_in_parallel
from syncd.lake.object_keys import data_prefix
from syncd.lake.removal_records import ObjectReader, find_removal_records, iter_removal_records, list_record_keys
from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt
from watermarks.extraction import BatchChain
from watermarks.history import Journal, StateMissing
from watermarks.names import StreamName
from watermarks.progress import BEFORE_FIRST_BATCH

MAX_COUNTED_LINKS: Final = 1_000
"""Batches whose rows are counted; of more, only the number of batches is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """Number of batches, and of their rows."""

    batches: int = 0
    rows: int | None = 0
    """None for more than `MAX_COUNTED_LINKS` batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeImpact:
    """Impact of a change on one target."""

    to_load: BatchCount
    """All batches that the loader will load."""
    to_reload: BatchCount
    """Those of them that were loaded before."""
    to_skip: BatchCount
    """Batches that the change skips, and that were never loaded."""


def measure_impact(chain: BatchChain, before: Watermark, after: Watermark) -> ChangeImpact:
    """Compare the batches that the loader loads after a change with those before it."""
    extracted = after.required_extract_progress
    due = tuple(extracted.batch_ids(after=after.load_progress.last_batch))
    skipped = tuple(
        batch
        for span in after.load_progress.skipped_batches
        for batch in extracted.batch_ids(after=span.after)
        if batch in span and not any(batch in skipped for skipped in before.load_progress.skipped_batches)
    )
    return ChangeImpact(
        to_load=_count_batches(chain, due),
        to_reload=_count_batches(chain, tuple(batch for batch in due if before.load_progress.expects_in_ledger(batch))),
        to_skip=_count_batches(chain, skipped),
    )


def _count_batches(chain: BatchChain, batches: Sequence[BatchId]) -> BatchCount:
    if len(batches) > MAX_COUNTED_LINKS:
        return BatchCount(batches=len(batches), rows=None)
    return BatchCount(batches=len(batches), rows=sum(link.rows for link in read_links(chain, batches)))


def read_links(chain: BatchChain, batches: Iterable[BatchId]) -> list[BatchLink]:
    """Read links, several requests at a time.

    Raises:
        StateMissing: one does not exist.
    """
    return map_in_parallel(chain.require_link, batches)


class ReloadFilesMissing(DataInDoubt):
    """Batches would have to load again whose files do not exist any more."""


class RowsNotInLake(DataInDoubt):
    """Rows would have to load again that were never in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadableFiles:
    """Check of the files that a change needs: when it is previewed, before it is made, and after.

    A cleaner writes its record before it reads the marks, and an operator moves the marks before the records are
    read: so one of the two always sees the other.
    """

    chain: BatchChain
    lake: ObjectReader
    known_records: frozenset[str]
    """Removal records that existed at the preview; files that a later one names are about to be removed."""
    _files_by_batch: dict[BatchId, Sequence[str]] = field(default_factory=dict[BatchId, Sequence[str]])

    @classmethod
    def from_now(cls, journal: Journal[Watermark], lake: ObjectReader, stream: StreamName) -> "ReloadableFiles":
        return cls(chain=BatchChain(journal, stream), lake=lake, known_records=list_record_keys(lake, stream))

    def require(self, before: Watermark, after: Watermark) -> None:
        """Check the files of all batches that wait after a change, and did not wait before it.

        Raises:
            ReloadFilesMissing: some do not exist, or are about to be removed.
        """
        waited = set(before.required_extract_progress.batch_ids(after=before.load_progress.last_batch))
        due = after.required_extract_progress.batch_ids(after=after.load_progress.last_batch)
        wanted = [batch for batch in due if batch not in waited]
        if not wanted:
            return
        files, stream = self._files_of(wanted), self.chain.stream
        new_records = iter_removal_records(self.lake, stream, exclude=self.known_records)
        going = {key for record in new_records for key in record.files}
        existing = {found.key for found in self.lake.list_objects(data_prefix(stream))} - going
        missing = {batch: lost for batch in wanted if (lost := [key for key in files[batch] if key not in existing])}
        if missing:
            raise self._missing_files_error(missing)

    def _files_of(self, wanted: Sequence[BatchId]) -> Mapping[BatchId, Sequence[str]]:
        new = [batch for batch in wanted if batch not in self._files_by_batch]
        self._files_by_batch.update({link.id: link.files for link in read_links(self.chain, new)})
        return self._files_by_batch

    def _missing_files_error(self, missing: Mapping[BatchId, Sequence[str]]) -> ReloadFilesMissing:
        stream, last = self.chain.stream, max(missing)
        removed = find_removal_records(self.lake, stream, set(missing[last]))
        why = next((f": {record.description}" for record in removed.values()), "")
        return ReloadFilesMissing(
            f"the files of {len(missing)} of the batches to load again are missing; the last of these is batch"
            f" {last}{why}",
            hint=f"Read the table again: syncd watermark reset -t {stream.table_name} --mysql-only. Or load the batches"
            f" after it: syncd watermark set -t {stream.table_name} --redshift-only --after {last}",
            batches=[str(batch) for batch in sorted(missing)],
        )


def require_rows_in_lake(journal: Journal[Watermark], before: Watermark, after: Watermark) -> None:
    """Check that a target which is loaded from the beginning finds all of its rows in files, or in what will be read.

    Raises:
        RowsNotInLake: the table was imported with rows that no file holds, and nothing reads them again.
    """
    starts_over = (
        after.load_progress.base == BEFORE_FIRST_BATCH
        and after.load_progress.cursor == START_CURSOR
        and before.load_progress.cursor != START_CURSOR
    )
    rereads = after.required_extract_progress.generation != before.required_extract_progress.generation
    if not starts_over or rereads or find_files_start(journal, before) == START_CURSOR:
        return
    raise RowsNotInLake(
        f"{before.stream} was imported with rows that another tool had loaded: no file contains them, so they cannot be"
        " loaded again",
        hint=f"Read the table again, and load all of it: syncd watermark reset -t {before.stream.table_name}",
    )


def find_files_start(journal: Journal[Watermark], state: Watermark) -> Cursor:
    """Return the position above which files hold all rows of a stream: the import, unless all was read since.

    Only a stream without a batch is imported, so the entry before the first batch tells. A binary search finds it,
    however long the history is.
    """

    @lru_cache
    def state_at(revision: int) -> Watermark:
        entry = journal.read_entry(state.stem, revision)
        if entry is None:
            hint = "Restore history/ from the bucket's versions."
            raise StateMissing(f"entry {revision} of {state.stem} is missing", hint=hint)
        return Watermark.from_bytes(entry.document_bytes(), location="history", stem=state.stem)

    def has_batches(revision: int) -> int:
        progress = state_at(revision).required_extract_progress
        return int(next(progress.batch_ids(after=BEFORE_FIRST_BATCH), None) is not None)

    last_without_batch = bisect_left(range(1, state.revision + 1), 1, key=has_batches)
    if last_without_batch == 0:
        return START_CURSOR
    imported, now = state_at(last_without_batch), state.required_extract_progress
    # An operator had the whole table read again: rows that no file holds yet will be in one.
    was_reread = now.generation > imported.required_extract_progress.generation and now.generation_start == START_CURSOR
    return START_CURSOR if was_reread else imported.load_progress.cursor
