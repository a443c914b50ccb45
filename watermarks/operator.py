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

from watermarks.batch import BatchId, Snapshot
from watermarks.cursor import START, Cursor
from watermarks.document import Watermark
from watermarks.errors import Misuse
from watermarks.history import Attempt, Change, Journal, Note, StateMissing
from watermarks.legacy import Legacy
from watermarks.names import SYSTEM, StreamName
from watermarks.progress import ORIGIN, Extracted, Loaded, Strategy
from watermarks.system_default import SystemDefault

_NO_EVIDENCE: Final[Mapping[str, Any]] = MappingProxyType({})


class NothingToUndo(Misuse):
    """No person has changed this watermark yet."""


class NotTheLast(Misuse):
    """A person has changed the watermark since the change that was to be taken back."""


class OwnChain(Misuse):
    """The stream has batches of its own: where it stands is known, and nobody else knows better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A table that somebody else has loaded, as the caller found it."""

    cursor: Cursor
    """What lies at or below it need not be read any more."""
    since: Cursor | None = None
    """Where its rows begin, if that is not with the first."""
    proven: bool = False
    """Whether all of that is in the target, and none of it can still be committed."""
    source_identity: str | None = None
    """The server that it was compared with."""
    legacy: Legacy | None = None
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
    who: str
    why: str
    again: Attempt | None = None
    """A change that was sent before and not answered: it is not made twice."""

    def set_marks(
        self,
        stream: StreamName,
        *,
        extracted: Cursor | None = None,
        after: BatchId | None = None,
        loaded: Cursor = START,
    ) -> Watermark:
        """Set one half or both, in one entry that one undo takes back; the half of which nothing is said stays.

        Read on from the cursor `extracted`; land what comes behind the batch `after`, where `loaded` is
        what that batch had reached.

        Raises:
            Misuse: there is nothing to set, or `after` is no batch of the chain.
        """
        if extracted is None and after is None:
            raise Misuse(
                f"nothing of {stream} is to be set", hint="Say where to read on, or which batch to land after."
            )
        if after is not None and after != ORIGIN:
            self._require_link(stream, after)

        def wanted(state: Watermark) -> Watermark:
            if after is not None:
                state = replace(state, loaded=state.loaded.anew(after, cursor=loaded), extracted=_by_a_person(state))
            return state if extracted is None else replace(state, extracted=_moved(state.chain, extracted))

        return self._change(stream, Change.SET, wanted)

    def reset_marks(self, stream: StreamName, *, extracted: bool = True, loaded: bool = True) -> Watermark:
        """Read everything again, or land the whole chain again from its files, or both in one entry.

        Raises:
            Misuse: the stream has never run, or nothing is to be reset.
        """
        self._state(stream)
        if not (extracted or loaded):
            raise Misuse(f"nothing of {stream} is to be reset", hint="Name a half, or both.")

        def wanted(state: Watermark) -> Watermark:
            if loaded:
                state = replace(state, loaded=state.loaded.anew(ORIGIN, cursor=START))
            return replace(state, extracted=_moved(state.chain, START)) if extracted else state

        return self._change(stream, Change.RESET, wanted)

    def set_extracted(self, stream: StreamName, cursor: Cursor) -> Watermark:
        """Read from another position on. Targets land what was read so far first."""
        return self.set_marks(stream, extracted=cursor)

    def reset_extracted(self, stream: StreamName) -> Watermark:
        """Read everything again, as on the first run."""
        return self.reset_marks(stream, loaded=False)

    def set_loaded(self, stream: StreamName, after: BatchId, *, cursor: Cursor = START) -> Watermark:
        """Land what comes after a batch: earlier ones are left out, later ones land although they may have before."""
        return self.set_marks(stream, after=after, loaded=cursor)

    def reset_loaded(self, stream: StreamName) -> Watermark:
        """Land the whole chain again from its files."""
        return self.reset_marks(stream, extracted=False)

    def skip(self, stream: StreamName, upto: BatchId) -> Watermark:
        """Leave out batches that are due, up to and including one, for ever."""
        self._require_link(stream, upto)
        return self._change(stream, Change.SKIP, lambda state: replace(state, loaded=state.loaded.skipping(upto)))

    def undo(self, stream: StreamName, *, revision: int | None = None) -> Watermark:
        """Take back the last change by a person: positions become what they were, in new generations.

        With a `revision` only the change that was made as this one is taken back.

        Raises:
            NothingToUndo: there was none.
            NotTheLast: another change by a person has come since.
        """

        def undone(state: Watermark) -> Watermark:
            if revision is not None and state.set_at != revision:
                raise NotTheLast(f"somebody has changed {stream} since, as revision {state.set_at}")
            earlier = self._before(state)
            return _undone(state, earlier)

        return self._change(stream, Change.UNDO, undone)

    def take_over(self, stream: StreamName, found: Takeover) -> Watermark:
        """Go on where somebody else stood, in both halves: from a cursor that the caller has checked.

        Raises:
            Misuse: the document is another table's.
            OwnChain: the stream has read something itself.
        """
        if found.legacy is not None:
            found.legacy.require_table(stream)

        def wanted(state: Watermark) -> Watermark:
            if next(state.chain.ids(after=ORIGIN), None) is not None:
                raise OwnChain(
                    f"{stream} has a chain of its own, up to batch {state.chain.last}",
                    hint=f"It needs nobody's marks: syncd watermark get -t {_table(stream)}",
                )
            return replace(state, extracted=_taken_over(state.chain, found), loaded=_landed(state.loaded, found))

        return self._change(stream, Change.IMPORT, wanted, found.evidence)

    def _before(self, state: Watermark) -> Watermark:
        """The state that the last change by a person found."""
        if state.set_at == 0:
            raise NothingToUndo(
                f"nobody has changed {state.stream} by hand",
                hint=f"See: syncd watermark history -t {_table(state.stream)}",
            )
        if state.set_at == 1:
            return Watermark.new(state.stream, at=state.created_at)
        entry = self.journal.entry(state.stem, state.set_at - 1)
        if entry is None:
            raise StateMissing(f"entry {state.set_at - 1} of {state.stream} is gone")
        return Watermark.of_bytes(entry.document_bytes(), at="history", stem=state.stem)

    def _require_link(self, stream: StreamName, batch: BatchId) -> None:
        chain = self._state(stream.default).chain
        opened = batch.seq == 0 and batch.generation in {*chain.closed, chain.generation}
        if not (opened or chain.holds(batch)):
            raise Misuse(f"{batch} is no batch of {stream}", hint=f"The chain ends at {chain.last}.")

    def _state(self, stream: StreamName) -> Watermark:
        state = self.journal.newest(stream.stem)
        if state is None:
            raise Misuse(f"{stream} has never run", hint="Is the name right? See: syncd watermark list")
        return state

    def _change(
        self,
        stream: StreamName,
        change: Change,
        wanted: Callable[[Watermark], Watermark],
        evidence: Mapping[str, Any] = _NO_EVIDENCE,
    ) -> Watermark:
        def changed(state: Watermark | None) -> Watermark:
            state = state or Watermark.new(stream, at=self.journal.clock.now())
            return replace(wanted(state), set_at=state.revision + 1)

        done = self.journal.commit(
            stream.stem,
            changed,
            Note(change=change, who=self.who, why=self.why, evidence=evidence),
            again=self.again,
        )
        assert done is not None
        return done


def set_default(journal: Journal[SystemDefault], start: datetime | None, *, who: str, why: str) -> SystemDefault:
    """Set the instant from which streams start that were told no other; None takes it away."""

    def changed(state: SystemDefault | None) -> SystemDefault:
        now = journal.clock.now()
        return replace(state or SystemDefault(start=None, created_at=now, updated_at=now), start=start)

    done = journal.commit(SYSTEM, changed, Note(change=Change.SET, who=who, why=why))
    assert done is not None
    return done


def _moved(half: Extracted, cursor: Cursor) -> Extracted:
    return half.anew(cursor, snapshot=None)


def _taken_over(half: Extracted, found: Takeover) -> Extracted:
    began = None if found.since is None else Snapshot(horizon=found.since, reached=START, done=True)
    return replace(
        half.anew(found.cursor, snapshot=began),
        # What is proven later proves all of it only if nothing before is in doubt.
        began=found.cursor if found.proven else START,
        proven=found.proven,
        source_identity=found.source_identity,
    )


def _landed(half: Loaded, found: Takeover) -> Loaded:
    """In a load generation of its own, so that `undo` takes both halves back."""
    return half.anew(ORIGIN, cursor=found.cursor)


def _by_a_person(state: Watermark) -> Extracted | None:
    """The extracted half, saying that a person set a mark: until the next batch is read, as ever."""
    return replace(state.extracted, strategy=Strategy.MANUAL) if state.extracted else None


def _table(stream: StreamName) -> str:
    return f"{stream.database}.{stream.table}"


def _undone(state: Watermark, earlier: Watermark) -> Watermark:
    if state.extracted and earlier.extracted and state.extracted.generation != earlier.extracted.generation:
        was = earlier.extracted
        half = state.extracted.anew(was.cursor, snapshot=was.snapshot)
        # The positions are those of before, and so is what is proven of them, and from where on.
        half = replace(half, strategy=was.strategy, proven=was.proven, began=was.began)
        state = replace(state, extracted=half)
    elif state.extracted and earlier.extracted and state.extracted.strategy is Strategy.MANUAL:
        state = replace(state, extracted=replace(state.extracted, strategy=earlier.extracted.strategy))
    if state.loaded != earlier.loaded and _by_hand(state.loaded, earlier.loaded):
        state = replace(state, loaded=state.loaded.back_at(earlier.loaded))
    return state


def _by_hand(now: Loaded, earlier: Loaded) -> bool:
    return now.load_generation != earlier.load_generation or now.skipped != earlier.skipped
