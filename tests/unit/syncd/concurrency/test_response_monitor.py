"""Sides that keep silent: who is told, and who is not asked again."""

import threading
from dataclasses import dataclass, field

import pytest

from syncd.concurrency.response_monitor import REPORT_SILENCE_AFTER_SECONDS, SKIP_SILENT_SIDE_SECONDS, ResponseMonitor
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
def silences(watch: Watch) -> ResponseMonitor:
    return ResponseMonitor(watch.say, clock=watch)


def waits_in_vain(silences: ResponseMonitor, watch: Watch, seconds: float = REPORT_SILENCE_AFTER_SECONDS) -> SourceDown:
    error = SourceDown("MySQL at db:3306: timed out", hint="Is it up?", code=2013)
    with pytest.raises(SourceDown) as met:
        asks(silences, watch, seconds, error)
    assert met.value is error
    return error


def asks(silences: ResponseMonitor, watch: Watch, seconds: float, error: Exception) -> None:
    with silences.watch_or_skip(MYSQL):
        watch.now += seconds
        raise error


def test_who_was_waited_for_in_vain_is_not_asked_again_for_a_while(silences: ResponseMonitor, watch: Watch) -> None:
    waits_in_vain(silences, watch)

    with (
        pytest.raises(SourceDown, match=r"timed out \(an earlier error; it is too soon for a new request\)") as met,
        silences.watch_or_skip(MYSQL),
    ):
        pytest.fail("it was asked")

    assert (met.value.hint, met.value.facts) == ("Is it up?", {"code": 2013})
    with silences.watch_or_skip("MySQL at other:3306"):
        """Another side is."""
    watch.now += SKIP_SILENT_SIDE_SECONDS
    with silences.watch_or_skip(MYSQL):
        """And so is this one, later."""


def test_who_refuses_at_once_is_asked_again(silences: ResponseMonitor, watch: Watch) -> None:
    waits_in_vain(silences, watch, seconds=REPORT_SILENCE_AFTER_SECONDS - 1)

    with silences.watch_or_skip(MYSQL):
        """It may be up by now."""


def test_who_answers_late_and_badly_has_answered(silences: ResponseMonitor, watch: Watch) -> None:
    with pytest.raises(SourceUnfit):
        asks(silences, watch, 100, SourceUnfit("access denied"))

    assert not silences.is_skipping(MYSQL)


def test_what_is_over_at_once_was_no_silence(silences: ResponseMonitor, watch: Watch) -> None:
    with pytest.raises(ZeroDivisionError):
        asks(silences, watch, 0, ZeroDivisionError())

    assert not silences.is_skipping(MYSQL)


def test_whoever_waits_is_told_once_for_each_silence(watch: Watch) -> None:
    with ResponseMonitor(watch.say, clock=watch, report_after=0.01) as silences:
        first, second = silences.begin_request("s3://lake"), silences.begin_request("s3://lake")
        watch.now = 7.0
        assert watch.heard.wait(10)
        silences.end_request(first, succeeded=False)
        silences.end_request(second, succeeded=True)
        watch.heard.clear()
        silences.begin_request("s3://lake")
        watch.now = 19.0
        assert watch.heard.wait(10)

    assert watch.said == ["s3://lake has not answered for 7 s", "s3://lake has not answered for 12 s"]


def test_who_answers_in_time_is_not_spoken_of(watch: Watch) -> None:
    with ResponseMonitor(watch.say, clock=watch, report_after=0.01) as silences:
        number = silences.begin_request("s3://lake")
        silences.end_request(number, succeeded=True)
        watch.now = 100.0

    assert watch.said == []


def test_who_has_answered_another_meanwhile_keeps_not_silent(silences: ResponseMonitor, watch: Watch) -> None:
    lost, other = silences.begin_request("s3://lake"), silences.begin_request("s3://lake")
    watch.now += 100
    silences.end_request(other, succeeded=True)
    watch.now += REPORT_SILENCE_AFTER_SECONDS - 1
    silences.end_request(lost, succeeded=False)

    assert not silences.is_skipping("s3://lake")


def test_who_answers_after_all_is_asked_again(silences: ResponseMonitor, watch: Watch) -> None:
    lost, late = silences.begin_request("s3://lake"), silences.begin_request("s3://lake")
    watch.now += REPORT_SILENCE_AFTER_SECONDS
    silences.end_request(lost, succeeded=False)
    assert silences.is_skipping("s3://lake")
    silences.end_request(late, succeeded=True)

    assert not silences.is_skipping("s3://lake")


def test_one_long_question_among_many_that_are_answered_is_not_spoken_of(watch: Watch) -> None:
    with ResponseMonitor(watch.say, clock=watch, report_after=1.0) as silences:
        silences.begin_request("s3://lake")
        for _ in range(9):
            watch.now += 0.9
            silences.end_request(silences.begin_request("s3://lake"), succeeded=True)
            assert not watch.heard.wait(0.12), watch.said
