"""Operating: what only a person does to a watermark: set, reset, skip, undo, and the system-wide default.

Each is an entry of history like any other, with a name and a reason. A change
of the extracted half opens a new generation and closes the old one where it
stands; a change of the loaded half opens a new load generation. Changing one
half leaves the other as it is, and stages meet the change at their next entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from watermarks.batch import BatchId, SnapshotProgress
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.errors import Misuse
from watermarks.history import ChangeKind, ChangeNote, CommitAttempt, Journal, StateMissing
from watermarks.legacy import LegacyWatermark
from watermarks.names import SYSTEM_STEM, StreamName
from watermarks.progress import BEFORE_FIRST_BATCH, ExtractProgress, LoadProgress, RunStrategy
from watermarks.system_default import SystemDefault

_NO_EVIDENCE: Final[Mapping[str, Any]] = MappingProxyType({})


class NothingToUndo(Misuse):
    """No person has changed this watermark yet."""


class NotLatestChange(Misuse):
    """A person has changed the watermark since the change that was to be taken back."""


class StreamAlreadyExtracted(Misuse):
    """The stream has batches of its own: where it stands is known, and nobody else knows better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPosition:
    """A table that somebody else has loaded, as the caller found it."""

    cursor: Cursor
    """What lies at or below it need not be read any more."""
    first_cursor: Cursor | None = None
    """Where its rows begin, if that is not with the first."""
    proven: bool = False
    """Whether all of that is in the target, and none of it can still be committed."""
    source_identity: str | None = None
    """The server that it was compared with."""
    legacy: LegacyWatermark | None = None
    """What the earlier tool's document said."""
    proof: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was compared, and what came of it."""

    @property
    def evidence(self) -> Mapping[str, Any]:
        told = {"form": self.legacy.form, "document": self.legacy.text} if self.legacy else {}
        return {**told, **({"proof": dict(self.proof)} if self.proof else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A person at the controls: whatever they change carries their name and their reason."""

    journal: Journal[Watermark]
    author: str
    reason: str
    retry_of: CommitAttempt | None = None
    """A change that was sent before and not answered: it is not made twice."""

    def set_marks(
        self,
        stream: StreamName,
        *,
        extract_cursor: Cursor | None = None,
        load_after: BatchId | None = None,
        load_cursor: Cursor = START_CURSOR,
    ) -> Watermark:
        """Set one half or both, in one entry that one undo takes back; the half of which nothing is said stays.

        Read on from the cursor `extracted`; land what comes behind the batch `after`, where `loaded` is
        what that batch had reached.

        Raises:
            Misuse: there is nothing to set, or `after` is no batch of the chain.
        """
        if extract_cursor is None and load_after is None:
            raise Misuse(
                f"nothing of {stream} is to be set", hint="Say where to read on, or which batch to land after."
            )
        if load_after is not None and load_after != BEFORE_FIRST_BATCH:
            self._require_link(stream, load_after)

        def wanted(state: Watermark) -> Watermark:
            if load_after is not None:
                state = replace(
                    state,
                    load_progress=state.load_progress.with_new_generation(load_after, cursor=load_cursor),
                    extract_progress=_with_manual_strategy(state),
                )
            return (
                state
                if extract_cursor is None
                else replace(
                    state, extract_progress=_with_extract_cursor(state.required_extract_progress, extract_cursor)
                )
            )

        return self._change(stream, ChangeKind.SET, wanted)

    def reset_marks(self, stream: StreamName, *, reset_extract: bool = True, reset_load: bool = True) -> Watermark:
        """Read everything again, or land the whole chain again from its files, or both in one entry.

        Raises:
            Misuse: the stream has never run, or nothing is to be reset.
        """
        self._require_state(stream)
        if not (reset_extract or reset_load):
            raise Misuse(f"nothing of {stream} is to be reset", hint="Name a half, or both.")

        def wanted(state: Watermark) -> Watermark:
            if reset_load:
                state = replace(
                    state,
                    load_progress=state.load_progress.with_new_generation(BEFORE_FIRST_BATCH, cursor=START_CURSOR),
                )
            return (
                replace(state, extract_progress=_with_extract_cursor(state.required_extract_progress, START_CURSOR))
                if reset_extract
                else state
            )

        return self._change(stream, ChangeKind.RESET, wanted)

    def set_extracted(self, stream: StreamName, cursor: Cursor) -> Watermark:
        """Read from another position on. Targets land what was read so far first."""
        return self.set_marks(stream, extract_cursor=cursor)

    def reset_extracted(self, stream: StreamName) -> Watermark:
        """Read everything again, as on the first run."""
        return self.reset_marks(stream, reset_load=False)

    def set_loaded(self, stream: StreamName, after: BatchId, *, cursor: Cursor = START_CURSOR) -> Watermark:
        """Land what comes after a batch: earlier ones are left out, later ones land although they may have before."""
        return self.set_marks(stream, load_after=after, load_cursor=cursor)

    def reset_loaded(self, stream: StreamName) -> Watermark:
        """Land the whole chain again from its files."""
        return self.reset_marks(stream, reset_extract=False)

    def skip_batches(self, stream: StreamName, up_to: BatchId) -> Watermark:
        """Leave out batches that are due, up to and including one, for ever."""
        self._require_link(stream, up_to)
        return self._change(
            stream,
            ChangeKind.SKIP,
            lambda state: replace(state, load_progress=state.load_progress.with_batches_skipped(up_to)),
        )

    def undo(self, stream: StreamName, *, revision: int | None = None) -> Watermark:
        """Take back the last change by a person: positions become what they were, in new generations.

        With a `revision` only the change that was made as this one is taken back.

        Raises:
            NothingToUndo: there was none.
            NotTheLast: another change by a person has come since.
        """

        def undone(state: Watermark) -> Watermark:
            if revision is not None and state.last_manual_revision != revision:
                raise NotLatestChange(f"somebody has changed {stream} since, as revision {state.last_manual_revision}")
            earlier = self._read_state_before_change(state)
            return _undo_change(state, earlier)

        return self._change(stream, ChangeKind.UNDO, undone)

    def import_position(self, stream: StreamName, position: ImportedPosition) -> Watermark:
        """Go on where somebody else stood, in both halves: from a cursor that the caller has checked.

        Raises:
            Misuse: the document is another table's.
            OwnChain: the stream has read something itself.
        """
        if position.legacy is not None:
            position.legacy.require_table(stream)

        def wanted(state: Watermark) -> Watermark:
            if next(state.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH), None) is not None:
                raise StreamAlreadyExtracted(
                    f"{stream} has a chain of its own, up to batch {state.required_extract_progress.last_batch}",
                    hint=f"It needs nobody's marks: syncd watermark get -t {_table_name(stream)}",
                )
            return replace(
                state,
                extract_progress=_with_imported_extract(state.required_extract_progress, position),
                load_progress=_with_imported_load(state.load_progress, position),
            )

        return self._change(stream, ChangeKind.IMPORT, wanted, position.evidence)

    def _read_state_before_change(self, state: Watermark) -> Watermark:
        """The state that the last change by a person found."""
        if state.last_manual_revision == 0:
            raise NothingToUndo(
                f"nobody has changed {state.stream} by hand",
                hint=f"See: syncd watermark history -t {_table_name(state.stream)}",
            )
        if state.last_manual_revision == 1:
            return Watermark.new(state.stream, created_at=state.created_at)
        entry = self.journal.read_entry(state.stem, state.last_manual_revision - 1)
        if entry is None:
            raise StateMissing(f"entry {state.last_manual_revision - 1} of {state.stream} is gone")
        return Watermark.from_bytes(entry.document_bytes(), location="history", stem=state.stem)

    def _require_link(self, stream: StreamName, batch: BatchId) -> None:
        chain = self._require_state(stream.default_stream).required_extract_progress
        opened = batch.seq == 0 and batch.generation in {*chain.closed_generations, chain.generation}
        if not (opened or chain.has_batch(batch)):
            raise Misuse(f"{batch} is no batch of {stream}", hint=f"The chain ends at {chain.last_batch}.")

    def _require_state(self, stream: StreamName) -> Watermark:
        state = self.journal.read_newest(stream.stem)
        if state is None:
            raise Misuse(f"{stream} has never run", hint="Is the name right? See: syncd watermark list")
        return state

    def _change(
        self,
        stream: StreamName,
        change: ChangeKind,
        update: Callable[[Watermark], Watermark],
        evidence: Mapping[str, Any] = _NO_EVIDENCE,
    ) -> Watermark:
        def changed(state: Watermark | None) -> Watermark:
            state = state or Watermark.new(stream, created_at=self.journal.clock.now())
            return replace(update(state), last_manual_revision=state.revision + 1)

        done = self.journal.commit(
            stream.stem,
            changed,
            ChangeNote(change=change, author=self.author, reason=self.reason, evidence=evidence),
            retry_of=self.retry_of,
        )
        assert done is not None
        return done


def set_system_default(
    journal: Journal[SystemDefault], start: datetime | None, *, author: str, reason: str
) -> SystemDefault:
    """Set the instant from which streams start that were told no other; None takes it away."""

    def changed(state: SystemDefault | None) -> SystemDefault:
        now = journal.clock.now()
        return replace(state or SystemDefault(start=None, created_at=now, updated_at=now), start=start)

    done = journal.commit(SYSTEM_STEM, changed, ChangeNote(change=ChangeKind.SET, author=author, reason=reason))
    assert done is not None
    return done


def _with_extract_cursor(progress: ExtractProgress, cursor: Cursor) -> ExtractProgress:
    return progress.with_new_generation(cursor, snapshot=None)


def _with_imported_extract(progress: ExtractProgress, position: ImportedPosition) -> ExtractProgress:
    began = (
        None
        if position.first_cursor is None
        else SnapshotProgress(horizon=position.first_cursor, reached_key=START_CURSOR, done=True)
    )
    return replace(
        progress.with_new_generation(position.cursor, snapshot=began),
        # What is proven later proves all of it only if nothing before is in doubt.
        generation_start=position.cursor if position.proven else START_CURSOR,
        proven=position.proven,
        source_identity=position.source_identity,
    )


def _with_imported_load(progress: LoadProgress, position: ImportedPosition) -> LoadProgress:
    """In a load generation of its own, so that `undo` takes both halves back."""
    return progress.with_new_generation(BEFORE_FIRST_BATCH, cursor=position.cursor)


def _with_manual_strategy(state: Watermark) -> ExtractProgress | None:
    """The extracted half, saying that a person set a mark: until the next batch is read, as ever."""
    return replace(state.extract_progress, strategy=RunStrategy.MANUAL) if state.extract_progress else None


def _table_name(stream: StreamName) -> str:
    return stream.table_name


def _undo_change(state: Watermark, earlier: Watermark) -> Watermark:
    if (
        state.extract_progress
        and earlier.extract_progress
        and state.extract_progress.generation != earlier.extract_progress.generation
    ):
        was = earlier.extract_progress
        half = state.extract_progress.with_new_generation(was.cursor, snapshot=was.snapshot)
        # The positions are those of before, and so is what is proven of them, and from where on.
        half = replace(half, strategy=was.strategy, proven=was.proven, generation_start=was.generation_start)
        state = replace(state, extract_progress=half)
    elif state.extract_progress and earlier.extract_progress and state.extract_progress.strategy is RunStrategy.MANUAL:
        state = replace(
            state, extract_progress=replace(state.extract_progress, strategy=earlier.extract_progress.strategy)
        )
    if state.load_progress != earlier.load_progress and _is_manual_change(state.load_progress, earlier.load_progress):
        state = replace(state, load_progress=state.load_progress.with_rollback_to(earlier.load_progress))
    return state


def _is_manual_change(now: LoadProgress, earlier: LoadProgress) -> bool:
    return now.load_generation != earlier.load_generation or now.skipped_batches != earlier.skipped_batches
