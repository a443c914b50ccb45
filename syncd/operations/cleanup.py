"""Removing what may go: close what is open, write the record, look once more at what it was decided on, then remove."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Protocol

from syncd.lake.removal_records import Cleaned
from syncd.operations.cleanup_preview import Proposal, states_of
from syncd.operations.cleanup_rules import Goes
from syncd.operations.mark_change import ChangedMeanwhile
from watermarks.batch import BatchId, Link
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.extraction import Chain
from watermarks.history import Journal
from watermarks.progress import ORIGIN
from watermarks.store import put_once

AT_ONCE: Final = 1_000
"""Files of one record, which is as many as S3 removes with one request."""
WHY_ABANDONED: Final = "its generation was closed before it was done; its parts were cleaned"


class Refusal(Protocol):
    """A file that is still there, and why."""

    @property
    def key(self) -> str: ...
    @property
    def reason(self) -> str: ...


class Bin(Protocol):
    """What takes files out of the lake."""

    def remove(self, keys: Sequence[str]) -> Sequence[Refusal]:
        """Remove objects, each whatever becomes of the others; those that were not, with the reason."""
        ...

    def remove_versions(self, keys: Sequence[str]) -> Sequence[Refusal]:
        """The same of every version of them, and of every mark of a removal."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed."""

    files: int = 0
    bytes: int = 0
    failed: tuple[Refusal, ...] = ()
    error: HintedError | None = None
    """Why it ended before its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Removes what was proposed; whatever was removed before an error stays told."""

    journal: Journal[Watermark]
    bin: Bin
    who: str
    why: str
    versions: bool = False
    """Whether older versions go too, in a bucket that keeps them."""

    def removed(self, proposal: Proposal) -> Removed:
        done = Removed()
        try:
            kept = self._abandoned(proposal)
            goes = [file for file in proposal.goes if file.key not in kept]
            for first in range(0, len(goes), AT_ONCE):
                done = self._some(proposal, goes[first : first + AT_ONCE], done)
        except HintedError as error:
            return replace(done, error=error)
        return done

    def _some(self, proposal: Proposal, some: Sequence[Goes], done: Removed) -> Removed:
        self._record(proposal, some)
        # The record speaks first: of a file that is gone, it says who removed it; killed here, all files still stand.
        self._require_same(proposal)
        keys = [file.key for file in some]
        failed = self.bin.remove_versions(keys) if self.versions else self.bin.remove(keys)
        left = {each.key for each in failed}
        gone = [file for file in some if file.key not in left]
        return Removed(
            files=done.files + len(gone),
            bytes=done.bytes + sum(file.bytes for file in gone),
            failed=(*done.failed, *failed),
        )

    def _abandoned(self, proposal: Proposal) -> frozenset[str]:
        """Close the numbers that nobody will come back to; what a writer who woke named meanwhile is kept."""
        links = [self._close(proposal, batch) for batch in proposal.abandons]
        return frozenset(key for link in links for key in link.files)

    def _close(self, proposal: Proposal, batch: BatchId) -> Link:
        chain, half = Chain(self.journal, proposal.stream), proposal.states[0].chain
        plan = chain.plan(batch)
        assert plan is not None
        before = next(half.ids_back(upto=BatchId(batch.generation, batch.seq - 1), after=ORIGIN), None)
        return chain.close(
            Link.abandoned(
                plan,
                WHY_ABANDONED,
                mark=plan.draft.world.mark,
                previous=chain.required(before).digest if before else None,
                nonce=self.journal.nonce(),
                epoch=plan.epoch,
                at=self.journal.clock.now(),
            )
        )

    def _record(self, proposal: Proposal, some: Sequence[Goes]) -> None:
        record = Cleaned(
            stream=proposal.stream,
            at=self.journal.clock.now(),
            who=self.who,
            why=self.why,
            nonce=self.journal.nonce(),
            files={file.key: file.bytes for file in some},
        )
        while not put_once(self.journal.store, record.key, record.to_bytes()).ours:
            record = replace(record, at=record.at + timedelta(microseconds=1))  # another cleaner, at the same instant

    def _require_same(self, proposal: Proposal) -> None:
        """Refuse to go on when a person has moved marks since: what had landed may have to land again.

        Raises:
            ChangedMeanwhile: somebody has.
        """
        if list(_by_hand(states_of(self.journal, proposal.stream))) != list(_by_hand(proposal.states)):
            raise ChangedMeanwhile(
                f"somebody has changed the marks of {proposal.stream} since this was shown: nothing more was removed",
                hint="See what: syncd watermark history. Then look again: syncd s3clean list.",
            )


def _by_hand(states: Sequence[Watermark]) -> Iterator[tuple[object, ...]]:
    """What only a person changes of marks."""
    for state in states:
        half = state.extracted
        generation = half.generation if half else 0
        yield state.stream, state.set_at, generation, state.loaded.load_generation, state.loaded.skipped
