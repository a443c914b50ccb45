"""Quarantine of one stream: every file that links and amendments name, and the replays that have taken it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from syncd.lake.amendment import Amendment, amendment_key
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import batch_quarantine_prefix, parse_quarantine_batch, stream_quarantine_prefix
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
    """Content of a quarantine, in the order of batches."""

    files: tuple[QuarantinedFile, ...] = ()
    strays: tuple[UnreferencedFile, ...] = ()
    waiting_batches: tuple[BatchId, ...] = field(default=())
    """Batches with rows that no replay has taken."""


class Quarantine:
    """Reads the quarantine of one stream.

    A listing shows only which numbers to look at. The link of a number and its amendments name the files that count;
    the links of replays name the files that were replayed. So the cost is three requests for each batch with files,
    however long the chain is.
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
        """Return the files of one batch or of all, as of the newest entry of the history.

        A caller that decides by a state of its own passes its `extracted` progress, and no state is read.
        """
        if extracted is None:
            state = self._journal.read_newest(self.stream.stem)
            extracted = state.required_extract_progress if state else ExtractProgress()
        prefix = stream_quarantine_prefix(self.stream) if batch is None else batch_quarantine_prefix(self.stream, batch)
        keys = {listed.key for listed in self._parts.list_objects(prefix)}
        numbers = {parse_quarantine_batch(self.stream, key) for key in keys} | {batch}
        batches = sorted(number for number in numbers if number is not None)
        files = tuple(
            replace(file, is_missing=file.part.key not in keys)
            for number in batches
            for file in self.batch_files(number, extracted)
        )
        strays = sorted(keys - {file.part.key for file in files})
        return QuarantineListing(
            files=files,
            strays=tuple(self._classify_strays(strays, extracted)),
            waiting_batches=tuple(dict.fromkeys(file.batch for file in files if file.replayed_by is None)),
        )

    def batch_files(self, batch: BatchId, extracted: ExtractProgress) -> tuple[QuarantinedFile, ...]:
        """Return the files of rows that both stages refused in a batch."""
        link = self.chain.read_link(batch) if extracted.has_batch(batch) else None
        if link is None or link.kind is BatchKind.ABANDONED:
            return ()
        manifest = Manifest.from_link(link)
        parts = [(Stage.EXTRACT, part) for part in manifest.quarantined_parts]
        parts += [(Stage.LOAD, part) for each in self._read_amendments(link) for part in each.refused_parts]
        if not parts:
            return ()
        replay_by_file = {file: replay for replay, files in self._read_replays(batch, extracted) for file in files}
        return tuple(
            QuarantinedFile(
                batch=batch,
                stage=stage,
                part=part,
                time_range=batch_time_range(manifest),
                replayed_by=replay_by_file.get(part.key),
            )
            for stage, part in parts
        )

    def record_replay(self, batch: BatchId, replay: BatchId, nonce: str) -> None:
        """Note beside a batch the number of a replay, before the link of the replay can exist."""
        while True:
            notes = tuple(self._read_replay_notes(batch))
            if any(note.replay_batch == replay for note in notes):
                return
            note = ReplayNote(stream=self.stream, batch=batch, replay_batch=replay, nonce=nonce)
            put_once(self._store, replay_note_key(self.stream, batch, len(notes) + 1), note.to_bytes())

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
        """Return the replays of a batch that are links of the chain, with the files that each has taken."""
        for replay in dict.fromkeys(note.replay_batch for note in self._read_replay_notes(batch)):
            link = self.chain.read_link(replay) if extracted.has_batch(replay) else None
            if link is None or link.kind is not BatchKind.REPLAY:
                continue
            taken = parse_replay_fields(Manifest.from_link(link).plan)
            if taken is not None and taken[0] == batch:
                yield replay, taken[1]

    def _classify_strays(self, keys: Sequence[str], extracted: ExtractProgress) -> Iterator[UnreferencedFile]:
        for key in keys:
            batch = parse_quarantine_batch(self.stream, key)
            if batch is None:
                yield UnreferencedFile(key=key, reason="its key has no batch number")
            elif extracted.has_batch(batch):
                yield UnreferencedFile(
                    key=key, reason=f"batch {batch} does not name it: it was left by an interrupted attempt"
                )
            else:
                yield UnreferencedFile(
                    key=key, reason=f"batch {batch} is not extracted: a process may be working on it"
                )
