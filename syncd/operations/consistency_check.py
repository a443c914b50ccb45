"""Whether marks, history, manifests, files, ledger and target agree: what does not is told with what to do about it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, TypeVar

from syncd.lake.keys import data_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.removal_records import RemovalRecord, find_removal_records
from syncd.lake.window_reads import Part
from syncd.operations.change_impact import PARALLEL_REQUESTS
from syncd.ports.evidence import FileListing, LedgerReader, LedgerRecord
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import HistoryEntry, Journal
from watermarks.loading import LedgerKey
from watermarks.names import StreamName, history_key
from watermarks.progress import BEFORE_FIRST_BATCH

T = TypeVar("T")
R = TypeVar("R")

MAX_CHECKED_ENTRIES: Final = 1_000
"""Of the newest entries and links, unless all are asked for."""
RESTORE_VERSION_REMEDY: Final = "restore it from the bucket's versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconsistency:
    """One thing that does not agree with another."""

    about: str
    """`history`, `chain`, `marks`, `files`, `ledger` or `target`."""
    message: str
    remedy: str
    """The command, or the deed, that comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkCheckResult:
    """What was looked at, and what was found."""

    entries: int = 0
    batches: int = 0
    files: int = 0
    cleaned: int = 0
    """Of them, those that a person removed once they had landed."""
    ledger_entries: int | None = None
    """Entries of the ledger; None where no warehouse was asked."""
    is_complete: bool = True
    """Whether everything was looked at, and not the newest only."""
    findings: tuple[Inconsistency, ...] = ()


@dataclass(kw_only=True)
class MarkCheck:
    """Looks at one stream; nothing is written anywhere."""

    stream: StreamName
    journal: Journal[Watermark]
    file_listing: FileListing
    ledger: LedgerReader | None = None
    check_all: bool = False
    _findings: list[Inconsistency] = field(default_factory=list[Inconsistency])
    _cleaned: Mapping[str, RemovalRecord] = field(default_factory=dict[str, RemovalRecord])

    def run(self, state: Watermark) -> MarkCheckResult:
        """Compare everything with the state that the newest entry has.

        Raises:
            LakeDown, LakeUnfit, WarehouseDown, WarehouseUnfit: it could not be looked at.
        """
        self._findings = []
        entries = self._check_history(state)
        links = self._read_links(state)
        self._check_chain(state, links)
        self._check_marks(state, links)
        files = self._check_files(state, links)
        landed = self._check_ledger(state, links) if self.ledger is not None else None
        return MarkCheckResult(
            entries=entries,
            batches=len(links),
            files=files,
            cleaned=len(self._cleaned),
            ledger_entries=landed,
            is_complete=self.check_all or max(state.revision, self._chain_length(state)) <= MAX_CHECKED_ENTRIES,
            findings=tuple(self._findings),
        )

    def _add_finding(self, about: str, message: str, remedy: str) -> None:
        self._findings.append(Inconsistency(about=about, message=message, remedy=remedy))

    def _entry_limit(self) -> int | None:
        return None if self.check_all else MAX_CHECKED_ENTRIES

    @property
    def _table_name(self) -> str:
        return self.stream.table_name

    @staticmethod
    def _chain_length(state: Watermark) -> int:
        half = state.required_extract_progress
        return sum(half.last_seq_of(generation) for generation in (*half.closed_generations, half.generation))

    # History: every entry follows the one before it.

    def _check_history(self, state: Watermark) -> int:
        last = state.revision
        first = 1 if self.check_all else max(1, last - MAX_CHECKED_ENTRIES + 1)
        numbers = range(last, first - 1, -1)
        entries = list(_map_in_parallel(numbers, self._read_entry))
        for newer, older in pairwise(entries):
            if (
                isinstance(newer, HistoryEntry)
                and isinstance(older, HistoryEntry)
                and newer.before["digest"] != older.after["digest"]
            ):
                self._add_finding(
                    "history",
                    f"entry {newer.revision} does not follow entry {older.revision}: one of them is another one",
                    RESTORE_VERSION_REMEDY,
                )
        return len(entries)

    def _read_entry(self, revision: int) -> HistoryEntry | None:
        key = history_key(self.stream.stem, revision)
        try:
            entry = self.journal.read_entry(self.stream.stem, revision)
        except StateUnreadable as error:
            self._add_finding("history", error.message, RESTORE_VERSION_REMEDY)
            return None
        if entry is None:
            self._add_finding("history", f"{key} is gone", RESTORE_VERSION_REMEDY)
        return entry

    # The chain: every link names the one before it.

    def _read_links(self, state: Watermark) -> dict[BatchId, BatchLink]:
        chain = BatchChain(self.journal, self.stream)
        ids = islice(
            state.required_extract_progress.batch_ids_newest_first(
                up_to=state.required_extract_progress.last_batch, after=BEFORE_FIRST_BATCH
            ),
            self._entry_limit(),
        )

        def link(batch: BatchId) -> BatchLink | None:
            try:
                return chain.require_link(batch)
            except StateUnreadable as error:
                self._add_finding("chain", error.message, RESTORE_VERSION_REMEDY)
                return None

        return {found.id: found for found in _map_in_parallel(ids, link) if found is not None}

    def _check_chain(self, state: Watermark, links: Mapping[BatchId, BatchLink]) -> None:
        ids = list(
            islice(
                state.required_extract_progress.batch_ids_newest_first(
                    up_to=state.required_extract_progress.last_batch, after=BEFORE_FIRST_BATCH
                ),
                self._entry_limit(),
            )
        )
        for newer, older in pairwise(ids):
            if newer in links and older in links and links[newer].previous != links[older].digest:
                self._add_broken_chain(f"batch {newer} names another batch before it than {older} is")
        if ids and ids[0] in links and links[ids[0]].digest != state.required_extract_progress.last_link_digest:
            self._add_broken_chain(f"the newest batch {ids[0]} is another one than the mark was moved for")
        if len(ids) == self._chain_length(state) and ids and ids[-1] in links and links[ids[-1]].previous is not None:
            self._add_broken_chain(f"batch {ids[-1]} is the first, and names one before it")

    def _add_broken_chain(self, message: str) -> None:
        self._add_finding("chain", f"{message}: was it edited by hand?", RESTORE_VERSION_REMEDY)

    # The marks: what the newest links say.

    def _check_marks(self, state: Watermark, links: Mapping[BatchId, BatchLink]) -> None:
        half, loaded = state.required_extract_progress, state.load_progress
        newest = links.get(half.last_batch)
        rebuild = f"syncd watermark rebuild -t {self._table_name}"
        if newest is not None and newest.high != half.cursor:
            self._add_finding(
                "marks", f"the mark is at {half.cursor}, batch {newest.id} ends at {newest.high}", rebuild
            )
        last = links.get(loaded.last_batch)
        if last is not None and loaded.last_batch > loaded.base and last.high != loaded.cursor:
            self._add_finding(
                "marks", f"the loaded mark is at {loaded.cursor}, batch {last.id} ends at {last.high}", rebuild
            )
        if len(links) == self._chain_length(state):
            for what, found, said in (
                ("rows", sum(link.rows for link in links.values()), half.counts.rows),
                ("files", sum(len(link.files) for link in links.values()), half.counts.files),
            ):
                if found != said:
                    self._add_finding("marks", f"{said} {what} are counted, the manifests name {found}", rebuild)

    # The files: each as its manifest says.

    def _check_files(self, state: Watermark, links: Mapping[BatchId, BatchLink]) -> int:
        standing = self.file_listing.list_files(data_prefix(self.stream))
        named = {file: link.id for link in links.values() for file in link.files}
        gone = {
            file
            for file, batch in named.items()
            if file not in standing and state.load_progress.expects_in_ledger(batch)
        }
        self._cleaned = find_removal_records(self.file_listing, self.stream, gone)
        count = 0
        for link in links.values():
            if link.kind is BatchKind.ABANDONED:
                continue
            try:
                parts = Manifest.from_link(link).parts
            except StateUnreadable as error:
                self._add_finding("files", error.message, RESTORE_VERSION_REMEDY)
                continue
            count += len(parts)
            for part in parts:
                # What a person removed once it had landed is no loss.
                if part.key not in self._cleaned and (trouble := find_file_problem(part, standing)) is not None:
                    self._add_file_finding(state, link, part, trouble)
        return count

    def _add_file_finding(self, state: Watermark, link: BatchLink, part: Part, problem: str) -> None:
        if link.id > state.load_progress.last_batch:
            what = f"batch {link.id} cannot land"
        else:
            what = f"batch {link.id} has landed, and cannot land again"
        again = f"syncd watermark reset -t {self._table_name} --mysql-only --reason 'files lost'"
        self._add_finding(
            "files", f"{part.key} {problem}: {what}", f"{RESTORE_VERSION_REMEDY}, or read the table again: {again}"
        )

    # The ledger, and the target beside it.

    def _check_ledger(self, state: Watermark, links: Mapping[BatchId, BatchLink]) -> int:
        assert self.ledger is not None
        entries = self.ledger.read_entries()
        held = compare_with_ledger(self.stream, state, entries)
        load = f"syncd run -t {self._table_name} --load-only"
        if held.lost:
            shown = _format_batches(held.lost)
            self._add_finding(
                "ledger", f"it has lost {shown}, which the loaded mark says has landed: was it restored?", load
            )
        if held.ahead:
            self._add_finding(
                "ledger", f"it holds {_format_batches(held.ahead)}, which the loaded mark does not know of yet", load
            )
        for batch, evidence in held.evidence.items():
            if batch in links and evidence.manifest != links[batch].digest:
                self._add_finding(
                    "ledger",
                    f"batch {batch} landed by another manifest than the one that stands",
                    RESTORE_VERSION_REMEDY,
                )
        landed = {evidence.table for evidence in held.evidence.values()}
        if others := landed - {self.ledger.table}:
            self._add_finding(
                "target",
                f"batches have landed in {', '.join(sorted(others))}, the configuration names {self.ledger.table}",
                "name the same table again in the configuration, or: "
                f"syncd watermark reset -t {self._table_name} --redshift-only --reason 'another target'",
            )
        if any(evidence.rows for evidence in held.evidence.values()) and not self.ledger.target_exists():
            again = f"syncd watermark reset -t {self._table_name} --redshift-only --reason 'the target is gone'"
            self._add_finding("target", f"{self.ledger.table} is gone, and rows had landed in it", again)
        return len(entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerComparison:
    """The ledger against the loaded half."""

    proven_upto: BatchId
    """Up to here the ledger proves everything that the half says, or that followed it."""
    lost: tuple[BatchId, ...]
    ahead: tuple[BatchId, ...]
    """Landed batches that follow the loaded mark, without a gap."""
    evidence: Mapping[BatchId, LedgerRecord]


def compare_with_ledger(
    stream: StreamName, state: Watermark, entries: Mapping[LedgerKey, LedgerRecord]
) -> LedgerComparison:
    """What the ledger proves of the chain, batch by batch."""
    half = state.load_progress
    upto, gap = BEFORE_FIRST_BATCH, False
    behind, ahead = list[BatchId](), list[BatchId]()
    evidence: dict[BatchId, LedgerRecord] = {}
    for batch in state.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH):
        key = LedgerKey(stream=stream, load_generation=half.load_generation_of(batch), batch=batch)
        found = entries.get(key)
        due = batch > half.last_batch
        if found is not None and (due or half.expects_in_ledger(batch)):
            evidence[batch] = found
        if due and found is None:
            break
        if due:
            ahead.append(batch)
        elif found is None and half.expects_in_ledger(batch):
            behind.append(batch)
            gap = True
        if not gap:
            upto = batch
    return LedgerComparison(proven_upto=upto, lost=tuple(behind), ahead=tuple(ahead), evidence=evidence)


def find_file_problem(part: Part, standing: Mapping[str, tuple[int, str]]) -> str | None:
    """What is wrong with a file, as a listing shows it; None where nothing is."""
    found = standing.get(part.key)
    if found is None:
        return "is gone"
    size, tag = found
    if size != part.bytes:
        return f"has {size} bytes, not {part.bytes}"
    return None if tag == part.etag else "is another file: its tag has changed"


def _format_batches(batches: Sequence[BatchId]) -> str:
    if len(batches) == 1:
        return f"batch {batches[0]}"
    return f"{len(batches)} batches, {batches[0]} to {batches[-1]}"


def _map_in_parallel(things: Iterable[T], inspect: Callable[[T], R]) -> list[R]:
    """What looking at each of them gives, in their order, several looks at once."""
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
        return list(pool.map(inspect, things))
