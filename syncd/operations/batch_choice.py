"""Which batch a person means, who tells the loader where to begin: by when files were written, or by what they hold."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime

from watermarks.batch import BatchId, BatchLink
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStart:
    """A place in a chain: what comes behind the batch lands, what it had reached is the loaded mark."""

    after: BatchId = BEFORE_FIRST_BATCH
    loaded_mark: Cursor = START_CURSOR


LOAD_FROM_BEGINNING = LoadStart()


def find_start_by_time(chain: BatchChain, extracted: ExtractProgress, instant: datetime) -> LoadStart:
    """The place behind the last batch whose files were written at an instant or before it.

    Batches are made one after another, so that a search by halving finds it: few links are read, however
    long the chain is.
    """
    ids = tuple(extracted.batch_ids(after=BEFORE_FIRST_BATCH))
    return _start_after(chain, ids, bisect_right(ids, instant, key=lambda batch: chain.require_link(batch).made_at))


def find_start_by_cursor(chain: BatchChain, extracted: ExtractProgress, cursor: Cursor) -> LoadStart:
    """The place behind the last batch that holds nothing above a position.

    Only within a generation do positions grow; what an older generation holds above the position is read
    again by a newer one that begins at or below it.

    Raises:
        Misuse: only the database orders these positions.
    """
    for generation in (extracted.generation, *sorted(extracted.closed_generations, reverse=True)):
        ids = tuple(BatchId(generation, seq) for seq in range(1, extracted.last_seq_of(generation) + 1))
        if found := bisect_right(ids, cursor, key=lambda batch: _highest_position(chain.require_link(batch))):
            return _start_after(chain, ids, found)
    return LOAD_FROM_BEGINNING


def start_after_batch(chain: BatchChain, extracted: ExtractProgress, batch: BatchId) -> LoadStart:
    """The place behind a batch that was named."""
    return (
        LoadStart(after=batch, loaded_mark=chain.require_link(batch).high)
        if extracted.has_batch(batch)
        else LoadStart(after=batch)
    )


def _start_after(chain: BatchChain, ids: tuple[BatchId, ...], count: int) -> LoadStart:
    return (
        LoadStart(after=ids[count - 1], loaded_mark=chain.require_link(ids[count - 1]).high)
        if count
        else LOAD_FROM_BEGINNING
    )


def _highest_position(link: BatchLink) -> Cursor:
    """The highest position whose rows a batch may hold: a chunk of a first pass has rows of any time."""
    return link.snapshot.horizon if link.snapshot else link.high
