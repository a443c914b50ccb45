"""Past runs of streams, read from their histories: who, when, how much, how long, and what failed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Self

from syncd.concurrency.thread_helpers import PARALLEL_REQUESTS, map_in_parallel
from watermarks.document import Stage, Watermark
from watermarks.history import ChangeKind, HistoryEntry, Journal, StateMissing
from watermarks.names import StreamName, history_key

MAX_HISTORY_ENTRIES: Final = 2_000
"""Entries that are read of one stream, however many runs were asked for."""
ENTRIES_PER_READ: Final = PARALLEL_REQUESTS * 2
_TOTALS: Final = {
    Stage.EXTRACT: (
        "mysql_rows_extracted_total",
        "s3_file_count_total",
        "mysql_batches_total",
        "mysql_milliseconds_total",
    ),
    Stage.LOAD: (
        "redshift_rows_loaded_total",
        "redshift_file_count_total",
        "redshift_batches_total",
        "redshift_milliseconds_total",
    ),
}
_RUN: Final = {Stage.EXTRACT: "mysql_run", Stage.LOAD: "redshift_run"}
_STAGE_CHANGES: Final = {ChangeKind.EXTRACT, ChangeKind.ABANDON, ChangeKind.LOAD, ChangeKind.FAIL}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One pass of one stage that moved a mark, or failed."""

    stage: Stage
    author: str
    run: str | None
    """Id of the run; None for a pass that failed before its first batch."""
    started_at: datetime
    ended_at: datetime
    batches: int = 0
    rows: int = 0
    files: int = 0
    abandoned: int = 0
    milliseconds: int = 0
    failures: tuple[str, ...] = ()

    def merge_earlier(self, older: "PastRun") -> Self:
        """Add an earlier entry of the same run."""
        return replace(
            self,
            run=self.run or older.run,
            started_at=older.started_at,
            batches=self.batches + older.batches,
            rows=self.rows + older.rows,
            files=self.files + older.files,
            abandoned=self.abandoned + older.abandoned,
            milliseconds=self.milliseconds + older.milliseconds,
            failures=(*older.failures, *self.failures),
        )


def group_runs(newest_first: Iterable[HistoryEntry]) -> Iterator[PastRun]:
    """Yield the runs of both stages, newest first; the runs of the two stages may overlap."""
    unfinished: dict[Stage, PastRun] = {}
    for entry, older in _pair_with_older(newest_first):
        partial_run = _partial_run(entry, older)
        if partial_run is None:
            continue
        later = unfinished.get(partial_run.stage)
        if later is not None and _is_same_run(later, partial_run):
            unfinished[partial_run.stage] = later.merge_earlier(partial_run)
            continue
        if later is not None:
            yield later
        unfinished[partial_run.stage] = partial_run
    yield from sorted(unfinished.values(), key=lambda run: run.ended_at, reverse=True)


def _pair_with_older(newest_first: Iterable[HistoryEntry]) -> Iterator[tuple[HistoryEntry, HistoryEntry | None]]:
    """Pair each entry with the one before it, and read no entry earlier than needed."""
    later: HistoryEntry | None = None
    for entry in newest_first:
        if later is not None:
            yield later, entry
        later = entry
    if later is not None:
        yield later, None


def _is_same_run(later: PastRun, earlier: PastRun) -> bool:
    """Return whether two entries belong to one run; a failure ends a run."""
    if later.author != earlier.author or earlier.failures:
        return False
    return later.run == earlier.run or later.run is None


def _partial_run(entry: HistoryEntry, older: HistoryEntry | None) -> PastRun | None:
    if entry.note.change not in _STAGE_CHANGES or entry.note.stage is None:
        return None
    stage = Stage(entry.note.stage)
    failed = entry.note.change is ChangeKind.FAIL
    rows, files, batches, milliseconds = (0,) * 4 if failed else _total_increases(entry.after, older, stage)
    abandoned = entry.note.change is ChangeKind.ABANDON
    return PastRun(
        stage=stage,
        author=entry.note.author,
        run=None if failed else entry.after.get(_RUN[stage]),
        started_at=entry.recorded_at - timedelta(milliseconds=milliseconds),
        ended_at=entry.recorded_at,
        batches=batches - abandoned,
        rows=rows,
        files=files,
        abandoned=int(abandoned),
        milliseconds=milliseconds,
        failures=(entry.note.reason,) if failed else (),
    )


def _total_increases(after: Mapping[str, Any], older: HistoryEntry | None, stage: Stage) -> tuple[int, ...]:
    before: Mapping[str, Any] = older.after if older is not None else {}
    return tuple(max(0, after.get(name, 0) - before.get(name, 0)) for name in _TOTALS[stage])


def last_runs(journal: Journal[Watermark], stream: StreamName, *, limit: int) -> list[PastRun]:
    """Return the last runs of both stages, newest first; the oldest may lack entries of a very long history.

    Raises:
        StateUnreadable: an entry is missing or damaged.
    """
    state = journal.read_newest(stream.stem)
    if state is None:
        return []
    numbers = range(state.revision, max(0, state.revision - MAX_HISTORY_ENTRIES), -1)
    runs = islice(group_runs(_read_entries(journal, stream, numbers)), limit)
    return sorted(runs, key=lambda run: run.ended_at, reverse=True)


def _read_entries(journal: Journal[Watermark], stream: StreamName, numbers: Sequence[int]) -> Iterator[HistoryEntry]:
    for first in range(0, len(numbers), ENTRIES_PER_READ):
        chunk = numbers[first : first + ENTRIES_PER_READ]
        entries = map_in_parallel(lambda number: journal.read_entry(stream.stem, number), chunk)
        for number, entry in zip(chunk, entries, strict=True):
            if entry is None:
                key = history_key(stream.stem, number)
                raise StateMissing(f"{key} is missing", hint="Restore it from the bucket's versions.")
            yield entry
