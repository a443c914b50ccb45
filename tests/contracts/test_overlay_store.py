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
    revision = below.create("a/there", b"there")
    store = OverlayStore(below)

    store.replace("a/there", b"changed", expected=revision)
    store.create("a/new", b"new")

    assert {key: body(store, key) for key in store.list("a/")} == {"a/new": b"new", "a/there": b"changed"}
    assert {key: body(below, key) for key in below.list("")} == {"a/there": b"there"}


def test_what_stands_below_is_in_the_way_as_it_would_be() -> None:
    below = MemoryStore()
    seen = below.create("a", b"first")
    store = OverlayStore(below)
    below.replace("a", b"second", expected=seen)

    with pytest.raises(AlreadyExists):
        store.create("a", b"mine")
    with pytest.raises(StaleRevision):
        store.replace("a", b"mine", expected=seen)
