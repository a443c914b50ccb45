"""Cost of a stream's state: requests and time of an advance, size of a document, growth with age.

make bench-watermarks
"""

import json
import platform
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan, PlanBasis
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import Watermark
from watermarks.history import ChangeKind, ChangeNote, Journal
from watermarks.names import StreamName, document_key
from watermarks.progress import Run
from watermarks.store import Revision, StoredObject
from watermarks.stores.memory import MemoryStore

STREAM = StreamName(source="shop", database="shop", table="orders")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = Run(id="bench")
NOTE = ChangeNote(change=ChangeKind.EXTRACT, author="bench")


class Counting(MemoryStore):
    """Store that counts requests as S3 would bill them."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()

    def read(self, key: str) -> StoredObject | None:
        self.requests["GET"] += 1
        return super().read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        self.requests["PUT"] += 1
        return super().put(key, body, expected=expected)

    def list(self, prefix: str) -> Iterator[str]:
        self.requests["LIST"] += 1
        return super().list(prefix)


def link_after(state: Watermark, *, files: int = 1) -> BatchLink:
    """Return the next link of a chain, with a few files."""
    half = state.required_extract_progress
    world = PlanBasis(mark=half.cursor, source_identity="server", schema="s")
    plan = Plan(
        stream=STREAM,
        id=half.next_batch,
        draft=BatchDraft(kind=BatchKind.AHEAD, basis=world, high=half.cursor),
        nonce="n",
        epoch=0,
        planned_at=NOON,
    )
    names = tuple(f"data/{half.next_batch}/{number}-0123456789abcdef.parquet" for number in range(files))
    return BatchLink.from_completed_plan(
        plan, BatchOutput(rows=1000, files=names), previous=half.last_link_digest, nonce="n", epoch=0, made_at=NOON
    )


def advance(journal: Journal[Watermark]) -> None:
    """Advance a stream once: the next link, its history entry, the document."""

    def advanced(state: Watermark | None) -> Watermark:
        state = state or Watermark.new(STREAM, created_at=NOON)
        return state.with_link(link_after(state), run=RUN, now=NOON)

    journal.commit(STREAM.stem, advanced, NOTE)


def aged(files: int) -> tuple[Counting, Journal[Watermark]]:
    """Return a store whose stream has loaded so many files."""
    store = Counting()
    journal = Journal(store, Watermark)

    def old(state: Watermark | None) -> Watermark:
        state = state or Watermark.new(STREAM, created_at=NOON)
        half = replace(
            state.required_extract_progress,
            seq=files,
            cursor=Cursor.from_values(NOON, files),
            generation_start=START_CURSOR,
        )
        half = replace(half, counts=replace(half.counts, rows=files * 1000, files=files, batches=files))
        loaded = replace(state.load_progress, last_batch=BatchId(1, files), file_count=files, cursor=half.cursor)
        return replace(state, extract_progress=half, load_progress=loaded)

    journal.commit(STREAM.stem, old, NOTE)
    return store, journal


def seconds_of(journal: Journal[Watermark], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        advance(journal)
    return (time.perf_counter() - began) / times


def by_age() -> dict[str, float]:
    """Return the cost of an advance with 10 files and with 1,000,000 files, measured in turns, and their ratio."""
    (young_store, young), (old_store, old) = aged(10), aged(1_000_000)
    for journal in (young, old):
        seconds_of(journal, 50)
    pairs = [(seconds_of(young, 50), seconds_of(old, 50)) for _ in range(21)]
    young_store.requests.clear()
    advance(young)
    stored = old_store.read(document_key(STREAM.stem))
    assert stored
    return {
        "requests of an advance": sum(young_store.requests.values()),
        "advance with 10 files, ms": 1000 * statistics.median(pair[0] for pair in pairs),
        "advance with 1,000,000 files, ms": 1000 * statistics.median(pair[1] for pair in pairs),
        "ratio of both": statistics.median(pair[1] / pair[0] for pair in pairs),
        "document with 1,000,000 files, bytes": len(stored.body),
    }


def chain(length: int) -> tuple[float, int]:
    """Return the seconds and the peak bytes of advancing a new stream so often."""
    journal = Journal(MemoryStore(), Watermark)
    began = time.perf_counter()
    for _ in range(length):
        advance(journal)
    took = time.perf_counter() - began
    tracemalloc.start()
    journal = Journal(MemoryStore(), Watermark)
    for _ in range(length):
        advance(journal)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return took, peak


def by_length() -> dict[str, float]:
    """Return time and memory of 10,000 batches against 1,000, as ratios."""
    (short, small), (long, large) = chain(1_000), chain(10_000)
    return {
        "1,000 batches, s": short,
        "10,000 batches, s": long,
        "time, ratio": long / short,
        "memory, ratio": large / small,
    }


def main() -> int:
    figures = by_age() | by_length()
    bounds = {
        "requests of an advance": 3,
        "ratio of both": 1.2,
        "document with 1,000,000 files, bytes": 64 * 1024,
        "time, ratio": 12,
        "memory, ratio": 12,
    }
    print(f"Python {platform.python_version()}, {platform.machine()}")
    for name, figure in figures.items():
        bound = bounds.get(name)
        verdict = "" if bound is None else f"  at most {bound}: {'holds' if figure <= bound else 'DOES NOT HOLD'}"
        print(f"{name:40} {figure:10,.3f}{verdict}")
    print(json.dumps(figures))
    return int(any(figures[name] > bound for name, bound in bounds.items()))


if __name__ == "__main__":
    sys.exit(main())
