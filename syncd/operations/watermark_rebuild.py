"""Rebuild of a watermark: its document from history alone, its loaded mark from the ledger."""

from dataclasses import dataclass
from itertools import islice, pairwise

from syncd.operations.consistency_check import LedgerComparison, compare_with_ledger
from syncd.operations.reloadable_files import find_files_start, read_links
from syncd.ports.source import LedgerReader, LedgerRecord
from watermarks.batch import BatchLink
from watermarks.codec import REBUILD_HINT
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt, StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import ChangeKind, ChangeNote, Journal, StateMissing
from watermarks.names import StreamName, document_key
from watermarks.operator import Operator
from watermarks.progress import Run

CHECKED_ENTRIES = 100
"""Entries whose order is checked before the newest of them is trusted."""


class LedgerOfAnotherChain(DataInDoubt):
    """The ledger holds another batch under a number than the lake: it proves nothing about this chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryState:
    """State of a document according to its history."""

    revision: int
    state: Watermark
    current_document: str
    """Description of the document that is stored now."""
    is_same: bool
    """True if the stored document equals its history, byte for byte."""
    entries: int
    """Entries whose order was checked."""


def read_history_state(journal: Journal[Watermark], stream: StreamName) -> HistoryState:
    """Return what the document has to be; nothing is written.

    Raises:
        StateMissing: there is no history, or an entry of it is gone.
        StateUnreadable: an entry is damaged, or the entries do not follow each other.
    """
    newest = journal.last_revision(stream.stem)
    if newest == 0:
        raise StateMissing(f"{stream} has no history", hint="Check the name: syncd watermark list")
    entries = list(islice(journal.read_entries(stream.stem, newest_revision=newest), CHECKED_ENTRIES))
    for newer, older in pairwise(entries):
        if newer.before["digest"] != older.after["digest"]:
            raise StateUnreadable(
                f"entry {newer.revision} of {stream} does not follow entry {older.revision}",
                hint="Restore history/ from the bucket's versions.",
            )
    body = entries[0].document_bytes()
    stored = journal.store.read(document_key(stream.stem))
    return HistoryState(
        revision=newest,
        state=Watermark.from_bytes(body, location="history", stem=stream.stem),
        current_document="nothing" if stored is None else _describe_document(stored.body, stream),
        is_same=stored is not None and stored.body == body,
        entries=len(entries),
    )


def _describe_document(body: bytes, stream: StreamName) -> str:
    try:
        state = Watermark.from_bytes(body, location=document_key(stream.stem), stem=stream.stem)
    except StateUnreadable as error:
        return f"an unreadable document: {error.message}"
    return f"revision {state.revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMarkRebuild:
    """Loaded mark according to the ledger, and the change that followed."""

    entries: int
    """Entries of the ledger."""
    comparison: LedgerComparison
    after: Watermark | None
    """The state with the mark moved; None if it was right."""


def rebuild_loaded_mark(
    journal: Journal[Watermark], stream: StreamName, ledger: LedgerReader, *, operator: Operator
) -> LoadedMarkRebuild:
    """Move the loaded mark to what the ledger proves.

    If the ledger is ahead of the mark, its batches are loaded, and the mark moves over them. If it is behind, a new
    load generation begins where the proof ends, so that the loader loads the rest again.

    Raises:
        StateMissing: a link, or an entry of history, that is needed is gone.
        LedgerOfAnotherChain: the lake was restored, or begun anew, since the ledger's batches were loaded.
        WarehouseDown, WarehouseUnfit: the ledger is not readable.
    """
    # The state first: a batch loaded meanwhile is in the ledger and not in the mark, so it never counts as lost.
    state = journal.read_newest(stream.stem)
    if state is None:
        raise StateMissing(f"{stream} has no watermark", hint=REBUILD_HINT)
    entries = ledger.read_entries()
    compared = compare_with_ledger(stream, state, entries)
    if compared.lost:
        newest = BatchChain(journal, stream).require_link(compared.proven_upto) if compared.proven_upto.seq else None
        if newest is not None:
            _require_same_manifest(newest, compared.evidence.get(newest.id))
        reached = newest.high if newest is not None else find_files_start(journal, state)
        after: Watermark | None = operator.set_marks(stream, load_after=compared.proven_upto, load_cursor=reached)
    else:
        after = _advance_loaded_mark(journal, state, compared, operator) if compared.ahead else None
    return LoadedMarkRebuild(entries=len(entries), comparison=compared, after=after)


def _advance_loaded_mark(
    journal: Journal[Watermark], before: Watermark, comparison: LedgerComparison, operator: Operator
) -> Watermark:
    """Move the mark over loaded batches, in the load generation under which the ledger has them."""
    links = read_links(BatchChain(journal, before.stream), comparison.ahead)
    for link in links:
        _require_same_manifest(link, comparison.evidence[link.id])
    run = Run(id="rebuild")

    def advanced(state: Watermark | None) -> Watermark | None:
        if state is None or state.load_progress.load_generation != before.load_progress.load_generation:
            return None  # an operator moved the marks first
        left = [link for link in links if link.id > state.load_progress.last_batch]
        for link in left:
            state = state.with_loaded_batch(
                link, rows=comparison.evidence[link.id].rows, run=run, now=journal.clock.now()
            )
        return state if left else None

    note = ChangeNote(change=ChangeKind.LOAD, author=operator.author, reason=operator.reason)
    return journal.commit(before.stem, advanced, note) or before


def _require_same_manifest(link: BatchLink, evidence: LedgerRecord | None) -> None:
    """Check that a batch is the one that was loaded under its number; for a skipped batch nothing tells."""
    if evidence is not None and evidence.manifest != link.digest:
        table = link.stream.table_name
        raise LedgerOfAnotherChain(
            f"{link.stream}: batch {link.id} of the ledger is not batch {link.id} of the lake: their manifests differ",
            hint="The lake was probably restored or started again, so the target contains rows of an older chain: DROP"
            f" TABLE {evidence.table}; then, to load all of it again: syncd watermark reset -t {table} --redshift-only",
        )
