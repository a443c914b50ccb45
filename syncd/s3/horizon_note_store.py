"""Stores of notes in the lake: of the horizon, and of growing tables."""

from dataclasses import dataclass, field, replace
from typing import Final

from syncd.horizon import HorizonNotes
from syncd.horizon.horizon_notes import merge_breaks
from syncd.horizon.key_gaps import SeenKey, from_bytes, to_bytes
from watermarks.errors import OutcomeUnknown, Stale, Transient
from watermarks.names import StreamName, escape_name
from watermarks.store import Revision, Store

MAX_WRITE_TRIES: Final = 3
"""Attempts to write notes of a break; other notes are as well written with the next poll."""


@dataclass(slots=True)
class _NoteDocument:
    """One document that any process may replace; it remembers the revision that it read or wrote last."""

    store: Store
    key: str
    is_current: bool = False
    """False until the document is read, and after a write that failed."""
    _revision: Revision | None = None

    def read(self) -> bytes | None:
        stored = self.store.read(self.key)
        self._revision, self.is_current = (stored.revision if stored else None), True
        return stored.body if stored else None

    def write(self, body: bytes) -> bool:
        """Write the document if it is unchanged since it was read; return whether it was written."""
        try:
            self._revision = self.store.put(self.key, body, expected=self._revision)
        except (Stale, OutcomeUnknown, Transient):
            # Older notes, or another process's, are as right as these: read them before the next attempt.
            self.is_current = False
        return self.is_current


@dataclass(slots=True)
class StoredHorizonNotes:
    """Horizon notes of one source, in one document; the last writer wins, and a lost write is no error.

    The notes of every process are right by themselves, so it does not matter whose are kept. But a break in the
    server's time may have been seen by one process alone: the breaks of all are kept.
    """

    store: Store
    source: str
    _document: _NoteDocument = field(init=False)

    def __post_init__(self) -> None:
        self._document = _NoteDocument(self.store, self.key)

    @property
    def key(self) -> str:
        return f"notes/{escape_name(self.source)}.json"

    def load(self) -> HorizonNotes | None:
        body = self._document.read()
        return HorizonNotes.from_bytes(body, at=self.key) if body is not None else None

    def save(self, notes: HorizonNotes) -> None:
        for _ in range(MAX_WRITE_TRIES if notes.breaks else 1):
            try:
                is_written = self._write(notes)
            except (Stale, OutcomeUnknown, Transient):
                is_written = False
            if is_written:
                return

    def _write(self, notes: HorizonNotes) -> bool:
        if not self._document.is_current:
            stored = self.load()
            notes = replace(notes, breaks=merge_breaks(stored.breaks if stored else (), notes.breaks))
        return self._document.write(notes.to_bytes())


@dataclass(slots=True)
class StoredGrowthNotes:
    """Notes of one growing table; read once, and written when they change."""

    store: Store
    stream: StreamName
    _cached: tuple[SeenKey, ...] = field(default=(), init=False)
    _document: _NoteDocument = field(init=False)

    def __post_init__(self) -> None:
        self._document = _NoteDocument(self.store, self.key)

    @property
    def key(self) -> str:
        return f"notes/{self.stream.chain_stem}.json"

    def read(self) -> tuple[SeenKey, ...]:
        if not self._document.is_current:
            body = self._document.read()
            self._cached = from_bytes(body, at=self.key) if body is not None else ()
        return self._cached

    def write(self, seen: tuple[SeenKey, ...]) -> None:
        self.read()
        self._cached = seen
        self._document.write(to_bytes(seen))
