from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from watermarks.clock import SystemClock

if TYPE_CHECKING:
    from watermarks.clock import Clock


def test_the_clock_of_this_machine_tells_instants_in_utc() -> None:
    clock: Clock = SystemClock()

    before, now, after = datetime.now(UTC), clock.now(), datetime.now(UTC)

    assert now.tzinfo is UTC
    assert before - timedelta(seconds=1) <= now <= after + timedelta(seconds=1)


def test_seconds_for_waiting_only_rise() -> None:
    clock = SystemClock()

    readings = [clock.monotonic() for _ in range(1000)]

    assert all(earlier <= later for earlier, later in pairwise(readings))
