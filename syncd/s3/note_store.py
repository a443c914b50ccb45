"""Notes as documents of the lake: of a server's horizon, and of tables that only grow."""

from dataclasses import dataclass, field, replace
from typing import Final

from syncd.horizon import HorizonNotes
from syncd.horizon.key_gaps import SeenKey, from_bytes, to_bytes
from syncd.horizon.notes import merge_breaks
from watermarks.errors import OutcomeUnknown, Stale, Transient
from watermarks.names import StreamName, escape_name
from watermarks.store import Revision, Store

MAX_WRITE_TRIES: Final = 3
"""How often notes of a break are written; others are as well kept the next time."""


@dataclass(slots=True)
class StoredHorizonNotes:
    """One document for each source; the last writer wins, and whoever loses says nothing.

    Every process's notes are right by themselves, so it does not matter whose are kept. But a break in the server's
    time may have been seen by one of them alone: those of all are kept.
    """

    store: Store
    source: str
    _revision: Revision | None = field(default=None, init=False)
    _is_current: bool = field(default=False, init=False)
    """Whether `_seen` is what stood there when we looked last."""

    @property
    def key(self) -> str:
        return f"notes/{escape_name(self.source)}.json"

    def load(self) -> HorizonNotes | None:
        there = self.store.read(self.key)
        self._revision, self._is_current = (there.revision if there else None), True
        return HorizonNotes.from_bytes(there.body, at=self.key) if there else None

    def save(self, notes: HorizonNotes) -> None:
        for _ in range(MAX_WRITE_TRIES if notes.breaks else 1):
            try:
                self._write(notes)
            except (Stale, OutcomeUnknown, Transient):
                # Older notes, or another process's, are as right as these; look again before the next attempt.
                self._is_current = False
            else:
                return

    def _write(self, notes: HorizonNotes) -> None:
        if not self._is_current:
            there = self.store.read(self.key)
            self._revision, self._is_current = (there.revision if there else None), True
            theirs = HorizonNotes.from_bytes(there.body, at=self.key).breaks if there else ()
            notes = replace(notes, breaks=merge_breaks(theirs, notes.breaks))
        body = notes.to_bytes()
        if self._revision is None:
            self._revision = self.store.create(self.key, body)
        else:
            self._revision = self.store.replace(self.key, body, expected=self._revision)


@dataclass(slots=True)
class StoredGrowthNotes:
    """What was seen of one growing table; read once, and written when it changes."""

    store: Store
    stream: StreamName
    _cached: tuple[SeenKey, ...] = field(default=(), init=False)
    _revision: Revision | None = field(default=None, init=False)
    _is_current: bool = field(default=False, init=False)

    @property
    def key(self) -> str:
        return f"notes/{self.stream.chain_stem}.json"

    def read(self) -> tuple[SeenKey, ...]:
        if not self._is_current:
            there = self.store.read(self.key)
            self._cached = from_bytes(there.body, at=self.key) if there else ()
            self._revision, self._is_current = (there.revision if there else None), True
        return self._cached

    def write(self, seen: tuple[SeenKey, ...]) -> None:
        self.read()
        self._cached = seen
        body = to_bytes(seen)
        try:
            if self._revision is None:
                self._revision = self.store.create(self.key, body)
            else:
                self._revision = self.store.replace(self.key, body, expected=self._revision)
        except (Stale, OutcomeUnknown, Transient):
            self._is_current = False  # another process's notes are as right
