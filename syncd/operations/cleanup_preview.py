"""Search for files of one stream that could be removed now; nothing is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from syncd.concurrency.thread_helpers import map_in_parallel
from syncd.lake.object_keys import data_prefix, parse_data_batch, stream_copy_prefix, stream_quarantine_prefix
from syncd.lake.removal_records import ListedObject
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.cleanup_rules import (
    CleaningBasis,
    FileDecision,
    KeptFile,
    RemovableFile,
    RemovalReason,
    decide_copy_lists,
    decide_data_files,
    decide_quarantine_files,
)
from syncd.operations.consistency_check import compare_with_ledger
from syncd.ports.source import LedgerReader, PartStore
from watermarks.batch import BatchId, BatchLink
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import Journal, StateMissing
from watermarks.names import BadName, StreamName, document_key


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningProposal:
    """Files of one stream that may go, and the states that this was decided on."""

    stream: StreamName
    states: tuple[Watermark, ...] = ()
    """The default target's state, then those of the other targets."""
    removable: tuple[RemovableFile, ...] = ()
    kept_files: tuple[KeptFile, ...] = ()
    batches_to_close: tuple[BatchId, ...] = ()
    """Batches of closed generations that get a link first, so that no later link can name their parts."""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.removable)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningSearch:
    """Searches the files of one stream."""

    stream: StreamName
    journal: Journal[Watermark]
    lake: PartStore
    ledger: LedgerReader | None = None
    """Ledger of the default target: a batch that it does not hold is not loaded, whatever the mark says."""

    def propose(self, wanted: frozenset[RemovalReason], *, now: datetime, before: datetime) -> CleaningProposal:
        """Return what may go for these reasons, of files written before an instant.

        Raises:
            StateUnreadable: a document is damaged, so nothing may go.
            WarehouseDown, WarehouseUnfit: the ledger is not readable.
        """
        states = read_states(self.journal, self.stream)
        if not states:
            return CleaningProposal(stream=self.stream)
        basis = self._build_basis(states, before)
        parts = self.lake.list_objects(data_prefix(self.stream))
        self._read_links(basis, parts)
        found = list(decide_data_files(basis, parts))
        if RemovalReason.ORPHAN in wanted:
            found += decide_copy_lists(self.lake.list_objects(stream_copy_prefix(self.stream)), now=now, before=before)
        if wanted & {RemovalReason.ORPHAN, RemovalReason.REPLAYED}:
            found += self._decide_quarantine(basis)
        return self._build_proposal(states, basis, found, wanted)

    def _build_proposal(
        self,
        states: tuple[Watermark, ...],
        basis: CleaningBasis,
        found: Sequence[FileDecision],
        wanted: frozenset[RemovalReason],
    ) -> CleaningProposal:
        goes = tuple(one for one in found if isinstance(one, RemovableFile) and one.reason in wanted)
        orphans = {one.batch for one in goes if one.reason is RemovalReason.ORPHAN and one.batch is not None}
        return CleaningProposal(
            stream=self.stream,
            states=states,
            removable=goes,
            kept_files=tuple(one for one in found if isinstance(one, KeptFile)),
            batches_to_close=tuple(
                sorted(each for each in orphans if basis.is_closed(each) and basis.read_link(each) is None)
            ),
        )

    def _build_basis(self, states: tuple[Watermark, ...], before: datetime) -> CleaningBasis:
        chain = BatchChain(self.journal, self.stream)

        @cache
        def link(batch: BatchId) -> BatchLink | None:
            return chain.read_link(batch)

        return CleaningBasis(
            stream=self.stream,
            extracted=states[0].required_extract_progress,
            not_loaded_reason=self._build_load_check(states),
            read_link=link,
            read_plan=chain.read_plan,
            written_before=before,
        )

    def _read_links(self, basis: CleaningBasis, parts: Sequence[ListedObject]) -> None:
        """Read the links of all batches that have files, in parallel: the basis caches them."""
        batches = {parse_data_batch(self.stream, file.key) for file in parts if file.at < basis.written_before}
        map_in_parallel(
            basis.read_link, sorted(batch for batch in batches if batch and basis.extracted.has_batch(batch))
        )

    def _build_load_check(self, states: tuple[Watermark, ...]) -> Callable[[BatchId], str | None]:
        proven = None
        if self.ledger is not None:
            proven = compare_with_ledger(self.stream, states[0], self.ledger.read_entries()).evidence

        def not_loaded_reason(batch: BatchId) -> str | None:
            for state in states:
                target = f" into {state.stream.target}" if state.stream.target else ""
                if batch > state.load_progress.last_batch:
                    return f"it waits to be loaded{target}"
                if not state.load_progress.expects_in_ledger(batch):
                    return f"an operator skipped it{target}, and it was never loaded"
            if proven is not None and batch not in proven:
                return "the warehouse's ledger does not list its batch"
            return None

        return not_loaded_reason

    def _decide_quarantine(self, basis: CleaningBasis) -> list[FileDecision]:
        listed = {file.key: file for file in self.lake.list_objects(stream_quarantine_prefix(self.stream))}
        if not listed:
            return []
        quarantine = Quarantine(stream=self.stream, journal=self.journal, parts=self.lake)
        named = quarantine.list_files(extracted=basis.extracted).files
        return list(decide_quarantine_files(basis, listed, named))


def read_states(journal: Journal[Watermark], stream: StreamName) -> tuple[Watermark, ...]:
    """Return the states of all targets by their newest entries, the default target's first; none if it never ran.

    Raises:
        StateUnreadable: a document is damaged.
    """
    first = journal.read_newest(stream.stem)
    if first is None:
        return ()
    others = journal.store.list(document_key(f"{stream.chain_stem}@").removesuffix(".json"))
    return (first, *(_read_required_state(journal, _parse_stream_name(key)) for key in others))


def _parse_stream_name(key: str) -> StreamName:
    try:
        return StreamName.from_stem(key.removeprefix("watermarks/").removesuffix(".json"))
    except BadName as error:
        raise StateUnreadable(
            f"{key} is not the key of a watermark", hint="If the object was put there by hand, remove it."
        ) from error


def _read_required_state(journal: Journal[Watermark], stream: StreamName) -> Watermark:
    state = journal.read_newest(stream.stem)
    if state is None:
        raise StateMissing(f"the watermark of {stream} was removed while it was read")
    return state
