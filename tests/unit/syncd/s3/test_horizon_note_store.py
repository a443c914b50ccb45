from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from syncd.horizon import HorizonNotes
from syncd.ports.source import ServerTimeBreak
from syncd.s3.horizon_note_store import StoredHorizonNotes
from watermarks.errors import OutcomeUnknown, StateUnreadable, StoreUnavailable
from watermarks.store import Revision, StoredObject
from watermarks.stores.memory import MemoryStore

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def notes(seconds: int) -> HorizonNotes:
    return HorizonNotes(identity="one", t0=T0 + timedelta(seconds=seconds))


def test_what_was_kept_is_loaded_by_the_next_process() -> None:
    store = MemoryStore()
    first = StoredHorizonNotes(store=store, source="shop")
    assert first.load() is None

    first.save(notes(1))
    first.save(notes(2))

    assert StoredHorizonNotes(store=store, source="shop").load() == notes(2)
    assert list(store.list("")) == ["notes/shop.json"]


def test_names_of_sources_are_escaped() -> None:
    assert StoredHorizonNotes(store=MemoryStore(), source="a/b").key == "notes/a%2Fb.json"


def test_losing_to_another_process_is_silent_and_does_not_last() -> None:
    store = MemoryStore()
    mine, theirs = StoredHorizonNotes(store=store, source="shop"), StoredHorizonNotes(store=store, source="shop")
    assert mine.load() is theirs.load() is None
    theirs.save(notes(1))

    mine.save(notes(2))
    lost = mine.load()
    theirs.save(notes(3))
    mine.save(notes(4))
    mine.save(notes(5))

    assert lost == notes(1)
    assert mine.load() == notes(5)


def test_a_break_that_one_process_saw_outlives_the_notes_of_another() -> None:
    store = MemoryStore()
    mine, theirs = StoredHorizonNotes(store=store, source="shop"), StoredHorizonNotes(store=store, source="shop")
    mine.load()
    theirs.load()
    seen, also = ServerTimeBreak(id="a", is_other_server=True), ServerTimeBreak(id="b", clock_reset_to=T0)
    theirs.save(replace(notes(1), breaks=(seen,)))

    mine.save(replace(notes(2), breaks=(also,)))
    theirs.save(notes(3))
    theirs.save(notes(4))

    kept = mine.load()
    assert kept is not None
    assert (kept.t0, kept.breaks) == (notes(4).t0, (seen, also))


class Ailing(MemoryStore):
    """Takes what it is given, or not, and gives no answer."""

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        if expected is None:
            raise StoreUnavailable("refused")
        super().put(key, body, expected=expected)
        raise OutcomeUnknown("no answer")


def test_a_store_that_fails_does_not_stop_a_poll() -> None:
    kept = StoredHorizonNotes(store=Ailing(), source="shop")

    kept.save(notes(1))

    assert kept.load() is None


def test_an_unknown_outcome_is_looked_at_again() -> None:
    store = Ailing()
    MemoryStore.put(store, "notes/shop.json", notes(1).to_bytes(), expected=None)
    kept = StoredHorizonNotes(store=store, source="shop")

    kept.save(notes(2))
    kept.save(notes(3))

    assert kept.load() == notes(3)


def test_something_else_in_their_place_is_refused() -> None:
    store = MemoryStore()
    store.put("notes/shop.json", b"{}", expected=None)

    with pytest.raises(StateUnreadable):
        StoredHorizonNotes(store=store, source="shop").load()


def test_stored_is_what_the_store_says() -> None:
    store = MemoryStore()
    StoredHorizonNotes(store=store, source="shop").save(notes(1))

    there = store.read("notes/shop.json")

    assert isinstance(there, StoredObject)
    assert HorizonNotes.from_bytes(there.body, at="notes/shop.json") == notes(1)
