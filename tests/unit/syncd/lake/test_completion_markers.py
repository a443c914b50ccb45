from datetime import timedelta
from typing import Any

import pytest

from syncd.lake.completion_markers import MAX_CATCH_UP_HOURS, CompletionMarker, MarkerStore, MarkerUnreadable
from syncd.lake.object_keys import hour_marker_key, latest_marker_key
from tests.builders import NOON, ORDERS
from watermarks.errors import StoreUnavailable
from watermarks.store import Revision, Store
from watermarks.stores.memory import MemoryStore

HOUR = timedelta(hours=1)


def marker(hours: float, **more: Any) -> CompletionMarker:
    """A marker of so many hours after noon."""
    fields: dict[str, Any] = {"proven": True, "batch": "1-4", "rows": 3, "at": NOON}
    return CompletionMarker(stream=ORDERS, complete_until=NOON + hours * HOUR, **(fields | more))


def keys(store: Store) -> list[str]:
    return [key.removeprefix("markers/shop/shop.orders/") for key in store.list("markers/")]


def latest(store: Store) -> CompletionMarker:
    stored = store.read(latest_marker_key(ORDERS))
    assert stored is not None
    return CompletionMarker.from_bytes(stored.body, stream=ORDERS)


def hour(store: Store, hours: int) -> CompletionMarker:
    stored = store.read(hour_marker_key(ORDERS, NOON + hours * HOUR))
    assert stored is not None
    return CompletionMarker.from_bytes(stored.body, stream=ORDERS)


def test_the_first_marker_tells_of_no_hour_but_the_last_one() -> None:
    store = MemoryStore()

    assert MarkerStore(store).write(marker(3.5))

    assert keys(store) == ["2026-01-31T15.json", "latest.json"]
    assert latest(store) == marker(3.5)
    assert hour(store, 3).complete_until == NOON + 3 * HOUR


def test_every_hour_that_went_by_gets_its_marker_once() -> None:
    store = MemoryStore()
    markers = MarkerStore(store)
    markers.write(marker(0.1))

    markers.write(marker(3.1, rows=7))

    assert keys(store) == [f"2026-01-31T{hour}.json" for hour in (12, 13, 14, 15)] + ["latest.json"]
    assert [hour(store, each).rows for each in (1, 2, 3)] == [0, 0, 7]


def test_another_process_goes_on_where_the_last_one_was() -> None:
    store = MemoryStore()
    MarkerStore(store).write(marker(0.1))

    MarkerStore(store).write(marker(0.2, rows=2, batch=None))
    MarkerStore(store).write(marker(1.2, rows=1))

    assert keys(store) == ["2026-01-31T12.json", "2026-01-31T13.json", "latest.json"]
    assert (latest(store).rows, latest(store).batch) == (1, "1-4")


def test_within_an_hour_rows_add_up() -> None:
    store = MemoryStore()
    markers = MarkerStore(store)

    for minute in range(3):
        markers.write(marker(0.1 + minute / 60))

    assert latest(store).rows == 9


def test_what_is_no_news_costs_no_request() -> None:
    store = MemoryStore()
    markers = MarkerStore(store)
    markers.write(marker(0.51))

    assert not markers.write(marker(0.51))
    assert not markers.write(marker(0.515))
    assert not markers.write(marker(0.1))
    assert store._writes == 2


def test_two_owners_never_turn_the_newest_back() -> None:
    store = MemoryStore()
    old, new = MarkerStore(store), MarkerStore(store)
    old.write(marker(0.1))
    new.write(marker(5.1))

    old.write(marker(2.1))
    assert latest(store) == marker(5.1)
    assert not old.write(marker(2.2))


def test_a_store_that_fails_in_between_leaves_nothing_out() -> None:
    store = Failing()
    markers = MarkerStore(store)
    markers.write(marker(0.1))
    store.left = 1

    with pytest.raises(StoreUnavailable):
        markers.write(marker(3.1))
    store.left = 99
    markers.write(marker(3.2))

    assert keys(store) == [f"2026-01-31T{hour}.json" for hour in (12, 13, 14, 15)] + ["latest.json"]


def test_catching_up_is_bounded() -> None:
    assert len(list(marker(10_000).hourly_markers(marker(0)))) == MAX_CATCH_UP_HOURS


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", marker(0).to_bytes().replace(b'version": 1', b'version": 2')])
def test_what_is_no_marker_is_not_taken_for_one(body: bytes) -> None:
    with pytest.raises(MarkerUnreadable):
        CompletionMarker.from_bytes(body, stream=ORDERS)


class Failing(MemoryStore):
    """A store that takes so many more writes."""

    left = 99

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        if expected is None:
            self.left -= 1
            if self.left < 0:
                raise StoreUnavailable("away")
        return super().put(key, body, expected=expected)
