"""Places at one outside thing: never more than there are, in the order of asking, and nobody waits for ever."""

import random
import threading
from dataclasses import dataclass, field

import pytest

from syncd.concurrency.resource_pool import ResourcePool
from syncd.concurrency.running_pass import RunningPass, run_in_thread
from syncd.errors import PassStopped
from watermarks.testing import ManualClock


@dataclass
class Line:
    """Something that is open while it is at a place."""

    closed: list["Line"] = field(default_factory=list)
    opened_at: float = 0.0

    def close(self) -> None:
        self.closed.append(self)


def now() -> RunningPass:
    return RunningPass()


def test_what_is_parked_is_given_to_whoever_comes_for_the_same_and_makes_way_for_others() -> None:
    places, line = ResourcePool[Line](2), Line()
    assert places.acquire(now(), kind="question") is None
    places.put_idle(line, kind="question")

    assert places.acquire(now(), kind="question") is line
    places.put_idle(line, kind="question")
    assert places.acquire(now(), kind="poll") is None
    assert not line.closed
    assert places.acquire(now(), kind="poll") is None
    assert line.closed == [line]


def test_what_was_opened_before_it_was_closed_is_not_used_again() -> None:
    clock = ManualClock()
    places = ResourcePool[Line](2, clock=clock.monotonic)
    waits, used, young = (Line(opened_at=clock.monotonic()) for _ in range(3))
    for _ in range(2):
        places.acquire(now())
    places.put_idle(waits)
    clock.advance(1)

    places.close()
    places.put_idle(used)

    assert (waits.closed, used.closed) == ([waits], [used])
    clock.advance(1)
    young.opened_at = clock.monotonic()
    assert places.acquire(now()) is None
    places.put_idle(young)
    assert places.acquire(now()) is young


def test_what_is_old_is_closed_and_its_place_is_used() -> None:
    clock = ManualClock()
    places, line = (
        ResourcePool[Line](1, max_age_seconds=300.0, clock=clock.monotonic),
        Line(opened_at=clock.monotonic()),
    )
    places.acquire(now())
    places.put_idle(line)

    clock.advance(299)
    assert places.acquire(now()) is line
    places.put_idle(line)
    clock.advance(1)
    assert places.acquire(now()) is None

    assert line.closed == [line]
    assert places._free == 0


def test_a_reading_shrinks_to_what_is_free_and_leaves_what_is_kept() -> None:
    places = ResourcePool[Line](4, reserved=1)

    with places.acquire_for_reading(8, now()) as first:
        assert first.count == 3
        assert places.acquire(now()) is None
        places.release()
        first.shrink(1)
        with places.acquire_for_reading(8, now()) as second:
            assert second.count == 2


def test_a_single_place_serves_readings_as_well_as_questions() -> None:
    places = ResourcePool[Line](1, reserved=1)

    with places.acquire_for_reading(8, now()) as share:
        assert share.count == 1
    assert places.acquire(now()) is None


def test_readings_that_wait_at_once_share_what_comes_free() -> None:
    places = ResourcePool[Line](4)
    got, waiting = list[int](), threading.Barrier(3)
    held = threading.Event()

    def read() -> None:
        waiting.wait()
        with places.acquire_for_reading(4, now()) as share:
            got.append(share.count)
            held.wait(10)

    with places.acquire_for_reading(4, now()):
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        waiting.wait()
        while len(places._queue) < 2:  # who waits cannot say so
            pass
    while len(got) < 2:
        pass
    held.set()
    for thread in threads:
        thread.join(10)

    assert got == [2, 2]


def test_who_waits_is_ended_with_its_pass_and_leaves_no_gap() -> None:
    places, ended, other = ResourcePool[Line](1), RunningPass("extract of shop.orders"), RunningPass()
    places.acquire(now())
    waits = run_in_thread(lambda: places.acquire(ended), name="waits")
    while not places._queue:  # as above
        pass
    next_one = run_in_thread(lambda: places.acquire(other), name="next")

    ended.end("a stop was requested")
    with pytest.raises(PassStopped, match=r"extract of shop\.orders was ended"):
        waits.result(10)
    places.release()

    assert next_one.result(10) is None


def test_places_that_are_handed_on_stay_taken() -> None:
    places = ResourcePool[Line](2)

    with places.acquire_for_reading(2, now()) as share:
        over = share.detach()
    waits = run_in_thread(lambda: places.acquire(now()), name="waits")
    assert not waits.done()
    over()

    assert waits.result(10) is None


@pytest.mark.parametrize(("most", "kept"), [(1, 0), (1, 1), (3, 1), (4, 0)])
def test_a_crowd_never_has_more_than_there_are_and_all_come_through(most: int, kept: int) -> None:
    places, guard = ResourcePool[Line](most, reserved=kept), threading.Lock()
    used = highest = 0

    def at_work(count: int) -> None:
        nonlocal used, highest
        with guard:
            used += count
            highest = max(highest, used)

    def visit(number: int) -> None:
        rng = random.Random(number)
        for _ in range(50):
            if rng.random() < 0.3:
                with places.acquire_for_reading(rng.randint(1, 5), now()) as share:
                    count = share.count
                    at_work(count)
                    at_work(-count)
                continue
            line = places.acquire(now(), kind=rng.choice("ab")) or Line()
            at_work(1)
            at_work(-1)
            if rng.random() < 0.5:
                places.put_idle(line, kind=rng.choice("ab"))
            else:
                places.release()

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert not any(thread.is_alive() for thread in threads)
    assert 0 < highest <= most
    places.close()
    assert places._free == most  # nothing was lost
