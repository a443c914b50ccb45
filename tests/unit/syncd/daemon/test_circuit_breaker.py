from syncd.daemon.circuit_breaker import (
    FIRST_PROBE_SECONDS,
    MAX_PROBE_SECONDS,
    OPEN_AFTER_FAILURES,
    OPERATOR_PAUSE_SECONDS,
    CircuitBreaker,
    backoff_seconds,
)


def broken() -> CircuitBreaker:
    breaker = CircuitBreaker(random_fraction=lambda: 0.5)
    for _ in range(OPEN_AFTER_FAILURES):
        breaker.on_attempt(0.0)
        breaker.on_failure(0.0, "away")
    return breaker


def test_a_side_is_given_up_after_some_failures_in_a_row() -> None:
    breaker = CircuitBreaker(random_fraction=lambda: 0.5)
    breaker.on_failure(0.0, "away")
    breaker.on_failure(0.0, "away")
    assert breaker.allows(0.0)

    breaker.on_failure(0.0, "away")

    assert not breaker.allows(0.0)
    assert breaker.reason == "away"


def test_one_success_between_begins_the_count_anew() -> None:
    breaker = CircuitBreaker(random_fraction=lambda: 0.5)
    breaker.on_failure(0.0, "away")
    breaker.on_failure(0.0, "away")
    assert breaker.on_success() is False

    breaker.on_failure(0.0, "away")

    assert breaker.allows(0.0)


def test_then_one_looks_and_nobody_beside_it() -> None:
    breaker = broken()
    assert breaker.allows(FIRST_PROBE_SECONDS)

    breaker.on_attempt(FIRST_PROBE_SECONDS)

    assert not breaker.allows(FIRST_PROBE_SECONDS)
    assert breaker.on_success() is True
    assert breaker.allows(FIRST_PROBE_SECONDS)


def test_each_look_in_vain_makes_the_next_pause_longer_up_to_a_bound() -> None:
    breaker, pauses = broken(), []
    for _ in range(6):
        now = breaker.next_probe_at or 0.0
        breaker.on_attempt(now)
        breaker.on_failure(now, "away")
        pauses.append((breaker.next_probe_at or 0.0) - now)

    assert pauses == [10.0, 20.0, 40.0, MAX_PROBE_SECONDS, MAX_PROBE_SECONDS, MAX_PROBE_SECONDS]


def test_whoever_had_no_need_to_ask_leaves_it_to_the_next() -> None:
    breaker = broken()
    breaker.on_attempt(FIRST_PROBE_SECONDS)

    breaker.on_inconclusive(FIRST_PROBE_SECONDS)

    assert breaker.allows(FIRST_PROBE_SECONDS)


def test_those_who_were_at_work_when_it_was_given_up_make_the_pause_no_longer() -> None:
    breaker = broken()
    for _ in range(20):
        breaker.on_failure(1.0, "away")

    assert breaker.next_probe_at == 1.0 + FIRST_PROBE_SECONDS


def test_who_looks_is_waited_for_as_long_as_a_pause_is_and_then_the_next_one_looks() -> None:
    breaker = broken()
    breaker.on_attempt(FIRST_PROBE_SECONDS)
    assert not breaker.allows(2 * FIRST_PROBE_SECONDS - 0.1)

    assert breaker.allows(2 * FIRST_PROBE_SECONDS)

    breaker.on_attempt(2 * FIRST_PROBE_SECONDS)
    assert not breaker.allows(2 * FIRST_PROBE_SECONDS)


def test_a_stream_waits_longer_each_time_and_not_as_long_as_its_neighbour() -> None:
    middle = [backoff_seconds(failures, random_fraction=lambda: 0.5) for failures in (1, 2, 3, 10, 1000)]
    assert middle == [2.0, 4.0, 8.0, 300.0, 300.0]

    assert backoff_seconds(1, random_fraction=lambda: 0.0) == 1.5
    assert backoff_seconds(1, random_fraction=lambda: 1.0) == 2.5
    assert backoff_seconds(1, random_fraction=lambda: 0.5, needs_operator=True) == OPERATOR_PAUSE_SECONDS
