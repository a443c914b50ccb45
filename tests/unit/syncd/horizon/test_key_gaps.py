"""Which keys of a growing table are complete."""

from datetime import UTC, datetime, timedelta

from syncd.horizon.key_gaps import MAX_SEEN_KEYS, InMemorySeenKeys, SeenKey, add_seen_key, find_complete_key
from syncd.ports.source import Horizon
from watermarks.cursor import Cursor

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def seen(number: int, second: int) -> SeenKey:
    return SeenKey(key=Cursor.from_values(number), before=NOON + timedelta(seconds=second))


def horizon(second: float) -> Horizon:
    bound = NOON + timedelta(seconds=second)
    return Horizon(bound=bound, proven=True, t0=bound, identity="server-1")


def test_keys_are_complete_once_a_horizon_has_passed_the_instant_after_they_were_seen() -> None:
    notes = InMemorySeenKeys((seen(10, 0), seen(20, 1), seen(30, 2)))

    assert find_complete_key(notes, horizon(-1)) is None
    assert find_complete_key(notes, horizon(1.5)) == Cursor.from_values(20)
    assert notes.kept == (seen(20, 1), seen(30, 2))
    assert find_complete_key(notes, horizon(2)) == Cursor.from_values(30)


def test_what_was_seen_before_a_table_was_made_is_of_another_one() -> None:
    made = NOON + timedelta(seconds=10)
    notes = InMemorySeenKeys((seen(10, 0), seen(20, 9), seen(3, 12)))

    assert find_complete_key(notes, horizon(11), table_created_at=made) is None
    assert notes.kept == (seen(3, 12),)
    assert find_complete_key(notes, horizon(12), table_created_at=made) == Cursor.from_values(3)


def test_a_horizon_that_is_not_known_completes_nothing() -> None:
    notes = InMemorySeenKeys((seen(10, 0),))

    assert find_complete_key(notes, Horizon(bound=None, proven=False, t0=NOON, identity="server-1")) is None
    assert notes.kept == (seen(10, 0),)


def test_notes_stay_few_and_keep_the_oldest_and_the_newest() -> None:
    notes = InMemorySeenKeys()

    for second in range(1000):
        add_seen_key(notes, seen(second, second))

    assert len(notes.kept) <= MAX_SEEN_KEYS
    assert notes.kept[0] == seen(0, 0)
    assert notes.kept[-1] == seen(999, 999)
