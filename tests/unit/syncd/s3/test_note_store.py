from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.horizon import Notes
from syncd.ports.source import Break
from syncd.s3.note_store import StoredNotes
from watermarks.errors import OutcomeUnknown, StateUnreadable, StoreUnavailable
from watermarks.store import Revision, Stored
from watermarks.stores.memory import MemoryStore

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def notes(seconds: int) -> Notes:
    return Notes(identity="one", t0=T0 + timedelta(seconds=seconds))


def test_what_was_kept_is_loaded_by_the_next_process() -> None:
    store = MemoryStore()
    first = StoredNotes(store=store, source="shop")
    assert first.load() is None

    first.keep(notes(1))
    first.keep(notes(2))

    assert StoredNotes(store=store, source="shop").load() == notes(2)
    assert list(store.list("")) == ["notes/shop.json"]


def test_names_of_sources_are_escaped() -> None:
    assert StoredNotes(store=MemoryStore(), source="a/b").key == "notes/a%2Fb.json"


def test_losing_to_another_process_is_silent_and_does_not_last() -> None:
    store = MemoryStore()
    mine, theirs = StoredNotes(store=store, source="shop"), StoredNotes(store=store, source="shop")
    assert mine.load() is theirs.load() is None
    theirs.keep(notes(1))

    mine.keep(notes(2))
    lost = mine.load()
    theirs.keep(notes(3))
    mine.keep(notes(4))
    mine.keep(notes(5))

    assert lost == notes(1)
    assert mine.load() == notes(5)


def test_a_break_that_one_process_saw_outlives_the_notes_of_another() -> None:
    store = MemoryStore()
    mine, theirs = StoredNotes(store=store, source="shop"), StoredNotes(store=store, source="shop")
    mine.load()
    theirs.load()
    seen, also = Break(id="a", other=True), Break(id="b", low=T0)
    theirs.keep(replace(notes(1), breaks=(seen,)))

    mine.keep(replace(notes(2), breaks=(also,)))
    theirs.keep(notes(3))
    theirs.keep(notes(4))

    kept = mine.load()
    assert kept is not None
    assert (kept.t0, kept.breaks) == (notes(4).t0, (seen, also))


class Ailing(MemoryStore):
    """Takes what it is given, or not, and gives no answer."""

    def replace(self, key: str, body: bytes, *, seen: Revision) -> Revision:
        super().replace(key, body, seen=seen)
        raise OutcomeUnknown("no answer")

    def create(self, key: str, body: bytes) -> Revision:
        raise StoreUnavailable("refused")


def test_a_store_that_fails_does_not_stop_a_poll() -> None:
    kept = StoredNotes(store=Ailing(), source="shop")

    kept.keep(notes(1))

    assert kept.load() is None


def test_an_unknown_outcome_is_looked_at_again() -> None:
    store = Ailing()
    MemoryStore.create(store, "notes/shop.json", notes(1).to_bytes())
    kept = StoredNotes(store=store, source="shop")

    kept.keep(notes(2))
    kept.keep(notes(3))

    assert kept.load() == notes(3)


def test_something_else_in_their_place_is_refused() -> None:
    store = MemoryStore()
    store.create("notes/shop.json", b"{}")

    with pytest.raises(StateUnreadable):
        StoredNotes(store=store, source="shop").load()


def test_stored_is_what_the_store_says() -> None:
    store = MemoryStore()
    StoredNotes(store=store, source="shop").keep(notes(1))

    there = store.read("notes/shop.json")

    assert isinstance(there, Stored)
    assert Notes.of_bytes(there.body, at="notes/shop.json") == notes(1)
