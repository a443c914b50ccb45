"""What is in quarantine of one stream: every file that links and amendments name, and what became of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from syncd.lake.amendment import Amendment, amendment_key
from syncd.lake.keys import batch_of_refused, quarantine_prefix, refused_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import Aside, Replayed, Stray, replayed_key, replays_of, span_of
from syncd.ports.source import Parts
from watermarks.batch import BatchId, Kind, Link
from watermarks.document import Stage, Watermark
from watermarks.extraction import Chain
from watermarks.history import Journal
from watermarks.names import StreamName
from watermarks.progress import Extracted
from watermarks.store import put_once


@dataclass(frozen=True, slots=True, kw_only=True)
class Lying:
    """What a look at the quarantine found, in the order of batches."""

    asides: tuple[Aside, ...] = ()
    strays: tuple[Stray, ...] = ()
    batches: tuple[BatchId, ...] = field(default=())
    """The batches with rows that no replay has taken."""


class Quarantine:
    """The quarantine of one stream.

    A listing says which numbers to look at, and no more: what counts is named by the link of
    a number or by its amendments, and what was replayed by the links of replays. So the cost
    is that of what lies there, three requests a batch, however long the chain is.
    """

    def __init__(self, *, stream: StreamName, journal: Journal[Watermark], parts: Parts) -> None:
        self.stream = stream.default
        self.chain = Chain(journal, stream)
        self._journal = journal
        self._store = journal.store
        self._parts = parts

    def look(self, batch: BatchId | None = None, *, extracted: Extracted | None = None) -> Lying:
        """What lies there, of one batch or of all, by the newest entry.

        Whoever decides by a state of its own gives its `extracted` half, and no state is asked for.
        """
        if extracted is None:
            state = self._journal.newest(self.stream.stem)
            extracted = state.chain if state else Extracted()
        prefix = refused_prefix(self.stream) if batch is None else quarantine_prefix(self.stream, batch)
        lying = {key for key, _ in self._parts.stray(prefix)}
        numbers = {batch_of_refused(self.stream, key) for key in lying} | {batch}
        known = sorted(number for number in numbers if number is not None)
        asides = [aside for number in known for aside in self.of(number, extracted)]
        found = tuple(replace(aside, gone=aside.part.key not in lying) for aside in asides)
        named = {aside.part.key for aside in asides}
        return Lying(
            asides=found,
            strays=tuple(self._strays(sorted(lying - named), extracted)),
            batches=tuple(dict.fromkeys(aside.batch for aside in found if aside.replayed_by is None)),
        )

    def of(self, batch: BatchId, extracted: Extracted) -> tuple[Aside, ...]:
        """The files that a batch has put aside, in both stages."""
        link = self.chain.link(batch) if extracted.holds(batch) else None
        if link is None or link.kind is Kind.ABANDONED:
            return ()
        manifest = Manifest.of_link(link)
        read = [(Stage.EXTRACT, part) for part in manifest.quarantined]
        read += [(Stage.LOAD, part) for one in self._amendments(link) for part in one.refused]
        if not read:
            return ()
        taken = {file: by for by, files in self._replays(batch, extracted) for file in files}
        span = span_of(manifest)
        return tuple(
            Aside(batch=batch, stage=stage, part=part, span=span, replayed_by=taken.get(part.key))
            for stage, part in read
        )

    def note(self, batch: BatchId, by: BatchId, nonce: str) -> None:
        """Say beside a batch that the link of a replay may come to stand at a number; before it does."""
        while True:
            notes = tuple(self._notes(batch))
            if any(note.by == by for note in notes):
                return
            mine = Replayed(stream=self.stream, batch=batch, by=by, nonce=nonce)
            put_once(self._store, replayed_key(self.stream, batch, len(notes) + 1), mine.to_bytes())

    def _amendments(self, link: Link) -> Iterator[Amendment]:
        number = 1
        while stored := self._store.read(key := amendment_key(self.stream, link.id, number)):
            yield Amendment.of_bytes(stored.body, at=key, stream=self.stream, batch=link.id)
            number += 1

    def _notes(self, batch: BatchId) -> Iterator[Replayed]:
        number = 1
        while stored := self._store.read(key := replayed_key(self.stream, batch, number)):
            yield Replayed.of_bytes(stored.body, at=key, stream=self.stream, batch=batch)
            number += 1

    def _replays(self, batch: BatchId, extracted: Extracted) -> Iterator[tuple[BatchId, frozenset[str]]]:
        """The replays of a batch that are links of the chain, with the files that each has taken."""
        for by in dict.fromkeys(note.by for note in self._notes(batch)):
            link = self.chain.link(by) if extracted.holds(by) else None
            if link is None or link.kind is not Kind.REPLAY:
                continue
            taken = replays_of(Manifest.of_link(link).plan)
            if taken is not None and taken[0] == batch:
                yield by, taken[1]

    def _strays(self, keys: Sequence[str], extracted: Extracted) -> Iterator[Stray]:
        for key in keys:
            batch = batch_of_refused(self.stream, key)
            if batch is None:
                yield Stray(key=key, reason="it lies under no number of a batch")
            elif extracted.holds(batch):
                yield Stray(key=key, reason=f"batch {batch} does not name it: an attempt that was given up left it")
            else:
                yield Stray(key=key, reason=f"batch {batch} is not extracted: somebody may be at work on it")
