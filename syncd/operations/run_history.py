"""The last runs of streams, read from their histories: the newest entries, several at once."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from syncd.operations.change_impact import PARALLEL_REQUESTS
from syncd.operations.past_runs import PastRun, group_runs
from watermarks.document import Watermark
from watermarks.history import HistoryEntry, Journal, StateMissing
from watermarks.names import StreamName, history_key

MAX_HISTORY_ENTRIES: Final = 2_000
"""Of one stream, however many runs were asked for."""


def last_runs(journal: Journal[Watermark], stream: StreamName, *, limit: int) -> list[PastRun]:
    """The last so many runs of both stages, the newest first; the oldest may be cut where it is very long.

    Raises:
        StateUnreadable: an entry is gone, or cannot be believed.
    """
    state = journal.read_newest(stream.stem)
    if state is None:
        return []
    numbers = range(state.revision, max(0, state.revision - MAX_HISTORY_ENTRIES), -1)
    found = list(islice(group_runs(_read_entries(journal, stream, numbers)), limit))
    return sorted(found, key=lambda run: run.ended_at, reverse=True)


def _read_entries(journal: Journal[Watermark], stream: StreamName, numbers: Iterable[int]) -> Iterator[HistoryEntry]:
    wanted = list(numbers)
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        for first in range(0, len(wanted), PARALLEL_REQUESTS * 2):
            some = wanted[first : first + PARALLEL_REQUESTS * 2]
            for number, entry in zip(
                some, pool.map(lambda each: journal.read_entry(stream.stem, each), some), strict=True
            ):
                if entry is None:
                    raise StateMissing(
                        f"{history_key(stream.stem, number)} is gone", hint="Restore it from the bucket's versions."
                    )
                yield entry
