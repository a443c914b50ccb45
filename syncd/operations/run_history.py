"""The last runs of streams, read from their histories: the newest entries, several at once."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from syncd.operations.change_impact import AT_ONCE
from syncd.operations.past_runs import PastRun, runs_of
from watermarks.document import Watermark
from watermarks.history import Entry, Journal, StateMissing
from watermarks.names import StreamName, history_key

MOST_ENTRIES: Final = 2_000
"""Of one stream, however many runs were asked for."""


def last_runs(journal: Journal[Watermark], stream: StreamName, *, last: int) -> list[PastRun]:
    """The last so many runs of both stages, the newest first; the oldest may be cut where it is very long.

    Raises:
        StateUnreadable: an entry is gone, or cannot be believed.
    """
    state = journal.newest(stream.stem)
    if state is None:
        return []
    numbers = range(state.revision, max(0, state.revision - MOST_ENTRIES), -1)
    found = list(islice(runs_of(_entries(journal, stream, numbers)), last))
    return sorted(found, key=lambda run: run.ended, reverse=True)


def _entries(journal: Journal[Watermark], stream: StreamName, numbers: Iterable[int]) -> Iterator[Entry]:
    wanted = list(numbers)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, len(wanted), AT_ONCE * 2):
            some = wanted[first : first + AT_ONCE * 2]
            for number, entry in zip(some, pool.map(lambda each: journal.entry(stream.stem, each), some), strict=True):
                if entry is None:
                    raise StateMissing(
                        f"{history_key(stream.stem, number)} is gone", hint="Restore it from the bucket's versions."
                    )
                yield entry
