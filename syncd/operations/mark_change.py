"""A change of marks before it is made: what it would bring, and whether it can be made at all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from syncd.operations.adopted_tables import require_in_files
from syncd.operations.change_impact import Weight, weigh
from syncd.operations.overlay_store import Unwritten
from syncd.operations.reloadable_files import FilesGone, Landable
from syncd.ports.evidence import Shelf
from watermarks.document import Watermark
from watermarks.errors import HintedError, Misuse, OutcomeUnknown
from watermarks.history import Attempt, Journal
from watermarks.names import StreamName
from watermarks.operator import Operator

Act = Callable[[Operator], Watermark]
"""What a person does."""

ASKED_AGAIN: Final = 5
"""How often a change is asked for that was not answered; it is made once."""


class ChangedMeanwhile(Misuse):
    """Another person was first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A change as it would be."""

    stream: StreamName
    before: Watermark
    after: Watermark
    weight: Weight
    landable: Landable

    @property
    def reads_on(self) -> bool:
        """Whether rows are read from another position on."""
        return self.after.chain.generation != self.before.chain.generation


def preview(journal: Journal[Watermark], shelf: Shelf, stream: StreamName, person: Operator, act: Act) -> Preview:
    """What the change would bring; nothing is written.

    Raises:
        Misuse: it means nothing.
        FilesGone: batches would have to land again whose files are gone.
        NotInFiles: rows would have to land again that were never in a file.
    """
    landable = Landable.from_now_on(journal, shelf, stream)
    before, after = _tried(landable, stream, replace(person, journal=journal), act)
    return Preview(
        stream=stream, before=before, after=after, weight=weigh(landable.chain, before, after), landable=landable
    )


def done(seen: Preview, person: Operator, act: Act) -> Watermark:
    """Make the change that was seen; asked again until there is an answer, and made once.

    Files may have gone while somebody thought: they are looked at once more before it is made, and after.

    Raises:
        ChangedMeanwhile: what it would do now is not what was seen.
        FilesGone: files that it needs have gone since; it was not made, or was taken back.
        NotInFiles: rows would have to land again that were never in a file.
    """
    state = person.journal.newest(seen.stream.stem)
    if (state.set_at if state else 0) != seen.before.set_at:
        raise ChangedMeanwhile(
            f"somebody else has changed {seen.stream} since this was shown: nothing was done",
            hint="See what: syncd watermark history. Then ask again.",
        )
    before, _ = _tried(seen.landable, seen.stream, person, act)
    made = _asked(person, act)
    try:
        seen.landable.require(before, made)
    except FilesGone as gone:
        raise _taken_back(person, made, gone) from None
    return made


def _tried(landable: Landable, stream: StreamName, person: Operator, act: Act) -> tuple[Watermark, Watermark]:
    """The state as it is and as a change would leave it, which is done where nothing is written."""
    journal = person.journal
    before = journal.newest(stream.stem) or Watermark.new(stream, at=journal.clock.now())
    after = act(replace(person, journal=Journal(Unwritten(journal.store), Watermark, clock=journal.clock)))
    require_in_files(journal, before, after)
    landable.require(before, after)
    return before, after


def _asked(person: Operator, act: Act) -> Watermark:
    """Change marks; asked again until there is an answer, and made once."""
    for _ in range(ASKED_AGAIN):
        try:
            return act(person)
        except OutcomeUnknown as error:
            attempt = error.facts.get("attempt")
            if not isinstance(attempt, Attempt):
                raise
            person = replace(person, again=attempt)
    return act(person)


def _taken_back(person: Operator, made: Watermark, gone: FilesGone) -> FilesGone:
    """The error of a change whose files went while it was made, which is taken back before it is told."""
    back = replace(person, why=f"taken back: {gone.message}")
    try:
        _asked(back, lambda who: who.undo(made.stream, revision=made.set_at))
    except HintedError as error:
        return FilesGone(
            f"{gone.message}; the change was made as revision {made.set_at}, and could not be taken back:"
            f" {error.message}",
            hint=f"See what stands: syncd watermark history -t {made.stream.database}.{made.stream.table}. {gone.hint}",
            **gone.facts,
        )
    return gone


def require_run(state: Watermark | None, stream: StreamName) -> Watermark:
    """The state of a stream that there is.

    Raises:
        Misuse: it has never run.
    """
    if state is None:
        raise Misuse(f"{stream} has never run", hint="Is the name right? See: syncd watermark list")
    return state
