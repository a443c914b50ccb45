"""The life of the JVM: started when wanted, gone with its parent, and never waited for without an end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import ReaderDown
from syncd.settings import SparkSettings
from syncd.spark.spark_session import WarmSparkSession

pytestmark = pytest.mark.services

PARENT = """
import sys
from syncd.spark.spark_session import WarmSparkSession
from syncd.settings import SparkSettings
session = WarmSparkSession(SparkSettings())
frame = lambda spark: spark.range(3).mapInArrow(lambda batches: batches, 'id long').count()
assert session.run(frame, within=300) == 3
print(session.pid, flush=True)
sys.stdin.read()
"""

LIFE = """
from datetime import timedelta
from syncd.spark.spark_session import WarmSparkSession
from syncd.settings import SparkSettings
now = [0.0]
session = WarmSparkSession(SparkSettings(idle_stop=timedelta(minutes=10)), now=lambda: now[0])
assert not session.is_running
assert not session.stop_if_idle()
for _ in range(2):
    assert session.run(lambda spark: spark.range(3).count(), within=300) == 3
    now[0] += 599
    assert not session.stop_if_idle()
    now[0] += 1
    assert session.stop_if_idle()
    assert not session.is_running
"""

UNUSED = """
import threading
from datetime import timedelta
from syncd.spark import spark_session as module
from syncd.spark.spark_session import WarmSparkSession
from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import ReaderDown
from syncd.settings import SparkSettings
now = [0.0]
session = WarmSparkSession(SparkSettings(idle_stop=timedelta(minutes=10)), now=lambda: now[0])
now[0] += 700
session.prepare(little=True)
assert wait_until(lambda: session._pending_start.done(), timeout_seconds=300)
assert not session.stop_if_idle()
now[0] += 600
assert session.stop_if_idle()
assert session.pid is None
started = module.start_jvm
def full(*args, **words):
    raise ReaderDown('no space left')
module.start_jvm = full
session.prepare(little=True)
assert wait_until(lambda: session._pending_start.done(), timeout_seconds=300)
module.start_jvm = started
session.prepare(little=True)
assert session.run(lambda spark: spark.range(3).count(), within=300) == 3
session.stop()
"""

STUCK = """
import os, signal
from syncd.spark import spark_session as module
from syncd.spark.spark_session import WarmSparkSession
from syncd.errors import ReaderDown
from syncd.settings import SparkSettings
module.SESSION_START_TIMEOUT_SECONDS = 2.0
session, started = WarmSparkSession(SparkSettings()), module.start_jvm
def stuck(*args, **words):
    jvm = started(*args, **words)
    os.kill(jvm.process.pid, signal.SIGSTOP)
    return jvm
def count(spark):
    return spark.range(3).count()
module.start_jvm = stuck
try:
    session.run(count, within=300)
except ReaderDown as error:
    assert 'started none within 2 s' in error.message, error.message
else:
    raise AssertionError('it came')
module.SESSION_START_TIMEOUT_SECONDS = 120.0
module.start_jvm = started
assert session.run(count, within=300) == 3
session.stop()
"""

GROWS = """
from syncd.spark.spark_session import QUICK_START_OPTION, WarmSparkSession
from syncd.settings import SparkSettings
told = []
session = WarmSparkSession(SparkSettings(), one_shot=True)
def job(spark):
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    told.append((session.pid, QUICK_START_OPTION in str(beans.getRuntimeMXBean().getInputArguments())))
    return spark.range(3).mapInArrow(lambda batches: batches, 'id long').count()
session.prepare(little=True)
assert session.run(job, within=300) == 3
assert session.run(job, within=300, little=True) == 3
assert session.run(job, within=300, little=False) == 3
assert session.run(job, within=300, little=True) == 3
session.stop()
session.prepare(little=True)
assert session.run(job, within=300, little=False) == 3
pids, quick = zip(*told)
assert quick == (True, True, False, False, False), quick
assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4], pids
session.stop()
"""

LOST = """
import os, sys, threading
from pathlib import Path
from syncd.spark import pyspark_gateway as gateway, spark_session as module
from syncd.spark.spark_session import WarmSparkSession
from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import ReaderDown
from syncd.settings import SparkSettings
session, begun = WarmSparkSession(SparkSettings()), Path(sys.argv[1])
def waits(_):
    begun.touch()
    threading.Event().wait()
def hangs(spark):
    return spark.sparkContext.parallelize([1]).map(waits).count()
def count(spark):
    return spark.range(3).count()
def lost(job):
    try:
        session.run(job, within=300)
    except ReaderDown:
        return
    raise AssertionError('nothing was lost')
def held():
    return len(os.listdir('/proc/self/fd')), threading.active_count()
found = []
for _ in range(3):
    begun.unlink(missing_ok=True)
    assert session.run(count, within=300) == 3
    found.append(held())
    ends = threading.Thread(target=lambda: wait_until(begun.exists, timeout_seconds=60) and session._jvm.kill())
    ends.start()
    lost(hangs)
    ends.join()
handles, threads = found[0]
def as_before():
    return held()[0] <= handles + 1 and held()[1] <= threads
assert found[-1][0] <= handles + 1 and found[-1][1] <= threads, found
assert session.run(count, within=300) == 3
session._jvm.kill()
started = module.start_jvm
def killed(*args, **words):
    jvm = started(*args, **words)
    connect = gateway._keep_interrupt_handler
    def first():
        gateway._keep_interrupt_handler = connect
        jvm.kill()
        return connect()
    gateway._keep_interrupt_handler = first
    return jvm
module.start_jvm = killed
lost(count)
module.start_jvm = started
assert session.run(count, within=300) == 3
assert wait_until(as_before, timeout_seconds=120), (held(), found, threading.enumerate())
session.stop()
"""


HEAP = """
from syncd.spark.spark_session import WarmSparkSession
from syncd.errors import ReaderDown
from syncd.settings import SparkSettings
session = WarmSparkSession(SparkSettings(driver_memory="512m"))
def large(spark):
    rows = spark.range(1).selectExpr("repeat('x', 400000000) AS x")
    return rows.mapInArrow(lambda batches: batches, "x string").count()
try:
    session.run(large, within=300)
except ReaderDown as told:
    assert "heap" in told.message, told.message
    assert "Raise spark.driver_memory" in told.hint, told.hint
else:
    raise AssertionError("it had room")
assert session.run(lambda spark: spark.range(3).count(), within=300) == 3
session.stop()
"""
"""A job for which the heap is too small: Spark ends its own JVM, and says by which number why."""

ENDED = """
import threading
from syncd.spark.spark_session import WarmSparkSession
from syncd.errors import ReaderDown
from syncd.concurrency.resource_pool import NO_PASS
from syncd.settings import SparkSettings
session = WarmSparkSession(SparkSettings())
def count(spark):
    return spark.range(3).count()
def ends(spark):
    stops = threading.Thread(target=spark.sparkContext._jsc.sc().stop)
    stops.start()
    try:
        return spark.range(1 << 50).selectExpr("sum(id % 7)").collect()
    finally:
        stops.join()
def told(ask):
    try:
        ask()
    except ReaderDown as error:
        return error.message
    raise AssertionError("it went on")
assert session.run(count, within=300) == 3
message = told(lambda: session.run(ends, within=300))
assert "Spark ended its session" in message, message
assert session.run(count, within=300) == 3
session._spark.sparkContext._jsc.sc().stop()
message = told(lambda: session.slots(little=True, running_pass=NO_PASS))
assert "Spark ended its session" in message, message
assert session.slots(little=True, running_pass=NO_PASS).size >= 1
assert session.run(count, within=300) == 3
session.stop()
"""
"""Spark ends the session and not its JVM, as it does where the cluster is gone: in a job, and while nobody asks."""


def members_of(session: int) -> list[int]:
    """Its living processes: a JVM, the shell around it, its Python workers, which have a group of their own."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def test_a_killed_parent_takes_its_jvm_along() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        started = int(parent.stdout.readline())
        assert members_of(started)

        parent.send_signal(signal.SIGKILL)

        assert wait_until(lambda: not members_of(started), timeout_seconds=300)


@pytest.mark.slow
def test_an_idle_session_ends_and_the_next_job_starts_another_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIFE], capture_output=True, text=True, check=False, timeout=900, env=os.environ
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_session_that_was_prepared_and_never_used_is_let_go_and_a_failed_start_is_no_later_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNUSED], capture_output=True, text=True, check=False, timeout=900, env=os.environ
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_jvm_that_stands_still_before_it_has_a_session_is_ended_and_the_next_job_has_another() -> None:
    """All passes wait for that one start: each would be ended for its length, and the next would wait for it again."""
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, check=False, timeout=900, env=os.environ
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_session_that_was_started_for_little_makes_way_for_a_full_one_within_one_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWS], capture_output=True, text=True, check=False, timeout=900, env=os.environ
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_jvm_that_ran_out_of_heap_says_so_and_the_next_job_has_another() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAP], capture_output=True, text=True, check=False, timeout=900, env=os.environ
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_session_that_spark_ended_by_itself_is_let_go_and_the_next_job_has_another() -> None:
    """A cluster that is away for some minutes ends the applications in it: no job came through in that JVM again."""
    done = subprocess.run(
        [sys.executable, "-c", ENDED], capture_output=True, text=True, check=False, timeout=900, env=os.environ
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_what_a_killed_jvm_leaves_is_put_away_and_another_one_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST, str(tmp_path / "begun")], capture_output=True, text=True, check=False, timeout=900
    )

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Unable to cleanly shutdown" not in done.stderr


def test_a_process_has_one_session_and_a_second_one_says_so(session: WarmSparkSession) -> None:
    session.run(lambda spark: spark.range(3).count(), within=300)

    with pytest.raises(ReaderDown, match="another Spark session"):
        WarmSparkSession(SparkSettings()).run(lambda spark: spark.range(3).count(), within=300)

    assert session.run(lambda spark: spark.range(3).count(), within=300) == 3


def test_a_new_worker_has_loaded_what_a_task_wants(session: WarmSparkSession) -> None:
    """Spark ends a worker after a minute without work: each batch of a stream that rests longer would load it anew."""

    def tell(_: object) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"told": [" ".join({"pandas", "syncd.spark.window_task"} & set(sys.modules))]})

    rows = session.run(lambda spark: spark.range(1).mapInArrow(tell, "told string").collect(), within=120)

    assert {word for row in rows for word in row[0].split()} == {"pandas", "syncd.spark.window_task"}


def test_a_job_that_takes_too_long_is_cancelled_and_the_session_goes_on(session: WarmSparkSession) -> None:
    began = time.monotonic()

    with pytest.raises(TimeoutError):
        session.run(lambda spark: spark.range(1 << 50).selectExpr("sum(id % 7)").collect(), within=1)

    assert session.run(lambda spark: spark.range(3).count(), within=300) == 3
    assert time.monotonic() - began < 300
