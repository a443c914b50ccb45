from syncd.daemon.backoff import FOR_A_PERSON, pause_after
from syncd.daemon.circuit_breaker import FIRST, MOST, OPENS_AFTER, Breaker


def broken() -> Breaker:
    breaker = Breaker(chance=lambda: 0.5)
    for _ in range(OPENS_AFTER):
        breaker.began(0.0)
        breaker.failed(0.0, "away")
    return breaker


def test_a_side_is_given_up_after_some_failures_in_a_row() -> None:
    breaker = Breaker(chance=lambda: 0.5)
    breaker.failed(0.0, "away")
    breaker.failed(0.0, "away")
    assert breaker.lets(0.0)

    breaker.failed(0.0, "away")

    assert not breaker.lets(0.0)
    assert breaker.reason == "away"


def test_one_success_between_begins_the_count_anew() -> None:
    breaker = Breaker(chance=lambda: 0.5)
    breaker.failed(0.0, "away")
    breaker.failed(0.0, "away")
    assert breaker.succeeded() is False

    breaker.failed(0.0, "away")

    assert breaker.lets(0.0)


def test_then_one_looks_and_nobody_beside_it() -> None:
    breaker = broken()
    assert breaker.lets(FIRST)

    breaker.began(FIRST)

    assert not breaker.lets(FIRST)
    assert breaker.succeeded() is True
    assert breaker.lets(FIRST)


def test_each_look_in_vain_makes_the_next_pause_longer_up_to_a_bound() -> None:
    breaker, pauses = broken(), []
    for _ in range(6):
        now = breaker.until or 0.0
        breaker.began(now)
        breaker.failed(now, "away")
        pauses.append((breaker.until or 0.0) - now)

    assert pauses == [10.0, 20.0, 40.0, MOST, MOST, MOST]


def test_whoever_had_no_need_to_ask_leaves_it_to_the_next() -> None:
    breaker = broken()
    breaker.began(FIRST)

    breaker.learned_nothing(FIRST)

    assert breaker.lets(FIRST)


def test_those_who_were_at_work_when_it_was_given_up_make_the_pause_no_longer() -> None:
    breaker = broken()
    for _ in range(20):
        breaker.failed(1.0, "away")

    assert breaker.until == 1.0 + FIRST


def test_who_looks_is_waited_for_as_long_as_a_pause_is_and_then_the_next_one_looks() -> None:
    breaker = broken()
    breaker.began(FIRST)
    assert not breaker.lets(2 * FIRST - 0.1)

    assert breaker.lets(2 * FIRST)

    breaker.began(2 * FIRST)
    assert not breaker.lets(2 * FIRST)


def test_a_stream_waits_longer_each_time_and_not_as_long_as_its_neighbour() -> None:
    middle = [pause_after(failures, chance=lambda: 0.5) for failures in (1, 2, 3, 10, 1000)]
    assert middle == [2.0, 4.0, 8.0, 300.0, 300.0]

    assert pause_after(1, chance=lambda: 0.0) == 1.5
    assert pause_after(1, chance=lambda: 1.0) == 2.5
    assert pause_after(1, chance=lambda: 0.5, for_a_person=True) == FOR_A_PERSON
