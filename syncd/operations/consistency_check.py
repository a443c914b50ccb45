"""Consistency check of one stream: marks, history, batches, files, ledger and target have to agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final

from syncd.concurrency.thread_helpers import map_in_parallel
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import data_prefix
from syncd.lake.read_requests import Part
from syncd.lake.removal_records import ListedObject, ObjectReader, RemovalRecord, find_removal_records
from syncd.ports.source import LedgerReader, LedgerRecord
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import HistoryEntry, Journal
from watermarks.loading import LedgerKey
from watermarks.names import StreamName, history_key
from watermarks.progress import BEFORE_FIRST_BATCH

MAX_CHECKED_ENTRIES: Final = 1_000
"""The newest entries and links that are checked, unless all are asked for."""
RESTORE_VERSION_REMEDY: Final = "restore it from the bucket's versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconsistency:
    """Two things that contradict each other."""

    about: str
    """`history`, `chain`, `marks`, `files`, `ledger` or `target`."""
    message: str
    remedy: str
    """The next command, or action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkCheckResult:
    """Inconsistencies of one stream, and what was checked."""

    entries: int = 0
    batches: int = 0
    files: int = 0
    cleaned: int = 0
    """Those of the files that an operator removed after they were loaded."""
    ledger_entries: int | None = None
    """None where no warehouse was asked."""
    is_complete: bool = True
    """False if only the newest entries were checked."""
    findings: tuple[Inconsistency, ...] = ()
    links: Mapping[BatchId, BatchLink] = field(default_factory=dict[BatchId, BatchLink])
    """The links that could be read, newest first."""
    listing: Mapping[str, ListedObject] = field(default_factory=dict[str, ListedObject])
    """The data files that are in the lake."""


@dataclass(kw_only=True)
class MarkCheck:
    """Checks one stream; nothing is written."""

    stream: StreamName
    journal: Journal[Watermark]
    lake: ObjectReader
    ledger: LedgerReader | None = None
    check_all: bool = False
    _findings: list[Inconsistency] = field(default_factory=list[Inconsistency])

    def run(self, state: Watermark) -> MarkCheckResult:
        """Compare everything with the state of the newest entry.

        Raises:
            LakeDown, LakeUnfit, WarehouseDown, WarehouseUnfit: a side is not reachable.
        """
        self._findings = []
        progress = state.required_extract_progress
        chain_length = sum(map(progress.last_seq_of, (*progress.closed_generations, progress.generation)))
        limit = None if self.check_all else MAX_CHECKED_ENTRIES
        newest_first = progress.batch_ids_newest_first(up_to=progress.last_batch, after=BEFORE_FIRST_BATCH)
        ids = list(islice(newest_first, limit))
        entries = self._check_history(state)
        links = {link.id: link for link in map_in_parallel(self._read_link, ids) if link is not None}
        self._check_chain(state, ids, links, is_whole=len(ids) == chain_length)
        self._check_marks(state, links, is_whole=len(links) == chain_length)
        listing = {found.key: found for found in self.lake.list_objects(data_prefix(self.stream))}
        removed = self._find_removed_files(state, links, listing)
        return MarkCheckResult(
            entries=entries,
            batches=len(links),
            files=self._check_files(state, links, listing, removed),
            cleaned=len(removed),
            ledger_entries=self._check_ledger(self.ledger, state, links) if self.ledger is not None else None,
            is_complete=limit is None or max(state.revision, chain_length) <= limit,
            findings=tuple(self._findings),
            links=links,
            listing=listing,
        )

    def _add_finding(self, about: str, message: str, remedy: str = RESTORE_VERSION_REMEDY) -> None:
        self._findings.append(Inconsistency(about=about, message=message, remedy=remedy))

    # History: every entry follows the one before it.

    def _check_history(self, state: Watermark) -> int:
        last = state.revision
        first = 1 if self.check_all else max(1, last - MAX_CHECKED_ENTRIES + 1)
        entries = map_in_parallel(self._read_entry, range(last, first - 1, -1))
        for newer, older in pairwise(entries):
            if newer is not None and older is not None and newer.before["digest"] != older.after["digest"]:
                self._add_finding(
                    "history",
                    f"entry {newer.revision} does not follow entry {older.revision}: one of them was replaced",
                )
        return len(entries)

    def _read_entry(self, revision: int) -> HistoryEntry | None:
        try:
            entry = self.journal.read_entry(self.stream.stem, revision)
        except StateUnreadable as error:
            self._add_finding("history", error.message)
            return None
        if entry is None:
            self._add_finding("history", f"{history_key(self.stream.stem, revision)} is missing")
        return entry

    # The chain: every link names the one before it.

    def _read_link(self, batch: BatchId) -> BatchLink | None:
        try:
            return BatchChain(self.journal, self.stream).require_link(batch)
        except StateUnreadable as error:
            self._add_finding("chain", error.message)
            return None

    def _check_chain(
        self, state: Watermark, ids: Sequence[BatchId], links: Mapping[BatchId, BatchLink], *, is_whole: bool
    ) -> None:
        broken: list[str] = []
        for newer, older in pairwise(ids):
            if newer in links and older in links and links[newer].previous != links[older].digest:
                broken.append(f"batch {newer} does not name batch {older} as its predecessor")
        if ids and ids[0] in links and links[ids[0]].digest != state.required_extract_progress.last_link_digest:
            broken.append(f"the newest batch {ids[0]} is not the one for which the mark was moved")
        if is_whole and ids and ids[-1] in links and links[ids[-1]].previous is not None:
            broken.append(f"batch {ids[-1]} is the first, but names a predecessor")
        for message in broken:
            self._add_finding("chain", f"{message}: a link may have been edited by hand")

    # The marks: they are where the newest links end.

    def _check_marks(self, state: Watermark, links: Mapping[BatchId, BatchLink], *, is_whole: bool) -> None:
        extracted, loaded = state.required_extract_progress, state.load_progress
        rebuild = f"syncd watermark rebuild -t {self.stream.table_name}"
        newest = links.get(extracted.last_batch)
        if newest is not None and newest.high != extracted.cursor:
            message = f"the mark is at {extracted.cursor}, but batch {newest.id} ends at {newest.high}"
            self._add_finding("marks", message, rebuild)
        last = links.get(loaded.last_batch)
        if last is not None and loaded.last_batch > loaded.base and last.high != loaded.cursor:
            message = f"the loaded mark is at {loaded.cursor}, but batch {last.id} ends at {last.high}"
            self._add_finding("marks", message, rebuild)
        if not is_whole:
            return
        for what, named, counted in (
            ("rows", sum(link.rows for link in links.values()), extracted.counts.rows),
            ("files", sum(len(link.files) for link in links.values()), extracted.counts.files),
        ):
            if named != counted:
                self._add_finding(
                    "marks", f"the watermark counts {counted} {what}, but the manifests name {named}", rebuild
                )

    # The files: each is as its manifest says.

    def _find_removed_files(
        self, state: Watermark, links: Mapping[BatchId, BatchLink], listing: Mapping[str, ListedObject]
    ) -> Mapping[str, RemovalRecord]:
        """Return the loaded files that an operator removed: they are no loss."""
        missing = {
            file
            for link in links.values()
            for file in link.files
            if file not in listing and state.load_progress.expects_in_ledger(link.id)
        }
        return find_removal_records(self.lake, self.stream, missing)

    def _check_files(
        self,
        state: Watermark,
        links: Mapping[BatchId, BatchLink],
        listing: Mapping[str, ListedObject],
        removed: Mapping[str, RemovalRecord],
    ) -> int:
        count = 0
        for link in links.values():
            if link.kind is BatchKind.ABANDONED:
                continue
            try:
                parts = Manifest.from_link(link).parts
            except StateUnreadable as error:
                self._add_finding("files", error.message)
                continue
            count += len(parts)
            for part in parts:
                if part.key not in removed and (problem := find_file_problem(part, listing)) is not None:
                    self._add_file_finding(state, link, f"{part.key} {problem}")
        return count

    def _add_file_finding(self, state: Watermark, link: BatchLink, problem: str) -> None:
        is_loaded = link.id <= state.load_progress.last_batch
        effect = (
            f"batch {link.id} is loaded, and cannot be loaded again"
            if is_loaded
            else f"batch {link.id} cannot be loaded"
        )
        reread = f"syncd watermark reset -t {self.stream.table_name} --mysql-only --reason 'files lost'"
        remedy = f"{RESTORE_VERSION_REMEDY}, or read the table again: {reread}"
        self._add_finding("files", f"{problem}: {effect}", remedy)

    # The ledger, and the target beside it.

    def _check_ledger(self, ledger: LedgerReader, state: Watermark, links: Mapping[BatchId, BatchLink]) -> int:
        entries = ledger.read_entries()
        compared = compare_with_ledger(self.stream, state, entries)
        records = compared.evidence
        load = f"syncd run -t {self.stream.table_name} --load-only"
        reset = f"syncd watermark reset -t {self.stream.table_name} --redshift-only"
        if compared.lost:
            message = (
                f"it lacks {_format_batches(compared.lost)}, loaded according to the mark: it may have been restored"
            )
            self._add_finding("ledger", message, load)
        if compared.ahead:
            message = f"it lists {_format_batches(compared.ahead)}, beyond the loaded mark"
            self._add_finding("ledger", message, load)
        for batch, record in records.items():
            if batch in links and record.manifest != links[batch].digest:
                self._add_finding("ledger", f"batch {batch} was loaded from another manifest than the one in the lake")
        if others := {record.table for record in records.values()} - {ledger.table}:
            self._add_finding(
                "target",
                f"batches were loaded into {', '.join(sorted(others))}, but the configuration names {ledger.table}",
                f"name the same table again in the configuration, or: {reset} --reason 'another target'",
            )
        if any(record.rows for record in records.values()) and not ledger.target_exists():
            message = f"{ledger.table} is missing, although rows were loaded into it"
            self._add_finding("target", message, f"{reset} --reason 'the target is gone'")
        return len(entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerComparison:
    """The ledger compared with the loaded mark."""

    proven_upto: BatchId
    """Up to this batch the ledger holds everything that the mark says is loaded."""
    lost: tuple[BatchId, ...]
    """Batches below the mark that the ledger lacks."""
    ahead: tuple[BatchId, ...]
    """Batches of the ledger that follow the mark without a gap."""
    evidence: Mapping[BatchId, LedgerRecord]


def compare_with_ledger(
    stream: StreamName, state: Watermark, entries: Mapping[LedgerKey, LedgerRecord]
) -> LedgerComparison:
    """Compare the ledger with the loaded mark, batch by batch."""
    loaded = state.load_progress
    proven_upto = BEFORE_FIRST_BATCH
    lost, ahead = list[BatchId](), list[BatchId]()
    evidence: dict[BatchId, LedgerRecord] = {}
    for batch in state.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH):
        key = LedgerKey(stream=stream, load_generation=loaded.load_generation_of(batch), batch=batch)
        record = entries.get(key)
        is_due, is_expected = batch > loaded.last_batch, loaded.expects_in_ledger(batch)
        if record is not None and (is_due or is_expected):
            evidence[batch] = record
        if is_due and record is None:
            break
        if is_due:
            ahead.append(batch)
        elif record is None and is_expected:
            lost.append(batch)
        if not lost:
            proven_upto = batch
    return LedgerComparison(proven_upto=proven_upto, lost=tuple(lost), ahead=tuple(ahead), evidence=evidence)


def find_file_problem(part: Part, listing: Mapping[str, ListedObject]) -> str | None:
    """Return what a listing shows to be wrong with a file; None where nothing is."""
    found = listing.get(part.key)
    if found is None:
        return "is missing"
    if found.bytes != part.bytes:
        return f"has {found.bytes} bytes, not {part.bytes}"
    return None if found.etag == part.etag else "is another file: its ETag has changed"


def _format_batches(batches: Sequence[BatchId]) -> str:
    if len(batches) == 1:
        return f"batch {batches[0]}"
    return f"{len(batches)} batches, {batches[0]} to {batches[-1]}"
