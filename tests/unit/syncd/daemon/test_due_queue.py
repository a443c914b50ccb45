"""What is due, found without looking at what is not."""

import random
from math import inf

from syncd.daemon.due_queue import Agenda
from syncd.daemon.stage_task import Lane, LaneKey
from syncd.settings import StreamSettings
from watermarks.document import Stage
from watermarks.names import StreamName


def lane(agenda: Agenda, due: float, name: str = "t") -> Lane:
    stream = StreamName(source="mysql", database="shop", table=name)
    settings = StreamSettings(source="mysql", database="shop", table=name)
    return Lane(key=LaneKey(stream, Stage.EXTRACT), settings=settings, sides=("source",), agenda=agenda, regular=due)


def test_one_that_is_held_back_waits_until_it_begins() -> None:
    agenda = Agenda()
    one, other = lane(agenda, 1.0), lane(agenda, 5.0)

    assert agenda.waiting(2.0) == (one,)
    assert agenda.waiting(3.0) == (one,)
    assert agenda.next() == 5.0
    one.began = 3.0
    assert agenda.waiting(6.0) == (other,)


def test_only_the_last_word_of_a_lane_counts() -> None:
    agenda = Agenda()
    one = lane(agenda, 1.0)
    one.due = 9.0
    one.due = 4.0

    assert agenda.next() == 4.0
    assert agenda.waiting(3.0) == ()
    assert agenda.waiting(4.0) == (one,)
    one.due = 7.0
    assert agenda.waiting(6.0) == ()
    assert agenda.waiting(7.0) == (one,)
    assert agenda.waiting(9.0) == (one,), "once, however often it was noted"


def test_whatever_is_moved_it_tells_what_a_look_at_all_tells() -> None:
    chance = random.Random(7)
    agenda = Agenda()
    lanes = [lane(agenda, chance.uniform(0, 50), f"t{n}") for n in range(40)]
    now = 0.0
    for _ in range(3_000):
        one = chance.choice(lanes)
        match chance.randrange(3):
            case 0 if one.waits(now):
                one.began = now
            case 1:
                one.began, one.due = None, now + chance.uniform(-1, 20)
            case _:
                now += chance.uniform(0, 0.5)

        assert set(agenda.waiting(now)) == {each for each in lanes if each.waits(now)}
        idle = [each.due for each in lanes if each.began is None and each.due > now]
        assert agenda.next() == min(idle, default=None)


def test_one_that_is_never_due_is_waited_for_by_nobody() -> None:
    agenda = Agenda()
    lane(agenda, inf)

    assert agenda.next() is None
