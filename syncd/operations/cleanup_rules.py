"""Which files of a stream may go: those that every target has, and those that nothing names and nothing ever will."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Final

from syncd.lake.keys import is_amended, parse_data_batch, parse_part_batch
from syncd.lake.quarantine import QuarantinedFile
from syncd.lake.removal_records import ListedObject
from watermarks.batch import BatchId, BatchLink, Plan
from watermarks.names import StreamName
from watermarks.progress import ExtractProgress

COPY_LIST_MIN_AGE: Final = timedelta(days=1)
"""A list for COPY may be in use for as long as its transaction lives, and no longer."""


class RemovalReason(StrEnum):
    """Why a file may go."""

    LOADED = "loaded"
    """Its batch has landed in every target."""
    ORPHAN = "orphan"
    """Nothing names it, and nothing ever will."""
    REPLAYED = "replayed"
    """Its rows were brought back from quarantine, and have landed."""


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
    """What a judgement stands on."""

    stream: StreamName
    extracted: ExtractProgress
    not_loaded_reason: Callable[[BatchId], str | None]
    """Why a batch of the chain is not proven to have landed everywhere, in words; None where it is."""
    read_link: Callable[[BatchId], BatchLink | None]
    read_plan: Callable[[BatchId], Plan | None]
    written_before: datetime
    """Only what was written before it may go."""

    def is_closed(self, batch: BatchId) -> bool:
        """Whether it is the number that a closed generation would have come to next: no link of it will ever count."""
        closed = self.extracted.closed_generations
        return batch.generation in closed and batch.seq == closed[batch.generation] + 1


def decide_data_files(basis: CleaningBasis, files: Iterable[ListedObject]) -> Iterator[FileDecision]:
    """Every file among the parts of a stream, in the order of their batches."""

    def number(file: ListedObject) -> tuple[int, int]:
        batch = parse_data_batch(basis.stream, file.key)
        return (batch.generation, batch.seq) if batch else (0, 0)

    for (generation, seq), some in groupby(sorted(files, key=number), key=number):
        old: list[ListedObject] = []
        for file in some:
            if generation and file.at < basis.written_before:
                old.append(file)
            else:
                yield _make_kept(file, "it is too young" if generation else "its key is none of a batch")
        if old:
            yield from _decide_batch_files(basis, BatchId(generation, seq), old)


def _decide_batch_files(ground: CleaningBasis, batch: BatchId, files: list[ListedObject]) -> Iterator[FileDecision]:
    if ground.extracted.has_batch(batch):
        yield from _decide_linked_files(ground, batch, files)
    elif ground.is_closed(batch):
        yield from _decide_closed_batch_files(ground, batch, files)
    elif batch == ground.extracted.next_batch:
        yield from (_make_kept(file, "it is of the next batch, on which somebody may be at work") for file in files)
    else:
        yield from (_make_kept(file, f"nobody knows of a batch {batch}") for file in files)


def _decide_linked_files(ground: CleaningBasis, batch: BatchId, files: list[ListedObject]) -> Iterator[FileDecision]:
    link = ground.read_link(batch)
    if link is None:
        yield from (_make_kept(file, f"the manifest of batch {batch} is gone") for file in files)
        return
    waits = ground.not_loaded_reason(batch)
    for file in files:
        if file.key in link.files or is_amended(file.key):
            yield _make_removable(file, RemovalReason.LOADED, batch) if waits is None else _make_kept(file, waits)
        else:
            yield _decide_unnamed_file(ground, batch, file)


def _decide_closed_batch_files(
    ground: CleaningBasis, batch: BatchId, files: list[ListedObject]
) -> Iterator[FileDecision]:
    """Parts of a number that was being worked on when a person closed its generation."""
    link = ground.read_link(batch)
    if link is None and ground.read_plan(batch) is None:
        yield from (_make_kept(file, f"batch {batch} was never planned") for file in files)
        return
    for file in files:
        if link is not None and file.key in link.files:
            yield _make_kept(file, f"batch {batch} names it, though its generation was closed before")
        else:
            yield _decide_unnamed_file(ground, batch, file)


def _decide_unnamed_file(ground: CleaningBasis, batch: BatchId, file: ListedObject) -> FileDecision:
    if parse_part_batch(ground.stream, file.key) == batch:
        return _make_removable(file, RemovalReason.ORPHAN, batch)
    return _make_kept(file, "it is called as no part is")


def decide_copy_lists(files: Iterable[ListedObject], *, now: datetime, before: datetime) -> Iterator[FileDecision]:
    """Lists for COPY that a loader left which was killed."""
    for file in files:
        if file.at < min(before, now - COPY_LIST_MIN_AGE):
            yield RemovableFile(key=file.key, bytes=file.bytes, reason=RemovalReason.ORPHAN)
        else:
            yield _make_kept(file, "it is too young")


def decide_quarantine_files(
    basis: CleaningBasis, listed: Mapping[str, ListedObject], asides: Iterable[QuarantinedFile]
) -> Iterator[FileDecision]:
    """Files of refused rows: those whose rows have landed since may go; of what nothing names, the extraction's."""
    named: set[str] = set()
    for aside in asides:
        named.add(aside.part.key)
        file = listed.get(aside.part.key)
        if file is not None:
            yield _decide_quarantined_file(basis, aside, file)
    for key, file in listed.items():
        batch = parse_part_batch(basis.stream, key)
        if key in named:
            continue
        if batch is None or not basis.extracted.has_batch(batch):
            yield _make_kept(file, "no batch of the chain has it, and none says that it never will")
        else:
            yield (
                _make_removable(file, RemovalReason.ORPHAN, batch)
                if file.at < basis.written_before
                else _make_kept(file, "it is too young")
            )


def _decide_quarantined_file(ground: CleaningBasis, aside: QuarantinedFile, file: ListedObject) -> FileDecision:
    if aside.replayed_by is None:
        return _make_kept(file, "its rows wait in quarantine")
    if (waits := ground.not_loaded_reason(aside.replayed_by)) is not None:
        return _make_kept(file, waits)
    return (
        _make_removable(file, RemovalReason.REPLAYED, aside.batch)
        if file.at < ground.written_before
        else _make_kept(file, "it is too young")
    )


def _make_removable(file: ListedObject, reason: RemovalReason, batch: BatchId) -> RemovableFile:
    return RemovableFile(key=file.key, bytes=file.bytes, reason=reason, batch=batch)


def _make_kept(file: ListedObject, reason: str) -> KeptFile:
    return KeptFile(key=file.key, bytes=file.bytes, reason=reason)
