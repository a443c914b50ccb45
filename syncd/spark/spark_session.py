"""A warm Spark session: started when something is to be read, ended after a long idle time."""

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Never, TypeVar

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import RunningPass, run_in_thread
from syncd.errors import PassStopped, ReaderDown
from syncd.host.directories import find_cache, find_jars
from syncd.host.jar_download import MARIADB_DRIVER, MYSQL_DRIVER, fetch_archive
from syncd.settings import SparkSettings
from syncd.spark.jvm import start_jvm
from syncd.spark.pyspark_gateway import (
    connect_session,
    forget_session,
    is_connection_error,
    is_out_of_memory,
    is_stopped,
    load_pyspark,
    require_no_other_session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from syncd.spark.jvm import Jvm

T = TypeVar("T")

SESSION_START_TIMEOUT_SECONDS: Final = 600.0
"""From a listening JVM to a session; a cluster may be slow to grant resources."""
CANCEL_TIMEOUT_SECONDS: Final = 10.0
SLOT_COUNT_TIMEOUT_SECONDS: Final = 30.0
JVM_EXIT_GRACE_SECONDS: Final = 5.0
MAX_ARROW_BATCH_ROWS: Final = 16_384
MAX_ARROW_BATCH_BYTES: Final = 16 << 20
MACHINE_MEMORY_HINT: Final = (
    "If the machine ran out of memory, lower spark.driver_memory, or read fewer windows at once."
)
CLUSTER_HINT: Final = (
    "Check that the cluster of spark.master runs and accepts this application. The next pass tries again."
)
HEAP_SIZE_HINT: Final = (
    "Raise spark.driver_memory to several times the bytes of the longest row, or read fewer windows at once"
    " (source.max_connections)."
)
DEFAULT_CONF: Final[Mapping[str, str]] = {
    "spark.app.name": "syncd",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.metrics.staticSources.enabled": "false",
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(MAX_ARROW_BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(MAX_ARROW_BATCH_BYTES),
    # A plan is never shown completely: it holds the statements, and so values of keys.
    "spark.sql.maxMetadataStringLength": "40",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|url",
    "spark.python.worker.reuse": "true",
    "spark.python.worker.faulthandler.enabled": "false",
}
"""Settings of every session; those of the configuration override them."""

LOCAL_CONF: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "syncd.spark.worker_preload",
}
"""A local session listens on loopback only, and its workers run this Python."""


JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData")
QUICK_START_OPTION: Final = "-XX:TieredStopAtLevel=1"
"""Compile with the fast compiler only: halves the startup time, and the speed of long work."""


class SparkJob(threading.Thread, Generic[T]):
    """One job of one pass, in a thread of its own."""

    def __init__(
        self, work: "Callable[[SparkSession], T]", spark: "SparkSession", *, is_session_over: Callable[[], bool]
    ) -> None:
        self._tag = uuid.uuid4().hex
        super().__init__(name=f"spark-{self._tag[:6]}", daemon=True)
        self._work = work
        self._spark = spark
        self._is_session_over = is_session_over
        self.outcome: Final = Future[T]()

    def run(self) -> None:
        """Run the work, as a thread does; its result or error is the outcome."""
        try:
            # The tag applies to this thread only: PySpark pins a Java thread to each Python thread.
            self._spark.sparkContext.addJobTag(self._tag)
            self.outcome.set_result(self._work(self._spark))
        except BaseException as error:  # noqa: BLE001  # the waiting thread raises it
            self.outcome.set_exception(error)

    def cancel(self, *, within: float) -> bool:
        """Cancel the job; return whether it ended within so many seconds. Its tasks may run on for a while."""
        # In another thread, since a JVM that hangs never answers.
        threading.Thread(target=lambda: self._spark.sparkContext.cancelJobsWithTag(self._tag), daemon=True).start()
        self.join(within)
        return self.outcome.done()

    @property
    def running_task_count(self) -> int:
        """Return the number of tasks that still run; a job that has not noticed its cancellation counts as one."""
        if self._is_session_over():
            return 0
        if not self.outcome.done():
            return 1
        try:
            tracker: Any = self._spark.sparkContext._jsc.statusTracker()  # noqa: SLF001  # there is no public way
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(self._tag)]
            stages = [stage for job in jobs if job is not None for stage in job.stageIds()]
            found = [tracker.getStageInfo(stage) for stage in stages]
            return sum(int(stage.numActiveTasks()) for stage in found if stage is not None)
        except Exception:  # noqa: BLE001  # a JVM that ends meanwhile may raise anything, and has no tasks
            return 0


class WarmSparkSession:
    """The session of one process; any thread may use it.

    Nothing starts before the first use, and everything ends with this process, however it ends.
    """

    def __init__(
        self,
        settings: SparkSettings,
        *,
        environ: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.monotonic,
        on_progress: Callable[[str], None] = lambda _line: None,
        one_shot: bool = False,
    ) -> None:
        """Create the session; with `one_shot` the process ends after its work, so a small job may start quickly."""
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._now = now
        self._tell = on_progress
        self._one_shot = one_shot
        self._quick = False
        """Whether the JVM was started for a small job."""
        self._pending_start: Future[SparkSession] | None = None
        self._guard = threading.RLock()
        self._jvm: Jvm | None = None
        self._spark: SparkSession | None = None
        self._stopped_by_spark: SparkSession | None = None
        """The last session that Spark ended by itself; other threads at work in it learn of it later."""
        self._slots: ResourcePool[Never] | None = None
        self._busy = 0
        self._last_used = now()

    @property
    def is_running(self) -> bool:
        return self._spark is not None

    @property
    def jvm_output(self) -> str:
        """Last output of its JVM."""
        return self._jvm.output_tail if self._jvm else ""

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, or of the shell around it."""
        return self._jvm.process.pid if self._jvm else None

    def prepare(self, *, little: bool) -> None:
        """Start the session in the background; a failure is raised when a job runs.

        `little` tells that only a small job is expected.
        """
        with self._guard:
            self._adopt_finished_start()  # a failed start belonged to another pass, which knows of it or is over
            self._begin_start(little=little)

    def _begin_start(self, *, little: bool) -> None:
        if self._spark is None and self._pending_start is None:
            self._quick = little and self._one_shot
            self._last_used = self._now()
            self._pending_start = run_in_thread(self._start, name="spark-start")

    def _adopt_finished_start(self) -> None:
        """Adopt a session whose start has finished, and drop a failed start."""
        if self._pending_start is not None and self._pending_start.done():
            self._await_start()

    def run(
        self,
        work: "Callable[[SparkSession], T]",
        *,
        within: float,
        little: bool = True,
        running_pass: RunningPass = NO_PASS,
        on_cancel: Callable[[SparkJob[Any]], None] = lambda _job: None,
    ) -> T:
        """Run work as a job; cancel it after `within` seconds, or when its pass is ended.

        A session that was started for a small job is replaced for a larger one. `on_cancel` receives a job before it
        is cancelled: its tasks may run on for a while.

        Raises:
            ReaderDown: there is no session, or it ended.
            TimeoutError: the job took longer, and was cancelled.
            PassStopped: the pass was ended, and the job cancelled.
        """
        spark = self._enter(little, running_pass)
        try:
            job = SparkJob(work, spark, is_session_over=lambda: self._spark is not spark)
            job.start()
            with self._cancel_if_unfinished(job, spark, on_cancel):
                return running_pass.wait_for(job.outcome, timeout_seconds=within)
        except (TimeoutError, PassStopped):
            raise  # a JVM that did not react to the cancellation was killed
        except Exception as error:
            failure = self._explain_failure(spark, error)
            if failure is None:
                raise
            raise failure from error
        finally:
            with self._guard:
                self._busy -= 1
                self._last_used = self._now()

    @contextmanager
    def _cancel_if_unfinished(
        self, job: SparkJob[T], spark: "SparkSession", on_cancel: Callable[[SparkJob[Any]], None]
    ) -> Generator[None]:
        """Cancel a job that still runs at the end of the `with`, and kill a JVM that does not react."""
        try:
            yield
        finally:
            if not job.outcome.done():
                on_cancel(job)
                if not job.cancel(within=CANCEL_TIMEOUT_SECONDS):
                    self._kill_unless_shared(spark)

    def _kill_unless_shared(self, spark: "SparkSession") -> None:
        """Kill the JVM of a session, unless other jobs run there."""
        with self._guard:
            if self._jvm is not None and self._spark is spark and self._busy == 1:
                self._jvm.kill()
                self.stop()

    def _explain_failure(self, spark: "SparkSession", error: Exception) -> ReaderDown | None:
        """Return the cause of a failed job if it is Spark; None if it is the job. Stop a session that is lost."""
        jvm, out_of_memory = self._jvm, is_out_of_memory(error)
        broken = out_of_memory or is_connection_error(error)
        ended = self._stop_if_lost(spark, within=JVM_EXIT_GRACE_SECONDS if broken else 0.0)
        if out_of_memory or (ended and jvm is not None and jvm.ran_out_of_memory):
            return ReaderDown("the heap of Spark's JVM was too small for the rows read", hint=HEAP_SIZE_HINT)
        if self._stopped_by_spark is spark or (not ended and not broken and self._is_stopped_by_spark(spark)):
            return ReaderDown("Spark ended its session by itself", hint=CLUSTER_HINT)
        if ended:
            return ReaderDown("the JVM of Spark ended during a job", hint=MACHINE_MEMORY_HINT)
        return ReaderDown(f"the connection to Spark's JVM broke: {error}") if broken else None

    def slots(self, *, little: bool, running_pass: RunningPass) -> "ResourcePool[Never]":
        """Return the pool of tasks that run at once.

        Spark never gets more tasks than that, so none waits there: callers are served in the order of their requests,
        however Spark shares its cores among jobs.
        """
        count = self.run(
            lambda spark: spark.sparkContext.defaultParallelism,
            within=SLOT_COUNT_TIMEOUT_SECONDS,
            little=little,
            running_pass=running_pass,
        )
        with self._guard:
            if self._slots is None or self._slots.size != count:
                self._slots = ResourcePool(count)
            return self._slots

    def _enter(self, little: bool, running_pass: RunningPass) -> "SparkSession":  # noqa: FBT001  # as `run` has it
        """Return the session and count the caller as busy; all callers wait for a pending start."""
        while True:
            with self._guard:
                if self._jvm is not None and self._jvm.has_ended:
                    self.stop()  # it ended while it was idle
                if self._quick and not little and not self._busy and self._pending_start is None:
                    self.stop()
                if self._spark is not None:
                    self._busy += 1
                    return self._spark
                self._begin_start(little=little)
                pending_start = self._pending_start
            assert pending_start is not None
            self._await_session(pending_start, running_pass)

    def _await_session(self, pending_start: "Future[SparkSession]", running_pass: RunningPass) -> None:
        """Wait for a pending session and adopt it."""
        try:
            spark = running_pass.wait_for(pending_start)
        except Exception:
            with self._guard:
                if self._pending_start is pending_start and pending_start.done():
                    self._pending_start = None
            raise
        with self._guard:
            if self._pending_start is pending_start:
                self._spark, self._pending_start = spark, None

    def _stop_if_lost(self, spark: "SparkSession", *, within: float) -> bool:
        """Return whether this session is over, or ends within so many seconds; the next `run` starts another.

        A dying process closes its sockets first, so a client notices its end before the process is gone.
        """
        with self._guard:
            jvm = self._jvm
            if self._spark is not spark or jvm is None:
                return True
            if not jvm.wait_for_exit(within):
                return False
            self.stop()
            return True

    def _is_stopped_by_spark(self, spark: "SparkSession") -> bool:
        """Return whether Spark has ended this session but left its JVM running; no job can run in it again."""
        if not is_stopped(spark):
            return self._stopped_by_spark is spark  # another thread may have stopped it meanwhile
        with self._guard:
            self._stopped_by_spark = spark
            if self._spark is spark:
                self.stop()
            return True

    def stop_if_idle(self) -> bool:
        """Stop the session if nothing ran for `idle_stop`; return whether it was stopped."""
        with self._guard:
            self._adopt_finished_start()
            idle = self._now() - self._last_used
            if self._spark is None or self._busy or idle < self._settings.idle_stop.total_seconds():
                return False
            self.stop()
            return True

    def stop(self) -> None:
        """Stop the session and its JVM; the next `run` starts another."""
        with self._guard:
            self._await_start()
            spark, jvm = self._spark, self._jvm
            self._spark = self._jvm = None
            self._quick = False
            if jvm is not None:
                forget_session(spark, jvm_gone=jvm.has_ended)
                jvm.stop()

    def detach(self) -> None:
        """Let the session end by itself without waiting, for a process that ends now."""
        with self._guard:
            self._await_start()
            jvm, self._spark, self._jvm = self._jvm, None, None
            if jvm is not None:
                jvm.detach()

    def _await_start(self) -> None:
        """Finish a pending start: only a running session can be stopped."""
        pending_start, self._pending_start = self._pending_start, None
        if pending_start is not None and pending_start.exception() is None:
            self._spark = pending_start.result()

    def _start(self) -> "SparkSession":
        if "pyspark" in sys.modules:
            require_no_other_session()
        loaded = run_in_thread(load_pyspark, name="load-pyspark")
        jars = [
            fetch_archive(jar, find_jars(self._environ), environ=self._environ, report=self._tell)
            for jar in (MYSQL_DRIVER, MARIADB_DRIVER)
        ]
        conf = self._conf(jars)
        jvm = start_jvm(conf, environ=self._environ, cache=find_cache(self._environ), drivers=jars)
        # Only killing a JVM that hangs ends a call to it; and all passes wait for this start.
        watchdog = threading.Timer(SESSION_START_TIMEOUT_SECONDS, jvm.kill)
        watchdog.daemon = True
        watchdog.start()
        started = time.monotonic()
        try:
            loaded.result()
            spark = connect_session(jvm, local=self._settings.master.startswith("local"))
        except BaseException as error:
            is_late = time.monotonic() - started >= SESSION_START_TIMEOUT_SECONDS
            reason = f"its JVM started none within {SESSION_START_TIMEOUT_SECONDS:g} s" if is_late else jvm.output_tail
            jvm.kill()
            forget_session(None, jvm_gone=True)
            jvm.stop()
            if isinstance(error, Exception):
                raise ReaderDown(f"no Spark session: {reason or error}") from error
            raise
        finally:
            watchdog.cancel()
        self._jvm = jvm
        return spark

    def _conf(self, jars: Sequence[Path]) -> dict[str, str]:
        settings = self._settings
        local = settings.master.startswith("local")
        class_path = ":".join(map(str, jars))
        return {
            **DEFAULT_CONF,
            **(LOCAL_CONF if local else {"spark.jars": ",".join(map(str, jars))}),
            "spark.master": settings.master,
            "spark.driver.memory": settings.driver_memory,
            # On the class path with Spark's own jars, so that the class archive includes the drivers.
            "spark.driver.extraClassPath": class_path,
            "spark.driver.extraJavaOptions": " ".join([*JAVA_OPTIONS, *([QUICK_START_OPTION] if self._quick else [])]),
            **settings.conf,
        }
