"""Sides that keep silent: who is told, and who is not asked again."""

import threading
from dataclasses import dataclass, field

import pytest

from syncd.concurrency.response_monitor import LEFT_FOR, SAID_AFTER, Silences
from syncd.errors import SourceDown, SourceUnfit

MYSQL = "MySQL at db:3306"


@dataclass
class Watch:
    """A clock that a test moves, and what was said."""

    now: float = 0.0
    said: list[str] = field(default_factory=list[str])
    heard: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> float:
        return self.now

    def say(self, line: str) -> None:
        self.said.append(line)
        self.heard.set()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def silences(watch: Watch) -> Silences:
    return Silences(watch.say, clock=watch)


def waits_in_vain(silences: Silences, watch: Watch, seconds: float = SAID_AFTER) -> SourceDown:
    error = SourceDown("MySQL at db:3306: timed out", hint="Is it up?", code=2013)
    with pytest.raises(SourceDown) as met:
        asks(silences, watch, seconds, error)
    assert met.value is error
    return error


def asks(silences: Silences, watch: Watch, seconds: float, error: Exception) -> None:
    with silences.heed(MYSQL):
        watch.now += seconds
        raise error


def test_who_was_waited_for_in_vain_is_not_asked_again_for_a_while(silences: Silences, watch: Watch) -> None:
    waits_in_vain(silences, watch)

    with pytest.raises(SourceDown, match="timed out; it was not asked again so soon") as met, silences.heed(MYSQL):
        pytest.fail("it was asked")

    assert (met.value.hint, met.value.facts) == ("Is it up?", {"code": 2013})
    with silences.heed("MySQL at other:3306"):
        """Another side is."""
    watch.now += LEFT_FOR
    with silences.heed(MYSQL):
        """And so is this one, later."""


def test_who_refuses_at_once_is_asked_again(silences: Silences, watch: Watch) -> None:
    waits_in_vain(silences, watch, seconds=SAID_AFTER - 1)

    with silences.heed(MYSQL):
        """It may be up by now."""


def test_who_answers_late_and_badly_has_answered(silences: Silences, watch: Watch) -> None:
    with pytest.raises(SourceUnfit):
        asks(silences, watch, 100, SourceUnfit("access denied"))

    assert not silences.leaves(MYSQL)


def test_what_is_over_at_once_was_no_silence(silences: Silences, watch: Watch) -> None:
    with pytest.raises(ZeroDivisionError):
        asks(silences, watch, 0, ZeroDivisionError())

    assert not silences.leaves(MYSQL)


def test_whoever_waits_is_told_once_for_each_silence(watch: Watch) -> None:
    with Silences(watch.say, clock=watch, said_after=0.01) as silences:
        first, second = silences.asks("s3://lake"), silences.asks("s3://lake")
        watch.now = 7.0
        assert watch.heard.wait(10)
        silences.answered(first, well=False)
        silences.answered(second, well=True)
        watch.heard.clear()
        silences.asks("s3://lake")
        watch.now = 19.0
        assert watch.heard.wait(10)

    assert watch.said == ["s3://lake has not answered for 7 s", "s3://lake has not answered for 12 s"]


def test_who_answers_in_time_is_not_spoken_of(watch: Watch) -> None:
    with Silences(watch.say, clock=watch, said_after=0.01) as silences:
        number = silences.asks("s3://lake")
        silences.answered(number, well=True)
        watch.now = 100.0

    assert watch.said == []


def test_who_has_answered_another_meanwhile_keeps_not_silent(silences: Silences, watch: Watch) -> None:
    lost, other = silences.asks("s3://lake"), silences.asks("s3://lake")
    watch.now += 100
    silences.answered(other, well=True)
    watch.now += SAID_AFTER - 1
    silences.answered(lost, well=False)

    assert not silences.leaves("s3://lake")


def test_who_answers_after_all_is_asked_again(silences: Silences, watch: Watch) -> None:
    lost, late = silences.asks("s3://lake"), silences.asks("s3://lake")
    watch.now += SAID_AFTER
    silences.answered(lost, well=False)
    assert silences.leaves("s3://lake")
    silences.answered(late, well=True)

    assert not silences.leaves("s3://lake")


def test_one_long_question_among_many_that_are_answered_is_not_spoken_of(watch: Watch) -> None:
    with Silences(watch.say, clock=watch, said_after=1.0) as silences:
        silences.asks("s3://lake")
        for _ in range(9):
            watch.now += 0.9
            silences.answered(silences.asks("s3://lake"), well=True)
            assert not watch.heard.wait(0.12), watch.said
