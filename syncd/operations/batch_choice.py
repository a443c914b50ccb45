"""Which batch a person means, who tells the loader where to begin: by when files were written, or by what they hold."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime

from watermarks.batch import BatchId, Link
from watermarks.cursor import START, Cursor
from watermarks.extraction import Chain
from watermarks.progress import ORIGIN, Extracted


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a chain: what comes behind the batch lands, what it had reached is the loaded mark."""

    after: BatchId = ORIGIN
    reached: Cursor = START


BEGINNING = Place()


def written_by(chain: Chain, extracted: Extracted, instant: datetime) -> Place:
    """The place behind the last batch whose files were written at an instant or before it.

    Batches are made one after another, so that a search by halving finds it: few links are read, however
    long the chain is.
    """
    ids = tuple(extracted.ids(after=ORIGIN))
    return _behind(chain, ids, bisect_right(ids, instant, key=lambda batch: chain.required(batch).made_at))


def reached_by(chain: Chain, extracted: Extracted, cursor: Cursor) -> Place:
    """The place behind the last batch that holds nothing above a position.

    Only within a generation do positions grow; what an older generation holds above the position is read
    again by a newer one that begins at or below it.

    Raises:
        Misuse: only the database orders these positions.
    """
    for generation in (extracted.generation, *sorted(extracted.closed, reverse=True)):
        ids = tuple(BatchId(generation, seq) for seq in range(1, extracted.end_of(generation) + 1))
        if found := bisect_right(ids, cursor, key=lambda batch: _top(chain.required(batch))):
            return _behind(chain, ids, found)
    return BEGINNING


def batch_of(chain: Chain, extracted: Extracted, batch: BatchId) -> Place:
    """The place behind a batch that was named."""
    return Place(after=batch, reached=chain.required(batch).high) if extracted.holds(batch) else Place(after=batch)


def _behind(chain: Chain, ids: tuple[BatchId, ...], count: int) -> Place:
    return Place(after=ids[count - 1], reached=chain.required(ids[count - 1]).high) if count else BEGINNING


def _top(link: Link) -> Cursor:
    """The highest position whose rows a batch may hold: a chunk of a first pass has rows of any time."""
    return link.snapshot.horizon if link.snapshot else link.high
