"""Removal of files from the lake: close open batches, write the record, check the marks once more, then remove."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from syncd.s3.object_removal import LakeRemover, UnremovedObject

FILES_PER_RECORD: Final = 1_000
"""Files of one record: as many as S3 deletes with one request."""
ABANDON_REASON: Final = "its generation was closed before it was done; its parts were cleaned"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalResult:
    """Files that were removed, and those that were not."""

    files: int = 0
    bytes: int = 0
    failed: "tuple[UnremovedObject, ...]" = ()
    error: HintedError | None = None
    """Error that stopped the removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemoval:
    """Removes the proposed files; the result of an interrupted removal lists what was removed before."""

    journal: Journal[Watermark]
    remover: "LakeRemover"
    operator: str
    reason: str
    include_versions: bool = False
    """Remove older versions too, in a bucket that keeps them."""

    def run(self, proposal: CleaningProposal) -> RemovalResult:
        done = RemovalResult()
        try:
            kept = self._close_batches(proposal)
            files = [file for file in proposal.removable if file.key not in kept]
            for first in range(0, len(files), FILES_PER_RECORD):
                done = self._remove_chunk(proposal, files[first : first + FILES_PER_RECORD], done)
        except HintedError as error:
            return replace(done, error=error)
        return done

    def _remove_chunk(
        self, proposal: CleaningProposal, chunk: Sequence[RemovableFile], done: RemovalResult
    ) -> RemovalResult:
        self._write_record(proposal, chunk)
        # The record comes first: it says who removed a file that is gone. Killed here, all files still exist.
        self._require_unchanged_marks(proposal)
        keys = [file.key for file in chunk]
        failed = self.remover.remove_versions(keys) if self.include_versions else self.remover.remove(keys)
        left = {refusal.key for refusal in failed}
        removed = [file for file in chunk if file.key not in left]
        return RemovalResult(
            files=done.files + len(removed),
            bytes=done.bytes + sum(file.bytes for file in removed),
            failed=(*done.failed, *failed),
        )

    def _close_batches(self, proposal: CleaningProposal) -> frozenset[str]:
        """Close batch numbers that no writer continues; return the files that a late writer has named meanwhile."""
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

    def _write_record(self, proposal: CleaningProposal, chunk: Sequence[RemovableFile]) -> None:
        record = RemovalRecord(
            stream=proposal.stream,
            at=self.journal.clock.now(),
            who=self.operator,
            why=self.reason,
            nonce=self.journal.make_nonce(),
            files={file.key: file.bytes for file in chunk},
        )
        while not put_once(self.journal.store, record.key, record.to_bytes()).is_ours:
            record = replace(
                record, at=record.at + timedelta(microseconds=1)
            )  # another cleaner wrote at the same instant

    def _require_unchanged_marks(self, proposal: CleaningProposal) -> None:
        """Check that no operator has moved marks since: loaded batches may have to load again.

        Raises:
            ChangedMeanwhile: the marks were changed.
        """
        if list(_manual_marks(read_states(self.journal, proposal.stream))) != list(_manual_marks(proposal.states)):
            raise ChangedMeanwhile(
                f"the marks of {proposal.stream} were changed since the preview: nothing more was removed",
                hint="See the change: syncd watermark history. Then list again: syncd s3clean list.",
            )


def _manual_marks(states: Sequence[Watermark]) -> Iterator[tuple[object, ...]]:
    """Yield what only an operator changes of the marks."""
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
