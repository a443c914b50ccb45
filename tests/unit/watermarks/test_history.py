import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.builders import NOON, ORDERS
from watermarks.codec import DamagedDocument, ForeignDocument, encode
from watermarks.document import Stage, Watermark
from watermarks.errors import OutcomeUnknown, StateUnreadable, StoreUnavailable
from watermarks.history import ChangeKind, ChangeNote, HistoryEntry, Journal, StateMissing, TooMuchContention
from watermarks.names import SYSTEM_STEM, document_key, history_key
from watermarks.store import Revision, Store, StoredObject
from watermarks.stores.memory import MemoryStore
from watermarks.system_default import SystemDefault
from watermarks.testing import FaultyStore, ManualClock, StoreFault, StoreOperation, script_faults

TAKE = ChangeNote(change=ChangeKind.TAKE, author="p1", stage="extract", epoch=1)
STEM = ORDERS.stem
DOCUMENT = document_key(STEM)


class CountingStore(MemoryStore):
    """Counts requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def read(self, key: str) -> StoredObject | None:
        self.asked.append(f"read {key}")
        return super().read(key)

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        self.asked.append(f"{'create' if expected is None else 'replace'} {key}")
        return super().put(key, body, expected=expected)


def journal_on(store: Store) -> Journal[Watermark]:
    numbers = itertools.count(1)
    return Journal(store, Watermark, clock=ManualClock(), make_nonce=lambda: f"n{next(numbers)}")


def epoch(number: int) -> Callable[[Watermark | None], Watermark]:
    """Change a watermark in the plainest way there is."""
    return lambda state: (state or Watermark.new(ORDERS, created_at=NOON)).with_epoch(Stage.EXTRACT, number)


def begun(*, revisions: int = 1) -> tuple[CountingStore, Journal[Watermark]]:
    store = CountingStore()
    journal = journal_on(store)
    for number in range(1, revisions + 1):
        journal.commit(STEM, epoch(number), TAKE)
    return store, journal


def overwrite(store: MemoryStore, key: str, body: bytes) -> None:
    stored = store.read(key)
    assert stored
    store.put(key, body, expected=stored.revision)


def remove(store: MemoryStore, *keys: str) -> None:
    for key in keys:
        del store._objects[key]


def test_a_stream_without_any_trace_is_new() -> None:
    assert journal_on(MemoryStore()).read(STEM) is None


def test_a_change_is_an_entry_and_a_document() -> None:
    store, journal = begun()

    assert list(store.list("")) == [history_key(STEM, 1), DOCUMENT]
    entry = journal.read_entry(STEM, 1)
    assert entry is not None
    assert (entry.note, entry.before) == (TAKE, {"revision": 0, "digest": None})
    assert entry.document_bytes() == getattr(store.read(DOCUMENT), "body", None)


def test_an_entry_names_the_content_it_changed() -> None:
    _, journal = begun(revisions=2)

    first, second = journal.read_entry(STEM, 1), journal.read_entry(STEM, 2)

    assert first
    assert second
    assert second.before == {"revision": 1, "digest": first.after["digest"]}


def test_an_advance_costs_three_requests() -> None:
    store, journal = begun()
    store.asked.clear()

    journal.commit(STEM, epoch(2), TAKE)

    assert store.asked == [f"read {DOCUMENT}", f"create {history_key(STEM, 2)}", f"replace {DOCUMENT}"]


def test_nothing_to_do_writes_nothing() -> None:
    store, journal = begun()
    store.asked.clear()

    state = journal.commit(STEM, lambda _: None, TAKE)

    assert state == journal.read(STEM)
    assert store.asked[0] == f"read {DOCUMENT}"
    assert journal_on(MemoryStore()).commit(STEM, lambda _: None, TAKE) is None


@pytest.mark.parametrize("before", [0, 1])
def test_a_kill_between_entry_and_document_is_seen_by_nobody(before: int) -> None:
    store, _ = begun(revisions=before)
    verb = StoreOperation.REPLACE if before else StoreOperation.CREATE
    killed = journal_on(FaultyStore(store, script_faults(verb, DOCUMENT, StoreFault.DOWN)))
    killed.commit(STEM, epoch(5), TAKE)
    stored = store.read(DOCUMENT)
    assert (
        journal_on(store)._document_type.from_bytes(stored.body, location="", stem=STEM).revision if stored else 0
    ) == before

    later = journal_on(store)
    done = later.commit(STEM, epoch(6), TAKE)

    assert done is not None
    assert done.revision == before + 2
    assert later.read(STEM) == done


def test_the_newest_state_is_read_past_a_document_that_lags() -> None:
    store, journal = begun(revisions=1)
    before = store.read(DOCUMENT)
    assert before
    journal.commit(STEM, epoch(2), TAKE)
    journal.commit(STEM, epoch(3), TAKE)
    overwrite(store, DOCUMENT, before.body)

    lagging, newest = journal.read(STEM), journal.read_newest(STEM)

    assert lagging is not None
    assert newest is not None
    assert (lagging.revision, newest.revision) == (1, 3)
    assert getattr(store.read(DOCUMENT), "body", None) == before.body


def test_a_document_restored_to_an_older_version_is_rolled_forward() -> None:
    store, journal = begun()
    before = store.read(DOCUMENT)
    assert before
    for number in range(2, 8):
        journal.commit(STEM, epoch(number), TAKE)
    overwrite(store, DOCUMENT, before.body)

    done = journal.commit(STEM, epoch(99), TAKE)

    assert done is not None
    assert done.revision == 8
    assert journal.read(STEM) == done


def test_two_writers_never_own_one_revision() -> None:
    store, first = begun()
    second = journal_on(store)
    calls = 0

    def overtaken(state: Watermark | None) -> Watermark:
        nonlocal calls
        calls += 1
        if calls == 1:
            second.commit(STEM, epoch(7), replace(TAKE, author="p2"))
        return epoch(8)(state)

    done = first.commit(STEM, overtaken, TAKE)

    assert done is not None
    assert calls == 2
    assert [(e.revision, e.note.author) for e in first.read_entries(STEM, newest_revision=3)] == [
        (3, "p1"),
        (2, "p2"),
        (1, "p1"),
    ]


def test_a_writer_that_is_always_overtaken_gives_up() -> None:
    store, first = begun()
    second = journal_on(store)
    numbers = itertools.count(10)

    def overtaken(state: Watermark | None) -> Watermark:
        second.commit(STEM, epoch(next(numbers)), TAKE)
        return epoch(8)(state)

    with pytest.raises(TooMuchContention):
        first.commit(STEM, overtaken, TAKE)


@pytest.mark.parametrize("fault", [StoreFault.LOST_REQUEST, StoreFault.LOST_ANSWER, StoreFault.TWICE])
@pytest.mark.parametrize("key", [history_key(STEM, 2), DOCUMENT])
def test_a_change_whose_answer_was_lost_happens_once(fault: StoreFault, key: str) -> None:
    store, _ = begun()
    verb = StoreOperation.CREATE if key != DOCUMENT else StoreOperation.REPLACE
    journal = journal_on(FaultyStore(store, script_faults(verb, key, fault)))

    done = journal.commit(STEM, epoch(2), TAKE)
    after = journal.commit(STEM, epoch(3), TAKE)

    assert done is not None
    assert after is not None
    assert (done.revision, after.revision) == (2, 3)
    assert journal_on(store).read_entry(STEM, 4) is None


def test_a_change_that_arrives_after_it_failed_happens_once() -> None:
    store, _ = begun()
    line = FaultyStore(store, script_faults(StoreOperation.CREATE, history_key(STEM, 2), StoreFault.LATE))
    journal = journal_on(line)

    done = journal.commit(STEM, epoch(2), TAKE)
    line.deliver_delayed_write()

    assert done is not None
    assert done.revision == 2
    assert journal_on(store).read_entry(STEM, 3) is None
    assert journal.read(STEM) == done


def test_a_store_that_says_nothing_leaves_the_outcome_open() -> None:
    store, _ = begun()

    class Deaf(MemoryStore):
        def read(self, key: str) -> StoredObject | None:
            if key.startswith("history/"):
                raise StoreUnavailable("no answer")
            return store.read(key)

        def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
            raise OutcomeUnknown("no answer")

    with pytest.raises(OutcomeUnknown):
        journal_on(Deaf()).commit(STEM, epoch(2), TAKE)


def test_a_document_that_is_gone_is_not_a_new_stream() -> None:
    store, journal = begun(revisions=2)
    remove(store, DOCUMENT)

    with pytest.raises(StateMissing) as caught:
        journal.commit(STEM, epoch(9), TAKE)

    assert "syncd watermark rebuild" in caught.value.hint
    assert list(store.list("history/")) == [history_key(STEM, 1), history_key(STEM, 2)]


@pytest.mark.parametrize(
    "trace",
    [
        history_key(STEM, 7),
        f"plans/{STEM}/1-1.json",
        f"batches/{STEM}/1-1.json",
        f"data/{STEM}/2026/01/31/1-1/0-x.parquet",
    ],
)
def test_a_stream_with_any_trace_is_not_new(trace: str) -> None:
    store = MemoryStore()
    store.put(trace, b"x", expected=None)

    with pytest.raises(StateMissing, match=trace.replace(".", r"\.")):
        journal_on(store).read(STEM)


def test_a_neighbours_traces_are_not_ours() -> None:
    store = MemoryStore()
    for other in ("shop/shop.orders_old", "shop/shop.orders@wh2", "shop2/shop.orders"):
        store.put(f"plans/{other}/1-1.json", b"x", expected=None)
        store.put(history_key(other, 1), b"x", expected=None)

    assert journal_on(store).read(STEM) is None


def test_a_first_writer_seen_halfway_is_not_a_loss() -> None:
    """Between our look at the document and our look at its traces, another process begins the stream."""
    inner = MemoryStore()

    class Meanwhile(MemoryStore):
        def read(self, key: str) -> StoredObject | None:
            found = inner.read(key)
            if key == history_key(STEM, 1) and found is None:
                journal_on(inner).commit(STEM, epoch(1), TAKE)
            return found

        def list(self, prefix: str) -> Iterator[str]:
            return inner.list(prefix)

        def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
            return inner.put(key, body, expected=expected)

    done = journal_on(Meanwhile()).commit(STEM, epoch(2), TAKE)

    assert done is not None
    assert done.revision == 2


def test_a_second_writer_seen_halfway_is_not_a_loss() -> None:
    inner, other = begun()
    whole = inner.read(DOCUMENT)
    assert whole
    looks = itertools.count(1)

    class Meanwhile(MemoryStore):
        def read(self, key: str) -> StoredObject | None:
            if key == DOCUMENT and next(looks) == 1:
                other.commit(STEM, epoch(2), TAKE)
                return None
            return inner.read(key)

        def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
            return inner.put(key, body, expected=expected)

    state = journal_on(Meanwhile()).read(STEM)

    assert state is not None
    assert state.revision == 2


@pytest.mark.parametrize("body", [b"", b"{", b"null", b'{"format": "other"}'])
def test_a_document_that_cannot_be_read_stops_every_change(body: bytes) -> None:
    store, journal = begun()
    overwrite(store, DOCUMENT, body)

    with pytest.raises(StateUnreadable):
        journal.commit(STEM, epoch(2), TAKE)

    assert store.read(history_key(STEM, 2)) is None


def test_an_entry_that_cannot_be_read_moves_no_document() -> None:
    store, journal = begun()
    store.put(history_key(STEM, 2), b"{", expected=None)
    before = store.read(DOCUMENT)

    with pytest.raises(DamagedDocument):
        journal.commit(STEM, epoch(2), TAKE)

    assert store.read(DOCUMENT) == before


def test_an_entry_of_another_document_is_foreign() -> None:
    store, journal = begun(revisions=2)
    entry = store.read(history_key(STEM, 2))
    assert entry
    store.put(history_key("shop/shop.lines", 2), entry.body, expected=None)
    store.put(history_key(STEM, 3), entry.body, expected=None)

    with pytest.raises(ForeignDocument, match=r"entry 2 of shop/shop\.orders"):
        journal.read_entry("shop/shop.lines", 2)
    with pytest.raises(ForeignDocument):
        journal.read_entry(STEM, 3)


def test_an_entry_that_holds_another_revision_is_damaged() -> None:
    store, journal = begun()
    entry = journal.read_entry(STEM, 1)
    assert entry
    lying = replace(entry, revision=2)
    store.put(history_key(STEM, 2), lying.to_bytes(), expected=None)

    with pytest.raises(DamagedDocument, match="contains revision 1"):
        journal.read_newest(STEM)


def test_an_entry_that_holds_no_document_is_damaged() -> None:
    store, journal = begun()
    entry = journal.read_entry(STEM, 1)
    assert entry
    store.put(history_key(STEM, 2), replace(entry, revision=2, after={"x": 1}).to_bytes(), expected=None)

    with pytest.raises(DamagedDocument):
        journal.read_newest(STEM)


@pytest.mark.parametrize("revisions", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("there", ["gone", "damaged", "old", "right"])
def test_a_document_is_rebuilt_from_its_history_alone(revisions: int, there: str) -> None:
    store, journal = begun(revisions=revisions)
    whole = store.read(DOCUMENT)
    assert whole
    match there:
        case "gone":
            remove(store, DOCUMENT)
        case "damaged":
            overwrite(store, DOCUMENT, b"{")
        case "old":
            first = journal.read_entry(STEM, 1)
            assert first
            overwrite(store, DOCUMENT, first.document_bytes())

    state = journal.rebuild(STEM)

    assert state.revision == revisions
    assert getattr(store.read(DOCUMENT), "body", None) == whole.body
    assert journal.read(STEM) == state


def test_nothing_is_rebuilt_from_nothing() -> None:
    with pytest.raises(StateMissing, match="no history"):
        journal_on(MemoryStore()).rebuild(STEM)


def test_an_entry_that_is_gone_is_named() -> None:
    store, journal = begun(revisions=3)
    remove(store, history_key(STEM, 2))

    with pytest.raises(StateMissing, match=r"2\.json is missing"):
        list(journal.read_entries(STEM, newest_revision=3))


def test_the_system_wide_default_has_a_history_of_its_own() -> None:
    store = MemoryStore()
    journal = Journal(store, SystemDefault, clock=ManualClock())

    journal.commit(SYSTEM_STEM, lambda _: SystemDefault(start=NOON, created_at=NOON, updated_at=NOON), TAKE)

    state = journal.read(SYSTEM_STEM)
    assert state is not None
    assert state.start == NOON
    assert list(store.list("")) == ["history/_system/1.json", "watermarks/_system.json"]


def test_a_system_wide_default_that_is_gone_is_not_new() -> None:
    store = MemoryStore()
    store.put("history/_system/4.json", b"x", expected=None)

    with pytest.raises(StateMissing):
        Journal(store, SystemDefault).read(SYSTEM_STEM)


def test_an_entry_survives_its_text() -> None:
    _, journal = begun()
    entry = journal.read_entry(STEM, 1)
    assert entry

    assert HistoryEntry.from_bytes(entry.to_bytes(), location="here", stem=STEM, revision=1) == entry


def test_an_unknown_change_is_refused() -> None:
    _, journal = begun()
    entry = journal.read_entry(STEM, 1)
    assert entry
    fields = {
        "document": STEM,
        "revision": 1,
        "nonce": "n",
        "at": "2026-01-31T12:00:00.000000Z",
        "change": "dance",
        "who": "p1",
        "why": "",
        "stage": None,
        "epoch": 1,
        "evidence": {},
        "from": {},
        "to": {},
    }

    with pytest.raises(DamagedDocument, match="dance"):
        HistoryEntry.from_bytes(encode("watermarks/entry", 1, fields), location="here", stem=STEM, revision=1)
