"""Jobs of a session: their cancellation, and the error of each when Spark ends the session."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncd.concurrency.running_pass import RunningPass
from syncd.errors import PassStopped, ReaderDown
from syncd.settings import SparkSettings
from syncd.spark import spark_session as module
from syncd.spark.spark_session import CLUSTER_HINT, SparkJob, WarmSparkSession


@pytest.mark.parametrize("when", ["before this one's job ends", "between two questions of this one"])
def test_whoever_hears_second_that_spark_ended_its_session_says_so_too(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """PySpark is told of one end alone: a session of its own would end this process's."""
    session = WarmSparkSession(SparkSettings())
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True)))
    spark = cast("Any", SimpleNamespace(sparkContext=context))
    context.addJobTag = lambda _tag: None
    jvm = SimpleNamespace(
        has_ended=False, ran_out_of_memory=False, wait_for_exit=lambda _within: False, stop=lambda: None
    )
    session._spark, session._jvm = spark, cast("Any", jvm)
    monkeypatch.setattr(module, "forget_session", lambda *_, **__: setattr(context, "_jsc", None))
    lost = session._stop_if_lost

    def other_hears() -> None:
        assert session._is_stopped_by_spark(spark)

    def asked(found: Any, *, within: float) -> bool:
        told = lost(found, within=within)
        if when.startswith("between"):
            other_hears()
        return told

    def job(_: object) -> None:
        if when.startswith("before"):
            other_hears()
        raise RuntimeError("Job 1 cancelled because SparkContext was shut down")

    monkeypatch.setattr(session, "_stop_if_lost", asked)

    with pytest.raises(ReaderDown, match="ended its session") as told:
        session.run(job, within=5)

    assert told.value.hint == CLUSTER_HINT


@dataclass
class Context:
    """The part of a SparkContext that tags and cancels jobs; a cancellation sets the signal."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    tags: list[str] = field(default_factory=list)

    def addJobTag(self, tag: str) -> None:  # noqa: N802  # named by PySpark
        self.tags.append(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802  # as above
        assert tag in self.tags
        self.cancelled.set()


@dataclass
class FakeJvm:
    has_ended: bool = False
    kills: list[str] = field(default_factory=list)

    def kill(self) -> None:
        self.kills.append("killed")

    def stop(self) -> None:
        self.has_ended = True


@dataclass
class Started:
    """A session whose JVM runs; Spark itself is not started."""

    session: WarmSparkSession
    context: Context
    jvm: FakeJvm


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    session, context, jvm = WarmSparkSession(SparkSettings()), Context(), FakeJvm()
    session._spark, session._jvm = cast("Any", SimpleNamespace(sparkContext=context)), cast("Any", jvm)
    monkeypatch.setattr(module, "forget_session", lambda *_, **__: None)
    return Started(session, context, jvm)


def test_a_job_past_its_deadline_is_cancelled_by_its_own_tag(started: Started) -> None:
    seen: list[int] = []

    with pytest.raises(TimeoutError):
        started.session.run(
            lambda _: started.context.cancelled.wait(60),
            within=0.01,
            on_cancel=lambda job: seen.append(job.running_task_count),
        )

    assert seen == [1]
    assert started.context.cancelled.is_set()
    assert not started.jvm.kills
    assert started.session.is_running


def test_a_job_is_cancelled_with_its_pass(started: Started) -> None:
    ended = RunningPass("the pass")

    def work(_: object) -> None:
        ended.end("the service stops")
        started.context.cancelled.wait(60)

    with pytest.raises(PassStopped, match="the service stops"):
        started.session.run(work, within=60, running_pass=ended)

    assert started.context.cancelled.is_set()
    assert not started.jvm.kills


@pytest.mark.parametrize("others", [0, 1])
def test_a_jvm_that_does_not_react_is_killed_unless_another_job_runs_there(
    started: Started, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CANCEL_TIMEOUT_SECONDS", 0.01)
    released = threading.Event()
    jobs = list[SparkJob[Any]]()
    started.session._busy = others

    with pytest.raises(TimeoutError):
        started.session.run(lambda _: released.wait(60), within=0.01, on_cancel=jobs.append)

    assert bool(started.jvm.kills) is not bool(others)
    assert started.session.is_running is bool(others)
    assert [job.running_task_count for job in jobs] == [others]
    released.set()
