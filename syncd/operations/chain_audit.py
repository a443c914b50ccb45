"""The chain of one stream as an outsider checks it: from the lake alone, every link, file, entry and window."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from syncd.lake.keys import data_prefix, refused_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.removal_records import cleaned_by
from syncd.lake.window_reads import Part
from syncd.operations.change_impact import AT_ONCE
from syncd.operations.consistency_check import FROM_VERSIONS, Check, Finding, trouble_of
from syncd.ports.evidence import Shelf
from watermarks.batch import BatchId, Kind, Link, Plan
from watermarks.cursor import START
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import Chain
from watermarks.history import Journal
from watermarks.names import StreamName, document_key, plan_key
from watermarks.progress import ORIGIN

if TYPE_CHECKING:
    from watermarks.cursor import Cursor

DEEP_AT_ONCE: Final = 2
"""Files whose content is read at once."""

CONSEQUENCES: Final[Mapping[str, str]] = {
    "history": "who moved which mark cannot be told across this place, and a lost watermark is rebuilt only up to it",
    "chain": "nobody can prove any more that these batches hold what was read, and that none is missing",
    "marks": "rows between the two positions may be missing in every target, or be read again",
    "files": "a target that is built anew from the lake would lack these rows",
    "plans": "nobody can tell any more for which range, server and schema the batch was read",
    "windows": "rows between the two positions may never have been read",
    "document": "the next writer brings it up to its history; a reader until then is told something else",
    "content": "what would land from this file is not what was read",
}
"""What follows from a finding, by what it is about."""


class Content(Protocol):
    """What a file holds, read whole."""

    @property
    def sha256(self) -> str: ...
    @property
    def rows(self) -> int: ...


class Depth(Protocol):
    """Whoever reads files whole."""

    def content(self, part: Part) -> Content:
        """The digest and the rows of a file that stands."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What was looked at, and what was found."""

    entries: int
    batches: int
    plans: int
    files: int
    cleaned: int
    read: int
    """Files whose content was read."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Looks at all of one stream; nothing is written anywhere."""

    stream: StreamName
    journal: Journal[Watermark]
    shelf: Shelf
    depth: Depth | None = None
    """None: contents are not read."""

    def audited(self, state: Watermark) -> Audited:
        """Everything, from the first batch and the first entry on.

        Raises:
            LakeDown, LakeUnfit, StoreUnavailable: it could not be looked at.
        """
        checked = Check(stream=self.stream, journal=self.journal, shelf=self.shelf, all_=True).checked(state)
        links = self._links(state)
        plans = self._plans(links)
        found = [
            *checked.findings,
            *self._document(state),
            *self._of_plans(links, plans),
            *_windows(state, links, plans),
        ]
        found += self._refused(links)
        standing = self.shelf.standing(data_prefix(self.stream))
        read, deep = self._contents(links, standing)
        return Audited(
            entries=checked.entries,
            batches=checked.batches,
            plans=len(plans),
            files=checked.files,
            cleaned=checked.cleaned,
            read=read,
            findings=(*found, *deep),
        )

    def _links(self, state: Watermark) -> Mapping[BatchId, Link]:
        """Those that can be read; of the others the check has told."""
        chain = Chain(self.journal, self.stream)

        def link(batch: BatchId) -> Link | None:
            try:
                return chain.link(batch)
            except StateUnreadable:
                return None

        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(link, state.chain.ids(after=ORIGIN))
            return {each.id: each for each in found if each is not None}

    def _plans(self, links: Mapping[BatchId, Link]) -> Mapping[BatchId, Plan | StateUnreadable | None]:
        chain = Chain(self.journal, self.stream)

        def plan(batch: BatchId) -> Plan | StateUnreadable | None:
            try:
                return chain.plan(batch)
            except StateUnreadable as error:
                return error

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return dict(zip(links, pool.map(plan, links), strict=True))

    def _document(self, state: Watermark) -> Iterator[Finding]:
        """Whether the document is the newest entry, byte for byte; it may be behind for a moment."""
        entry = self.journal.entry(self.stream.stem, state.revision)
        stored = self.journal.store.read(document_key(self.stream.stem))
        if entry is not None and stored is not None and stored.body != entry.document_bytes():
            key = document_key(self.stream.stem)
            rebuild = f"syncd watermark rebuild -t {self.stream.database}.{self.stream.table}"
            yield Finding(about="document", message=f"{key} is not what entry {state.revision} says", next=rebuild)

    def _of_plans(
        self, links: Mapping[BatchId, Link], plans: Mapping[BatchId, Plan | StateUnreadable | None]
    ) -> Iterator[Finding]:
        for batch, plan in plans.items():
            if isinstance(plan, StateUnreadable):
                yield Finding(about="plans", message=plan.message, next=FROM_VERSIONS)
            elif plan is None:
                yield Finding(about="plans", message=f"{plan_key(self.stream, batch)} is gone", next=FROM_VERSIONS)
            elif plan.digest != links[batch].plan:
                message = f"batch {batch} was made by another plan than the one that stands"
                yield Finding(about="plans", message=message, next=FROM_VERSIONS)

    def _refused(self, links: Mapping[BatchId, Link]) -> Iterator[Finding]:
        """Files of quarantine that links name."""
        named = [part for link in links.values() for part in _parts(link, quarantined=True)]
        if not named:
            return
        standing = self.shelf.standing(refused_prefix(self.stream))
        troubles = {part.key: trouble for part in named if (trouble := trouble_of(part, standing)) is not None}
        cleaned = cleaned_by(self.shelf, self.stream, troubles)
        for key, trouble in troubles.items():
            if key not in cleaned:
                yield Finding(about="files", message=f"{key} {trouble}", next=FROM_VERSIONS)

    def _contents(
        self, links: Mapping[BatchId, Link], standing: Mapping[str, tuple[int, str]]
    ) -> tuple[int, list[Finding]]:
        depth = self.depth
        if depth is None:
            return 0, []
        there = [part for link in links.values() for part in _parts(link) if trouble_of(part, standing) is None]

        def look(part: Part) -> list[Finding]:
            return list(_content(part, depth.content))

        with ThreadPoolExecutor(DEEP_AT_ONCE) as pool:
            return len(there), [finding for found in pool.map(look, there) for finding in found]


def _content(part: Part, content: Callable[[Part], Content]) -> Iterator[Finding]:
    try:
        found = content(part)
    except StateUnreadable as error:
        yield Finding(about="content", message=error.message, next=FROM_VERSIONS)
        return
    if found.sha256 != part.sha256:
        yield Finding(about="content", message=f"{part.key} holds other bytes than were written", next=FROM_VERSIONS)
    if found.rows != part.rows:
        message = f"{part.key} holds {found.rows:,} rows, its manifest says {part.rows:,}"
        yield Finding(about="content", message=message, next=FROM_VERSIONS)


def _parts(link: Link, *, quarantined: bool = False) -> Iterable[Part]:
    if link.kind is Kind.ABANDONED:
        return ()
    try:
        manifest = Manifest.of_link(link)
    except StateUnreadable:
        return ()  # the check has told
    return manifest.quarantined if quarantined else manifest.parts


def _windows(
    state: Watermark, links: Mapping[BatchId, Link], plans: Mapping[BatchId, Plan | StateUnreadable | None]
) -> Iterator[Finding]:
    """Whether each batch began where the one before it had left the mark; where a generation began, a person chose."""
    mark: Cursor | None = None
    reached: Cursor = START
    generation = 0
    for batch in state.chain.ids(after=ORIGIN):
        plan, link = plans.get(batch), links.get(batch)
        if batch.generation != generation:
            generation, mark, reached = batch.generation, None, START
        if link is None or not isinstance(plan, Plan):
            mark = None
            continue
        if mark is not None and link.kind is not Kind.ABANDONED and plan.draft.world.mark != mark:
            yield _gap(batch, f"batch {batch} begins at {plan.draft.world.mark}, the batch before it ended at {mark}")
        windows = plan.draft.windows
        chunk = link.snapshot is not None and link.kind is Kind.SNAPSHOT
        if chunk and windows and windows[0].low != reached:
            yield _gap(batch, f"chunk {batch} begins at {windows[0].low}, the chunk before it ended at {reached}")
        if chunk and link.snapshot is not None:
            reached = START if link.snapshot.done else link.snapshot.reached
        mark = link.high


def _gap(batch: BatchId, message: str) -> Finding:
    return Finding(
        about="windows", message=message, next=f"look what was done by hand: syncd watermark history ({batch})"
    )
