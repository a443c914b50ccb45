from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from watermarks.errors import AlreadyExists, Misuse, OutcomeUnknown, StaleRevision, StoreUnavailable
from watermarks.store import Revision, Store
from watermarks.stores.memory import MemoryStore
from watermarks.testing import NOON, FaultyStore, ManualClock, StoreContract, StoreFault, StoreOperation, script_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from watermarks.clock import Clock
    from watermarks.testing import StoreCall


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


@pytest.mark.parametrize("verb", list(StoreOperation))
def test_a_store_that_is_down_changes_nothing(verb: StoreOperation) -> None:
    inner = MemoryStore()
    seen = inner.put("a", b"first", expected=None)
    store = FaultyStore(inner, lambda call: StoreFault.DOWN if call.operation is verb else None)
    acts: dict[StoreOperation, Callable[[], object]] = {
        StoreOperation.READ: lambda: store.read("a"),
        StoreOperation.CREATE: lambda: store.put("b", b"x", expected=None),
        StoreOperation.REPLACE: lambda: store.put("a", b"second", expected=seen),
        StoreOperation.LIST: lambda: [*store.list("")],
    }

    with pytest.raises(StoreUnavailable):
        acts[verb]()

    assert (body(inner, "a"), [*inner.list("")]) == (b"first", ["a"])


def test_a_lost_request_changes_nothing() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.LOST_REQUEST))

    with pytest.raises(OutcomeUnknown):
        store.put("a", b"first", expected=None)

    assert store.read("a") is None
    assert store.put("a", b"second", expected=None)


def test_a_lost_answer_hides_a_write() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.LOST_ANSWER))

    with pytest.raises(OutcomeUnknown):
        store.put("a", b"first", expected=None)

    assert body(store, "a") == b"first"


def test_a_lost_answer_hides_a_refusal() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", None, StoreFault.LOST_ANSWER))
    store.put("a", b"first", expected=None)

    with pytest.raises(OutcomeUnknown):
        store.put("a", b"second", expected=None)

    assert body(store, "a") == b"first"


def test_a_write_sent_twice_gets_the_second_answer() -> None:
    store = FaultyStore(
        MemoryStore(),
        script_faults(StoreOperation.CREATE, "a", StoreFault.TWICE),
        script_faults(StoreOperation.REPLACE, "a", StoreFault.TWICE),
    )

    with pytest.raises(AlreadyExists):
        store.put("a", b"first", expected=None)
    there = store.read("a")
    assert there is not None
    with pytest.raises(StaleRevision):
        store.put("a", b"second", expected=there.revision)

    assert body(store, "a") == b"second"


def test_a_late_write_arrives_when_told() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.LATE, StoreFault.LATE))
    for content in (b"first", b"second"):
        with pytest.raises(OutcomeUnknown):
            store.put("a", content, expected=None)
    assert (store.delayed_write_count, store.read("a")) == (2, None)

    first, second = store.deliver_delayed_write(), store.deliver_delayed_write()

    assert (first, second, store.delayed_write_count) == (Revision("1"), None, 0)
    assert body(store, "a") == b"first"
    with pytest.raises(Misuse):
        store.deliver_delayed_write()


def test_a_stale_list_is_that_of_last_time() -> None:
    store = FaultyStore(
        MemoryStore(), script_faults(StoreOperation.LIST, "", StoreFault.STALE_LIST, None, StoreFault.STALE_LIST)
    )
    store.put("a", b"x", expected=None)
    never, fresh = [*store.list("")], [*store.list("")]
    store.put("b", b"x", expected=None)

    assert (never, fresh, [*store.list("")], [*store.list("")]) == ([], ["a"], ["a"], ["a", "b"])


def test_calls_are_counted_by_verb_and_key() -> None:
    calls: list[StoreCall] = []
    store = FaultyStore(MemoryStore(), calls.append)
    store.read("a")
    store.put("a", b"x", expected=None)
    store.read("b")
    store.read("a")

    assert [(call.operation, call.key, call.number) for call in calls] == [
        (StoreOperation.READ, "a", 1),
        (StoreOperation.CREATE, "a", 1),
        (StoreOperation.READ, "b", 1),
        (StoreOperation.READ, "a", 2),
    ]


def test_a_fault_that_cannot_be_is_refused_by_name() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.READ, "a", StoreFault.LATE))

    with pytest.raises(Misuse, match="is not possible for read"):
        store.read("a")
