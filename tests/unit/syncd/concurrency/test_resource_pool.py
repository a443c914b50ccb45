"""Places at one outside thing: never more than there are, in the order of asking, and nobody waits for ever."""

import random
import threading
from dataclasses import dataclass, field

import pytest

from syncd.concurrency.resource_pool import Places
from syncd.concurrency.running_pass import UnderWay, beside
from syncd.errors import PassStopped
from watermarks.testing import ManualClock


@dataclass
class Line:
    """Something that is open while it is at a place."""

    closed: list["Line"] = field(default_factory=list)
    opened_at: float = 0.0

    def close(self) -> None:
        self.closed.append(self)


def now() -> UnderWay:
    return UnderWay()


def test_what_is_parked_is_given_to_whoever_comes_for_the_same_and_makes_way_for_others() -> None:
    places, line = Places[Line](2), Line()
    assert places.take(now(), kind="question") is None
    places.park(line, kind="question")

    assert places.take(now(), kind="question") is line
    places.park(line, kind="question")
    assert places.take(now(), kind="poll") is None
    assert not line.closed
    assert places.take(now(), kind="poll") is None
    assert line.closed == [line]


def test_what_was_opened_before_it_was_closed_is_not_used_again() -> None:
    clock = ManualClock()
    places = Places[Line](2, clock=clock.monotonic)
    waits, used, young = (Line(opened_at=clock.monotonic()) for _ in range(3))
    for _ in range(2):
        places.take(now())
    places.park(waits)
    clock.advance(1)

    places.close()
    places.park(used)

    assert (waits.closed, used.closed) == ([waits], [used])
    clock.advance(1)
    young.opened_at = clock.monotonic()
    assert places.take(now()) is None
    places.park(young)
    assert places.take(now()) is young


def test_what_is_old_is_closed_and_its_place_is_used() -> None:
    clock = ManualClock()
    places, line = Places[Line](1, oldest=300.0, clock=clock.monotonic), Line(opened_at=clock.monotonic())
    places.take(now())
    places.park(line)

    clock.advance(299)
    assert places.take(now()) is line
    places.park(line)
    clock.advance(1)
    assert places.take(now()) is None

    assert line.closed == [line]
    assert places._free == 0


def test_a_reading_shrinks_to_what_is_free_and_leaves_what_is_kept() -> None:
    places = Places[Line](4, kept=1)

    with places.reading(8, now()) as first:
        assert first.count == 3
        assert places.take(now()) is None
        places.give_back()
        first.shrink(1)
        with places.reading(8, now()) as second:
            assert second.count == 2


def test_a_single_place_serves_readings_as_well_as_questions() -> None:
    places = Places[Line](1, kept=1)

    with places.reading(8, now()) as share:
        assert share.count == 1
    assert places.take(now()) is None


def test_readings_that_wait_at_once_share_what_comes_free() -> None:
    places = Places[Line](4)
    got, waiting = list[int](), threading.Barrier(3)
    held = threading.Event()

    def read() -> None:
        waiting.wait()
        with places.reading(4, now()) as share:
            got.append(share.count)
            held.wait(10)

    with places.reading(4, now()):
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
    places, ended, other = Places[Line](1), UnderWay("extract of shop.orders"), UnderWay()
    places.take(now())
    waits = beside(lambda: places.take(ended), name="waits")
    while not places._queue:  # as above
        pass
    next_one = beside(lambda: places.take(other), name="next")

    ended.end("it was asked to")
    with pytest.raises(PassStopped, match=r"extract of shop\.orders was ended"):
        waits.result(10)
    places.give_back()

    assert next_one.result(10) is None


def test_places_that_are_handed_on_stay_taken() -> None:
    places = Places[Line](2)

    with places.reading(2, now()) as share:
        over = share.hand_on()
    waits = beside(lambda: places.take(now()), name="waits")
    assert not waits.done()
    over()

    assert waits.result(10) is None


@pytest.mark.parametrize(("most", "kept"), [(1, 0), (1, 1), (3, 1), (4, 0)])
def test_a_crowd_never_has_more_than_there_are_and_all_come_through(most: int, kept: int) -> None:
    places, guard = Places[Line](most, kept=kept), threading.Lock()
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
                with places.reading(rng.randint(1, 5), now()) as share:
                    count = share.count
                    at_work(count)
                    at_work(-count)
                continue
            line = places.take(now(), kind=rng.choice("ab")) or Line()
            at_work(1)
            at_work(-1)
            if rng.random() < 0.5:
                places.park(line, kind=rng.choice("ab"))
            else:
                places.give_back()

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert not any(thread.is_alive() for thread in threads)
    assert 0 < highest <= most
    places.close()
    assert places._free == most  # nothing was lost
