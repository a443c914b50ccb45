"""Changes that only a person makes to a watermark: set, reset, skip, undo and import; and the system-wide default.

Each change is an entry of the history with a name and a reason. A change of the
extract progress opens a new generation and closes the old one where it stands; a
change of the load progress opens a new load generation. A change of one leaves
the other as it is. Stages see the change at their next entry.
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
    """No person has changed this watermark."""


class NotLatestChange(Misuse):
    """A person has changed the watermark after the change that was to be undone."""


class StreamAlreadyExtracted(Misuse):
    """The stream has batches of its own, so its position is known and cannot be imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPosition:
    """Position of a table that another tool has loaded, as the caller found it."""

    cursor: Cursor
    """Rows at or below it need not be read again."""
    first_cursor: Cursor | None = None
    """Start of the table's rows, if that is not the first row of the table."""
    proven: bool = False
    """True if all those rows are in the target and none of them can still be committed."""
    source_identity: str | None = None
    """Server that the target was compared with."""
    legacy: LegacyWatermark | None = None
    """Document of the earlier tool."""
    proof: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was compared, and the result."""

    @property
    def evidence(self) -> Mapping[str, Any]:
        document = {"form": self.legacy.form, "document": self.legacy.text} if self.legacy else {}
        return {**document, **({"proof": dict(self.proof)} if self.proof else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A person who changes watermarks; each change carries the name and the reason."""

    journal: Journal[Watermark]
    author: str
    reason: str
    retry_of: CommitAttempt | None = None
    """An earlier attempt at this change without an answer; the change is not made twice."""

    def set_marks(
        self,
        stream: StreamName,
        *,
        extract_cursor: Cursor | None = None,
        load_after: BatchId | None = None,
        load_cursor: Cursor = START_CURSOR,
    ) -> Watermark:
        """Set one mark or both in one entry, which one undo takes back. A mark that is not given stays.

        Extraction continues after `extract_cursor`; targets load what was extracted before first. Loading
        continues after the batch `load_after`, which had reached `load_cursor`: earlier batches are left out,
        later ones are loaded even if they were loaded before.

        Raises:
            Misuse: neither mark is given, or `load_after` is no batch of the chain.
        """
        if extract_cursor is None and load_after is None:
            raise Misuse(f"no mark of {stream} was given", hint="Give a cursor to read from, or a batch to load after.")
        if load_after is not None and load_after != BEFORE_FIRST_BATCH:
            self._require_link(stream, load_after)

        def update(state: Watermark) -> Watermark:
            extract, load = state.extract_progress, state.load_progress
            if load_after is not None:
                load = load.with_new_generation(load_after, cursor=load_cursor)
                # Until the next batch is extracted, the document says that a person set a mark.
                extract = replace(extract, strategy=RunStrategy.MANUAL) if extract else None
            if extract_cursor is not None:
                extract = state.required_extract_progress.with_new_generation(extract_cursor, snapshot=None)
            return replace(state, extract_progress=extract, load_progress=load)

        return self._change(stream, ChangeKind.SET, update)

    def reset_marks(self, stream: StreamName, *, reset_extract: bool = True, reset_load: bool = True) -> Watermark:
        """Extract every row again, load the whole chain again from its files, or both in one entry.

        Raises:
            Misuse: the stream has never run, or neither mark is to be reset.
        """
        self._require_state(stream)
        if not (reset_extract or reset_load):
            raise Misuse(f"no mark of {stream} was given", hint="Give the extracted mark, the loaded mark, or both.")

        def update(state: Watermark) -> Watermark:
            extract, load = state.extract_progress, state.load_progress
            if reset_load:
                load = load.with_new_generation(BEFORE_FIRST_BATCH, cursor=START_CURSOR)
            if reset_extract:
                extract = state.required_extract_progress.with_new_generation(START_CURSOR, snapshot=None)
            return replace(state, extract_progress=extract, load_progress=load)

        return self._change(stream, ChangeKind.RESET, update)

    def skip_batches(self, stream: StreamName, up_to: BatchId) -> Watermark:
        """Leave out pending batches, up to and including one, for good."""
        self._require_link(stream, up_to)

        def update(state: Watermark) -> Watermark:
            return replace(state, load_progress=state.load_progress.with_batches_skipped(up_to))

        return self._change(stream, ChangeKind.SKIP, update)

    def undo(self, stream: StreamName, *, revision: int | None = None) -> Watermark:
        """Take back the last change by a person: restore its positions, in new generations.

        With a `revision`, take back only the change that was made as this revision.

        Raises:
            NothingToUndo: no person has changed the watermark.
            NotLatestChange: a person has changed it after that revision.
        """

        def update(state: Watermark) -> Watermark:
            if revision is not None and state.last_manual_revision != revision:
                raise NotLatestChange(f"{stream} was changed again, as revision {state.last_manual_revision}")
            return _undo_change(state, self._read_state_before_change(state))

        return self._change(stream, ChangeKind.UNDO, update)

    def import_position(self, stream: StreamName, position: ImportedPosition) -> Watermark:
        """Continue where another tool stood, in both stages, from a cursor that the caller has checked.

        Raises:
            Misuse: the document is another table's.
            StreamAlreadyExtracted: the stream has extracted batches itself.
        """
        if position.legacy is not None:
            position.legacy.require_table(stream)

        def update(state: Watermark) -> Watermark:
            extract = state.required_extract_progress
            if next(extract.batch_ids(after=BEFORE_FIRST_BATCH), None) is not None:
                raise StreamAlreadyExtracted(
                    f"{stream} has a chain of its own, up to batch {extract.last_batch}",
                    hint=f"It needs no imported marks: syncd watermark get -t {stream.table_name}",
                )
            return replace(
                state,
                extract_progress=_with_imported_position(extract, position),
                # In a load generation of its own, so that `undo` takes back both marks.
                load_progress=state.load_progress.with_new_generation(BEFORE_FIRST_BATCH, cursor=position.cursor),
            )

        return self._change(stream, ChangeKind.IMPORT, update, position.evidence)

    def _read_state_before_change(self, state: Watermark) -> Watermark:
        """Return the state before the last change by a person."""
        if state.last_manual_revision == 0:
            raise NothingToUndo(
                f"{state.stream} was never changed by hand",
                hint=f"See: syncd watermark history -t {state.stream.table_name}",
            )
        if state.last_manual_revision == 1:
            return Watermark.new(state.stream, created_at=state.created_at)
        entry = self.journal.read_entry(state.stem, state.last_manual_revision - 1)
        if entry is None:
            raise StateMissing(f"entry {state.last_manual_revision - 1} of {state.stream} is missing")
        return Watermark.from_bytes(entry.document_bytes(), location="history", stem=state.stem)

    def _require_link(self, stream: StreamName, batch: BatchId) -> None:
        chain = self._require_state(stream.default_stream).required_extract_progress
        starts_generation = batch.seq == 0 and batch.generation in {*chain.closed_generations, chain.generation}
        if not (starts_generation or chain.has_batch(batch)):
            raise Misuse(f"{stream} has no batch {batch}", hint=f"The chain ends at {chain.last_batch}.")

    def _require_state(self, stream: StreamName) -> Watermark:
        state = self.journal.read_newest(stream.stem)
        if state is None:
            raise Misuse(f"{stream} has never run", hint="Check the name: syncd watermark list")
        return state

    def _change(
        self,
        stream: StreamName,
        change: ChangeKind,
        update: Callable[[Watermark], Watermark],
        evidence: Mapping[str, Any] = _NO_EVIDENCE,
    ) -> Watermark:
        def change_state(state: Watermark | None) -> Watermark:
            state = state or Watermark.new(stream, created_at=self.journal.clock.now())
            return replace(update(state), last_manual_revision=state.revision + 1)

        note = ChangeNote(change=change, author=self.author, reason=self.reason, evidence=evidence)
        watermark = self.journal.commit(stream.stem, change_state, note, retry_of=self.retry_of)
        assert watermark is not None
        return watermark


def set_system_default(
    journal: Journal[SystemDefault], start: datetime | None, *, author: str, reason: str
) -> SystemDefault:
    """Set the instant from which streams without one of their own start; None removes it."""

    def update(state: SystemDefault | None) -> SystemDefault:
        now = journal.clock.now()
        return replace(state or SystemDefault(start=None, created_at=now, updated_at=now), start=start)

    default = journal.commit(SYSTEM_STEM, update, ChangeNote(change=ChangeKind.SET, author=author, reason=reason))
    assert default is not None
    return default


def _with_imported_position(progress: ExtractProgress, position: ImportedPosition) -> ExtractProgress:
    first = position.first_cursor
    snapshot = SnapshotProgress(horizon=first, reached_key=START_CURSOR, done=True) if first is not None else None
    return replace(
        progress.with_new_generation(position.cursor, snapshot=snapshot),
        # A later proof covers all rows only if none of the earlier ones is in doubt.
        generation_start=position.cursor if position.proven else START_CURSOR,
        proven=position.proven,
        source_identity=position.source_identity,
    )


def _undo_change(state: Watermark, earlier: Watermark) -> Watermark:
    extract, load = state.extract_progress, state.load_progress
    if extract and earlier.extract_progress:
        extract = _restore_extract(extract, earlier.extract_progress)
    if _is_manual_change(load, earlier.load_progress):
        load = load.with_rollback_to(earlier.load_progress)
    return replace(state, extract_progress=extract, load_progress=load)


def _restore_extract(progress: ExtractProgress, earlier: ExtractProgress) -> ExtractProgress:
    if progress.generation != earlier.generation:
        # The earlier positions come back, with what is proven of them and their start.
        return replace(
            progress.with_new_generation(earlier.cursor, snapshot=earlier.snapshot),
            strategy=earlier.strategy,
            proven=earlier.proven,
            generation_start=earlier.generation_start,
        )
    return replace(progress, strategy=earlier.strategy) if progress.strategy is RunStrategy.MANUAL else progress


def _is_manual_change(progress: LoadProgress, earlier: LoadProgress) -> bool:
    return progress.load_generation != earlier.load_generation or progress.skipped_batches != earlier.skipped_batches
