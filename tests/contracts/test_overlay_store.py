import pytest

from watermarks.errors import AlreadyExists, StaleRevision
from watermarks.store import Store
from watermarks.stores.memory import MemoryStore, OverlayStore
from watermarks.testing import StoreContract


class TestUnwritten(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return OverlayStore(MemoryStore())


def body(store: Store, key: str) -> bytes | None:
    there = store.read(key)
    return there.body if there else None


def test_what_stands_is_read_and_nothing_is_written_there() -> None:
    below = MemoryStore()
    revision = below.put("a/there", b"there", expected=None)
    store = OverlayStore(below)

    store.put("a/there", b"changed", expected=revision)
    store.put("a/new", b"new", expected=None)

    assert {key: body(store, key) for key in store.list("a/")} == {"a/new": b"new", "a/there": b"changed"}
    assert {key: body(below, key) for key in below.list("")} == {"a/there": b"there"}


def test_what_stands_below_is_in_the_way_as_it_would_be() -> None:
    below = MemoryStore()
    seen = below.put("a", b"first", expected=None)
    store = OverlayStore(below)
    below.put("a", b"second", expected=seen)

    with pytest.raises(AlreadyExists):
        store.put("a", b"mine", expected=None)
    with pytest.raises(StaleRevision):
        store.put("a", b"mine", expected=seen)
