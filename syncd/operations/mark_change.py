"""A change of marks before it is made: what it would bring, and whether it can be made at all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from syncd.operations.adopted_tables import require_rows_in_lake
from syncd.operations.change_impact import ChangeImpact, measure_impact
from syncd.operations.reloadable_files import ReloadableFiles, ReloadFilesMissing
from syncd.ports.evidence import FileListing
from watermarks.document import Watermark
from watermarks.errors import HintedError, Misuse, OutcomeUnknown
from watermarks.history import CommitAttempt, Journal
from watermarks.names import StreamName
from watermarks.operator import Operator
from watermarks.stores.overlay import OverlayStore

MarkChange = Callable[[Operator], Watermark]
"""What a person does."""

CHANGE_ATTEMPTS: Final = 5
"""How often a change is asked for that was not answered; it is made once."""


class ChangedMeanwhile(Misuse):
    """Another person was first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePreview:
    """A change as it would be."""

    stream: StreamName
    before: Watermark
    after: Watermark
    impact: ChangeImpact
    reloadable_files: ReloadableFiles

    @property
    def changes_read_position(self) -> bool:
        """Whether rows are read from another position on."""
        return self.after.required_extract_progress.generation != self.before.required_extract_progress.generation


def preview_change(
    journal: Journal[Watermark], file_listing: FileListing, stream: StreamName, operator: Operator, change: MarkChange
) -> ChangePreview:
    """What the change would bring; nothing is written.

    Raises:
        Misuse: it means nothing.
        FilesGone: batches would have to land again whose files are gone.
        NotInFiles: rows would have to land again that were never in a file.
    """
    landable = ReloadableFiles.from_now(journal, file_listing, stream)
    before, after = _simulate(landable, stream, replace(operator, journal=journal), change)
    return ChangePreview(
        stream=stream,
        before=before,
        after=after,
        impact=measure_impact(landable.chain, before, after),
        reloadable_files=landable,
    )


def apply_change(previewed: ChangePreview, operator: Operator, change: MarkChange) -> Watermark:
    """Make the change that was seen; asked again until there is an answer, and made once.

    Files may have gone while somebody thought: they are looked at once more before it is made, and after.

    Raises:
        ChangedMeanwhile: what it would do now is not what was seen.
        FilesGone: files that it needs have gone since; it was not made, or was taken back.
        NotInFiles: rows would have to land again that were never in a file.
    """
    state = operator.journal.read_newest(previewed.stream.stem)
    if (state.last_manual_revision if state else 0) != previewed.before.last_manual_revision:
        raise ChangedMeanwhile(
            f"somebody else has changed {previewed.stream} since this was shown: nothing was done",
            hint="See what: syncd watermark history. Then ask again.",
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
    """The state as it is and as a change would leave it, which is done where nothing is written."""
    journal = operator.journal
    before = journal.read_newest(stream.stem) or Watermark.new(stream, created_at=journal.clock.now())
    after = change(replace(operator, journal=Journal(OverlayStore(journal.store), Watermark, clock=journal.clock)))
    require_rows_in_lake(journal, before, after)
    reloadable_files.require(before, after)
    return before, after


def _apply_with_retries(operator: Operator, change: MarkChange) -> Watermark:
    """Change marks; asked again until there is an answer, and made once."""
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
    """The error of a change whose files went while it was made, which is taken back before it is told."""
    back = replace(operator, reason=f"taken back: {missing.message}")
    try:
        _apply_with_retries(back, lambda who: who.undo(made.stream, revision=made.last_manual_revision))
    except HintedError as error:
        return ReloadFilesMissing(
            f"{missing.message}; the change was made as revision {made.last_manual_revision}, and could not be taken back:"
            f" {error.message}",
            hint=f"See what stands: syncd watermark history -t {made.stream.table_name}. {missing.hint}",
            **missing.facts,
        )
    return missing


def require_known_stream(state: Watermark | None, stream: StreamName) -> Watermark:
    """The state of a stream that there is.

    Raises:
        Misuse: it has never run.
    """
    if state is None:
        raise Misuse(f"{stream} has never run", hint="Is the name right? See: syncd watermark list")
    return state
