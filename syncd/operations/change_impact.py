"""Impact of a change of marks: batches that load again or never, counted with their rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from syncd.concurrency.parallel_map import map_in_parallel
from watermarks.batch import BatchId, BatchLink
from watermarks.document import Watermark
from watermarks.extraction import BatchChain
from watermarks.progress import LoadProgress

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
        if batch in span and not _is_skipped(before.load_progress, batch)
    )
    return ChangeImpact(
        to_load=_count_batches(chain, due),
        to_reload=_count_batches(chain, tuple(batch for batch in due if before.load_progress.expects_in_ledger(batch))),
        to_skip=_count_batches(chain, skipped),
    )


def _is_skipped(progress: LoadProgress, batch: BatchId) -> bool:
    return any(batch in span for span in progress.skipped_batches)


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
