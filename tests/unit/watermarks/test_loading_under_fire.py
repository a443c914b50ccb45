"""Faults found in review: what reaches a target, and what a person tells it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import pytest

from tests.builders import RUN, at, extract, make_process
from tests.unit.watermarks.test_history_under_fire import STREAM, extraction
from watermarks.batch import BatchId
from watermarks.document import Stage, Watermark
from watermarks.errors import Misuse
from watermarks.history import Journal
from watermarks.lease import ProcessLease
from watermarks.loading import BatchLoadResult, LedgerKey, LoadCycle, Loading
from watermarks.names import StreamName
from watermarks.operator import Operator
from watermarks.progress import ExtractProgress, LoadProgress, Run
from watermarks.store import Revision, StoredObject
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock


class Twin:
    """A target that is only a ledger; it can be restored."""

    def __init__(self) -> None:
        self.ledger: dict[LedgerKey, int] = {}
        self.landed: list[str] = []
        self.most = 0

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        links = tuple(cycle.links_to_load(self.ledger.keys()))
        self.most = max(self.most, len(links))
        for link in links:
            self.ledger[cycle.ledger_key(link.id)] = link.rows
            self.landed.append(str(link.id))
        held = ((link.id, self.ledger.get(cycle.ledger_key(link.id))) for link in cycle.due_links)
        return {batch: BatchLoadResult(rows=rows) for batch, rows in held if rows is not None}


def landing(store: MemoryStore, journal: Journal[Watermark], twin: Twin, stream: StreamName = STREAM) -> Loading:
    process = ProcessLease(store, "l", clock=ManualClock())
    process.renew()
    return Loading(journal, process.acquire(stream, Stage.LOAD, journal), lambda: twin)


def drain(one: Loading) -> None:
    while one.load_next_batches(Run(id="l"), max_batches=3, check_ledger=False).links:
        pass


def test_a_further_target_waits_for_the_first_extraction() -> None:
    """Its loader may well start before the first extractor: nothing is gone."""
    store = MemoryStore()
    journal = Journal(store, Watermark, clock=ManualClock())

    assert (
        landing(store, journal, Twin(), STREAM.with_target("second"))
        .load_next_batches(Run(id="l"), max_batches=3, check_ledger=True)
        .links
        == ()
    )


@pytest.mark.parametrize("after", [BatchId(2, 0), BatchId(7, 0)])
def test_a_target_is_not_set_to_a_generation_that_never_was(after: BatchId) -> None:
    """It would leave out, for ever and unnamed, whatever is read until that generation is opened."""
    store = MemoryStore()
    journal, _ = extraction(store, batches=2)

    with pytest.raises(Misuse):
        Operator(journal=journal, author="ann", reason="x").set_marks(STREAM, load_after=after)


class Asked(Collection[LedgerKey]):
    """A ledger of whatever length that counts the questions."""

    def __init__(self) -> None:
        self.questions = 0

    def __contains__(self, key: object) -> bool:
        self.questions += 1
        return True

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Iterator[LedgerKey]:
        raise AssertionError("nobody reads it whole")


@pytest.mark.parametrize("age", [100, 100_000])
def test_a_cycle_costs_the_same_at_any_age(age: int) -> None:
    extracted = ExtractProgress(generation=1, seq=age + 1)
    half = LoadProgress(last_batch=BatchId(1, age))
    ledger = Asked()

    cycle = LoadCycle(stream=STREAM, epoch=1, load_progress=half, extract_progress=extracted, due_links=(), chain=None)  # type: ignore[arg-type]  # a cycle without links reads no chain
    assert not list(cycle.links_to_load(ledger))

    assert ledger.questions < 20


def restored(what: str) -> list[str]:
    """What lands again after a warehouse went back to batch 1-2, and a person had changed the loaded half before."""
    store = MemoryStore()
    journal, one = extraction(store, batches=2)
    twin = Twin()
    load = landing(store, journal, twin)
    drain(load)
    backup = dict(twin.ledger)
    for _ in range(4):
        one.extract_next_batch(Run(id="r"))
    drain(load)
    person = Operator(journal=journal, author="ann", reason="x")
    match what:
        case "nothing":
            pass
        case "reset and undo":
            person.reset_marks(STREAM, reset_extract=False)
            person.undo(STREAM)
        case "set back by one":
            person.set_marks(STREAM, load_after=BatchId(1, 5))
            drain(load)
    twin.ledger = backup
    twin.landed.clear()
    load.load_next_batches(Run(id="l"), max_batches=3, check_ledger=True)
    drain(load)
    return twin.landed


@pytest.mark.parametrize("what", ["nothing", "reset and undo", "set back by one"])
def test_batches_that_a_restored_target_lost_land_again(what: str) -> None:
    assert {"1-3", "1-4", "1-5", "1-6"} <= set(restored(what))


def test_files_are_counted_again_after_a_reset_was_taken_back() -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=3)
    drain(landing(store, journal, Twin()))
    person = Operator(journal=journal, author="ann", reason="x")
    before = journal.read_newest(STREAM.stem)
    assert before
    assert before.load_progress.file_count == 3

    person.reset_marks(STREAM, reset_extract=False)
    after = person.undo(STREAM)

    assert (after.load_progress.last_batch, after.load_progress.file_count) == (before.load_progress.last_batch, 3)


@dataclass
class Counted:
    """A store in memory that counts the links read from it."""

    inner: MemoryStore = field(default_factory=MemoryStore)
    links: int = 0

    def read(self, key: str) -> StoredObject | None:
        self.links += key.startswith("batches/")
        return self.inner.read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        return self.inner.put(key, body, expected=expected)

    def list(self, prefix: str) -> Iterator[str]:
        return self.inner.list(prefix)


class Few(Twin):
    """A target that lands so many batches in one transaction."""

    turns = 0

    def load(self, cycle: LoadCycle) -> Mapping[BatchId, BatchLoadResult]:
        self.turns += 1
        links = tuple(islice(cycle.links_to_load(self.ledger), 10))
        self.ledger |= {cycle.ledger_key(link.id): link.rows for link in links}
        return {link.id: BatchLoadResult(rows=link.rows) for link in links}


def test_what_a_ledger_lost_is_read_once_however_many_transactions_land_it() -> None:
    lost = 200
    store = Counted()
    journal = Journal(store, Watermark, clock=ManualClock())
    held = make_process(store, "e").acquire(STREAM, Stage.EXTRACT, journal)
    extract(journal, held, *(at(second, second) for second in range(1, lost + 1)))
    twin = Few()
    one = Loading(journal, make_process(store, "l").acquire(STREAM, Stage.LOAD, journal), lambda: twin)
    while one.load_next_batches(RUN, max_batches=1000, check_ledger=False).links:
        pass
    twin.ledger.clear()
    twin.turns = store.links = 0

    while one.load_next_batches(RUN, max_batches=1000, check_ledger=True).reloaded_batches:
        pass

    assert (twin.turns, len(twin.ledger)) == (lost // 10 + 1, lost)
    assert store.links == lost
