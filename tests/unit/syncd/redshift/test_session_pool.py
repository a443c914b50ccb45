"""A warehouse that is away is waited for by one stream, and by no other anew."""

from collections.abc import Callable
from typing import cast

import pytest

from syncd.errors import WarehouseDown, WarehouseStillDown
from syncd.redshift.session import WarehouseSession
from syncd.redshift.session_pool import DOWN_SECONDS, FAILURES_BEFORE_DOWN, ReusableSession
from syncd.redshift.session_pool import SessionOpener as Away
from watermarks.testing import ManualClock


class Door:
    """A warehouse that is away until told otherwise; each attempt takes so many seconds."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.away = True
        self.asked = 0

    def open(self) -> WarehouseSession:
        self.asked += 1
        self.clock.advance(self.seconds)
        if self.away:
            raise WarehouseDown("nobody answers", hint="Is it paused?")
        return cast("WarehouseSession", Standing())


class Standing:
    alive = True
    in_transaction = False

    def close(self) -> None:
        self.alive = False


def refused(session: Callable[[], WarehouseSession]) -> type[WarehouseDown]:
    with pytest.raises(WarehouseDown, match="nobody answers") as caught:
        session()
    return type(caught.value)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_the_first_stream_tries_as_often_as_it_may_and_the_next_ones_once(clock: ManualClock) -> None:
    door = Door(clock, seconds=0.01)
    kept = ReusableSession(Away(door.open, monotonic=clock.monotonic))

    told = [refused(kept.session) for _ in range(FAILURES_BEFORE_DOWN + 2)]

    assert told == [WarehouseDown] * FAILURES_BEFORE_DOWN + [WarehouseStillDown] * 2
    assert door.asked == FAILURES_BEFORE_DOWN + 2


def test_nobody_waits_again_for_what_does_not_answer_at_all(clock: ManualClock) -> None:
    door = Door(clock, seconds=10)
    kept = ReusableSession(Away(door.open, monotonic=clock.monotonic))
    for _ in range(FAILURES_BEFORE_DOWN + 1):
        refused(kept.session)

    told = [refused(kept.session) for _ in range(500)]

    assert (set(told), door.asked) == ({WarehouseStillDown}, FAILURES_BEFORE_DOWN + 1)
    clock.advance(DOWN_SECONDS)
    refused(kept.session)
    assert door.asked == FAILURES_BEFORE_DOWN + 2


def test_a_warehouse_that_is_back_is_met_as_if_nothing_had_been(clock: ManualClock) -> None:
    door = Door(clock, seconds=0.01)
    kept = ReusableSession(Away(door.open, monotonic=clock.monotonic))
    for _ in range(FAILURES_BEFORE_DOWN + 1):
        refused(kept.session)
    door.away = False
    kept.session()
    kept.close()
    door.away = True

    assert refused(kept.session) is WarehouseDown
