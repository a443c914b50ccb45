"""What a change of marks will bring: batches that land again or never, rows that are read again."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from watermarks.batch import BatchId, Kind, Link
from watermarks.document import Watermark
from watermarks.extraction import Chain
from watermarks.progress import ORIGIN, Extracted, Loaded

AT_ONCE: Final = 16
"""Requests on their way."""
MOST_LINKS: Final = 1_000
"""Whose rows are counted; of more, only their number is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """Some batches of a chain."""

    batches: int = 0
    rows: int | None = 0
    """None where there are too many to look at each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What comes of a change in one target."""

    due: Heap
    """What the loader will land, all in all."""
    again: Heap
    """Of it, what had landed before."""
    left_out: Heap
    """What will not land because of the change, though it never has."""


def weigh(chain: Chain, before: Watermark, after: Watermark) -> Weight:
    """What the loader makes of the state after a change, against the state before it."""
    extracted = after.chain
    due = tuple(extracted.ids(after=after.loaded.last))
    again = tuple(batch for batch in due if before.loaded.expects(batch))
    left_out = tuple(
        batch
        for span in after.loaded.skipped
        for batch in extracted.ids(after=span.after)
        if batch in span and not _left_out(before.loaded, batch)
    )
    return Weight(due=_heap(chain, due), again=_heap(chain, again), left_out=_heap(chain, left_out))


def needed(extracted: Extracted, half: Loaded) -> tuple[BatchId, ...]:
    """The batches whose files a loader wants that stands there."""
    return tuple(extracted.ids(after=half.last))


def _left_out(half: Loaded, batch: BatchId) -> bool:
    return any(batch in span for span in half.skipped)


def _heap(chain: Chain, batches: Sequence[BatchId]) -> Heap:
    if len(batches) > MOST_LINKS:
        return Heap(batches=len(batches), rows=None)
    return Heap(batches=len(batches), rows=sum(link.rows for link in links(chain, batches)))


def links(chain: Chain, batches: Iterable[BatchId]) -> list[Link]:
    """These links, several requests at once.

    Raises:
        StateMissing: one is gone.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(chain.required, batches))


def carried_out(found: Iterable[Link]) -> list[Link]:
    """Those that may have files."""
    return [link for link in found if link.kind is not Kind.ABANDONED]


def of_life(extracted: Extracted) -> tuple[BatchId, ...]:
    """Every batch of a chain."""
    return tuple(extracted.ids(after=ORIGIN))
