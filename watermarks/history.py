"""History: every change of a document is an entry first; the document is the newest entry's cache.

An entry is created at its revision's key if nothing stands there. That is the
commit point: two writers cannot both own a revision, and whoever finds the
next entry already there rolls the document forward before anything else. So a
crash between entry and document is seen by nobody who matters.
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
    REBUILD_HINT,
    DamagedDocument,
    FieldReader,
    ForeignDocument,
    decode,
    encode,
    parse_json_object,
    raise_as_damaged,
    to_printable,
)
from watermarks.cursor import format_instant, parse_instant
from watermarks.errors import HintedError, NotOwner, OutcomeUnknown, Stale, StateUnreadable, Transient
from watermarks.names import StreamName, document_key, history_key, history_prefix, trace_prefixes
from watermarks.store import PutResult, Revision, Store, put_once

HISTORY_ENTRY_FORMAT_NAME: Final = "watermarks/entry"
FORMAT_VERSION: Final = 1
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
RESTORE_HISTORY_HINT: Final = "Restore history/ from the bucket's versions; never begin anew over traces."
MAX_COMMIT_ATTEMPTS: Final = 50
"""How often a change starts over because others were first; far more than any real crowd needs."""


class StateMissing(StateUnreadable):
    """A document is gone although it was there: never a reason to begin anew."""


class TooMuchContention(Stale):
    """Others changed the document again and again meanwhile."""


class Fenced(NotOwner):
    """Another process has taken the stage over since."""


class ChangeKind(StrEnum):
    """What an entry did."""

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


MANUAL_CHANGES: Final = frozenset(
    {ChangeKind.SET, ChangeKind.RESET, ChangeKind.SKIP, ChangeKind.UNDO, ChangeKind.IMPORT}
)
"""Changes that only a person makes, with a reason, and can take back."""


class Document(Protocol):
    """What a journal keeps: a value with a revision that can be written and read."""

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
    """Who changes a document, what for and why; of a stage also with which epoch."""

    change: ChangeKind
    author: str
    reason: str = ""
    stage: str | None = None
    epoch: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What an import was made from, word by word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One change of one document, for ever."""

    document: str
    revision: int
    nonce: str
    recorded_at: datetime
    note: ChangeNote
    before: Mapping[str, Any]
    """Revision and digest of what was changed."""
    after: Mapping[str, Any]
    """The whole document as it became: from here it is rebuilt."""

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
        """The entry in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another document's or revision's.
        """
        read = FieldReader(
            decode(body, HISTORY_ENTRY_FORMAT_NAME, FORMAT_VERSION, location=location), location=location
        )
        if (found := (read.text("document"), read.number("revision"))) != (stem, revision):
            raise ForeignDocument(
                f"{location} is entry {found[1]} of {found[0]}", hint="Was it copied or moved by hand?"
            )
        with raise_as_damaged(location):
            entry = cls(
                document=stem,
                revision=revision,
                nonce=read.text("nonce"),
                recorded_at=parse_instant(read.text("at")),
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
        read.require_all_read()
        return entry

    def document_bytes(self) -> bytes:
        """The document of this revision, byte for byte as its writer would have written it."""
        fields = {name: value for name, value in self.after.items() if name != "digest"}
        form, version = fields.pop("format", None), fields.pop("format_version", None)
        if not isinstance(form, str) or not isinstance(version, int):
            raise DamagedDocument(
                f"entry {self.revision} of {self.document} holds no document", hint="Audit the history: syncd audit"
            )
        return encode(form, version, fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersion(Generic[D]):
    """A document as it stood, and under which revision of the store."""

    state: D
    body: bytes
    revision: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempt:
    """A change of which nobody knows whether it happened: by this it is recognised."""

    revision: int
    nonce: str


def new_nonce() -> str:
    return secrets.token_hex(12)


class Journal(Generic[D]):
    """Reads and changes the documents of one type, entry first."""

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
        """The document as it stands; it may lag behind its newest entry. None only for one that never was.

        Raises:
            StateUnreadable: it is there and cannot be trusted, or was there and is gone.
        """
        seen = self.read_version(stem)
        return seen.state if seen else None

    def read_newest(self, stem: str) -> D | None:
        """The document as its newest entry has it; writes nothing."""
        state = self.read(stem)
        while entry := self.read_entry(stem, (state.revision if state else 0) + 1):
            state = self._parse_state(entry)
        return state

    def read_entry(self, stem: str, revision: int) -> HistoryEntry | None:
        """One entry; None where there is none.

        Raises:
            StateUnreadable: it is there and cannot be trusted.
        """
        key = history_key(stem, revision)
        stored = self.store.read(key)
        return HistoryEntry.from_bytes(stored.body, location=key, stem=stem, revision=revision) if stored else None

    def read_entries(self, stem: str, *, newest_revision: int) -> Iterator[HistoryEntry]:
        """The entries from a revision back to the first.

        Raises:
            StateMissing: one of them is gone.
        """
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
        """Change a document: the entry first, then the document. Three requests when nobody is in the way.

        `change` gets the state as it is and gives the state as it should be,
        or None where nothing is to be done; it may be called again, for
        another state, when others come first. The state that holds is returned.
        `since` is what the caller has just seen of the document, and spares one request;
        where it is not the newest any more, it counts for nothing.

        Raises:
            StateUnreadable: the document cannot be trusted; nothing was changed.
            OutcomeUnknown: the entry was sent and no answer came. Its `attempt`
                among the facts is what to give as `again`: then an entry that
                got through after all is found, and not made twice.
            Contended: others were always first.
        """
        nonce = retry_of.nonce if retry_of else self.make_nonce()
        if retry_of and self._is_own_entry(stem, retry_of.revision, nonce):
            return self.read_newest(stem)
        for _ in range(MAX_COMMIT_ATTEMPTS):
            seen, last_seen = last_seen or self.read_version(stem), None
            try:
                wanted = update(seen.state if seen else None)
            except HintedError:
                # Only the newest state may refuse: a document that lags behind its entries knows too little.
                if not self._roll_forward_if_behind(stem, seen):
                    raise
                continue
            if wanted is None:
                return seen.state if seen else None
            entry = self._make_entry(wanted, seen, note, nonce)
            kept = self._write_entry(entry)
            if kept.is_ours:
                self._write_document(seen, entry)
                return self._parse_state(entry)
            self._roll_forward(stem, seen, entry.revision, kept.body)
            if retry_of and self._is_own_entry(stem, entry.revision, nonce):
                return self.read_newest(stem)
        raise TooMuchContention(
            f"{stem}: others changed it {MAX_COMMIT_ATTEMPTS} times meanwhile", hint="Try again in a moment."
        )

    def _write_entry(self, entry: HistoryEntry) -> PutResult:
        try:
            return put_once(self.store, history_key(entry.document, entry.revision), entry.to_bytes())
        except OutcomeUnknown as error:
            attempt = CommitAttempt(revision=entry.revision, nonce=entry.nonce)
            raise OutcomeUnknown(error.message, hint=error.hint, attempt=attempt) from error

    def _is_own_entry(self, stem: str, revision: int, nonce: str) -> bool:
        """Whether an entry of ours stands there."""
        entry = self.read_entry(stem, revision)
        return entry is not None and entry.nonce == nonce

    def rebuild(self, stem: str) -> D:
        """Write the document anew from its history alone, whatever stands in its place.

        Raises:
            StateMissing: there is no history.
        """
        key = document_key(stem)
        there = self.store.read(key)  # first: what is written meanwhile makes the replacement fail, and is not undone
        newest = self.last_revision(stem)
        if newest == 0:
            raise StateMissing(f"{stem} has no history", hint="Nothing can be rebuilt from nothing.")
        entry = self._require_entry(stem, newest)
        state, body = self._parse_state(entry), entry.document_bytes()
        if there is None:
            put_once(self.store, key, body)
        elif there.body != body:
            self._require_not_newer(stem, there.body, newest)
            self.store.replace(key, body, expected=there.revision)
        return state

    def _require_not_newer(self, stem: str, body: bytes, newest: int) -> None:
        key = document_key(stem)
        try:
            found = self._document_type.from_bytes(body, location=key, stem=stem).revision
        except StateUnreadable:
            return
        if found > newest:
            raise StateMissing(
                f"{key} is whole at revision {found}, its history ends at {newest}",
                hint="Restore history/ from the bucket's versions.",
            )

    def last_revision(self, stem: str) -> int:
        """The number of the newest entry, whatever is missing before it; 0 when there is none. It lists."""
        prefix = history_prefix(stem)
        numbers = (key.removeprefix(prefix).removesuffix(".json") for key in self.store.list(prefix))
        return max((int(number) for number in numbers if _NUMBER.fullmatch(number)), default=0)

    def read_version(self, stem: str) -> DocumentVersion[D] | None:
        """The document as it stands, with what it takes to change it; as `read`.

        Raises:
            StateUnreadable: it is there and cannot be trusted, or was there and is gone.
        """
        key = document_key(stem)
        stored = self.store.read(key)
        if stored is None:
            return self._recover_missing(stem)
        state = self._document_type.from_bytes(stored.body, location=key, stem=stem)
        return DocumentVersion(state=state, body=stored.body, revision=stored.revision)

    def _recover_missing(self, stem: str) -> DocumentVersion[D] | None:
        """A document that is not there: never begun, begun and not written yet, or lost."""
        key = document_key(stem)
        first = self.read_entry(stem, 1)
        # Whatever but the first entry is a trace was written by someone who had read the document.
        if (trace := self._find_trace(stem)) is not None:
            if self.store.read(key) is not None:
                return self.read_version(stem)
            raise StateMissing(
                f"{key} {'is' if first else 'and its first entry are'} gone, yet {trace} is there",
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
            raise DamagedDocument(f"{at} holds revision {state.revision}", hint="Audit the history: syncd audit")
        return state

    def _roll_forward_if_behind(self, stem: str, seen: DocumentVersion[D] | None) -> bool:
        """Whether a newer entry stood, to which the document was now brought forward."""
        entry = self.read_entry(stem, (seen.state.revision if seen else 0) + 1)
        if entry is None:
            return False
        self._parse_state(entry)
        self._write_document(seen, entry)
        return True

    def _roll_forward(self, stem: str, seen: DocumentVersion[D] | None, revision: int, body: bytes) -> None:
        at = history_key(stem, revision)
        entry = HistoryEntry.from_bytes(body, location=at, stem=stem, revision=revision)
        self._parse_state(entry)
        self._write_document(seen, entry)

    def _write_document(self, seen: DocumentVersion[D] | None, entry: HistoryEntry) -> None:
        """Bring the document up to an entry that stands. What fails here, the next writer does."""
        key, body = document_key(entry.document), entry.document_bytes()
        try:
            if seen is None:
                self.store.create(key, body)
            else:
                self.store.replace(key, body, expected=seen.revision)
        except (Stale, OutcomeUnknown, Transient):
            # The entry is the truth: whoever reads this document next meets it and rolls forward.
            return

    def _require_entry(self, stem: str, revision: int) -> HistoryEntry:
        entry = self.read_entry(stem, revision)
        if entry is None:
            raise StateMissing(f"{history_key(stem, revision)} is gone", hint="Restore it from the bucket's versions.")
        return entry
