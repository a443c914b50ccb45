"""The notes of a server's horizon as a document of the lake."""

from dataclasses import dataclass, field

from syncd.core.horizon import Notes
from watermarks.errors import OutcomeUnknown, Stale, Transient
from watermarks.names import escape
from watermarks.store import Revision, Store


@dataclass(slots=True)
class StoredNotes:
    """One document for each source; the last writer wins, and whoever loses says nothing.

    Every process's notes are right by themselves, so it does not matter whose are kept.
    """

    store: Store
    source: str
    _seen: Revision | None = field(default=None, init=False)
    _known: bool = field(default=False, init=False)
    """Whether `_seen` is what stood there when we looked last."""

    @property
    def key(self) -> str:
        return f"notes/{escape(self.source)}.json"

    def load(self) -> Notes | None:
        there = self.store.read(self.key)
        self._seen, self._known = (there.revision if there else None), True
        return Notes.of_bytes(there.body, at=self.key) if there else None

    def keep(self, notes: Notes) -> None:
        try:
            self._write(notes.to_bytes())
        except (Stale, OutcomeUnknown, Transient):
            # Older notes, or another process's, are as right as these; look again before the next attempt.
            self._known = False

    def _write(self, body: bytes) -> None:
        if not self._known:
            there = self.store.read(self.key)
            self._seen, self._known = (there.revision if there else None), True
        if self._seen is None:
            self._seen = self.store.create(self.key, body)
        else:
            self._seen = self.store.replace(self.key, body, seen=self._seen)
