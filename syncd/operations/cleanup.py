"""Removing what may go: close what is open, write the record, look once more at what it was decided on, then remove."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Protocol

from syncd.lake.removal_records import RemovalRecord
from syncd.operations.cleanup_preview import CleaningProposal, read_states
from syncd.operations.cleanup_rules import RemovableFile
from syncd.operations.mark_change import ChangedMeanwhile
from watermarks.batch import BatchId, BatchLink
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.progress import BEFORE_FIRST_BATCH
from watermarks.store import put_once

FILES_PER_RECORD: Final = 1_000
"""Files of one record, which is as many as S3 removes with one request."""
ABANDON_REASON: Final = "its generation was closed before it was done; its parts were cleaned"


class UnremovedFile(Protocol):
    """A file that is still there, and why."""

    @property
    def key(self) -> str: ...
    @property
    def reason(self) -> str: ...


class FileRemover(Protocol):
    """What takes files out of the lake."""

    def remove(self, keys: Sequence[str]) -> Sequence[UnremovedFile]:
        """Remove objects, each whatever becomes of the others; those that were not, with the reason."""
        ...

    def remove_versions(self, keys: Sequence[str]) -> Sequence[UnremovedFile]:
        """The same of every version of them, and of every mark of a removal."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalResult:
    """What was removed."""

    files: int = 0
    bytes: int = 0
    failed: tuple[UnremovedFile, ...] = ()
    error: HintedError | None = None
    """Why it ended before its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemoval:
    """Removes what was proposed; whatever was removed before an error stays told."""

    journal: Journal[Watermark]
    remover: FileRemover
    operator: str
    reason: str
    include_versions: bool = False
    """Whether older versions go too, in a bucket that keeps them."""

    def run(self, proposal: CleaningProposal) -> RemovalResult:
        done = RemovalResult()
        try:
            kept = self._close_batches(proposal)
            goes = [file for file in proposal.removable if file.key not in kept]
            for first in range(0, len(goes), FILES_PER_RECORD):
                done = self._remove_chunk(proposal, goes[first : first + FILES_PER_RECORD], done)
        except HintedError as error:
            return replace(done, error=error)
        return done

    def _remove_chunk(
        self, proposal: CleaningProposal, some: Sequence[RemovableFile], done: RemovalResult
    ) -> RemovalResult:
        self._write_record(proposal, some)
        # The record speaks first: of a file that is gone, it says who removed it; killed here, all files still stand.
        self._require_unchanged_marks(proposal)
        keys = [file.key for file in some]
        failed = self.remover.remove_versions(keys) if self.include_versions else self.remover.remove(keys)
        left = {each.key for each in failed}
        gone = [file for file in some if file.key not in left]
        return RemovalResult(
            files=done.files + len(gone),
            bytes=done.bytes + sum(file.bytes for file in gone),
            failed=(*done.failed, *failed),
        )

    def _close_batches(self, proposal: CleaningProposal) -> frozenset[str]:
        """Close the numbers that nobody will come back to; what a writer who woke named meanwhile is kept."""
        links = [self._close_batch(proposal, batch) for batch in proposal.batches_to_close]
        return frozenset(key for link in links for key in link.files)

    def _close_batch(self, proposal: CleaningProposal, batch: BatchId) -> BatchLink:
        chain, half = BatchChain(self.journal, proposal.stream), proposal.states[0].required_extract_progress
        plan = chain.read_plan(batch)
        assert plan is not None
        before = next(
            half.batch_ids_newest_first(up_to=BatchId(batch.generation, batch.seq - 1), after=BEFORE_FIRST_BATCH), None
        )
        return chain.create_link(
            BatchLink.from_abandoned_plan(
                plan,
                ABANDON_REASON,
                mark=plan.draft.basis.mark,
                previous=chain.require_link(before).digest if before else None,
                nonce=self.journal.make_nonce(),
                epoch=plan.epoch,
                made_at=self.journal.clock.now(),
            )
        )

    def _write_record(self, proposal: CleaningProposal, some: Sequence[RemovableFile]) -> None:
        record = RemovalRecord(
            stream=proposal.stream,
            at=self.journal.clock.now(),
            who=self.operator,
            why=self.reason,
            nonce=self.journal.make_nonce(),
            files={file.key: file.bytes for file in some},
        )
        while not put_once(self.journal.store, record.key, record.to_bytes()).is_ours:
            record = replace(record, at=record.at + timedelta(microseconds=1))  # another cleaner, at the same instant

    def _require_unchanged_marks(self, proposal: CleaningProposal) -> None:
        """Refuse to go on when a person has moved marks since: what had landed may have to land again.

        Raises:
            ChangedMeanwhile: somebody has.
        """
        if list(_manual_marks(read_states(self.journal, proposal.stream))) != list(_manual_marks(proposal.states)):
            raise ChangedMeanwhile(
                f"somebody has changed the marks of {proposal.stream} since this was shown: nothing more was removed",
                hint="See what: syncd watermark history. Then look again: syncd s3clean list.",
            )


def _manual_marks(states: Sequence[Watermark]) -> Iterator[tuple[object, ...]]:
    """What only a person changes of marks."""
    for state in states:
        half = state.extract_progress
        generation = half.generation if half else 0
        yield (
            state.stream,
            state.last_manual_revision,
            generation,
            state.load_progress.load_generation,
            state.load_progress.skipped_batches,
        )
