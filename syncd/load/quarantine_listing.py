"""What is in quarantine of one stream: every file that links and amendments name, and what became of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from syncd.lake.amendment import Amendment, amendment_key
from syncd.lake.keys import batch_quarantine_prefix, parse_quarantine_batch, stream_quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import (
    QuarantinedFile,
    ReplayNote,
    UnreferencedFile,
    batch_time_range,
    parse_replay_fields,
    replay_note_key,
)
from syncd.ports.source import PartStore
from watermarks.batch import BatchId, BatchKind, BatchLink
from watermarks.document import Stage, Watermark
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.names import StreamName
from watermarks.progress import ExtractProgress
from watermarks.store import put_once


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineListing:
    """What a look at the quarantine found, in the order of batches."""

    files: tuple[QuarantinedFile, ...] = ()
    strays: tuple[UnreferencedFile, ...] = ()
    waiting_batches: tuple[BatchId, ...] = field(default=())
    """The batches with rows that no replay has taken."""


class Quarantine:
    """The quarantine of one stream.

    A listing says which numbers to look at, and no more: what counts is named by the link of
    a number or by its amendments, and what was replayed by the links of replays. So the cost
    is that of what lies there, three requests a batch, however long the chain is.
    """

    def __init__(self, *, stream: StreamName, journal: Journal[Watermark], parts: PartStore) -> None:
        self.stream = stream.default_stream
        self.chain = BatchChain(journal, stream)
        self._journal = journal
        self._store = journal.store
        self._parts = parts

    def list_files(
        self, batch: BatchId | None = None, *, extracted: ExtractProgress | None = None
    ) -> QuarantineListing:
        """What lies there, of one batch or of all, by the newest entry.

        Whoever decides by a state of its own gives its `extracted` half, and no state is asked for.
        """
        if extracted is None:
            state = self._journal.read_newest(self.stream.stem)
            extracted = state.required_extract_progress if state else ExtractProgress()
        prefix = stream_quarantine_prefix(self.stream) if batch is None else batch_quarantine_prefix(self.stream, batch)
        lying = {found.key for found in self._parts.list_objects(prefix)}
        numbers = {parse_quarantine_batch(self.stream, key) for key in lying} | {batch}
        known = sorted(number for number in numbers if number is not None)
        asides = [aside for number in known for aside in self.batch_files(number, extracted)]
        found = tuple(replace(aside, is_missing=aside.part.key not in lying) for aside in asides)
        named = {aside.part.key for aside in asides}
        return QuarantineListing(
            files=found,
            strays=tuple(self._classify_strays(sorted(lying - named), extracted)),
            waiting_batches=tuple(dict.fromkeys(aside.batch for aside in found if aside.replayed_by is None)),
        )

    def batch_files(self, batch: BatchId, extracted: ExtractProgress) -> tuple[QuarantinedFile, ...]:
        """The files that a batch has put aside, in both stages."""
        link = self.chain.read_link(batch) if extracted.has_batch(batch) else None
        if link is None or link.kind is BatchKind.ABANDONED:
            return ()
        manifest = Manifest.from_link(link)
        read = [(Stage.EXTRACT, part) for part in manifest.quarantined_parts]
        read += [(Stage.LOAD, part) for one in self._read_amendments(link) for part in one.refused_parts]
        if not read:
            return ()
        taken = {file: by for by, files in self._read_replays(batch, extracted) for file in files}
        span = batch_time_range(manifest)
        return tuple(
            QuarantinedFile(batch=batch, stage=stage, part=part, time_range=span, replayed_by=taken.get(part.key))
            for stage, part in read
        )

    def record_replay(self, batch: BatchId, replay: BatchId, nonce: str) -> None:
        """Say beside a batch that the link of a replay may come to stand at a number; before it does."""
        while True:
            notes = tuple(self._read_replay_notes(batch))
            if any(note.replay_batch == replay for note in notes):
                return
            mine = ReplayNote(stream=self.stream, batch=batch, replay_batch=replay, nonce=nonce)
            put_once(self._store, replay_note_key(self.stream, batch, len(notes) + 1), mine.to_bytes())

    def _read_amendments(self, link: BatchLink) -> Iterator[Amendment]:
        number = 1
        while stored := self._store.read(key := amendment_key(self.stream, link.id, number)):
            yield Amendment.from_bytes(stored.body, at=key, stream=self.stream, batch=link.id)
            number += 1

    def _read_replay_notes(self, batch: BatchId) -> Iterator[ReplayNote]:
        number = 1
        while stored := self._store.read(key := replay_note_key(self.stream, batch, number)):
            yield ReplayNote.from_bytes(stored.body, at=key, stream=self.stream, batch=batch)
            number += 1

    def _read_replays(self, batch: BatchId, extracted: ExtractProgress) -> Iterator[tuple[BatchId, frozenset[str]]]:
        """The replays of a batch that are links of the chain, with the files that each has taken."""
        for by in dict.fromkeys(note.replay_batch for note in self._read_replay_notes(batch)):
            link = self.chain.read_link(by) if extracted.has_batch(by) else None
            if link is None or link.kind is not BatchKind.REPLAY:
                continue
            taken = parse_replay_fields(Manifest.from_link(link).plan)
            if taken is not None and taken[0] == batch:
                yield by, taken[1]

    def _classify_strays(self, keys: Sequence[str], extracted: ExtractProgress) -> Iterator[UnreferencedFile]:
        for key in keys:
            batch = parse_quarantine_batch(self.stream, key)
            if batch is None:
                yield UnreferencedFile(key=key, reason="it lies under no number of a batch")
            elif extracted.has_batch(batch):
                yield UnreferencedFile(
                    key=key, reason=f"batch {batch} does not name it: an attempt that was given up left it"
                )
            else:
                yield UnreferencedFile(key=key, reason=f"batch {batch} is not extracted: somebody may be at work on it")
