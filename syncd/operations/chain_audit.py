"""Audit of one stream from the lake alone: every link, plan, file, window and entry of history."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncd.concurrency.thread_helpers import map_in_parallel
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import stream_quarantine_prefix
from syncd.lake.read_requests import Part
from syncd.lake.removal_records import ObjectReader, find_removal_records
from syncd.operations.consistency_check import (
    RESTORE_VERSION_REMEDY,
    Inconsistency,
    MarkCheck,
    MarkCheckResult,
    find_file_problem,
)
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.cursor import START_CURSOR
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.names import StreamName, document_key, plan_key
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.s3.parquet_reader import FileContent
    from watermarks.cursor import Cursor

PARALLEL_CONTENT_READS: Final = 2
"""Files that are read whole at a time."""

CONSEQUENCE_BY_SUBJECT: Final[Mapping[str, str]] = {
    "history": "it is unknown who moved which mark here, and a lost watermark can be rebuilt only up to this entry",
    "chain": "it is no longer proven that these batches contain what was read, and that none is missing",
    "marks": "rows between the two positions may be missing in every target, or be read again",
    "files": "a target that is rebuilt from the lake would lack these rows",
    "plans": "it is unknown for which range, server and schema the batch was read",
    "windows": "rows between the two positions may never have been read",
    "document": "the next writer updates the document from its history; until then readers see an older state",
    "content": "a load of this file would load other data than was read",
}
"""Consequence of a finding, by its subject."""

Links = Mapping[BatchId, BatchLink]
Plans = Mapping[BatchId, Plan | StateUnreadable | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """Findings of an audit, and what was checked."""

    entries: int
    batches: int
    plans: int
    files: int
    cleaned: int
    contents_read: int
    """Files that were read whole."""
    findings: tuple[Inconsistency, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Audits one stream; nothing is written."""

    stream: StreamName
    journal: Journal[Watermark]
    lake: ObjectReader
    read_content: "Callable[[Part], FileContent] | None" = None
    """Reads a file whole; None: files are not read."""

    def run(self, state: Watermark) -> AuditResult:
        """Check everything, from the first batch and the first entry on.

        Raises:
            LakeDown, LakeUnfit, StoreUnavailable: the lake is not reachable.
        """
        check = MarkCheck(stream=self.stream, journal=self.journal, lake=self.lake, check_all=True)
        checked = check.run(state)
        links = dict(sorted(checked.links.items()))
        plans = dict(zip(links, map_in_parallel(self._read_plan, links), strict=True))
        findings = [
            *checked.findings,
            *self._check_document(state),
            *self._check_plans(links, plans),
            *_check_windows(state, links, plans),
            *self._check_quarantine_files(links),
        ]
        contents_read, content_findings = self._check_contents(links, checked)
        return AuditResult(
            entries=checked.entries,
            batches=checked.batches,
            plans=len(plans),
            files=checked.files,
            cleaned=checked.cleaned,
            contents_read=contents_read,
            findings=(*findings, *content_findings),
        )

    def _read_plan(self, batch: BatchId) -> Plan | StateUnreadable | None:
        try:
            return BatchChain(self.journal, self.stream).read_plan(batch)
        except StateUnreadable as error:
            return error

    def _check_document(self, state: Watermark) -> Iterator[Inconsistency]:
        """Check that the document is the newest entry, byte for byte; a writer may be between the two."""
        key = document_key(self.stream.stem)
        entry = self.journal.read_entry(self.stream.stem, state.revision)
        stored = self.journal.store.read(key)
        if entry is not None and stored is not None and stored.body != entry.document_bytes():
            rebuild = f"syncd watermark rebuild -t {self.stream.table_name}"
            message = f"{key} differs from entry {state.revision} of its history"
            yield Inconsistency(about="document", message=message, remedy=rebuild)

    def _check_plans(self, links: Links, plans: Plans) -> Iterator[Inconsistency]:
        for batch, plan in plans.items():
            if isinstance(plan, StateUnreadable):
                yield _finding("plans", plan.message)
            elif plan is None:
                yield _finding("plans", f"{plan_key(self.stream, batch)} is missing")
            elif plan.digest != links[batch].plan:
                yield _finding("plans", f"batch {batch} was made from another plan than the one in the lake")

    def _check_quarantine_files(self, links: Links) -> Iterator[Inconsistency]:
        """Check the files of quarantine that links name."""
        parts = [part for link in links.values() for part in _link_parts(link, quarantined=True)]
        if not parts:
            return
        listing = {found.key: found for found in self.lake.list_objects(stream_quarantine_prefix(self.stream))}
        problems = {part.key: problem for part in parts if (problem := find_file_problem(part, listing)) is not None}
        removed = find_removal_records(self.lake, self.stream, problems)
        for key, problem in problems.items():
            if key not in removed:
                yield _finding("files", f"{key} {problem}")

    def _check_contents(self, links: Links, checked: MarkCheckResult) -> tuple[int, list[Inconsistency]]:
        read_content = self.read_content
        if read_content is None:
            return 0, []
        parts = [
            part
            for link in links.values()
            for part in _link_parts(link)
            if find_file_problem(part, checked.listing) is None
        ]
        findings = map_in_parallel(
            lambda part: list(_check_content(part, read_content)), parts, workers=PARALLEL_CONTENT_READS
        )
        return len(parts), [finding for of_part in findings for finding in of_part]


def _finding(about: str, message: str) -> Inconsistency:
    return Inconsistency(about=about, message=message, remedy=RESTORE_VERSION_REMEDY)


def _check_content(part: Part, read_content: "Callable[[Part], FileContent]") -> Iterator[Inconsistency]:
    try:
        content = read_content(part)
    except StateUnreadable as error:
        yield _finding("content", error.message)
        return
    if content.sha256 != part.sha256:
        yield _finding("content", f"{part.key} does not contain the bytes that were written")
    if content.rows != part.rows:
        yield _finding("content", f"{part.key} contains {content.rows:,} rows, but its manifest says {part.rows:,}")


def _link_parts(link: BatchLink, *, quarantined: bool = False) -> Iterable[Part]:
    if link.kind is BatchKind.ABANDONED:
        return ()
    try:
        manifest = Manifest.from_link(link)
    except StateUnreadable:
        return ()  # the consistency check has a finding for it
    return manifest.quarantined_parts if quarantined else manifest.parts


def _check_windows(state: Watermark, links: Links, plans: Plans) -> Iterator[Inconsistency]:
    """Check that each batch begins where the one before it ended; where a generation begins, an operator chose."""
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
                batch, f"batch {batch} begins at {plan.draft.basis.mark}, but the batch before it ended at {mark}"
            )
        windows = plan.draft.windows
        if link.snapshot is not None and link.kind is BatchKind.SNAPSHOT:
            if windows and windows[0].low != reached:
                yield _gap_finding(
                    batch,
                    f"snapshot batch {batch} begins at {windows[0].low}, but the one before it ended at {reached}",
                )
            reached = START_CURSOR if link.snapshot.done else link.snapshot.reached_key
        mark = link.high


def _gap_finding(batch: BatchId, message: str) -> Inconsistency:
    remedy = f"see which marks were set by hand: syncd watermark history ({batch})"
    return Inconsistency(about="windows", message=message, remedy=remedy)
