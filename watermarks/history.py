"""History: every change of a document is an entry first; the document is a cache of the newest entry.

An entry is created at the key of its revision if no entry exists there. That is
the commit point: two writers cannot both own a revision. A writer that finds the
next entry already there rolls the document forward first, so a crash between
entry and document has no effect.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from watermarks.clock import Clock, SystemClock
from watermarks.codec import (
    MISPLACED_HINT,
    REBUILD_HINT,
    DamagedDocument,
    ForeignDocument,
    encode,
    parse_json_object,
    read_document,
    to_printable,
)
from watermarks.cursor import format_instant
from watermarks.errors import HintedError, NotOwner, OutcomeUnknown, Stale, StateUnreadable, Transient
from watermarks.names import StreamName, document_key, history_key, history_prefix, trace_prefixes
from watermarks.store import Revision, Store, put_once

HISTORY_ENTRY_FORMAT_NAME: Final = "watermarks/entry"
FORMAT_VERSION: Final = 1
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
RESTORE_HISTORY_HINT: Final = (
    "Restore history/ from the bucket's versions. Do not start over while other objects of the stream exist."
)
AUDIT_HINT: Final = "Audit the history: syncd audit"
MAX_COMMIT_ATTEMPTS: Final = 50
"""Limit for retries of a change because other writers came first; far more than any real load needs."""


class StateMissing(StateUnreadable):
    """A document that existed is missing. This is never a reason to start from zero."""


class TooMuchContention(Stale):
    """Other writers changed the document during every attempt."""


class Fenced(NotOwner):
    """Another process has taken the stage over."""


class ChangeKind(StrEnum):
    """Kind of a change."""

    TAKE = "take"
    EXTRACT = "extract"
    ABANDON = "abandon"
    LOAD = "load"
    FAIL = "fail"
    SET = "set"
    RESET = "reset"
    SKIP = "skip"
    UNDO = "undo"
    IMPORT = "import"


class Document(Protocol):
    """Value with a revision that a journal reads and writes."""

    @property
    def revision(self) -> int: ...
    @property
    def stem(self) -> str: ...
    def with_revision(self, revision: int, *, updated_at: datetime) -> Self: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stem: str) -> Self: ...


D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNote:
    """Author, kind and reason of a change; for a change by a stage also its epoch."""

    change: ChangeKind
    author: str
    reason: str = ""
    stage: str | None = None
    epoch: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Source of an import, verbatim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One change of one document; it is never changed."""

    document: str
    revision: int
    nonce: str
    recorded_at: datetime
    note: ChangeNote
    before: Mapping[str, Any]
    """Revision and digest of the document before the change."""
    after: Mapping[str, Any]
    """The whole document after the change; a rebuild reads it."""

    def to_bytes(self) -> bytes:
        return encode(HISTORY_ENTRY_FORMAT_NAME, FORMAT_VERSION, {
            "document": self.document,
            "revision": self.revision,
            "nonce": self.nonce,
            "at": format_instant(self.recorded_at),
            "change": self.note.change,
            "who": to_printable(self.note.author),
            "why": to_printable(self.note.reason),
            "stage": self.note.stage,
            "epoch": self.note.epoch,
            "evidence": dict(self.note.evidence),
            "from": dict(self.before),
            "to": dict(self.after),
        })  # fmt: skip

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stem: str, revision: int) -> Self:
        """Decode an entry. Raises StateUnreadable if it is no entry, or another document's or revision's."""
        with read_document(body, HISTORY_ENTRY_FORMAT_NAME, FORMAT_VERSION, location=location) as read:
            document, number = read.text("document"), read.number("revision")
            if (document, number) != (stem, revision):
                raise ForeignDocument(f"{location} contains entry {number} of {document}", hint=MISPLACED_HINT)
            return cls(
                document=stem,
                revision=revision,
                nonce=read.text("nonce"),
                recorded_at=read.instant("at"),
                note=ChangeNote(
                    change=ChangeKind(read.text("change")),
                    author=read.text("who"),
                    reason=read.text("why"),
                    stage=read.optional_text("stage"),
                    epoch=read.number("epoch"),
                    evidence=read.mapping("evidence"),
                ),
                before=read.mapping("from"),
                after=read.mapping("to"),
            )

    def document_bytes(self) -> bytes:
        """Return the document of this revision, byte for byte as its writer would have written it."""
        fields = {name: value for name, value in self.after.items() if name != "digest"}
        form, version = fields.pop("format", None), fields.pop("format_version", None)
        if not isinstance(form, str) or not isinstance(version, int):
            raise DamagedDocument(f"entry {self.revision} of {self.document} contains no document", hint=AUDIT_HINT)
        return encode(form, version, fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersion(Generic[D]):
    """A document as it was read, with its revision in the store."""

    state: D
    body: bytes
    revision: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """Identity of a change with an unknown outcome, by which a retry recognises its own entry."""

    revision: int
    nonce: str


def new_nonce() -> str:
    return secrets.token_hex(12)


class Journal(Generic[D]):
    """Reader and writer of the documents of one type; it writes the entry before the document."""

    def __init__(
        self,
        store: Store,
        document_type: type[D],
        *,
        clock: Clock | None = None,
        make_nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.make_nonce = make_nonce
        self._document_type = document_type

    def read(self, stem: str) -> D | None:
        """Return the document; it may lag behind its newest entry. None only for one that never existed.

        Raises:
            StateUnreadable: it cannot be trusted, or existed and is missing.
        """
        seen = self.read_version(stem)
        return seen.state if seen else None

    def read_newest(self, stem: str) -> D | None:
        """Return the document as of its newest entry; write nothing."""
        state = self.read(stem)
        while entry := self.read_entry(stem, (state.revision if state else 0) + 1):
            state = self._parse_state(entry)
        return state

    def read_entry(self, stem: str, revision: int) -> HistoryEntry | None:
        """Return one entry, or None. Raises StateUnreadable if it exists and cannot be trusted."""
        key = history_key(stem, revision)
        stored = self.store.read(key)
        return HistoryEntry.from_bytes(stored.body, location=key, stem=stem, revision=revision) if stored else None

    def read_entries(self, stem: str, *, newest_revision: int) -> Iterator[HistoryEntry]:
        """Yield the entries from a revision back to the first. Raises StateMissing if one of them is missing."""
        for revision in range(newest_revision, 0, -1):
            yield self._require_entry(stem, revision)

    def commit(
        self,
        stem: str,
        update: Callable[[D | None], D | None],
        note: ChangeNote,
        *,
        retry_of: CommitAttempt | None = None,
        last_seen: DocumentVersion[D] | None = None,
    ) -> D | None:
        """Change a document: write the entry, then the document. It takes three requests without contention.

        `update` receives the state and returns the wanted state, or None if nothing is to be done. It is called
        again, with another state, when other writers come first. The state that holds at the end is returned.
        `last_seen` is the document as the caller has just read it, and saves one request; it is ignored
        where it is not the newest.

        Raises:
            StateUnreadable: the document cannot be trusted; nothing was changed.
            OutcomeUnknown: the entry was sent and no answer came. Pass `attempt` of its facts as `retry_of`
                in the next try: an entry that was written after all is then found and not made twice.
            TooMuchContention: other writers came first each time.
        """
        nonce = retry_of.nonce if retry_of else self.make_nonce()
        if retry_of and self._is_own_entry(stem, retry_of.revision, nonce):
            return self.read_newest(stem)
        for _ in range(MAX_COMMIT_ATTEMPTS):
            seen, last_seen = last_seen or self.read_version(stem), None
            try:
                wanted = update(seen.state if seen else None)
            except HintedError:
                # Only the newest state may refuse; a document that lags behind its entries may refuse wrongly.
                if not self._roll_forward_if_behind(stem, seen):
                    raise
                continue
            if wanted is None:
                return seen.state if seen else None
            entry = self._make_entry(wanted, seen, note, nonce)
            key = history_key(stem, entry.revision)
            try:
                put = put_once(self.store, key, entry.to_bytes())
            except OutcomeUnknown as error:
                attempt = CommitAttempt(revision=entry.revision, nonce=nonce)
                raise OutcomeUnknown(error.message, hint=error.hint, attempt=attempt) from error
            if put.is_ours:
                self._write_document(seen, entry)
                return self._parse_state(entry)
            other = HistoryEntry.from_bytes(put.body, location=key, stem=stem, revision=entry.revision)
            self._roll_forward(seen, other)
            if retry_of and self._is_own_entry(stem, entry.revision, nonce):
                return self.read_newest(stem)
        raise TooMuchContention(
            f"{stem}: other writers changed it during each of {MAX_COMMIT_ATTEMPTS} attempts",
            hint="Try again in a moment.",
        )

    def _is_own_entry(self, stem: str, revision: int, nonce: str) -> bool:
        entry = self.read_entry(stem, revision)
        return entry is not None and entry.nonce == nonce

    def rebuild(self, stem: str) -> D:
        """Rewrite the document from its history alone, whatever the document holds.

        Raises:
            StateMissing: there is no history, or it ends before the document.
        """
        key = document_key(stem)
        stored = self.store.read(key)  # read first: a concurrent write then makes the replacement fail and is kept
        newest = self.last_revision(stem)
        if newest == 0:
            raise StateMissing(
                f"{stem} has no history",
                hint="A rebuild needs the history: restore history/ from the bucket's versions.",
            )
        entry = self._require_entry(stem, newest)
        state, body = self._parse_state(entry), entry.document_bytes()
        if stored is None:
            put_once(self.store, key, body)
        elif stored.body != body:
            self._require_not_newer(stem, stored.body, newest)
            self.store.put(key, body, expected=stored.revision)
        return state

    def _require_not_newer(self, stem: str, body: bytes, newest: int) -> None:
        key = document_key(stem)
        try:
            revision = self._document_type.from_bytes(body, location=key, stem=stem).revision
        except StateUnreadable:
            return
        if revision > newest:
            raise StateMissing(
                f"{key} is at revision {revision}, but its history ends at revision {newest}",
                hint="Restore history/ from the bucket's versions.",
            )

    def last_revision(self, stem: str) -> int:
        """Return the number of the newest entry, even if earlier ones are missing, or 0. It lists keys."""
        prefix = history_prefix(stem)
        numbers = (key.removeprefix(prefix).removesuffix(".json") for key in self.store.list(prefix))
        return max((int(number) for number in numbers if _NUMBER.fullmatch(number)), default=0)

    def read_version(self, stem: str) -> DocumentVersion[D] | None:
        """Return the document with its revision in the store; see `read`.

        Raises:
            StateUnreadable: it cannot be trusted, or existed and is missing.
        """
        key = document_key(stem)
        stored = self.store.read(key)
        if stored is None:
            return self._recover_missing(stem)
        state = self._document_type.from_bytes(stored.body, location=key, stem=stem)
        return DocumentVersion(state=state, body=stored.body, revision=stored.revision)

    def _recover_missing(self, stem: str) -> DocumentVersion[D] | None:
        """Handle a missing document: it never existed, its first write did not happen, or it was lost."""
        key = document_key(stem)
        first = self.read_entry(stem, 1)
        # Any trace except the first entry was written by a process that had read the document.
        if (trace := self._find_trace(stem)) is not None:
            if self.store.read(key) is not None:
                return self.read_version(stem)
            raise StateMissing(
                f"{key} {'is' if first else 'and its first entry are'} missing, but {trace} exists",
                hint=f"{REBUILD_HINT} -t {stem}" if first else RESTORE_HISTORY_HINT,
            )
        if first is None:
            return None
        self._parse_state(first)
        put_once(self.store, key, first.document_bytes())
        return self.read_version(stem)

    def _find_trace(self, stem: str) -> str | None:
        prefixes = trace_prefixes(StreamName.from_stem(stem)) if "/" in stem else (history_prefix(stem),)
        first = history_key(stem, 1)
        return next((found for prefix in prefixes for found in self.store.list(prefix) if found != first), None)

    def _make_entry(self, wanted: D, seen: DocumentVersion[D] | None, note: ChangeNote, nonce: str) -> HistoryEntry:
        now = self.clock.now()
        stamped = wanted.with_revision(seen.state.revision + 1 if seen else 1, updated_at=now)
        before: dict[str, Any] = {"revision": 0, "digest": None}
        if seen:
            before = {
                "revision": seen.state.revision,
                "digest": parse_json_object(seen.body, location="seen")["digest"],
            }
        return HistoryEntry(
            document=stamped.stem,
            revision=stamped.revision,
            nonce=nonce,
            recorded_at=now,
            note=note,
            before=before,
            after=parse_json_object(stamped.to_bytes(), location="new"),
        )

    def _parse_state(self, entry: HistoryEntry) -> D:
        at = history_key(entry.document, entry.revision)
        state = self._document_type.from_bytes(entry.document_bytes(), location=at, stem=entry.document)
        if state.revision != entry.revision:
            raise DamagedDocument(f"{at} contains revision {state.revision}", hint=AUDIT_HINT)
        return state

    def _roll_forward_if_behind(self, stem: str, seen: DocumentVersion[D] | None) -> bool:
        """Bring the document forward by one entry, if there is a newer one; return True then."""
        entry = self.read_entry(stem, (seen.state.revision if seen else 0) + 1)
        if entry is None:
            return False
        self._roll_forward(seen, entry)
        return True

    def _roll_forward(self, seen: DocumentVersion[D] | None, entry: HistoryEntry) -> None:
        self._parse_state(entry)
        self._write_document(seen, entry)

    def _write_document(self, seen: DocumentVersion[D] | None, entry: HistoryEntry) -> None:
        """Write the document of an existing entry. If this fails, the next writer does it."""
        key, body = document_key(entry.document), entry.document_bytes()
        try:
            self.store.put(key, body, expected=seen.revision if seen else None)
        except (Stale, OutcomeUnknown, Transient):
            # The entry is committed: the next writer finds it and rolls the document forward.
            return

    def _require_entry(self, stem: str, revision: int) -> HistoryEntry:
        entry = self.read_entry(stem, revision)
        if entry is None:
            raise StateMissing(
                f"{history_key(stem, revision)} is missing", hint="Restore it from the bucket's versions."
            )
        return entry
