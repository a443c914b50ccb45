"""What of one stream could be removed now: whatever says that a file is needed still is asked; nothing is written."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Protocol

from syncd.lake.keys import data_prefix, parse_data_batch, stream_copy_prefix, stream_quarantine_prefix
from syncd.lake.removal_records import ListedObject
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.change_impact import PARALLEL_REQUESTS
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
from syncd.ports.evidence import LedgerReader
from syncd.ports.source import PartStore
from watermarks.batch import BatchId, BatchLink
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import BatchChain
from watermarks.history import Journal, StateMissing
from watermarks.names import BadName, StreamName, document_key


class CleanableLake(PartStore, Protocol):
    """The lake, as far as it is looked through."""

    def list_objects_with_size(self, prefix: str) -> Sequence[ListedObject]:
        """Every object below a prefix, with its size and the instant of its last change.

        Raises:
            LakeDown, LakeUnfit: that cannot be told.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningProposal:
    """What of one stream may go, and what it was decided on."""

    stream: StreamName
    states: tuple[Watermark, ...] = ()
    """The document of the default target, then those of the others."""
    removable: tuple[RemovableFile, ...] = ()
    kept_files: tuple[KeptFile, ...] = ()
    batches_to_close: tuple[BatchId, ...] = ()
    """Numbers of closed generations that get a link first, so that nothing can ever name their parts."""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.removable)

    def removable_for(self, reason: RemovalReason) -> tuple[RemovableFile, ...]:
        return tuple(file for file in self.removable if file.reason is reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningSearch:
    """Looks through what lies in the lake of one stream."""

    stream: StreamName
    journal: Journal[Watermark]
    lake: CleanableLake
    ledger: LedgerReader | None = None
    """The ledger of the default target: what it does not hold has not landed, whatever the mark says."""

    def propose(self, wanted: frozenset[RemovalReason], *, now: datetime, before: datetime) -> CleaningProposal:
        """What may go of these kinds, of what was written before an instant.

        Raises:
            StateUnreadable: a document cannot be believed, so that nothing may go.
            WarehouseDown, WarehouseUnfit: the ledger cannot be asked.
        """
        states = read_states(self.journal, self.stream)
        if not states:
            return CleaningProposal(stream=self.stream)
        ground = self._build_basis(states, before)
        parts = self.lake.list_objects_with_size(data_prefix(self.stream))
        self._read_links(ground, parts)
        found = list(decide_data_files(ground, parts))
        if RemovalReason.ORPHAN in wanted:
            found += decide_copy_lists(
                self.lake.list_objects_with_size(stream_copy_prefix(self.stream)), now=now, before=before
            )
        if wanted & {RemovalReason.ORPHAN, RemovalReason.REPLAYED}:
            found += self._decide_quarantine(ground)
        return self._build_proposal(states, ground, found, wanted)

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
        """Ask for the links of everything that lies there, several at once: the ground remembers them."""
        batches = {parse_data_batch(self.stream, file.key) for file in parts if file.at < basis.written_before}
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            list(
                pool.map(
                    basis.read_link, sorted(batch for batch in batches if batch and basis.extracted.has_batch(batch))
                )
            )

    def _build_load_check(self, states: tuple[Watermark, ...]) -> Callable[[BatchId], str | None]:
        proven = None
        if self.ledger is not None:
            proven = compare_with_ledger(self.stream, states[0], self.ledger.read_entries()).evidence

        def waits(batch: BatchId) -> str | None:
            for state in states:
                target = f" into {state.stream.target}" if state.stream.target else ""
                if batch > state.load_progress.last_batch:
                    return f"it waits to be loaded{target}"
                if not state.load_progress.expects_in_ledger(batch):
                    return f"it was left out by hand{target}, and has never landed"
            if proven is not None and batch not in proven:
                return "the warehouse's ledger does not hold its batch"
            return None

        return waits

    def _decide_quarantine(self, basis: CleaningBasis) -> list[FileDecision]:
        lying = {file.key: file for file in self.lake.list_objects_with_size(stream_quarantine_prefix(self.stream))}
        if not lying:
            return []
        quarantine = Quarantine(stream=self.stream, journal=self.journal, parts=self.lake)
        looked = quarantine.list_files(extracted=basis.extracted)
        return list(decide_quarantine_files(basis, lying, looked.files))


def read_states(journal: Journal[Watermark], stream: StreamName) -> tuple[Watermark, ...]:
    """The stream's documents as their newest entries have them, its default target's first; none if it never ran.

    Raises:
        StateUnreadable: one cannot be believed.
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
        raise StateUnreadable(f"{key} is the watermark of no stream", hint="Did somebody put it there?") from error


def _read_required_state(journal: Journal[Watermark], stream: StreamName) -> Watermark:
    state = journal.read_newest(stream.stem)
    if state is None:
        raise StateMissing(f"the watermark of {stream} was there, and is gone")
    return state
