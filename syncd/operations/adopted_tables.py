"""Whether what a stream has was loaded by something else before it: no file of the lake holds those rows."""

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

from watermarks.cursor import START, Cursor
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt
from watermarks.history import Journal, StateMissing
from watermarks.progress import ORIGIN, Extracted


class NotInFiles(DataInDoubt):
    """What was to land again was never in a file."""


def require_in_files(journal: Journal[Watermark], before: Watermark, after: Watermark) -> None:
    """Make sure that a loaded half which begins anew finds all of its rows in files, or in what will be read.

    Raises:
        NotInFiles: some were there when the table was taken over, and nothing reads them again.
    """
    anew = after.loaded.base == ORIGIN and after.loaded.cursor == START and before.loaded.cursor != START
    if not anew or after.chain.generation != before.chain.generation:
        return
    if files_begin(journal, before) == START:
        return
    table = f"{before.stream.database}.{before.stream.table}"
    raise NotInFiles(
        f"{before.stream} was taken over from what loaded it before: those rows are in no file, and cannot land again",
        hint=f"Read the table again, and land all of it: syncd watermark reset -t {table}",
    )


def files_begin(journal: Journal[Watermark], state: Watermark) -> Cursor:
    """From where on the rows of a stream are in files: where it was taken over, unless all was read since.

    Only a stream without a batch is taken over, so that the entry before its first batch tells. It is found by
    halving, however long the history is.
    """
    at = _states(journal, state.stem)
    first = bisect_left(range(1, state.revision + 1), True, key=lambda revision: _has_batches(at(revision).chain))  # noqa: FBT003  # what is searched for
    if first == 0:
        return START
    last = at(first)
    return START if _read_since(state.chain, last.chain.generation) else last.loaded.cursor


def _states(journal: Journal[Watermark], stem: str) -> Callable[[int], Watermark]:
    @lru_cache
    def at(revision: int) -> Watermark:
        entry = journal.entry(stem, revision)
        if entry is None:
            raise StateMissing(
                f"entry {revision} of {stem} is gone", hint="Restore history/ from the bucket's versions."
            )
        return Watermark.of_bytes(entry.document_bytes(), at="history", stem=stem)

    return at


def _has_batches(half: Extracted) -> bool:
    return next(half.ids(after=ORIGIN), None) is not None


def _read_since(half: Extracted, taken: int) -> bool:
    """Whether a person had the whole table read again: what is not in files yet will be."""
    return half.generation > taken and half.began == START
