"""What of one stream could be removed now: whatever says that a file is needed still is asked; nothing is written."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Protocol

from syncd.lake.keys import batch_of_data, data_prefix, lists_prefix, refused_prefix
from syncd.lake.removal_records import Lying
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.change_impact import AT_ONCE
from syncd.operations.cleanup_rules import Goes, Ground, Judged, Stays, Why, judged, of_lists, of_quarantine
from syncd.operations.consistency_check import proven_in
from syncd.ports.evidence import Books
from syncd.ports.source import Parts
from watermarks.batch import BatchId, Link
from watermarks.document import Watermark
from watermarks.errors import StateUnreadable
from watermarks.extraction import Chain
from watermarks.history import Journal, StateMissing
from watermarks.names import BadName, StreamName, document_key


class Shelves(Parts, Protocol):
    """The lake, as far as it is looked through."""

    def lying(self, prefix: str) -> Sequence[Lying]:
        """Every object below a prefix, with its size and the instant of its last change.

        Raises:
            LakeDown, LakeUnfit: that cannot be told.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What of one stream may go, and what it was decided on."""

    stream: StreamName
    states: tuple[Watermark, ...] = ()
    """The document of the default target, then those of the others."""
    goes: tuple[Goes, ...] = ()
    stays: tuple[Stays, ...] = ()
    abandons: tuple[BatchId, ...] = ()
    """Numbers of closed generations that get a link first, so that nothing can ever name their parts."""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.goes)

    def of(self, why: Why) -> tuple[Goes, ...]:
        return tuple(file for file in self.goes if file.why is why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Looks through what lies in the lake of one stream."""

    stream: StreamName
    journal: Journal[Watermark]
    shelves: Shelves
    books: Books | None = None
    """The ledger of the default target: what it does not hold has not landed, whatever the mark says."""

    def proposal(self, wanted: frozenset[Why], *, now: datetime, before: datetime) -> Proposal:
        """What may go of these kinds, of what was written before an instant.

        Raises:
            StateUnreadable: a document cannot be believed, so that nothing may go.
            WarehouseDown, WarehouseUnfit: the ledger cannot be asked.
        """
        states = states_of(self.journal, self.stream)
        if not states:
            return Proposal(stream=self.stream)
        ground = self._ground(states, before)
        parts = self.shelves.lying(data_prefix(self.stream))
        self._read_links(ground, parts)
        found = list(judged(ground, parts))
        if Why.ORPHAN in wanted:
            found += of_lists(self.shelves.lying(lists_prefix(self.stream)), now=now, before=before)
        if wanted & {Why.ORPHAN, Why.REPLAYED}:
            found += self._of_quarantine(ground)
        return self._proposed(states, ground, found, wanted)

    def _proposed(
        self, states: tuple[Watermark, ...], ground: Ground, found: Sequence[Judged], wanted: frozenset[Why]
    ) -> Proposal:
        goes = tuple(one for one in found if isinstance(one, Goes) and one.why in wanted)
        orphans = {one.batch for one in goes if one.why is Why.ORPHAN and one.batch is not None}
        return Proposal(
            stream=self.stream,
            states=states,
            goes=goes,
            stays=tuple(one for one in found if isinstance(one, Stays)),
            abandons=tuple(sorted(each for each in orphans if ground.is_closed(each) and ground.link(each) is None)),
        )

    def _ground(self, states: tuple[Watermark, ...], before: datetime) -> Ground:
        chain = Chain(self.journal, self.stream)

        @cache
        def link(batch: BatchId) -> Link | None:
            return chain.link(batch)

        return Ground(
            stream=self.stream,
            extracted=states[0].chain,
            landed=self._landed(states),
            link=link,
            plan=chain.plan,
            before=before,
        )

    def _read_links(self, ground: Ground, parts: Sequence[Lying]) -> None:
        """Ask for the links of everything that lies there, several at once: the ground remembers them."""
        batches = {batch_of_data(self.stream, file.key) for file in parts if file.at < ground.before}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(ground.link, sorted(batch for batch in batches if batch and ground.extracted.holds(batch))))

    def _landed(self, states: tuple[Watermark, ...]) -> Callable[[BatchId], str | None]:
        proven = None
        if self.books is not None:
            proven = proven_in(self.stream, states[0], self.books.entries()).evidence

        def waits(batch: BatchId) -> str | None:
            for state in states:
                target = f" into {state.stream.target}" if state.stream.target else ""
                if batch > state.loaded.last:
                    return f"it waits to be loaded{target}"
                if not state.loaded.expects(batch):
                    return f"it was left out by hand{target}, and has never landed"
            if proven is not None and batch not in proven:
                return "the warehouse's ledger does not hold its batch"
            return None

        return waits

    def _of_quarantine(self, ground: Ground) -> list[Judged]:
        lying = {file.key: file for file in self.shelves.lying(refused_prefix(self.stream))}
        if not lying:
            return []
        quarantine = Quarantine(stream=self.stream, journal=self.journal, parts=self.shelves)
        looked = quarantine.look(extracted=ground.extracted)
        return list(of_quarantine(ground, lying, looked.asides))


def states_of(journal: Journal[Watermark], stream: StreamName) -> tuple[Watermark, ...]:
    """The stream's documents as their newest entries have them, its default target's first; none if it never ran.

    Raises:
        StateUnreadable: one cannot be believed.
    """
    first = journal.newest(stream.stem)
    if first is None:
        return ()
    others = journal.store.list(document_key(f"{stream.chain_stem}@").removesuffix(".json"))
    return (first, *(_required(journal, _named(key)) for key in others))


def _named(key: str) -> StreamName:
    try:
        return StreamName.of_stem(key.removeprefix("watermarks/").removesuffix(".json"))
    except BadName as error:
        raise StateUnreadable(f"{key} is the watermark of no stream", hint="Did somebody put it there?") from error


def _required(journal: Journal[Watermark], stream: StreamName) -> Watermark:
    state = journal.newest(stream.stem)
    if state is None:
        raise StateMissing(f"the watermark of {stream} was there, and is gone")
    return state
