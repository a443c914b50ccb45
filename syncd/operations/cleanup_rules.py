"""Which files of a stream may go: those that every target has, and those that nothing names and nothing ever will."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Final

from syncd.lake.keys import batch_of_data, batch_of_part, is_amended
from syncd.lake.quarantine import Aside
from syncd.lake.removal_records import Lying
from watermarks.batch import BatchId, Link, Plan
from watermarks.names import StreamName
from watermarks.progress import Extracted

YOUNGEST_LIST: Final = timedelta(days=1)
"""A list for COPY may be in use for as long as its transaction lives, and no longer."""


class Why(StrEnum):
    """Why a file may go."""

    LOADED = "loaded"
    """Its batch has landed in every target."""
    ORPHAN = "orphan"
    """Nothing names it, and nothing ever will."""
    REPLAYED = "replayed"
    """Its rows were brought back from quarantine, and have landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goes:
    """A file that may go."""

    key: str
    bytes: int
    why: Why
    batch: BatchId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stays:
    """A file that stays, and why."""

    key: str
    bytes: int
    reason: str


Judged = Goes | Stays


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a judgement stands on."""

    stream: StreamName
    extracted: Extracted
    landed: Callable[[BatchId], str | None]
    """Why a batch of the chain is not proven to have landed everywhere, in words; None where it is."""
    link: Callable[[BatchId], Link | None]
    plan: Callable[[BatchId], Plan | None]
    before: datetime
    """Only what was written before it may go."""

    def is_closed(self, batch: BatchId) -> bool:
        """Whether it is the number that a closed generation would have come to next: no link of it will ever count."""
        closed = self.extracted.closed
        return batch.generation in closed and batch.seq == closed[batch.generation] + 1


def judged(ground: Ground, files: Iterable[Lying]) -> Iterator[Judged]:
    """Every file among the parts of a stream, in the order of their batches."""

    def number(file: Lying) -> tuple[int, int]:
        batch = batch_of_data(ground.stream, file.key)
        return (batch.generation, batch.seq) if batch else (0, 0)

    for (generation, seq), some in groupby(sorted(files, key=number), key=number):
        old: list[Lying] = []
        for file in some:
            if generation and file.at < ground.before:
                old.append(file)
            else:
                yield _stays(file, "it is too young" if generation else "its key is none of a batch")
        if old:
            yield from _of_batch(ground, BatchId(generation, seq), old)


def _of_batch(ground: Ground, batch: BatchId, files: list[Lying]) -> Iterator[Judged]:
    if ground.extracted.holds(batch):
        yield from _of_link(ground, batch, files)
    elif ground.is_closed(batch):
        yield from _of_closed(ground, batch, files)
    elif batch == ground.extracted.next:
        yield from (_stays(file, "it is of the next batch, on which somebody may be at work") for file in files)
    else:
        yield from (_stays(file, f"nobody knows of a batch {batch}") for file in files)


def _of_link(ground: Ground, batch: BatchId, files: list[Lying]) -> Iterator[Judged]:
    link = ground.link(batch)
    if link is None:
        yield from (_stays(file, f"the manifest of batch {batch} is gone") for file in files)
        return
    waits = ground.landed(batch)
    for file in files:
        if file.key in link.files or is_amended(file.key):
            yield _goes(file, Why.LOADED, batch) if waits is None else _stays(file, waits)
        else:
            yield _unnamed(ground, batch, file)


def _of_closed(ground: Ground, batch: BatchId, files: list[Lying]) -> Iterator[Judged]:
    """Parts of a number that was being worked on when a person closed its generation."""
    link = ground.link(batch)
    if link is None and ground.plan(batch) is None:
        yield from (_stays(file, f"batch {batch} was never planned") for file in files)
        return
    for file in files:
        if link is not None and file.key in link.files:
            yield _stays(file, f"batch {batch} names it, though its generation was closed before")
        else:
            yield _unnamed(ground, batch, file)


def _unnamed(ground: Ground, batch: BatchId, file: Lying) -> Judged:
    if batch_of_part(ground.stream, file.key) == batch:
        return _goes(file, Why.ORPHAN, batch)
    return _stays(file, "it is called as no part is")


def of_lists(files: Iterable[Lying], *, now: datetime, before: datetime) -> Iterator[Judged]:
    """Lists for COPY that a loader left which was killed."""
    for file in files:
        if file.at < min(before, now - YOUNGEST_LIST):
            yield Goes(key=file.key, bytes=file.bytes, why=Why.ORPHAN)
        else:
            yield _stays(file, "it is too young")


def of_quarantine(ground: Ground, lying: Mapping[str, Lying], asides: Iterable[Aside]) -> Iterator[Judged]:
    """Files of refused rows: those whose rows have landed since may go; of what nothing names, the extraction's."""
    named: set[str] = set()
    for aside in asides:
        named.add(aside.part.key)
        file = lying.get(aside.part.key)
        if file is not None:
            yield _of_aside(ground, aside, file)
    for key, file in lying.items():
        batch = batch_of_part(ground.stream, key)
        if key in named:
            continue
        if batch is None or not ground.extracted.holds(batch):
            yield _stays(file, "no batch of the chain has it, and none says that it never will")
        else:
            yield _goes(file, Why.ORPHAN, batch) if file.at < ground.before else _stays(file, "it is too young")


def _of_aside(ground: Ground, aside: Aside, file: Lying) -> Judged:
    if aside.replayed_by is None:
        return _stays(file, "its rows wait in quarantine")
    if (waits := ground.landed(aside.replayed_by)) is not None:
        return _stays(file, waits)
    return _goes(file, Why.REPLAYED, aside.batch) if file.at < ground.before else _stays(file, "it is too young")


def _goes(file: Lying, why: Why, batch: BatchId) -> Goes:
    return Goes(key=file.key, bytes=file.bytes, why=why, batch=batch)


def _stays(file: Lying, reason: str) -> Stays:
    return Stays(key=file.key, bytes=file.bytes, reason=reason)
