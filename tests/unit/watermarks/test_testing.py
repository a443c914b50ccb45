from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from watermarks.errors import AlreadyExists, Misuse, OutcomeUnknown, StaleRevision, StoreUnavailable
from watermarks.store import Revision, Store
from watermarks.stores.memory import MemoryStore
from watermarks.testing import NOON, Fault, FaultyStore, ManualClock, StoreContract, Verb, on

if TYPE_CHECKING:
    from collections.abc import Callable

    from watermarks.clock import Clock
    from watermarks.testing import Call


class TestFaultyStoreWithoutScripts(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return FaultyStore(MemoryStore())


def body(store: Store, key: str) -> bytes | None:
    there = store.read(key)
    return None if there is None else there.body


def test_a_manual_clock_moves_only_when_advanced() -> None:
    clock: Clock = ManualClock()
    assert isinstance(clock, ManualClock)

    clock.advance(1.5)

    assert (clock.now(), clock.monotonic()) == (NOON + timedelta(seconds=1.5), 1.5)
    assert (clock.now(), clock.monotonic()) == (NOON + timedelta(seconds=1.5), 1.5)


def test_a_manual_clock_starts_where_it_is_told() -> None:
    assert ManualClock(datetime(2030, 1, 1, tzinfo=UTC)).now().year == 2030


@pytest.mark.parametrize("start", [datetime(2030, 1, 1), datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=1)))])  # noqa: DTZ001 - the fault to refuse
def test_a_manual_clock_takes_no_instant_outside_utc(start: datetime) -> None:
    with pytest.raises(Misuse):
        ManualClock(start)


def test_a_manual_clock_never_runs_back() -> None:
    with pytest.raises(Misuse):
        ManualClock().advance(-1)


@pytest.mark.parametrize("verb", list(Verb))
def test_a_store_that_is_down_changes_nothing(verb: Verb) -> None:
    inner = MemoryStore()
    seen = inner.create("a", b"first")
    store = FaultyStore(inner, lambda call: Fault.DOWN if call.verb is verb else None)
    acts: dict[Verb, Callable[[], object]] = {
        Verb.READ: lambda: store.read("a"),
        Verb.CREATE: lambda: store.create("b", b"x"),
        Verb.REPLACE: lambda: store.replace("a", b"second", seen=seen),
        Verb.LIST: lambda: [*store.list("")],
    }

    with pytest.raises(StoreUnavailable):
        acts[verb]()

    assert (body(inner, "a"), [*inner.list("")]) == (b"first", ["a"])


def test_a_lost_request_changes_nothing() -> None:
    store = FaultyStore(MemoryStore(), on(Verb.CREATE, "a", Fault.LOST_REQUEST))

    with pytest.raises(OutcomeUnknown):
        store.create("a", b"first")

    assert store.read("a") is None
    assert store.create("a", b"second")


def test_a_lost_answer_hides_a_write() -> None:
    store = FaultyStore(MemoryStore(), on(Verb.CREATE, "a", Fault.LOST_ANSWER))

    with pytest.raises(OutcomeUnknown):
        store.create("a", b"first")

    assert body(store, "a") == b"first"


def test_a_lost_answer_hides_a_refusal() -> None:
    store = FaultyStore(MemoryStore(), on(Verb.CREATE, "a", None, Fault.LOST_ANSWER))
    store.create("a", b"first")

    with pytest.raises(OutcomeUnknown):
        store.create("a", b"second")

    assert body(store, "a") == b"first"


def test_a_write_sent_twice_gets_the_second_answer() -> None:
    store = FaultyStore(MemoryStore(), on(Verb.CREATE, "a", Fault.TWICE), on(Verb.REPLACE, "a", Fault.TWICE))

    with pytest.raises(AlreadyExists):
        store.create("a", b"first")
    there = store.read("a")
    assert there is not None
    with pytest.raises(StaleRevision):
        store.replace("a", b"second", seen=there.revision)

    assert body(store, "a") == b"second"


def test_a_late_write_arrives_when_told() -> None:
    store = FaultyStore(MemoryStore(), on(Verb.CREATE, "a", Fault.LATE, Fault.LATE))
    for content in (b"first", b"second"):
        with pytest.raises(OutcomeUnknown):
            store.create("a", content)
    assert (store.held, store.read("a")) == (2, None)

    first, second = store.deliver(), store.deliver()

    assert (first, second, store.held) == (Revision("1"), None, 0)
    assert body(store, "a") == b"first"
    with pytest.raises(Misuse):
        store.deliver()


def test_a_stale_list_is_that_of_last_time() -> None:
    store = FaultyStore(MemoryStore(), on(Verb.LIST, "", Fault.STALE_LIST, None, Fault.STALE_LIST))
    store.create("a", b"x")
    never, fresh = [*store.list("")], [*store.list("")]
    store.create("b", b"x")

    assert (never, fresh, [*store.list("")], [*store.list("")]) == ([], ["a"], ["a"], ["a", "b"])


def test_calls_are_counted_by_verb_and_key() -> None:
    calls: list[Call] = []
    store = FaultyStore(MemoryStore(), calls.append)
    store.read("a")
    store.create("a", b"x")
    store.read("b")
    store.read("a")

    assert [(call.verb, call.key, call.number) for call in calls] == [
        (Verb.READ, "a", 1),
        (Verb.CREATE, "a", 1),
        (Verb.READ, "b", 1),
        (Verb.READ, "a", 2),
    ]


def test_a_fault_that_cannot_be_is_refused_by_name() -> None:
    store = FaultyStore(MemoryStore(), on(Verb.READ, "a", Fault.LATE))

    with pytest.raises(Misuse, match="read cannot meet"):
        store.read("a")
