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
from watermarks.lease import Process
from watermarks.loading import Brought, Cycle, Landing, LedgerKey
from watermarks.names import StreamName
from watermarks.operator import Operator
from watermarks.progress import Extracted, Loaded, Run
from watermarks.store import Revision, Stored
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock


class Twin:
    """A target that is only a ledger; it can be restored."""

    def __init__(self) -> None:
        self.ledger: dict[LedgerKey, int] = {}
        self.landed: list[str] = []
        self.most = 0

    def land(self, cycle: Cycle) -> Mapping[BatchId, Brought]:
        links = tuple(cycle.to_land(self.ledger.keys()))
        self.most = max(self.most, len(links))
        for link in links:
            self.ledger[cycle.key(link.id)] = link.rows
            self.landed.append(str(link.id))
        held = ((link.id, self.ledger.get(cycle.key(link.id))) for link in cycle.due)
        return {batch: Brought(rows=rows) for batch, rows in held if rows is not None}


def landing(store: MemoryStore, journal: Journal[Watermark], twin: Twin, stream: StreamName = STREAM) -> Landing:
    process = Process(store, "l", clock=ManualClock())
    process.renew()
    return Landing(journal, process.acquire(stream, Stage.LOAD, journal), twin)


def drain(one: Landing) -> None:
    while one.turn(Run(id="l"), most=3, compare=False).links:
        pass


def test_a_further_target_waits_for_the_first_extraction() -> None:
    """Its loader may well start before the first extractor: nothing is gone."""
    store = MemoryStore()
    journal = Journal(store, Watermark, clock=ManualClock())

    assert landing(store, journal, Twin(), STREAM.at("second")).turn(Run(id="l"), most=3, compare=True).links == ()


@pytest.mark.parametrize("after", [BatchId(2, 0), BatchId(7, 0)])
def test_a_target_is_not_set_to_a_generation_that_never_was(after: BatchId) -> None:
    """It would leave out, for ever and unnamed, whatever is read until that generation is opened."""
    store = MemoryStore()
    journal, _ = extraction(store, batches=2)

    with pytest.raises(Misuse):
        Operator(journal=journal, who="ann", why="x").set_loaded(STREAM, after)


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
    extracted = Extracted(generation=1, seq=age + 1)
    half = Loaded(last=BatchId(1, age))
    ledger = Asked()

    cycle = Cycle(stream=STREAM, epoch=1, half=half, extracted=extracted, due=(), chain=None)  # type: ignore[arg-type]
    assert not list(cycle.to_land(ledger))

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
        one.turn(Run(id="r"))
    drain(load)
    person = Operator(journal=journal, who="ann", why="x")
    match what:
        case "nothing":
            pass
        case "reset and undo":
            person.reset_loaded(STREAM)
            person.undo(STREAM)
        case "set back by one":
            person.set_loaded(STREAM, BatchId(1, 5))
            drain(load)
    twin.ledger = backup
    twin.landed.clear()
    load.turn(Run(id="l"), most=3, compare=True)
    drain(load)
    return twin.landed


@pytest.mark.parametrize("what", ["nothing", "reset and undo", "set back by one"])
def test_batches_that_a_restored_target_lost_land_again(what: str) -> None:
    assert {"1-3", "1-4", "1-5", "1-6"} <= set(restored(what))


def test_files_are_counted_again_after_a_reset_was_taken_back() -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=3)
    drain(landing(store, journal, Twin()))
    person = Operator(journal=journal, who="ann", why="x")
    before = journal.newest(STREAM.stem)
    assert before
    assert before.loaded.folded == 3

    person.reset_loaded(STREAM)
    after = person.undo(STREAM)

    assert (after.loaded.last, after.loaded.folded) == (before.loaded.last, 3)


@dataclass
class Counted:
    """A store in memory that counts the links read from it."""

    inner: MemoryStore = field(default_factory=MemoryStore)
    links: int = 0

    def read(self, key: str) -> Stored | None:
        self.links += key.startswith("batches/")
        return self.inner.read(key)

    def create(self, key: str, body: bytes) -> Revision:
        return self.inner.create(key, body)

    def replace(self, key: str, body: bytes, *, seen: Revision) -> Revision:
        return self.inner.replace(key, body, seen=seen)

    def list(self, prefix: str) -> Iterator[str]:
        return self.inner.list(prefix)


class Few(Twin):
    """A target that lands so many batches in one transaction."""

    turns = 0

    def land(self, cycle: Cycle) -> Mapping[BatchId, Brought]:
        self.turns += 1
        links = tuple(islice(cycle.to_land(self.ledger), 10))
        self.ledger |= {cycle.key(link.id): link.rows for link in links}
        return {link.id: Brought(rows=link.rows) for link in links}


def test_what_a_ledger_lost_is_read_once_however_many_transactions_land_it() -> None:
    lost = 200
    store = Counted()
    journal = Journal(store, Watermark, clock=ManualClock())
    held = make_process(store, "e").acquire(STREAM, Stage.EXTRACT, journal)
    extract(journal, held, *(at(second, second) for second in range(1, lost + 1)))
    twin = Few()
    one = Landing(journal, make_process(store, "l").acquire(STREAM, Stage.LOAD, journal), twin)
    while one.turn(RUN, most=1000, compare=False).links:
        pass
    twin.ledger.clear()
    twin.turns = store.links = 0

    while one.turn(RUN, most=1000, compare=True).again:
        pass

    assert (twin.turns, len(twin.ledger)) == (lost // 10 + 1, lost)
    assert store.links == lost
