"""Faults found in review: history, its cache and what is refused too early."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from watermarks.batch import BatchId, Draft, Filled, Kind, Plan, World
from watermarks.codec import parse, seal
from watermarks.cursor import Cursor
from watermarks.document import Failure, Stage, Watermark
from watermarks.errors import HintedError, StateUnreadable
from watermarks.extraction import Extraction
from watermarks.history import FORMAT, VERSION, Change, Journal, Note, StateMissing
from watermarks.lease import Held, Process
from watermarks.names import StreamName, document_key, history_key
from watermarks.operator import Operator
from watermarks.progress import Run
from watermarks.store import Stored
from watermarks.stores.memory import MemoryStore
from watermarks.testing import NOON, Fault, FaultyStore, ManualClock, Verb, on
from watermarks.window import Window

STREAM = StreamName(source="shop", database="shop", table="orders")
DOC = document_key(STREAM.stem)
NOTE = Note(change=Change.SET, who="ann", why="test")


class Counting:
    """A producer of increments of one row each."""

    def __init__(self) -> None:
        self.files = 0

    def propose(self, watermark: Watermark) -> Draft:
        mark = watermark.chain.cursor
        first = mark.values[0].plain if mark else 0
        assert isinstance(first, int)
        high = Cursor.of(first + 1)
        return Draft(
            kind=Kind.INCREMENT,
            world=World(mark=mark, source_identity="s", schema="1"),
            windows=(Window(mark, high),),
            high=high,
        )

    def holds(self, plan: Plan) -> bool:
        return True

    def fill(self, plan: Plan) -> Filled:
        self.files += 1
        return Filled(rows=1, files=(f"data/{self.files}",))

    def drop(self, files: object) -> None: ...


def extraction(store: MemoryStore | FaultyStore, *, batches: int = 0) -> tuple[Journal[Watermark], Extraction]:
    journal = Journal(store, Watermark, clock=ManualClock())
    process = Process(store, "p", clock=ManualClock())
    process.renew()
    one = Extraction(journal, process.acquire(STREAM, Stage.EXTRACT, journal), Counting())
    for _ in range(batches):
        one.turn(Run(id="r"))
    return journal, one


def test_a_stage_is_not_fenced_by_a_document_that_only_lags() -> None:
    """The entry of the takeover stands, its cache was lost: nobody else has the stage."""
    memory = MemoryStore()
    extraction(memory, batches=1)
    process = Process(memory, "q", clock=ManualClock())
    process.renew()
    old = memory.read("claims/shop/shop.orders/extract.json")
    assert old
    # the former owner gave its claim back
    first = Process(memory, "p", clock=ManualClock())
    held = extraction_held(memory)
    first.release(held)

    store = FaultyStore(memory, on(Verb.REPLACE, DOC, Fault.LOST_REQUEST))
    journal = Journal(store, Watermark, clock=ManualClock())
    held = process.acquire(STREAM, Stage.EXTRACT, journal)

    turn = Extraction(journal, held, Counting()).turn(Run(id="r"))

    assert turn.link
    assert turn.link.id == BatchId(1, 2)


def extraction_held(memory: MemoryStore) -> Held:
    return Held(stream=STREAM, stage=Stage.EXTRACT, epoch=1, process="p")


def test_a_person_is_not_refused_by_a_document_that_only_lags() -> None:
    """Batch 1-2 is in history, the document does not know it yet: it may be skipped, and set."""
    memory = MemoryStore()
    store = FaultyStore(memory, on(Verb.REPLACE, DOC, None, Fault.LOST_REQUEST))
    journal, _ = extraction(store, batches=2)
    assert journal.read(STREAM.stem).chain.seq == 1  # type: ignore[union-attr]
    assert journal.newest(STREAM.stem).chain.seq == 2  # type: ignore[union-attr]

    after = Operator(journal=journal, who="ann", why="x").skip(STREAM, BatchId(1, 2))

    assert after.loaded.last == BatchId(1, 2)


def test_a_change_is_taken_back_although_the_document_lags_behind_it() -> None:
    memory = MemoryStore()
    journal, _ = extraction(memory, batches=2)
    lossy = Journal(FaultyStore(memory, on(Verb.REPLACE, DOC, Fault.LOST_REQUEST)), Watermark, clock=ManualClock())
    Operator(journal=lossy, who="ann", why="x").set_extracted(STREAM, Cursor.of(50))

    after = Operator(journal=journal, who="ann", why="x").undo(STREAM)

    assert after.chain.cursor == Cursor.of(2)
    assert after.chain.generation == 3


class Meddling(MemoryStore):
    """Does something once, just before a key is read for the nth time."""

    key: str = ""
    act: Callable[[], object] | None = None

    def read(self, key: str) -> Stored | None:
        if key == self.key and self.act is not None:
            act, self.act = self.act, None
            act()
        return super().read(key)


def test_a_rebuild_does_not_put_an_older_document_over_a_newer_one() -> None:
    store = Meddling()
    journal, one = extraction(store, batches=3)
    before = journal.read(STREAM.stem)
    assert before
    store.key, store.act = DOC, lambda: one.turn(Run(id="r"))  # while the rebuild looks at the document

    with suppress(HintedError):
        journal.rebuild(STREAM.stem)

    after = journal.read(STREAM.stem)
    assert after
    assert after.revision == before.revision + 1


@pytest.mark.parametrize("hole", [4, 8, 9])
def test_a_rebuild_does_not_stop_at_a_hole_in_history(hole: int) -> None:
    """Otherwise the mark goes back to before the hole, and history forks there."""
    store = MemoryStore()
    journal, _ = extraction(store, batches=10)
    del store._kept[history_key(STREAM.stem, hole)]
    del store._kept[DOC]

    assert journal.rebuild(STREAM.stem).revision == 11


@pytest.mark.parametrize("gone", [(11,), (8, 9, 10, 11)])
def test_a_rebuild_does_not_go_back_behind_a_document_that_is_whole(gone: tuple[int, ...]) -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=10)
    for revision in gone:
        del store._kept[history_key(STREAM.stem, revision)]

    with pytest.raises(StateMissing):
        journal.rebuild(STREAM.stem)

    assert journal.read(STREAM.stem).revision == 11  # type: ignore[union-attr]


@pytest.mark.parametrize("gone", [(2,), (2, 3, 4, 5)])
def test_a_lost_document_with_a_torn_history_is_not_begun_anew(gone: tuple[int, ...]) -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=4)
    for revision in gone:
        del store._kept[history_key(STREAM.stem, revision)]
    del store._kept[DOC]

    with pytest.raises(StateMissing):
        journal.read(STREAM.stem)

    assert store.read(DOC) is None


@pytest.mark.parametrize("to", [{}, {"format": "watermarks/watermark"}, {"format": 1, "format_version": "x"}])
def test_an_entry_that_holds_no_document_is_damaged(to: dict[str, object]) -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=1)
    stored = store.read(history_key(STREAM.stem, 2))
    assert stored
    fields = parse(stored.body, at="x")
    for name in ("digest", "format", "format_version"):
        fields.pop(name)
    store.create(history_key(STREAM.stem, 3), seal(FORMAT, VERSION, {**fields, "revision": 3, "to": to}))

    with pytest.raises(StateUnreadable):
        journal.commit(STREAM.stem, lambda state: state, NOTE)


def test_a_failure_may_say_what_is_no_unicode_and_stays_small() -> None:
    """A driver's message may hold a surrogate escape, or a whole stack trace of Java."""
    store = MemoryStore()
    journal, one = extraction(store, batches=1)
    text = "no such file: /data/\udcff " + "at org.apache.spark...\n" * 20_000
    one.fail(text, retry_in=lambda attempt: Failure(message=text, attempt=attempt, at=NOON, next_try=None))

    stored = store.read(DOC)
    assert stored
    assert len(stored.body) < 64 * 1024
    state = journal.read(STREAM.stem)
    assert state
    assert str(state.last_error).startswith("no such file")


def test_the_whole_of_a_history_that_stands_is_read_back() -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=3)
    newest = journal.newest(STREAM.stem)
    assert newest

    entries = list(journal.entries(STREAM.stem, newest=newest.revision))

    assert [entry.note.change for entry in entries] == [Change.EXTRACT] * 3 + [Change.TAKE]
