"""Changes of marks by an operator: previewed with their impact, then made once, and only as previewed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from syncd.lake.removal_records import ObjectReader
from syncd.operations.reloadable_files import (
    ChangeImpact,
    ReloadableFiles,
    ReloadFilesMissing,
    measure_impact,
    require_rows_in_lake,
)
from watermarks.document import Watermark
from watermarks.errors import HintedError, Misuse, OutcomeUnknown
from watermarks.history import CommitAttempt, Journal
from watermarks.names import StreamName
from watermarks.operator import Operator
from watermarks.stores.memory import OverlayStore

MarkChange = Callable[[Operator], Watermark]
"""The change itself, as a call of the operator."""

CHANGE_ATTEMPTS: Final = 5
"""Attempts to get an answer; the change is made once."""


class ChangedMeanwhile(Misuse):
    """Another operator changed the marks first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePreview:
    """A change of marks that is not made yet."""

    stream: StreamName
    before: Watermark
    after: Watermark
    impact: ChangeImpact
    reloadable_files: ReloadableFiles

    @property
    def changes_read_position(self) -> bool:
        """Return whether rows are read from another position on."""
        return self.after.required_extract_progress.generation != self.before.required_extract_progress.generation


def preview_change(
    journal: Journal[Watermark], lake: ObjectReader, stream: StreamName, operator: Operator, change: MarkChange
) -> ChangePreview:
    """Return the change and its impact; nothing is written.

    Raises:
        Misuse: the change means nothing for this stream.
        ReloadFilesMissing: batches would have to load again whose files are gone.
        RowsNotInLake: rows would have to load again that were never in a file.
    """
    reloadable = ReloadableFiles.from_now(journal, lake, stream)
    before, after = _simulate(reloadable, stream, replace(operator, journal=journal), change)
    return ChangePreview(
        stream=stream,
        before=before,
        after=after,
        impact=measure_impact(reloadable.chain, before, after),
        reloadable_files=reloadable,
    )


def apply_change(previewed: ChangePreview, operator: Operator, change: MarkChange) -> Watermark:
    """Make the previewed change; retried until there is an answer, and made once.

    Files may have been removed since the preview: they are checked again before the change, and after it.

    Raises:
        ChangedMeanwhile: the change would do something else than the preview says.
        ReloadFilesMissing: files that it needs are gone; it was not made, or was undone.
        RowsNotInLake: rows would have to load again that were never in a file.
    """
    state = operator.journal.read_newest(previewed.stream.stem)
    if (state.last_manual_revision if state else 0) != previewed.before.last_manual_revision:
        raise ChangedMeanwhile(
            f"another operator has changed {previewed.stream} since the preview: nothing was done",
            hint="See the change: syncd watermark history. Then run the command again.",
        )
    before, _ = _simulate(previewed.reloadable_files, previewed.stream, operator, change)
    made = _apply_with_retries(operator, change)
    try:
        previewed.reloadable_files.require(before, made)
    except ReloadFilesMissing as gone:
        raise _undo_after_missing_files(operator, made, gone) from None
    return made


def _simulate(
    reloadable_files: ReloadableFiles, stream: StreamName, operator: Operator, change: MarkChange
) -> tuple[Watermark, Watermark]:
    """Return the state as it is and as the change would leave it, by making the change in an overlay store."""
    journal = operator.journal
    before = journal.read_newest(stream.stem) or Watermark.new(stream, created_at=journal.clock.now())
    after = change(replace(operator, journal=Journal(OverlayStore(journal.store), Watermark, clock=journal.clock)))
    require_rows_in_lake(journal, before, after)
    reloadable_files.require(before, after)
    return before, after


def _apply_with_retries(operator: Operator, change: MarkChange) -> Watermark:
    for _ in range(CHANGE_ATTEMPTS):
        try:
            return change(operator)
        except OutcomeUnknown as error:
            attempt = error.facts.get("attempt")
            if not isinstance(attempt, CommitAttempt):
                raise
            operator = replace(operator, retry_of=attempt)
    return change(operator)


def _undo_after_missing_files(operator: Operator, made: Watermark, missing: ReloadFilesMissing) -> ReloadFilesMissing:
    """Undo a change whose files went while it was made, and return its error."""
    undoing = replace(operator, reason=f"undone: {missing.message}")
    try:
        _apply_with_retries(undoing, lambda who: who.undo(made.stream, revision=made.last_manual_revision))
    except HintedError as error:
        return ReloadFilesMissing(
            f"{missing.message}; the change was made as revision {made.last_manual_revision}, and could not be undone:"
            f" {error.message}",
            hint=f"See the marks: syncd watermark history -t {made.stream.table_name}. {missing.hint}",
            **missing.facts,
        )
    return missing


def require_known_stream(state: Watermark | None, stream: StreamName) -> Watermark:
    """Return the state.

    Raises:
        Misuse: there is none, so the stream has never run.
    """
    if state is None:
        raise Misuse(f"{stream} has never run", hint="Check the name: syncd watermark list")
    return state
