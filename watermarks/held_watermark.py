"""Watermark of a stage that this process holds, as both stages read and change it."""

from collections.abc import Callable

from watermarks.document import Stage, Watermark
from watermarks.history import ChangeKind, ChangeNote, DocumentVersion, Fenced, Journal, StateMissing
from watermarks.lease import HeldClaim


class HeldWatermark:
    """Watermark of a stream of which this process holds a stage; it is written under the epoch of the claim only."""

    def __init__(self, journal: Journal[Watermark], held: HeldClaim) -> None:
        self._journal = journal
        self._held = held
        self._stem = held.stream.stem

    def read(self) -> Watermark:
        """Return the watermark; it may lag, but not behind the entry of this process's own takeover.

        Raises:
            Fenced: another process has taken the stage over.
        """
        state = self._journal.read(self._stem)
        if state is not None and self.is_behind_claim(state):
            state = self._journal.read_newest(self._stem)
        return self.require_owned(state)

    def is_behind_claim(self, state: Watermark) -> bool:
        return state.epochs.get(self._held.stage, 0) < self._held.epoch

    def require_owned(self, state: Watermark | None) -> Watermark:
        """Refuse a state that is missing or that another process owns.

        Raises:
            Fenced: another process has taken the stage over.
        """
        if state is None:
            raise StateMissing(f"{self._held.stream} has no watermark, but its stage is held")
        require_epoch(state, self._held.stage, self._held.epoch)
        return state

    def commit(
        self,
        update: Callable[[Watermark], Watermark | None],
        change: ChangeKind,
        *,
        reason: str = "",
        last_seen: DocumentVersion[Watermark] | None = None,
    ) -> Watermark | None:
        """Change the watermark in the name of the stage; see `Journal.commit`."""
        held = self._held
        note = ChangeNote(change=change, author=held.process, reason=reason, stage=held.stage, epoch=held.epoch)
        return self._journal.commit(
            self._stem, lambda state: update(self.require_owned(state)), note, last_seen=last_seen
        )


def require_epoch(state: Watermark, stage: Stage, epoch: int) -> None:
    """Refuse to write for a stage that another process has taken over.

    Raises:
        Fenced: the document carries another epoch than ours.
    """
    current = state.epochs.get(stage, 0)
    if current != epoch:
        raise Fenced(
            f"{stage} of {state.stream} is at epoch {current}, ours is {epoch}",
            hint="Another process has taken it over and does the work.",
        )
