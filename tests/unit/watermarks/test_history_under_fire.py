"""Faults found in review: history, its cache and what is refused too early."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchOutput, Plan, PlanBasis
from watermarks.codec import encode, parse_json_object
from watermarks.cursor import Cursor
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.errors import HintedError, StateUnreadable
from watermarks.extraction import Extraction
from watermarks.history import FORMAT_VERSION, HISTORY_ENTRY_FORMAT_NAME, ChangeKind, ChangeNote, Journal, StateMissing
from watermarks.lease import HeldClaim, ProcessLease
from watermarks.names import StreamName, document_key, history_key
from watermarks.operator import Operator
from watermarks.progress import Run
from watermarks.store import StoredObject
from watermarks.stores.memory import MemoryStore
from watermarks.testing import NOON, FaultyStore, ManualClock, StoreFault, StoreOperation, script_faults
from watermarks.window import Window

STREAM = StreamName(source="shop", database="shop", table="orders")
DOC = document_key(STREAM.stem)
NOTE = ChangeNote(change=ChangeKind.SET, author="ann", reason="test")


class Counting:
    """A producer of increments of one row each."""

    def __init__(self) -> None:
        self.files = 0

    def propose_batch(self, watermark: Watermark) -> BatchDraft:
        mark = watermark.required_extract_progress.cursor
        first = mark.values[0].raw if mark else 0
        assert isinstance(first, int)
        high = Cursor.from_values(first + 1)
        return BatchDraft(
            kind=BatchKind.INCREMENT,
            basis=PlanBasis(mark=mark, source_identity="s", schema="1"),
            windows=(Window(mark, high),),
            high=high,
        )

    def is_plan_current(self, plan: Plan) -> bool:
        return True

    def write_files(self, plan: Plan) -> BatchOutput:
        self.files += 1
        return BatchOutput(rows=1, files=(f"data/{self.files}",))

    def delete_files(self, files: object) -> None: ...


def extraction(store: MemoryStore | FaultyStore, *, batches: int = 0) -> tuple[Journal[Watermark], Extraction]:
    journal = Journal(store, Watermark, clock=ManualClock())
    process = ProcessLease(store, "p", clock=ManualClock())
    process.renew()
    one = Extraction(journal, process.acquire(STREAM, Stage.EXTRACT, journal), Counting())
    for _ in range(batches):
        one.extract_next_batch(Run(id="r"))
    return journal, one


def test_a_stage_is_not_fenced_by_a_document_that_only_lags() -> None:
    """The entry of the takeover stands, its cache was lost: nobody else has the stage."""
    memory = MemoryStore()
    extraction(memory, batches=1)
    process = ProcessLease(memory, "q", clock=ManualClock())
    process.renew()
    old = memory.read("claims/shop/shop.orders/extract.json")
    assert old
    # the former owner gave its claim back
    first = ProcessLease(memory, "p", clock=ManualClock())
    held = extraction_held(memory)
    first.release(held)

    store = FaultyStore(memory, script_faults(StoreOperation.REPLACE, DOC, StoreFault.LOST_REQUEST))
    journal = Journal(store, Watermark, clock=ManualClock())
    held = process.acquire(STREAM, Stage.EXTRACT, journal)

    turn = Extraction(journal, held, Counting()).extract_next_batch(Run(id="r"))

    assert turn.link
    assert turn.link.id == BatchId(1, 2)


def extraction_held(memory: MemoryStore) -> HeldClaim:
    return HeldClaim(stream=STREAM, stage=Stage.EXTRACT, epoch=1, process="p")


def test_a_person_is_not_refused_by_a_document_that_only_lags() -> None:
    """Batch 1-2 is in history, the document does not know it yet: it may be skipped, and set."""
    memory = MemoryStore()
    store = FaultyStore(memory, script_faults(StoreOperation.REPLACE, DOC, None, StoreFault.LOST_REQUEST))
    journal, _ = extraction(store, batches=2)
    assert journal.read(STREAM.stem).required_extract_progress.seq == 1  # type: ignore[union-attr]  # None fails the test as well
    assert journal.read_newest(STREAM.stem).required_extract_progress.seq == 2  # type: ignore[union-attr]  # None fails the test as well

    after = Operator(journal=journal, author="ann", reason="x").skip_batches(STREAM, BatchId(1, 2))

    assert after.load_progress.last_batch == BatchId(1, 2)


def test_a_change_is_taken_back_although_the_document_lags_behind_it() -> None:
    memory = MemoryStore()
    journal, _ = extraction(memory, batches=2)
    lossy = Journal(
        FaultyStore(memory, script_faults(StoreOperation.REPLACE, DOC, StoreFault.LOST_REQUEST)),
        Watermark,
        clock=ManualClock(),
    )
    Operator(journal=lossy, author="ann", reason="x").set_marks(STREAM, extract_cursor=Cursor.from_values(50))

    after = Operator(journal=journal, author="ann", reason="x").undo(STREAM)

    assert after.required_extract_progress.cursor == Cursor.from_values(2)
    assert after.required_extract_progress.generation == 3


class Meddling(MemoryStore):
    """Does something once, just before a key is read for the nth time."""

    key: str = ""
    act: Callable[[], object] | None = None

    def read(self, key: str) -> StoredObject | None:
        if key == self.key and self.act is not None:
            act, self.act = self.act, None
            act()
        return super().read(key)


def test_a_rebuild_does_not_put_an_older_document_over_a_newer_one() -> None:
    store = Meddling()
    journal, one = extraction(store, batches=3)
    before = journal.read(STREAM.stem)
    assert before
    store.key, store.act = DOC, lambda: one.extract_next_batch(Run(id="r"))  # while the rebuild looks at the document

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
    del store._objects[history_key(STREAM.stem, hole)]
    del store._objects[DOC]

    assert journal.rebuild(STREAM.stem).revision == 11


@pytest.mark.parametrize("gone", [(11,), (8, 9, 10, 11)])
def test_a_rebuild_does_not_go_back_behind_a_document_that_is_whole(gone: tuple[int, ...]) -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=10)
    for revision in gone:
        del store._objects[history_key(STREAM.stem, revision)]

    with pytest.raises(StateMissing):
        journal.rebuild(STREAM.stem)

    assert journal.read(STREAM.stem).revision == 11  # type: ignore[union-attr]  # None fails the test as well


@pytest.mark.parametrize("gone", [(2,), (2, 3, 4, 5)])
def test_a_lost_document_with_a_torn_history_is_not_begun_anew(gone: tuple[int, ...]) -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=4)
    for revision in gone:
        del store._objects[history_key(STREAM.stem, revision)]
    del store._objects[DOC]

    with pytest.raises(StateMissing):
        journal.read(STREAM.stem)

    assert store.read(DOC) is None


@pytest.mark.parametrize("to", [{}, {"format": "watermarks/watermark"}, {"format": 1, "format_version": "x"}])
def test_an_entry_that_holds_no_document_is_damaged(to: dict[str, object]) -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=1)
    stored = store.read(history_key(STREAM.stem, 2))
    assert stored
    fields = parse_json_object(stored.body, location="x")
    for name in ("digest", "format", "format_version"):
        fields.pop(name)
    store.put(
        history_key(STREAM.stem, 3),
        encode(HISTORY_ENTRY_FORMAT_NAME, FORMAT_VERSION, {**fields, "revision": 3, "to": to}),
        expected=None,
    )

    with pytest.raises(StateUnreadable):
        journal.commit(STREAM.stem, lambda state: state, NOTE)


def test_a_failure_may_say_what_is_no_unicode_and_stays_small() -> None:
    """A driver's message may hold a surrogate escape, or a whole stack trace of Java."""
    store = MemoryStore()
    journal, one = extraction(store, batches=1)
    text = "no such file: /data/\udcff " + "at org.apache.spark...\n" * 20_000
    one.record_failure(
        text, make_failure=lambda attempt: FailureRecord(message=text, attempt=attempt, failed_at=NOON, retry_at=None)
    )

    stored = store.read(DOC)
    assert stored
    assert len(stored.body) < 64 * 1024
    state = journal.read(STREAM.stem)
    assert state
    assert str(state.last_error).startswith("no such file")


def test_the_whole_of_a_history_that_stands_is_read_back() -> None:
    store = MemoryStore()
    journal, _ = extraction(store, batches=3)
    newest = journal.read_newest(STREAM.stem)
    assert newest

    entries = list(journal.read_entries(STREAM.stem, newest_revision=newest.revision))

    assert [entry.note.change for entry in entries] == [ChangeKind.EXTRACT] * 3 + [ChangeKind.TAKE]
