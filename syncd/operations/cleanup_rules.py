"""Rules for the removal of files: those that every target has loaded, and those that no batch names or ever will."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Final

from syncd.lake.object_keys import is_amended, parse_data_batch, parse_part_batch
from syncd.lake.quarantine import QuarantinedFile
from syncd.lake.removal_records import ListedObject
from watermarks.batch import BatchId, BatchLink, Plan
from watermarks.names import StreamName
from watermarks.progress import ExtractProgress

COPY_LIST_MIN_AGE: Final = timedelta(days=1)
"""Age at which no transaction uses a list for COPY any more."""


class RemovalReason(StrEnum):
    """Reason for which a file may go."""

    LOADED = "loaded"
    """Its batch is loaded into every target."""
    ORPHAN = "orphan"
    """No batch names it, or ever will."""
    REPLAYED = "replayed"
    """Its rows were replayed from quarantine, and are loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovableFile:
    """A file that may go."""

    key: str
    bytes: int
    reason: RemovalReason
    batch: BatchId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """A file that stays, and why."""

    key: str
    bytes: int
    reason: str


FileDecision = RemovableFile | KeptFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningBasis:
    """State of a stream that the rules decide by."""

    stream: StreamName
    extracted: ExtractProgress
    not_loaded_reason: Callable[[BatchId], str | None]
    """Returns why a batch is not proven to be loaded into every target; None if it is."""
    read_link: Callable[[BatchId], BatchLink | None]
    read_plan: Callable[[BatchId], Plan | None]
    written_before: datetime
    """Only files written before this instant may go."""

    def is_closed(self, batch: BatchId) -> bool:
        """Return whether it is the next number of a closed generation: no link of it will ever count."""
        closed = self.extracted.closed_generations
        return batch.generation in closed and batch.seq == closed[batch.generation] + 1


def decide_data_files(basis: CleaningBasis, files: Iterable[ListedObject]) -> Iterator[FileDecision]:
    """Decide on every data file of a stream, in the order of the batches."""

    def number(file: ListedObject) -> tuple[int, int]:
        batch = parse_data_batch(basis.stream, file.key)
        return (batch.generation, batch.seq) if batch else (0, 0)

    for (generation, seq), some in groupby(sorted(files, key=number), key=number):
        old: list[ListedObject] = []
        for file in some:
            if generation and file.at < basis.written_before:
                old.append(file)
            else:
                yield _make_kept(file, "it is too young" if generation else "its key names no batch")
        if old:
            yield from _decide_batch_files(basis, BatchId(generation, seq), old)


def _decide_batch_files(basis: CleaningBasis, batch: BatchId, files: list[ListedObject]) -> Iterator[FileDecision]:
    if basis.extracted.has_batch(batch):
        yield from _decide_linked_files(basis, batch, files)
    elif basis.is_closed(batch):
        yield from _decide_closed_batch_files(basis, batch, files)
    elif batch == basis.extracted.next_batch:
        yield from (
            _make_kept(file, "it belongs to the next batch, which a writer may be working on") for file in files
        )
    else:
        yield from (_make_kept(file, f"batch {batch} does not exist") for file in files)


def _decide_linked_files(basis: CleaningBasis, batch: BatchId, files: list[ListedObject]) -> Iterator[FileDecision]:
    link = basis.read_link(batch)
    if link is None:
        yield from (_make_kept(file, f"the manifest of batch {batch} is missing") for file in files)
        return
    reason = basis.not_loaded_reason(batch)
    for file in files:
        if file.key in link.files or is_amended(file.key):
            yield _make_removable(file, RemovalReason.LOADED, batch) if reason is None else _make_kept(file, reason)
        else:
            yield _decide_unnamed_file(basis, batch, file)


def _decide_closed_batch_files(
    basis: CleaningBasis, batch: BatchId, files: list[ListedObject]
) -> Iterator[FileDecision]:
    """Decide on parts of a batch that was being written when an operator closed its generation."""
    link = basis.read_link(batch)
    if link is None and basis.read_plan(batch) is None:
        yield from (_make_kept(file, f"batch {batch} was never planned") for file in files)
        return
    for file in files:
        if link is not None and file.key in link.files:
            yield _make_kept(
                file, f"batch {batch} names it, although its generation was closed before that batch ended"
            )
        else:
            yield _decide_unnamed_file(basis, batch, file)


def _decide_unnamed_file(basis: CleaningBasis, batch: BatchId, file: ListedObject) -> FileDecision:
    if parse_part_batch(basis.stream, file.key) == batch:
        return _make_removable(file, RemovalReason.ORPHAN, batch)
    return _make_kept(file, "its name is not that of a part")


def decide_copy_lists(files: Iterable[ListedObject], *, now: datetime, before: datetime) -> Iterator[FileDecision]:
    """Decide on lists for COPY that a killed loader left."""
    for file in files:
        if file.at < min(before, now - COPY_LIST_MIN_AGE):
            yield RemovableFile(key=file.key, bytes=file.bytes, reason=RemovalReason.ORPHAN)
        else:
            yield _make_kept(file, "it is too young")


def decide_quarantine_files(
    basis: CleaningBasis, listed: Mapping[str, ListedObject], files: Iterable[QuarantinedFile]
) -> Iterator[FileDecision]:
    """Decide on files of refused rows: replayed rows that are loaded may go, and unnamed files of the extraction."""
    named: set[str] = set()
    for quarantined in files:
        named.add(quarantined.part.key)
        file = listed.get(quarantined.part.key)
        if file is not None:
            yield _decide_quarantined_file(basis, quarantined, file)
    for key, file in listed.items():
        batch = parse_part_batch(basis.stream, key)
        if key in named:
            continue
        if batch is None or not basis.extracted.has_batch(batch):
            yield _make_kept(file, "no batch of the chain names it yet, and a later one may")
        else:
            yield (
                _make_removable(file, RemovalReason.ORPHAN, batch)
                if file.at < basis.written_before
                else _make_kept(file, "it is too young")
            )


def _decide_quarantined_file(basis: CleaningBasis, quarantined: QuarantinedFile, file: ListedObject) -> FileDecision:
    if quarantined.replayed_by is None:
        return _make_kept(file, "its rows wait in quarantine")
    if (reason := basis.not_loaded_reason(quarantined.replayed_by)) is not None:
        return _make_kept(file, reason)
    return (
        _make_removable(file, RemovalReason.REPLAYED, quarantined.batch)
        if file.at < basis.written_before
        else _make_kept(file, "it is too young")
    )


def _make_removable(file: ListedObject, reason: RemovalReason, batch: BatchId) -> RemovableFile:
    return RemovableFile(key=file.key, bytes=file.bytes, reason=reason, batch=batch)


def _make_kept(file: ListedObject, reason: str) -> KeptFile:
    return KeptFile(key=file.key, bytes=file.bytes, reason=reason)
