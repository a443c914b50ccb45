"""Number of a batch as one integer: the column of files and targets that says which batch read a row.

The higher number was read later. In decimal, the generation stands before twelve digits of the sequence number:
1000000000042 is batch 1-42.
"""

from typing import Final

from watermarks.batch import BatchId
from watermarks.errors import Misuse

BATCH_COLUMN: Final = "_syncd_batch"
SEQ_LIMIT: Final = 10**12
MAX_GENERATION: Final = 9_000_000


def batch_to_number(batch: BatchId) -> int:
    """Return the number of a batch.

    Raises:
        Misuse: it does not fit into 64 bits.
    """
    if batch.seq >= SEQ_LIMIT or batch.generation > MAX_GENERATION:
        raise Misuse(
            f"the number of batch {batch} does not fit into 64 bits", hint="Begin the stream under a new name."
        )
    return batch.generation * SEQ_LIMIT + batch.seq


def batch_from_number(number: int) -> BatchId:
    return BatchId(*divmod(number, SEQ_LIMIT))
