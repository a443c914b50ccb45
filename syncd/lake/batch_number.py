"""The number of a batch as one integer: the column of every file, and of targets, that says who read a row.

Integers compare as batches do: the higher one was read later. In decimal the
generation stands before twelve digits of seq: 1000000000042 is batch 1-42.
"""

from typing import Final

from watermarks.batch import BatchId
from watermarks.errors import Misuse

BATCH_COLUMN: Final = "_syncd_batch"
SEQ_LIMIT: Final = 10**12
MAX_GENERATION: Final = 9_000_000


def batch_to_number(batch: BatchId) -> int:
    """The number of a batch.

    Raises:
        Misuse: it is larger than any stream grows.
    """
    if batch.seq >= SEQ_LIMIT or batch.generation > MAX_GENERATION:
        raise Misuse(f"batch {batch} has no number in 64 bits", hint="Begin the stream under a new name.")
    return batch.generation * SEQ_LIMIT + batch.seq


def batch_from_number(number: int) -> BatchId:
    """The batch of a number."""
    return BatchId(*divmod(number, SEQ_LIMIT))
