"""A change of marks before it is made: what it would bring, and whether it can be made at all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from syncd.core.books import Shelf
from syncd.core.cleaned import cleaned_by
from syncd.core.layout import data_prefix
from syncd.stages.marks.adopted import require_in_files
from syncd.stages.marks.unwritten import Unwritten
from syncd.stages.marks.weighing import Weight, links, weigh
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt, Misuse, OutcomeUnknown
from watermarks.extraction import Chain
from watermarks.history import Attempt, Journal
from watermarks.names import StreamName
from watermarks.operate import Operator

Act = Callable[[Operator], Watermark]
"""What a person does."""

ASKED_AGAIN: Final = 5
"""How often a change is asked for that was not answered; it is made once."""


class FilesGone(DataInDoubt):
    """What was to land again cannot: its files are not there any more."""


class ChangedMeanwhile(Misuse):
    """Another person was first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A change as it would be."""

    stream: StreamName
    before: Watermark
    after: Watermark
    weight: Weight

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
    before = journal.newest(stream.stem) or Watermark.new(stream, at=journal.clock.now())
    tried = Journal(Unwritten(journal.store), Watermark, clock=journal.clock)
    after = act(replace(person, journal=tried))
    chain = Chain(journal, stream)
    require_in_files(journal, before, after)
    _require_files(chain, shelf, before, after)
    return Preview(stream=stream, before=before, after=after, weight=weigh(chain, before, after))


def done(seen: Preview, person: Operator, act: Act) -> Watermark:
    """Make the change that was seen; asked again until there is an answer, and made once.

    Raises:
        ChangedMeanwhile: what it would do now is not what was seen.
    """
    state = person.journal.newest(seen.stream.stem)
    if (state.set_at if state else 0) != seen.before.set_at:
        raise ChangedMeanwhile(
            f"somebody else has changed {seen.stream} since this was shown: nothing was done",
            hint="See what: syncd watermark history. Then ask again.",
        )
    for _ in range(ASKED_AGAIN):
        try:
            return act(person)
        except OutcomeUnknown as error:
            attempt = error.facts.get("attempt")
            if not isinstance(attempt, Attempt):
                raise
            person = replace(person, again=attempt)
    return act(person)


def _require_files(chain: Chain, shelf: Shelf, before: Watermark, after: Watermark) -> None:
    waited = set(before.chain.ids(after=before.loaded.last))
    wanted = [batch for batch in after.chain.ids(after=after.loaded.last) if batch not in waited]
    if not wanted:
        return
    standing = shelf.standing(data_prefix(chain.stream))
    missing = [(link.id, file) for link in links(chain, wanted) for file in link.files if file not in standing]
    if not missing:
        return
    gone = sorted({batch for batch, _ in missing})
    table = f"{chain.stream.database}.{chain.stream.table}"
    removed = cleaned_by(shelf, chain.stream, {file for batch, file in missing if batch == gone[-1]})
    why = next((f": {record.said}" for record in removed.values()), "")
    raise FilesGone(
        f"{len(gone)} of the batches that are to land again have no files any more, the last of them {gone[-1]}{why}",
        hint=f"Read the table again: syncd watermark reset -t {table} --mysql-only. Or land what comes behind:"
        f" syncd watermark set -t {table} --redshift-only --after {gone[-1]}",
        batches=[str(batch) for batch in gone],
    )


def require_run(state: Watermark | None, stream: StreamName) -> Watermark:
    """The state of a stream that there is.

    Raises:
        Misuse: it has never run.
    """
    if state is None:
        raise Misuse(f"{stream} has never run", hint="Is the name right? See: syncd watermark list")
    return state
