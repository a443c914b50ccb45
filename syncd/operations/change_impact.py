"""What a change of marks will bring: batches that land again or never, rows that are read again."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.document import Watermark
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress, LoadProgress

PARALLEL_REQUESTS: Final = 16
"""Requests on their way."""
MAX_COUNTED_LINKS: Final = 1_000
"""Whose rows are counted; of more, only their number is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """Some batches of a chain."""

    batches: int = 0
    rows: int | None = 0
    """None where there are too many to look at each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeImpact:
    """What comes of a change in one target."""

    to_load: BatchCount
    """What the loader will land, all in all."""
    to_reload: BatchCount
    """Of it, what had landed before."""
    to_skip: BatchCount
    """What will not land because of the change, though it never has."""


def measure_impact(chain: BatchChain, before: Watermark, after: Watermark) -> ChangeImpact:
    """What the loader makes of the state after a change, against the state before it."""
    extracted = after.required_extract_progress
    due = tuple(extracted.batch_ids(after=after.load_progress.last_batch))
    again = tuple(batch for batch in due if before.load_progress.expects_in_ledger(batch))
    left_out = tuple(
        batch
        for span in after.load_progress.skipped_batches
        for batch in extracted.batch_ids(after=span.after)
        if batch in span and not _is_skipped(before.load_progress, batch)
    )
    return ChangeImpact(
        to_load=_count_batches(chain, due),
        to_reload=_count_batches(chain, again),
        to_skip=_count_batches(chain, left_out),
    )


def batches_to_load(extracted: ExtractProgress, half: LoadProgress) -> tuple[BatchId, ...]:
    """The batches whose files a loader wants that stands there."""
    return tuple(extracted.batch_ids(after=half.last_batch))


def _is_skipped(half: LoadProgress, batch: BatchId) -> bool:
    return any(batch in span for span in half.skipped_batches)


def _count_batches(chain: BatchChain, batches: Sequence[BatchId]) -> BatchCount:
    if len(batches) > MAX_COUNTED_LINKS:
        return BatchCount(batches=len(batches), rows=None)
    return BatchCount(batches=len(batches), rows=sum(link.rows for link in read_links(chain, batches)))


def read_links(chain: BatchChain, batches: Iterable[BatchId]) -> list[BatchLink]:
    """These links, several requests at once.

    Raises:
        StateMissing: one is gone.
    """
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        return list(pool.map(chain.require_link, batches))


def without_abandoned(found: Iterable[BatchLink]) -> list[BatchLink]:
    """Those that may have files."""
    return [link for link in found if link.kind is not BatchKind.ABANDONED]


def all_batches(extracted: ExtractProgress) -> tuple[BatchId, ...]:
    """Every batch of a chain."""
    return tuple(extracted.batch_ids(after=BEFORE_FIRST_BATCH))
