"""What past runs did, told from the entries of history: who, when, how much, how long, and what failed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from watermarks.document import Stage
from watermarks.history import ChangeKind, HistoryEntry

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
    """One pass of one stage that did something, or failed."""

    stage: Stage
    who: str
    run: str | None
    """Its name; None of a pass that failed before its first batch."""
    began_at: datetime
    ended_at: datetime
    batches: int = 0
    rows: int = 0
    files: int = 0
    abandoned: int = 0
    milliseconds: int = 0
    failures: tuple[str, ...] = ()

    def merge_earlier(self, older: "PastRun") -> Self:
        """This run with an earlier piece of it."""
        return replace(
            self,
            run=self.run or older.run,
            began_at=older.began_at,
            batches=self.batches + older.batches,
            rows=self.rows + older.rows,
            files=self.files + older.files,
            abandoned=self.abandoned + older.abandoned,
            milliseconds=self.milliseconds + older.milliseconds,
            failures=(*older.failures, *self.failures),
        )


def group_runs(newest_first: Iterable[HistoryEntry]) -> Iterator[PastRun]:
    """The runs that entries tell of, the one that ended last first; both stages may be at work at once."""
    open_: dict[Stage, PastRun] = {}
    for entry, older in _pair_with_older(newest_first):
        piece = _partial_run(entry, older)
        if piece is None:
            continue
        after = open_.get(piece.stage)
        if after is not None and _is_same_run(after, piece):
            open_[piece.stage] = after.merge_earlier(piece)
            continue
        if after is not None:
            yield after
        open_[piece.stage] = piece
    yield from sorted(open_.values(), key=lambda run: run.ended_at, reverse=True)


def _pair_with_older(newest_first: Iterable[HistoryEntry]) -> Iterator[tuple[HistoryEntry, HistoryEntry | None]]:
    """Each entry with the one before it; nothing is asked for that is not needed yet."""
    later: HistoryEntry | None = None
    for entry in newest_first:
        if later is not None:
            yield later, entry
        later = entry
    if later is not None:
        yield later, None


def _is_same_run(later: PastRun, earlier: PastRun) -> bool:
    """Whether two pieces are of one run; a failure ends one."""
    if later.who != earlier.who or earlier.failures:
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
        who=entry.note.author,
        run=None if failed else entry.after.get(_RUN[stage]),
        began_at=entry.recorded_at - timedelta(milliseconds=milliseconds),
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
