"""A watermark made anew: its document from history alone, its loaded half from what the ledger proves."""

from dataclasses import dataclass
from itertools import islice, pairwise

from syncd.operations.adopted_tables import files_begin
from syncd.operations.change_impact import links
from syncd.operations.consistency_check import Held, proven_in
from syncd.ports.evidence import Books, Evidence
from watermarks.batch import Link
from watermarks.codec import REBUILD
from watermarks.document import Watermark
from watermarks.errors import DataInDoubt, StateUnreadable
from watermarks.extraction import Chain
from watermarks.history import Change, Journal, Note, StateMissing
from watermarks.names import StreamName, document_key
from watermarks.operator import Operator
from watermarks.progress import Run

LOOKED_BACK = 100
"""Entries whose order is looked at before the newest of them is believed."""


class AnotherChain(DataInDoubt):
    """What landed under a number is not the batch that has it now: the ledger proves nothing of this chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromHistory:
    """What the history of a document says."""

    revision: int
    state: Watermark
    stood: str
    """What stands in the document's place, in words."""
    same: bool
    """Whether it is what history says, byte for byte."""
    entries: int
    """How many entries back were found in order."""


def from_history(journal: Journal[Watermark], stream: StreamName) -> FromHistory:
    """What the document has to be; nothing is written.

    Raises:
        StateMissing: there is no history, or an entry of it is gone.
        StateUnreadable: an entry cannot be trusted, or the entries do not follow each other.
    """
    newest = journal.last_revision(stream.stem)
    if newest == 0:
        raise StateMissing(f"{stream} has no history", hint="Is the name right? See: syncd watermark list")
    found = list(islice(journal.entries(stream.stem, newest=newest), LOOKED_BACK))
    for newer, older in pairwise(found):
        if newer.before["digest"] != older.after["digest"]:
            raise StateUnreadable(
                f"entry {newer.revision} of {stream} does not follow entry {older.revision}",
                hint="Restore history/ from the bucket's versions.",
            )
    body = found[0].document_bytes()
    stored = journal.store.read(document_key(stream.stem))
    return FromHistory(
        revision=newest,
        state=Watermark.of_bytes(body, at="history", stem=stream.stem),
        stood="nothing" if stored is None else _stood(stored.body, stream),
        same=stored is not None and stored.body == body,
        entries=len(found),
    )


def _stood(body: bytes, stream: StreamName) -> str:
    try:
        state = Watermark.of_bytes(body, at=document_key(stream.stem), stem=stream.stem)
    except StateUnreadable as error:
        return f"what cannot be read: {error.message}"
    return f"revision {state.revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What the ledger proves, and what came of it."""

    entries: int
    """How many the ledger holds."""
    held: Held
    after: Watermark | None
    """The state with the mark moved; None where it stood there."""


def follow_ledger(journal: Journal[Watermark], stream: StreamName, books: Books, *, person: Operator) -> Followed:
    """Move the loaded mark to what the ledger proves.

    Ahead of the mark: the batches have landed, and count now. Behind it: a new load generation begins
    where the proof ends, so that the loader lands the rest again.

    Raises:
        StateMissing: a link, or an entry of history, that is needed is gone.
        AnotherChain: what the ledger holds is of a lake that was restored, or begun anew, since.
        WarehouseDown, WarehouseUnfit: the ledger cannot be asked.
    """
    # The state first: what lands meanwhile is in the ledger and not in the mark, and so never taken for lost.
    state = journal.newest(stream.stem)
    if state is None:
        raise StateMissing(f"{stream} has no watermark", hint=REBUILD)
    entries = books.entries()
    held = proven_in(stream, state, entries)
    if held.behind:
        newest = Chain(journal, stream).required(held.upto) if held.upto.seq else None
        if newest is not None:
            _require_landed(newest, held.evidence.get(newest.id))
        reached = newest.high if newest is not None else files_begin(journal, state)
        after: Watermark | None = person.set_marks(stream, after=held.upto, loaded=reached)
    else:
        after = _advanced(journal, state, held, person) if held.ahead else None
    return Followed(entries=len(entries), held=held, after=after)


def _advanced(journal: Journal[Watermark], seen: Watermark, held: Held, person: Operator) -> Watermark:
    """The mark over what landed; in the same load generation, under which the ledger has it."""
    landed = links(Chain(journal, seen.stream), held.ahead)
    for link in landed:
        _require_landed(link, held.evidence[link.id])
    run = Run(id="rebuild")

    def advanced(state: Watermark | None) -> Watermark | None:
        if state is None or state.loaded.load_generation != seen.loaded.load_generation:
            return None  # a person was first, and asked for something else
        left = [link for link in landed if link.id > state.loaded.last]
        for link in left:
            state = state.with_landed(link, rows=held.evidence[link.id].rows, run=run, at=journal.clock.now())
        return state if left else None

    note = Note(change=Change.LOAD, who=person.who, why=person.why)
    return journal.commit(seen.stem, advanced, note) or seen


def _require_landed(link: Link, evidence: Evidence | None) -> None:
    """Make sure that a batch is the one that landed under its number; of one that was left out nothing tells."""
    if evidence is not None and evidence.manifest != link.digest:
        table = f"{link.stream.database}.{link.stream.table}"
        raise AnotherChain(
            f"{link.stream}: the ledger holds {link.id} of another chain than the lake does",
            hint="Was the lake restored, or begun anew? Then its rows are not those of this chain: DROP TABLE"
            f" {evidence.table}; then, to load all of it anew: syncd watermark reset -t {table} --redshift-only",
        )
