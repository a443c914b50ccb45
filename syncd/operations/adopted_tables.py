"""Whether what a stream has was loaded by something else before it: no file of the lake holds those rows."""

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt
from watermarks.history import Journal, StateMissing
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress


class RowsNotInLake(DataInDoubt):
    """What was to land again was never in a file."""


def require_rows_in_lake(journal: Journal[Watermark], before: Watermark, after: Watermark) -> None:
    """Make sure that a loaded half which begins anew finds all of its rows in files, or in what will be read.

    Raises:
        NotInFiles: some were there when the table was taken over, and nothing reads them again.
    """
    anew = (
        after.load_progress.base == BEFORE_FIRST_BATCH
        and after.load_progress.cursor == START_CURSOR
        and before.load_progress.cursor != START_CURSOR
    )
    if not anew or after.required_extract_progress.generation != before.required_extract_progress.generation:
        return
    if find_files_start(journal, before) == START_CURSOR:
        return
    table = before.stream.table_name
    raise RowsNotInLake(
        f"{before.stream} was taken over from what loaded it before: those rows are in no file, and cannot land again",
        hint=f"Read the table again, and land all of it: syncd watermark reset -t {table}",
    )


def find_files_start(journal: Journal[Watermark], state: Watermark) -> Cursor:
    """From where on the rows of a stream are in files: where it was taken over, unless all was read since.

    Only a stream without a batch is taken over, so that the entry before its first batch tells. It is found by
    halving, however long the history is.
    """
    at = _state_reader(journal, state.stem)
    first = bisect_left(
        range(1, state.revision + 1), 1, key=lambda revision: int(_has_batches(at(revision).required_extract_progress))
    )
    if first == 0:
        return START_CURSOR
    last = at(first)
    return (
        START_CURSOR
        if _was_reread_since(state.required_extract_progress, last.required_extract_progress.generation)
        else last.load_progress.cursor
    )


def _state_reader(journal: Journal[Watermark], stem: str) -> Callable[[int], Watermark]:
    @lru_cache
    def at(revision: int) -> Watermark:
        entry = journal.read_entry(stem, revision)
        if entry is None:
            raise StateMissing(
                f"entry {revision} of {stem} is gone", hint="Restore history/ from the bucket's versions."
            )
        return Watermark.from_bytes(entry.document_bytes(), location="history", stem=stem)

    return at


def _has_batches(half: ExtractProgress) -> bool:
    return next(half.batch_ids(after=BEFORE_FIRST_BATCH), None) is not None


def _was_reread_since(half: ExtractProgress, taken: int) -> bool:
    """Whether a person had the whole table read again: what is not in files yet will be."""
    return half.generation > taken and half.generation_start == START_CURSOR
