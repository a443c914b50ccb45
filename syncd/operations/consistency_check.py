"""Whether marks, history, manifests, files, ledger and target agree: what does not is told with what to do about it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, TypeVar

from syncd.lake.keys import data_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.removal_records import Cleaned, cleaned_by
from syncd.lake.window_reads import Part
from syncd.operations.change_impact import AT_ONCE
from syncd.ports.evidence import Books, Evidence, Shelf
from watermarks.batch import BatchId, Kind, Link
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import Chain
from watermarks.history import Entry, Journal
from watermarks.loading import LedgerKey
from watermarks.names import StreamName, history_key
from watermarks.progress import ORIGIN

T = TypeVar("T")
R = TypeVar("R")

MOST: Final = 1_000
"""Of the newest entries and links, unless all are asked for."""
FROM_VERSIONS: Final = "restore it from the bucket's versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that does not agree with another."""

    about: str
    """`history`, `chain`, `marks`, `files`, `ledger` or `target`."""
    message: str
    next: str
    """The command, or the deed, that comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was looked at, and what was found."""

    entries: int = 0
    batches: int = 0
    files: int = 0
    cleaned: int = 0
    """Of them, those that a person removed once they had landed."""
    landed: int | None = None
    """Entries of the ledger; None where no warehouse was asked."""
    whole: bool = True
    """Whether everything was looked at, and not the newest only."""
    findings: tuple[Finding, ...] = ()


@dataclass(kw_only=True)
class Check:
    """Looks at one stream; nothing is written anywhere."""

    stream: StreamName
    journal: Journal[Watermark]
    shelf: Shelf
    books: Books | None = None
    all_: bool = False
    _found: list[Finding] = field(default_factory=list[Finding])
    _cleaned: Mapping[str, Cleaned] = field(default_factory=dict[str, Cleaned])

    def checked(self, state: Watermark) -> Checked:
        """Compare everything with the state that the newest entry has.

        Raises:
            LakeDown, LakeUnfit, WarehouseDown, WarehouseUnfit: it could not be looked at.
        """
        self._found = []
        entries = self._history(state)
        links = self._links(state)
        self._chain(state, links)
        self._marks(state, links)
        files = self._files(state, links)
        landed = self._ledger(state, links) if self.books is not None else None
        return Checked(
            entries=entries,
            batches=len(links),
            files=files,
            cleaned=len(self._cleaned),
            landed=landed,
            whole=self.all_ or max(state.revision, self._length(state)) <= MOST,
            findings=tuple(self._found),
        )

    def _say(self, about: str, message: str, next_: str) -> None:
        self._found.append(Finding(about=about, message=message, next=next_))

    def _bound(self) -> int | None:
        return None if self.all_ else MOST

    @property
    def _named(self) -> str:
        return f"{self.stream.database}.{self.stream.table}"

    @staticmethod
    def _length(state: Watermark) -> int:
        half = state.chain
        return sum(half.end_of(generation) for generation in (*half.closed, half.generation))

    # History: every entry follows the one before it.

    def _history(self, state: Watermark) -> int:
        last = state.revision
        first = 1 if self.all_ else max(1, last - MOST + 1)
        numbers = range(last, first - 1, -1)
        entries = list(_each(numbers, self._entry))
        for newer, older in pairwise(entries):
            if (
                isinstance(newer, Entry)
                and isinstance(older, Entry)
                and newer.before["digest"] != older.after["digest"]
            ):
                self._say(
                    "history",
                    f"entry {newer.revision} does not follow entry {older.revision}: one of them is another one",
                    FROM_VERSIONS,
                )
        return len(entries)

    def _entry(self, revision: int) -> Entry | None:
        key = history_key(self.stream.stem, revision)
        try:
            entry = self.journal.entry(self.stream.stem, revision)
        except StateUnreadable as error:
            self._say("history", error.message, FROM_VERSIONS)
            return None
        if entry is None:
            self._say("history", f"{key} is gone", FROM_VERSIONS)
        return entry

    # The chain: every link names the one before it.

    def _links(self, state: Watermark) -> dict[BatchId, Link]:
        chain = Chain(self.journal, self.stream)
        ids = islice(state.chain.ids_back(upto=state.chain.last, after=ORIGIN), self._bound())

        def link(batch: BatchId) -> Link | None:
            try:
                return chain.required(batch)
            except StateUnreadable as error:
                self._say("chain", error.message, FROM_VERSIONS)
                return None

        return {found.id: found for found in _each(ids, link) if found is not None}

    def _chain(self, state: Watermark, links: Mapping[BatchId, Link]) -> None:
        ids = list(islice(state.chain.ids_back(upto=state.chain.last, after=ORIGIN), self._bound()))
        for newer, older in pairwise(ids):
            if newer in links and older in links and links[newer].previous != links[older].digest:
                self._broken(f"batch {newer} names another batch before it than {older} is")
        if ids and ids[0] in links and links[ids[0]].digest != state.chain.chain:
            self._broken(f"the newest batch {ids[0]} is another one than the mark was moved for")
        if len(ids) == self._length(state) and ids and ids[-1] in links and links[ids[-1]].previous is not None:
            self._broken(f"batch {ids[-1]} is the first, and names one before it")

    def _broken(self, message: str) -> None:
        self._say("chain", f"{message}: was it edited by hand?", FROM_VERSIONS)

    # The marks: what the newest links say.

    def _marks(self, state: Watermark, links: Mapping[BatchId, Link]) -> None:
        half, loaded = state.chain, state.loaded
        newest = links.get(half.last)
        rebuild = f"syncd watermark rebuild -t {self._named}"
        if newest is not None and newest.high != half.cursor:
            self._say("marks", f"the mark is at {half.cursor}, batch {newest.id} ends at {newest.high}", rebuild)
        last = links.get(loaded.last)
        if last is not None and loaded.last > loaded.base and last.high != loaded.cursor:
            self._say("marks", f"the loaded mark is at {loaded.cursor}, batch {last.id} ends at {last.high}", rebuild)
        if len(links) == self._length(state):
            for what, found, said in (
                ("rows", sum(link.rows for link in links.values()), half.tally.rows),
                ("files", sum(len(link.files) for link in links.values()), half.tally.files),
            ):
                if found != said:
                    self._say("marks", f"{said} {what} are counted, the manifests name {found}", rebuild)

    # The files: each as its manifest says.

    def _files(self, state: Watermark, links: Mapping[BatchId, Link]) -> int:
        standing = self.shelf.standing(data_prefix(self.stream))
        named = {file: link.id for link in links.values() for file in link.files}
        gone = {file for file, batch in named.items() if file not in standing and state.loaded.expects(batch)}
        self._cleaned = cleaned_by(self.shelf, self.stream, gone)
        count = 0
        for link in links.values():
            if link.kind is Kind.ABANDONED:
                continue
            try:
                parts = Manifest.of_link(link).parts
            except StateUnreadable as error:
                self._say("files", error.message, FROM_VERSIONS)
                continue
            count += len(parts)
            for part in parts:
                # What a person removed once it had landed is no loss.
                if part.key not in self._cleaned and (trouble := trouble_of(part, standing)) is not None:
                    self._file(state, link, part, trouble)
        return count

    def _file(self, state: Watermark, link: Link, part: Part, trouble: str) -> None:
        if link.id > state.loaded.last:
            what = f"batch {link.id} cannot land"
        else:
            what = f"batch {link.id} has landed, and cannot land again"
        again = f"syncd watermark reset -t {self._named} --mysql-only --reason 'files lost'"
        self._say("files", f"{part.key} {trouble}: {what}", f"{FROM_VERSIONS}, or read the table again: {again}")

    # The ledger, and the target beside it.

    def _ledger(self, state: Watermark, links: Mapping[BatchId, Link]) -> int:
        assert self.books is not None
        entries = self.books.entries()
        held = proven_in(self.stream, state, entries)
        load = f"syncd run -t {self._named} --load-only"
        if held.behind:
            shown = _shown(held.behind)
            self._say("ledger", f"it has lost {shown}, which the loaded mark says has landed: was it restored?", load)
        if held.ahead:
            self._say("ledger", f"it holds {_shown(held.ahead)}, which the loaded mark does not know of yet", load)
        for batch, evidence in held.evidence.items():
            if batch in links and evidence.manifest != links[batch].digest:
                self._say("ledger", f"batch {batch} landed by another manifest than the one that stands", FROM_VERSIONS)
        landed = {evidence.table for evidence in held.evidence.values()}
        if others := landed - {self.books.table}:
            self._say(
                "target",
                f"batches have landed in {', '.join(sorted(others))}, the configuration names {self.books.table}",
                "name the same table again in the configuration, or: "
                f"syncd watermark reset -t {self._named} --redshift-only --reason 'another target'",
            )
        if any(evidence.rows for evidence in held.evidence.values()) and not self.books.there():
            again = f"syncd watermark reset -t {self._named} --redshift-only --reason 'the target is gone'"
            self._say("target", f"{self.books.table} is gone, and rows had landed in it", again)
        return len(entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The ledger against the loaded half."""

    upto: BatchId
    """Up to here the ledger proves everything that the half says, or that followed it."""
    behind: tuple[BatchId, ...]
    ahead: tuple[BatchId, ...]
    """Landed batches that follow the loaded mark, without a gap."""
    evidence: Mapping[BatchId, Evidence]


def proven_in(stream: StreamName, state: Watermark, entries: Mapping[LedgerKey, Evidence]) -> Held:
    """What the ledger proves of the chain, batch by batch."""
    half = state.loaded
    upto, gap = ORIGIN, False
    behind, ahead = list[BatchId](), list[BatchId]()
    evidence: dict[BatchId, Evidence] = {}
    for batch in state.chain.ids(after=ORIGIN):
        key = LedgerKey(stream=stream, load_generation=half.landed_under(batch), batch=batch)
        found = entries.get(key)
        due = batch > half.last
        if found is not None and (due or half.expects(batch)):
            evidence[batch] = found
        if due and found is None:
            break
        if due:
            ahead.append(batch)
        elif found is None and half.expects(batch):
            behind.append(batch)
            gap = True
        if not gap:
            upto = batch
    return Held(upto=upto, behind=tuple(behind), ahead=tuple(ahead), evidence=evidence)


def trouble_of(part: Part, standing: Mapping[str, tuple[int, str]]) -> str | None:
    """What is wrong with a file, as a listing shows it; None where nothing is."""
    found = standing.get(part.key)
    if found is None:
        return "is gone"
    size, tag = found
    if size != part.bytes:
        return f"has {size} bytes, not {part.bytes}"
    return None if tag == part.etag else "is another file: its tag has changed"


def _shown(batches: Sequence[BatchId]) -> str:
    if len(batches) == 1:
        return f"batch {batches[0]}"
    return f"{len(batches)} batches, {batches[0]} to {batches[-1]}"


def _each(things: Iterable[T], look: Callable[[T], R]) -> list[R]:
    """What looking at each of them gives, in their order, several looks at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(look, things))
