"""The chain of one stream as an outsider checks it: from the lake alone, every link, file, entry and window."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from syncd.lake.keys import data_prefix, stream_quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.removal_records import find_removal_records
from syncd.lake.window_reads import Part
from syncd.operations.change_impact import PARALLEL_REQUESTS
from syncd.operations.consistency_check import RESTORE_VERSION_REMEDY, Inconsistency, MarkCheck, find_file_problem
from syncd.ports.evidence import FileListing
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.cursor import START_CURSOR
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.names import StreamName, document_key, plan_key
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from watermarks.cursor import Cursor

PARALLEL_CONTENT_READS: Final = 2
"""Files whose content is read at once."""

CONSEQUENCE_BY_SUBJECT: Final[Mapping[str, str]] = {
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


class ContentDigest(Protocol):
    """What a file holds, read whole."""

    @property
    def sha256(self) -> str: ...
    @property
    def rows(self) -> int: ...


class ContentReader(Protocol):
    """Whoever reads files whole."""

    def read_content(self, part: Part) -> ContentDigest:
        """The digest and the rows of a file that stands."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """What was looked at, and what was found."""

    entries: int
    batches: int
    plans: int
    files: int
    cleaned: int
    contents_read: int
    """Files whose content was read."""
    findings: tuple[Inconsistency, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Looks at all of one stream; nothing is written anywhere."""

    stream: StreamName
    journal: Journal[Watermark]
    file_listing: FileListing
    content_reader: ContentReader | None = None
    """None: contents are not read."""

    def run(self, state: Watermark) -> AuditResult:
        """Everything, from the first batch and the first entry on.

        Raises:
            LakeDown, LakeUnfit, StoreUnavailable: it could not be looked at.
        """
        checked = MarkCheck(
            stream=self.stream, journal=self.journal, file_listing=self.file_listing, check_all=True
        ).run(state)
        links = self._read_links(state)
        plans = self._read_plans(links)
        found = [
            *checked.findings,
            *self._check_document(state),
            *self._check_plans(links, plans),
            *_check_windows(state, links, plans),
        ]
        found += self._check_quarantine_files(links)
        standing = self.file_listing.list_files(data_prefix(self.stream))
        read, deep = self._check_contents(links, standing)
        return AuditResult(
            entries=checked.entries,
            batches=checked.batches,
            plans=len(plans),
            files=checked.files,
            cleaned=checked.cleaned,
            contents_read=read,
            findings=(*found, *deep),
        )

    def _read_links(self, state: Watermark) -> Mapping[BatchId, BatchLink]:
        """Those that can be read; of the others the check has told."""
        chain = BatchChain(self.journal, self.stream)

        def link(batch: BatchId) -> BatchLink | None:
            try:
                return chain.read_link(batch)
            except StateUnreadable:
                return None

        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            found = pool.map(link, state.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH))
            return {each.id: each for each in found if each is not None}

    def _read_plans(self, links: Mapping[BatchId, BatchLink]) -> Mapping[BatchId, Plan | StateUnreadable | None]:
        chain = BatchChain(self.journal, self.stream)

        def plan(batch: BatchId) -> Plan | StateUnreadable | None:
            try:
                return chain.read_plan(batch)
            except StateUnreadable as error:
                return error

        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            return dict(zip(links, pool.map(plan, links), strict=True))

    def _check_document(self, state: Watermark) -> Iterator[Inconsistency]:
        """Whether the document is the newest entry, byte for byte; it may be behind for a moment."""
        entry = self.journal.read_entry(self.stream.stem, state.revision)
        stored = self.journal.store.read(document_key(self.stream.stem))
        if entry is not None and stored is not None and stored.body != entry.document_bytes():
            key = document_key(self.stream.stem)
            rebuild = f"syncd watermark rebuild -t {self.stream.table_name}"
            yield Inconsistency(
                about="document", message=f"{key} is not what entry {state.revision} says", remedy=rebuild
            )

    def _check_plans(
        self, links: Mapping[BatchId, BatchLink], plans: Mapping[BatchId, Plan | StateUnreadable | None]
    ) -> Iterator[Inconsistency]:
        for batch, plan in plans.items():
            if isinstance(plan, StateUnreadable):
                yield Inconsistency(about="plans", message=plan.message, remedy=RESTORE_VERSION_REMEDY)
            elif plan is None:
                yield Inconsistency(
                    about="plans", message=f"{plan_key(self.stream, batch)} is gone", remedy=RESTORE_VERSION_REMEDY
                )
            elif plan.digest != links[batch].plan:
                message = f"batch {batch} was made by another plan than the one that stands"
                yield Inconsistency(about="plans", message=message, remedy=RESTORE_VERSION_REMEDY)

    def _check_quarantine_files(self, links: Mapping[BatchId, BatchLink]) -> Iterator[Inconsistency]:
        """Files of quarantine that links name."""
        named = [part for link in links.values() for part in _link_parts(link, quarantined=True)]
        if not named:
            return
        standing = self.file_listing.list_files(stream_quarantine_prefix(self.stream))
        troubles = {part.key: trouble for part in named if (trouble := find_file_problem(part, standing)) is not None}
        cleaned = find_removal_records(self.file_listing, self.stream, troubles)
        for key, trouble in troubles.items():
            if key not in cleaned:
                yield Inconsistency(about="files", message=f"{key} {trouble}", remedy=RESTORE_VERSION_REMEDY)

    def _check_contents(
        self, links: Mapping[BatchId, BatchLink], standing: Mapping[str, tuple[int, str]]
    ) -> tuple[int, list[Inconsistency]]:
        depth = self.content_reader
        if depth is None:
            return 0, []
        there = [
            part for link in links.values() for part in _link_parts(link) if find_file_problem(part, standing) is None
        ]

        def look(part: Part) -> list[Inconsistency]:
            return list(_check_content(part, depth.read_content))

        with ThreadPoolExecutor(PARALLEL_CONTENT_READS) as pool:
            return len(there), [finding for found in pool.map(look, there) for finding in found]


def _check_content(part: Part, read_content: Callable[[Part], ContentDigest]) -> Iterator[Inconsistency]:
    try:
        found = read_content(part)
    except StateUnreadable as error:
        yield Inconsistency(about="content", message=error.message, remedy=RESTORE_VERSION_REMEDY)
        return
    if found.sha256 != part.sha256:
        yield Inconsistency(
            about="content", message=f"{part.key} holds other bytes than were written", remedy=RESTORE_VERSION_REMEDY
        )
    if found.rows != part.rows:
        message = f"{part.key} holds {found.rows:,} rows, its manifest says {part.rows:,}"
        yield Inconsistency(about="content", message=message, remedy=RESTORE_VERSION_REMEDY)


def _link_parts(link: BatchLink, *, quarantined: bool = False) -> Iterable[Part]:
    if link.kind is BatchKind.ABANDONED:
        return ()
    try:
        manifest = Manifest.from_link(link)
    except StateUnreadable:
        return ()  # the check has told
    return manifest.quarantined_parts if quarantined else manifest.parts


def _check_windows(
    state: Watermark, links: Mapping[BatchId, BatchLink], plans: Mapping[BatchId, Plan | StateUnreadable | None]
) -> Iterator[Inconsistency]:
    """Whether each batch began where the one before it had left the mark; where a generation began, a person chose."""
    mark: Cursor | None = None
    reached: Cursor = START_CURSOR
    generation = 0
    for batch in state.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH):
        plan, link = plans.get(batch), links.get(batch)
        if batch.generation != generation:
            generation, mark, reached = batch.generation, None, START_CURSOR
        if link is None or not isinstance(plan, Plan):
            mark = None
            continue
        if mark is not None and link.kind is not BatchKind.ABANDONED and plan.draft.basis.mark != mark:
            yield _gap_finding(
                batch, f"batch {batch} begins at {plan.draft.basis.mark}, the batch before it ended at {mark}"
            )
        windows = plan.draft.windows
        chunk = link.snapshot is not None and link.kind is BatchKind.SNAPSHOT
        if chunk and windows and windows[0].low != reached:
            yield _gap_finding(
                batch, f"chunk {batch} begins at {windows[0].low}, the chunk before it ended at {reached}"
            )
        if chunk and link.snapshot is not None:
            reached = START_CURSOR if link.snapshot.done else link.snapshot.reached_key
        mark = link.high


def _gap_finding(batch: BatchId, message: str) -> Inconsistency:
    return Inconsistency(
        about="windows", message=message, remedy=f"look what was done by hand: syncd watermark history ({batch})"
    )
