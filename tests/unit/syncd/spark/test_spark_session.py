"""Who hears what where Spark ends a session that several streams are at work in."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncd.errors import ReaderDown
from syncd.settings import SparkSettings
from syncd.spark import spark_session as module
from syncd.spark.spark_session import CLUSTER_HINT, WarmSparkSession


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
