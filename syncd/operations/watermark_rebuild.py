"""A watermark made anew: its document from history alone, its loaded half from what the ledger proves."""

from dataclasses import dataclass
from itertools import islice, pairwise

from syncd.operations.change_impact import read_links
from syncd.operations.consistency_check import LedgerComparison, compare_with_ledger
from syncd.operations.reloadable_files import find_files_start
from syncd.ports.evidence import LedgerReader, LedgerRecord
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
"""Entries whose order is looked at before the newest of them is believed."""


class LedgerOfAnotherChain(DataInDoubt):
    """What landed under a number is not the batch that has it now: the ledger proves nothing of this chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryState:
    """What the history of a document says."""

    revision: int
    state: Watermark
    current_document: str
    """What stands in the document's place, in words."""
    is_same: bool
    """Whether it is what history says, byte for byte."""
    entries: int
    """How many entries back were found in order."""


def read_history_state(journal: Journal[Watermark], stream: StreamName) -> HistoryState:
    """What the document has to be; nothing is written.

    Raises:
        StateMissing: there is no history, or an entry of it is gone.
        StateUnreadable: an entry cannot be trusted, or the entries do not follow each other.
    """
    newest = journal.last_revision(stream.stem)
    if newest == 0:
        raise StateMissing(f"{stream} has no history", hint="Is the name right? See: syncd watermark list")
    found = list(islice(journal.read_entries(stream.stem, newest_revision=newest), CHECKED_ENTRIES))
    for newer, older in pairwise(found):
        if newer.before["digest"] != older.after["digest"]:
            raise StateUnreadable(
                f"entry {newer.revision} of {stream} does not follow entry {older.revision}",
                hint="Restore history/ from the bucket's versions.",
            )
    body = found[0].document_bytes()
    stored = journal.store.read(document_key(stream.stem))
    return HistoryState(
        revision=newest,
        state=Watermark.from_bytes(body, location="history", stem=stream.stem),
        current_document="nothing" if stored is None else _describe_document(stored.body, stream),
        is_same=stored is not None and stored.body == body,
        entries=len(found),
    )


def _describe_document(body: bytes, stream: StreamName) -> str:
    try:
        state = Watermark.from_bytes(body, location=document_key(stream.stem), stem=stream.stem)
    except StateUnreadable as error:
        return f"what cannot be read: {error.message}"
    return f"revision {state.revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMarkRebuild:
    """What the ledger proves, and what came of it."""

    entries: int
    """How many the ledger holds."""
    comparison: LedgerComparison
    after: Watermark | None
    """The state with the mark moved; None where it stood there."""


def rebuild_loaded_mark(
    journal: Journal[Watermark], stream: StreamName, ledger: LedgerReader, *, operator: Operator
) -> LoadedMarkRebuild:
    """Move the loaded mark to what the ledger proves.

    Ahead of the mark: the batches have landed, and count now. Behind it: a new load generation begins
    where the proof ends, so that the loader lands the rest again.

    Raises:
        StateMissing: a link, or an entry of history, that is needed is gone.
        AnotherChain: what the ledger holds is of a lake that was restored, or begun anew, since.
        WarehouseDown, WarehouseUnfit: the ledger cannot be asked.
    """
    # The state first: what lands meanwhile is in the ledger and not in the mark, and so never taken for lost.
    state = journal.read_newest(stream.stem)
    if state is None:
        raise StateMissing(f"{stream} has no watermark", hint=REBUILD_HINT)
    entries = ledger.read_entries()
    held = compare_with_ledger(stream, state, entries)
    if held.lost:
        newest = BatchChain(journal, stream).require_link(held.proven_upto) if held.proven_upto.seq else None
        if newest is not None:
            _require_same_manifest(newest, held.evidence.get(newest.id))
        reached = newest.high if newest is not None else find_files_start(journal, state)
        after: Watermark | None = operator.set_marks(stream, load_after=held.proven_upto, load_cursor=reached)
    else:
        after = _advance_loaded_mark(journal, state, held, operator) if held.ahead else None
    return LoadedMarkRebuild(entries=len(entries), comparison=held, after=after)


def _advance_loaded_mark(
    journal: Journal[Watermark], before: Watermark, comparison: LedgerComparison, operator: Operator
) -> Watermark:
    """The mark over what landed; in the same load generation, under which the ledger has it."""
    landed = read_links(BatchChain(journal, before.stream), comparison.ahead)
    for link in landed:
        _require_same_manifest(link, comparison.evidence[link.id])
    run = Run(id="rebuild")

    def advanced(state: Watermark | None) -> Watermark | None:
        if state is None or state.load_progress.load_generation != before.load_progress.load_generation:
            return None  # a person was first, and asked for something else
        left = [link for link in landed if link.id > state.load_progress.last_batch]
        for link in left:
            state = state.with_loaded_batch(
                link, rows=comparison.evidence[link.id].rows, run=run, now=journal.clock.now()
            )
        return state if left else None

    note = ChangeNote(change=ChangeKind.LOAD, author=operator.author, reason=operator.reason)
    return journal.commit(before.stem, advanced, note) or before


def _require_same_manifest(link: BatchLink, evidence: LedgerRecord | None) -> None:
    """Make sure that a batch is the one that landed under its number; of one that was left out nothing tells."""
    if evidence is not None and evidence.manifest != link.digest:
        table = link.stream.table_name
        raise LedgerOfAnotherChain(
            f"{link.stream}: the ledger holds {link.id} of another chain than the lake does",
            hint="Was the lake restored, or begun anew? Then its rows are not those of this chain: DROP TABLE"
            f" {evidence.table}; then, to load all of it anew: syncd watermark reset -t {table} --redshift-only",
        )
