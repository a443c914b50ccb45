import pytest

from watermarks.codec import ForeignDocument
from watermarks.errors import AlreadyExists, OutcomeUnknown, StoreUnavailable
from watermarks.store import MAX_PUT_ATTEMPTS, Revision, put_once
from watermarks.stores.memory import MemoryStore
from watermarks.testing import FaultyStore, StoreFault, StoreOperation, script_faults

MINE = b"mine, by its nonce"
THEIRS = b"theirs, by its nonce"


def test_a_lost_request_is_sent_again() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.LOST_REQUEST))

    assert put_once(store, "a", MINE).is_ours


def test_a_write_sent_twice_below_us_is_ours() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.TWICE))

    kept = put_once(store, "a", MINE)

    assert (kept.body, kept.is_ours) == (MINE, True)


def test_a_late_write_of_ours_changes_nothing_any_more() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.LATE))

    kept = put_once(store, "a", MINE)

    assert kept.is_ours
    assert store.deliver_delayed_write() is None
    assert store.read("a") == store.inner.read("a")


def test_a_lost_refusal_is_found_to_be_one() -> None:
    inner = MemoryStore()
    inner.put("a", THEIRS, expected=None)

    kept = put_once(FaultyStore(inner, script_faults(StoreOperation.CREATE, "a", StoreFault.LOST_ANSWER)), "a", MINE)

    assert (kept.body, kept.is_ours) == (THEIRS, False)


def test_a_store_that_is_down_at_once_has_written_nothing() -> None:
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.DOWN))

    with pytest.raises(StoreUnavailable):
        put_once(store, "a", MINE)


def test_a_store_that_goes_down_leaves_the_earlier_write_in_doubt() -> None:
    """The first write is still on its way: to say that nothing was written would be to lose it."""
    store = FaultyStore(MemoryStore(), script_faults(StoreOperation.CREATE, "a", StoreFault.LATE, StoreFault.DOWN))

    with pytest.raises(OutcomeUnknown):
        put_once(store, "a", MINE)

    assert store.deliver_delayed_write() == Revision("1")


def test_a_question_without_an_answer_leaves_the_write_in_doubt() -> None:
    store = FaultyStore(
        MemoryStore(),
        script_faults(StoreOperation.CREATE, "a", StoreFault.LOST_ANSWER),
        script_faults(StoreOperation.READ, "a", StoreFault.DOWN),
    )

    with pytest.raises(OutcomeUnknown, match="injected fault: the store is down"):
        put_once(store, "a", MINE)

    assert put_once(store, "a", MINE).is_ours


@pytest.mark.parametrize("fault", [StoreFault.LOST_ANSWER, StoreFault.TWICE])
def test_a_replacement_without_an_answer_is_recognised_as_ours(fault: StoreFault) -> None:
    inner = MemoryStore()
    seen = inner.put("a", THEIRS, expected=None)
    store = FaultyStore(inner, script_faults(StoreOperation.REPLACE, "a", fault))

    assert put_once(store, "a", MINE, expected=seen).is_ours
    stored = inner.read("a")
    assert stored
    assert stored.body == MINE


def test_a_replacement_that_never_arrived_is_not_ours() -> None:
    inner = MemoryStore()
    seen = inner.put("a", THEIRS, expected=None)
    store = FaultyStore(inner, script_faults(StoreOperation.REPLACE, "a", StoreFault.LOST_REQUEST))

    kept = put_once(store, "a", MINE, expected=seen)

    assert (kept.body, kept.revision, kept.is_ours) == (THEIRS, seen, False)


def test_a_key_that_has_changed_since_it_was_read_keeps_the_other_content() -> None:
    store = MemoryStore()
    seen = store.put("a", b"older", expected=None)
    store.put("a", THEIRS, expected=seen)

    kept = put_once(store, "a", MINE, expected=seen)

    assert (kept.body, kept.is_ours) == (THEIRS, False)


def test_a_key_that_was_read_and_is_missing_is_not_written_again() -> None:
    store = MemoryStore()

    with pytest.raises(ForeignDocument, match="claims/a is missing") as caught:
        put_once(store, "claims/a", MINE, expected=Revision("1"))

    assert caught.value.hint == "Check what else deletes claims."
    assert store.read("claims/a") is None


class Forgetful(MemoryStore):
    """Refuses every key as taken, and knows of none."""

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        raise AlreadyExists(f"{key} exists")


def test_a_store_that_refuses_what_is_not_there_is_given_up() -> None:
    with pytest.raises(OutcomeUnknown, match=f"written {MAX_PUT_ATTEMPTS} times") as caught:
        put_once(Forgetful(), "a", MINE)

    assert "If-None-Match" in caught.value.hint
