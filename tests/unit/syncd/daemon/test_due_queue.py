"""What is due, found without looking at what is not."""

import random
from math import inf

from syncd.daemon.stage_task import DueQueue, StageTask, TaskKey
from syncd.settings import StreamSettings
from watermarks.document import Stage
from watermarks.names import StreamName


def lane(agenda: DueQueue, due: float, name: str = "t") -> StageTask:
    stream = StreamName(source="mysql", database="shop", table=name)
    settings = StreamSettings(source="mysql", database="shop", table=name)
    return StageTask(
        key=TaskKey(stream, Stage.EXTRACT), settings=settings, systems=("source",), due_queue=agenda, scheduled_due=due
    )


def test_one_that_is_held_back_waits_until_it_begins() -> None:
    agenda = DueQueue()
    one, other = lane(agenda, 1.0), lane(agenda, 5.0)

    assert agenda.collect_due(2.0) == (one,)
    assert agenda.collect_due(3.0) == (one,)
    assert agenda.next_due_at() == 5.0
    one.running_since = 3.0
    assert agenda.collect_due(6.0) == (other,)


def test_only_the_last_word_of_a_lane_counts() -> None:
    agenda = DueQueue()
    one = lane(agenda, 1.0)
    one.due = 9.0
    one.due = 4.0

    assert agenda.next_due_at() == 4.0
    assert agenda.collect_due(3.0) == ()
    assert agenda.collect_due(4.0) == (one,)
    one.due = 7.0
    assert agenda.collect_due(6.0) == ()
    assert agenda.collect_due(7.0) == (one,)
    assert agenda.collect_due(9.0) == (one,), "once, however often it was noted"


def test_whatever_is_moved_it_tells_what_a_look_at_all_tells() -> None:
    chance = random.Random(7)
    agenda = DueQueue()
    lanes = [lane(agenda, chance.uniform(0, 50), f"t{n}") for n in range(40)]
    now = 0.0
    for _ in range(3_000):
        one = chance.choice(lanes)
        match chance.randrange(3):
            case 0 if one.is_waiting(now):
                one.running_since = now
            case 1:
                one.running_since, one.due = None, now + chance.uniform(-1, 20)
            case _:
                now += chance.uniform(0, 0.5)

        assert set(agenda.collect_due(now)) == {each for each in lanes if each.is_waiting(now)}
        idle = [each.due for each in lanes if each.running_since is None and each.due > now]
        assert agenda.next_due_at() == min(idle, default=None)


def test_one_that_is_never_due_is_waited_for_by_nobody() -> None:
    agenda = DueQueue()
    lane(agenda, inf)

    assert agenda.next_due_at() is None
