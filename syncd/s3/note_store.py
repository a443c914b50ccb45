"""Notes as documents of the lake: of a server's horizon, and of tables that only grow."""

from dataclasses import dataclass, field, replace
from typing import Final

from syncd.horizon import Notes
from syncd.horizon.key_gaps import Seen, of_bytes, to_bytes
from syncd.horizon.notes import joined
from watermarks.errors import OutcomeUnknown, Stale, Transient
from watermarks.names import StreamName, escape
from watermarks.store import Revision, Store

TRIES: Final = 3
"""How often notes of a break are written; others are as well kept the next time."""


@dataclass(slots=True)
class StoredNotes:
    """One document for each source; the last writer wins, and whoever loses says nothing.

    Every process's notes are right by themselves, so it does not matter whose are kept. But a break in the server's
    time may have been seen by one of them alone: those of all are kept.
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
        for _ in range(TRIES if notes.breaks else 1):
            try:
                self._write(notes)
            except (Stale, OutcomeUnknown, Transient):
                # Older notes, or another process's, are as right as these; look again before the next attempt.
                self._known = False
            else:
                return

    def _write(self, notes: Notes) -> None:
        if not self._known:
            there = self.store.read(self.key)
            self._seen, self._known = (there.revision if there else None), True
            theirs = Notes.of_bytes(there.body, at=self.key).breaks if there else ()
            notes = replace(notes, breaks=joined(theirs, notes.breaks))
        body = notes.to_bytes()
        if self._seen is None:
            self._seen = self.store.create(self.key, body)
        else:
            self._seen = self.store.replace(self.key, body, seen=self._seen)


@dataclass(slots=True)
class StoredSeen:
    """What was seen of one growing table; read once, and written when it changes."""

    store: Store
    stream: StreamName
    _kept: tuple[Seen, ...] = field(default=(), init=False)
    _revision: Revision | None = field(default=None, init=False)
    _known: bool = field(default=False, init=False)

    @property
    def key(self) -> str:
        return f"notes/{self.stream.chain_stem}.json"

    def read(self) -> tuple[Seen, ...]:
        if not self._known:
            there = self.store.read(self.key)
            self._kept = of_bytes(there.body, at=self.key) if there else ()
            self._revision, self._known = (there.revision if there else None), True
        return self._kept

    def write(self, seen: tuple[Seen, ...]) -> None:
        self.read()
        self._kept = seen
        body = to_bytes(seen)
        try:
            if self._revision is None:
                self._revision = self.store.create(self.key, body)
            else:
                self._revision = self.store.replace(self.key, body, seen=self._revision)
        except (Stale, OutcomeUnknown, Transient):
            self._known = False  # another process's notes are as right
