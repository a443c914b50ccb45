"""One warm Spark session: started when something is to be read, ended when nothing was for long."""

import logging
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never, TypeVar

from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import RunningPass, run_in_thread
from syncd.errors import PassStopped, ReaderDown
from syncd.host.cache_dirs import find_cache, find_jars
from syncd.host.jars import MARIADB_DRIVER, MYSQL_DRIVER, fetch_archive
from syncd.settings import SparkSettings
from syncd.spark.jvm import Jvm, start_jvm

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

T = TypeVar("T")

SESSION_START_TIMEOUT_SECONDS: Final = 600.0
"""Seconds from when the JVM listens until it has a session: a cluster may be slow to give it what it asks for."""
LOGIN_TIMEOUT_SECONDS: Final = 10
CANCEL_TIMEOUT_SECONDS: Final = 10.0
SLOT_COUNT_TIMEOUT_SECONDS: Final = 30.0
JVM_EXIT_GRACE_SECONDS: Final = 5.0
MAX_ARROW_BATCH_ROWS: Final = 16_384
MAX_ARROW_BATCH_BYTES: Final = 16 << 20
NARROW_ARROW_BATCH_ROWS: Final = 4_096
"""Rows that Spark hands over at once where each is known to be narrow, and none is weighed."""
_NARROW_ROW_CONF: Final[Mapping[str, str]] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(NARROW_ARROW_BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}

MACHINE_MEMORY_HINT: Final = (
    "Was the machine out of memory? Give spark.driver_memory less than it has, or read fewer windows at once."
)
CLUSTER_HINT: Final = (
    "Is the cluster up that spark.master names, and does it let this application run? It is asked again."
)
HEAP_SIZE_HINT: Final = (
    "Give spark.driver_memory more: several times what the longest row has in bytes. Or read fewer windows at once"
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
    # A plan is never shown whole: it holds the statements, and so values of keys.
    "spark.sql.maxMetadataStringLength": "40",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|url",
    "spark.python.worker.reuse": "true",
    "spark.python.worker.faulthandler.enabled": "false",
}
"""Settings of every session; those of the configuration come after and win."""

LOCAL_CONF: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "syncd.spark.worker_preload",
}
"""Nobody else has a part in a session on this machine alone, and its workers run the Python that we do."""


JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData")
QUICK_START_OPTION: Final = "-XX:TieredStopAtLevel=1"
"""Java compiles once and at once. Half the work of a start; but what runs for long runs at half its speed."""


class WarmSparkSession:
    """The session of one process; any thread may use it.

    Nothing starts before the first `use`, and everything ends with this process,
    whichever way that ends.
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
        """Prepare; `one_shot` says that the process ends with its work: a start for little may be a quick one."""
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._now = now
        self._tell = on_progress
        self._one_shot = one_shot
        self._quick = False
        """Whether the session's JVM was started for little."""
        self._pending_start: Future[SparkSession] | None = None
        self._guard = threading.RLock()
        self._jvm: Jvm | None = None
        self._spark: SparkSession | None = None
        self._stopped_by_spark: SparkSession | None = None
        """The last session that Spark ended by itself; whoever else was at work in it hears of it later."""
        self._slots: ResourcePool[Never] | None = None
        self._busy = 0
        self._last_used = now()

    @property
    def is_running(self) -> bool:
        return self._spark is not None

    @property
    def jvm_output(self) -> str:
        """What its JVM wrote last."""
        return self._jvm.output_tail if self._jvm else ""

    @property
    def pid(self) -> int | None:
        """The process of the JVM, or of the shell around it."""
        return self._jvm.process.pid if self._jvm else None

    def prepare(self, *, little: bool) -> None:
        """Start the session beside what the caller does next; what goes wrong is told to whoever runs a job.

        `little` is to be read, as far as is known.
        """
        with self._guard:
            self._adopt_finished_start()  # a start that failed was another pass's, which has heard of it or is over
            self._begin_start(little=little)

    def _begin_start(self, *, little: bool) -> None:
        if self._spark is None and self._pending_start is None:
            self._quick = little and self._one_shot
            self._last_used = self._now()
            self._pending_start = run_in_thread(self._start, name="spark-start")

    def _adopt_finished_start(self) -> None:
        """Let a session that has arrived be the one, and forget a start that failed."""
        coming = self._pending_start
        if coming is not None and coming.done():
            self._await_start()

    def run(
        self,
        job: "Callable[[SparkSession], T]",
        *,
        within: float,
        little: bool = True,
        running_pass: RunningPass = NO_PASS,
        on_leftover_tasks: "Callable[[LeftoverTasks], None]" = lambda _tasks: None,
    ) -> T:
        """What a job gives; cancelled when it takes longer than `within` seconds, or its pass is ended.

        A session that was started for little makes way for another when there is more to do. `left` hears of the tasks
        of a job that was cancelled: they may be at work for a while still.

        Raises:
            ReaderDown: there is no session, or it ended.
            TimeoutError: the job took longer, and was cancelled.
            PassStopped: the pass was ended, and the job cancelled.
        """
        spark = self._enter(little, running_pass)
        try:
            return self._run_with_deadline(spark, job, within, running_pass, on_leftover_tasks)
        except (TimeoutError, PassStopped):
            raise  # ours: where the JVM did not even hear of the end, it is gone by now
        except Exception as error:
            jvm, full = self._jvm, _is_out_of_memory(error)
            broken = full or _is_connection_error(error)
            ended = self._stop_if_lost(spark, within=JVM_EXIT_GRACE_SECONDS if broken else 0.0)
            if full or (ended and jvm is not None and jvm.ran_out_of_memory):
                raise ReaderDown(
                    "the heap of Spark's JVM was too small for what was read", hint=HEAP_SIZE_HINT
                ) from error
            if self._stopped_by_spark is spark:
                raise ReaderDown("Spark ended its session by itself", hint=CLUSTER_HINT) from error
            if ended:
                raise ReaderDown(
                    "the JVM of Spark ended in the middle of its work", hint=MACHINE_MEMORY_HINT
                ) from error
            if not broken and self._is_stopped_by_spark(spark):
                raise ReaderDown("Spark ended its session by itself", hint=CLUSTER_HINT) from error
            if broken:
                raise ReaderDown(f"the line to the JVM of Spark broke: {error}") from error
            raise
        finally:
            with self._guard:
                self._busy -= 1
                self._last_used = self._now()

    def slots(self, *, little: bool, running_pass: RunningPass) -> "ResourcePool[Never]":
        """The tasks that run at once, whoever asks for them.

        No more are ever handed to Spark, so that none waits there: whose turn it is is settled here, in the order of
        asking, and how Spark itself would share its cores among jobs does not matter.
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
        """The session, with one more at work in it; one that is on its way is awaited, by all who want it."""
        while True:
            with self._guard:
                if self._jvm is not None and self._jvm.has_ended:
                    self.stop()  # it ended while nobody asked it for anything
                if self._quick and not little and not self._busy and self._pending_start is None:
                    self.stop()
                if self._spark is not None:
                    self._busy += 1
                    return self._spark
                self._begin_start(little=little)
                coming = self._pending_start
            assert coming is not None
            self._await_session(coming, running_pass)

    def _await_session(self, pending_start: "Future[SparkSession]", running_pass: RunningPass) -> None:
        """Wait for a session, and let it be the one."""
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
        """Whether this session is over, or is in so many seconds, whatever its job said; the next `run` has another.

        A process that dies lets go of its sockets first: whoever talks to it hears of its end before anybody sees it.
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
        """Whether Spark has ended this session and left its JVM alone; no job comes through there again."""
        if not _is_stopped(spark):
            return self._stopped_by_spark is spark  # another may have heard of it, and put it away, meanwhile
        with self._guard:
            self._stopped_by_spark = spark
            if self._spark is spark:
                self.stop()
            return True

    def stop_if_idle(self) -> bool:
        """End the session when nothing ran for `idle_stop`; whether it was ended."""
        with self._guard:
            self._adopt_finished_start()
            idle = self._now() - self._last_used
            if self._spark is None or self._busy or idle < self._settings.idle_stop.total_seconds():
                return False
            self.stop()
            return True

    def stop(self) -> None:
        """End the session and its JVM; the next `run` starts another."""
        with self._guard:
            self._await_start()
            spark, jvm = self._spark, self._jvm
            self._spark = self._jvm = None
            self._quick = False
            if jvm is not None:
                _forget(spark, jvm_gone=jvm.has_ended)
                jvm.stop()

    def detach(self) -> None:
        """Let the session end by itself, and do not wait: for a process that ends now."""
        with self._guard:
            self._await_start()
            jvm, self._spark, self._jvm = self._jvm, None, None
            if jvm is not None:
                jvm.detach()

    def _await_start(self) -> None:
        """Let a start that nobody waited for come to its end: only what stands can be ended."""
        coming, self._pending_start = self._pending_start, None
        if coming is not None and coming.exception() is None:
            self._spark = coming.result()

    def _start(self) -> "SparkSession":
        if "pyspark" in sys.modules:
            _require_no_other_session()
        loaded = run_in_thread(_load_pyspark, name="load-pyspark")
        jars = [
            fetch_archive(jar, find_jars(self._environ), environ=self._environ, report=self._tell) for jar in _DRIVERS
        ]
        conf = self._conf(jars)
        jvm = start_jvm(conf, environ=self._environ, cache=find_cache(self._environ), drivers=jars)
        # A question to a JVM that does not answer ends with that JVM alone; and all passes wait for this one.
        ends = threading.Timer(SESSION_START_TIMEOUT_SECONDS, jvm.kill)
        ends.daemon = True
        ends.start()
        began = time.monotonic()
        try:
            loaded.result()
            spark = _connect(jvm, local=self._settings.master.startswith("local"))
        except BaseException as error:
            is_late = time.monotonic() - began >= SESSION_START_TIMEOUT_SECONDS
            said = f"its JVM gave none within {SESSION_START_TIMEOUT_SECONDS:g} s" if is_late else jvm.output_tail
            jvm.kill()
            _forget(None, jvm_gone=True)
            jvm.stop()
            if isinstance(error, Exception):
                raise ReaderDown(f"no session of Spark: {said or error}") from error
            raise
        finally:
            ends.cancel()
        self._jvm = jvm
        return spark

    def _conf(self, jars: Sequence[Path]) -> dict[str, str]:
        settings = self._settings
        local = settings.master.startswith("local")
        place = ":".join(map(str, jars))
        return {
            **DEFAULT_CONF,
            **(LOCAL_CONF if local else {"spark.jars": ",".join(map(str, jars))}),
            "spark.master": settings.master,
            "spark.driver.memory": settings.driver_memory,
            # Beside Spark's own archives, so that the drivers' classes are archived with them.
            "spark.driver.extraClassPath": place,
            "spark.driver.extraJavaOptions": " ".join([*JAVA_OPTIONS, *([QUICK_START_OPTION] if self._quick else [])]),
            **settings.conf,
        }

    def _run_with_deadline(
        self,
        spark: "SparkSession",
        job: "Callable[[SparkSession], T]",
        within: float,
        running_pass: RunningPass,
        on_leftover_tasks: "Callable[[LeftoverTasks], None]",
    ) -> T:
        tag = uuid.uuid4().hex

        def work() -> T:
            # Of this thread alone: PySpark pins a thread of Java to each of Python's.
            spark.sparkContext.addJobTag(tag)
            return job(spark)

        outcome = run_in_thread(work, name=f"spark-{tag[:6]}")
        try:
            return running_pass.wait_for(outcome, timeout_seconds=within)
        except BaseException:
            if not outcome.done():
                on_leftover_tasks(LeftoverTasks(spark, tag, outcome, is_session_over=lambda: self._spark is not spark))
                self._cancel(spark, tag, outcome)
            raise

    def _cancel(self, spark: "SparkSession", tag: str, outcome: "Future[Any]") -> None:
        """Give the job up; a JVM that does not even hear of it is killed, unless others are at work there."""
        threading.Thread(target=lambda: spark.sparkContext.cancelJobsWithTag(tag), daemon=True).start()
        try:
            outcome.exception(CANCEL_TIMEOUT_SECONDS)
        except TimeoutError:
            with self._guard:
                if self._jvm is not None and self._spark is spark and self._busy == 1:
                    self._jvm.kill()
                    self.stop()


@dataclass(frozen=True, slots=True, kw_only=False)
class LeftoverTasks:
    """What is left at work of a job that was cancelled."""

    spark: "SparkSession"
    tag: str
    outcome: "Future[Any]"
    is_session_over: Callable[[], bool]
    """Whether the session is."""

    @property
    def running_count(self) -> int:
        """How many tasks there are still; while the job has not heard of its end, it is one itself."""
        if self.is_session_over():
            return 0
        if not self.outcome.done():
            return 1
        try:
            tracker: Any = self.spark.sparkContext._jsc.statusTracker()  # noqa: SLF001  # there is no public way
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(self.tag)]
            stages = [stage for job in jobs if job is not None for stage in job.stageIds()]
            found = [tracker.getStageInfo(stage) for stage in stages]
            return sum(int(stage.numActiveTasks()) for stage in found if stage is not None)
        except Exception:  # noqa: BLE001  # a JVM that ends meanwhile raises what it pleases, and has no tasks
            return 0


_DRIVERS: Final = (MYSQL_DRIVER, MARIADB_DRIVER)


def _require_no_other_session() -> None:
    """Make sure that no other session runs here: of PySpark's state, a process has one.

    Raises:
        ReaderDown: one does.
    """
    from pyspark.core.context import SparkContext

    if SparkContext._active_spark_context is not None:  # noqa: SLF001  # there is no public way
        raise ReaderDown(
            "another session of Spark runs in this process",
            hint="End that one first, or give each a process of its own.",
        )


def narrow_row_session(spark: "SparkSession") -> "SparkSession":
    """The session for rows of which each is bounded already.

    To hold a batch to a number of bytes, Spark asks after every row how many each column has by now: a quarter of
    all that the JVM does. What a job reads is set by its session, and so it is another one on the same JVM.
    """
    other = spark.newSession()
    for name, value in _NARROW_ROW_CONF.items():
        other.conf.set(name, value)
    return other


def _load_pyspark() -> None:
    """Load what a first reading wants, while Java starts on the other core."""
    import pandas  # noqa: ICN001, F401  # PySpark asks for its version
    import pyarrow  # noqa: ICN001, F401  # it is loaded, and no more
    import pyspark.sql  # noqa: F401  # as above


def _connect(jvm: Jvm, *, local: bool) -> "SparkSession":
    """PySpark's own session on a JVM that it did not start."""
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # The one way in which PySpark takes a JVM that stands already.
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret}
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark tells no types of it
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    try:
        with _keep_interrupt_handler():
            context = SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm))
    except BaseException:
        SparkContext._gateway = gateway  # noqa: SLF001  # so that it is forgotten with the rest
        raise
    # Whoever is at work there tells that a JVM died; these would print where they were just then.
    logging.getLogger().addFilter(_is_not_of_py4j)
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001  # as above
    # Connector/J bounds the greeting of a server by this alone: neither of its own two limits holds for it.
    gateway.jvm.java.sql.DriverManager.setLoginTimeout(LOGIN_TIMEOUT_SECONDS)
    if local and "PYSPARK_PYTHON" not in os.environ:
        # PySpark would take whichever Python is first on PATH.
        context.pythonExec = sys.executable
    return SparkSession(context)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Keep the handler of Ctrl-C: PySpark sets one of its own, which cancels the jobs of everyone."""
    ours = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, ours)


def _forget(spark: "SparkSession | None", *, jvm_gone: bool) -> None:
    """Make PySpark ready for another JVM; it keeps the first one for ever otherwise. One that is gone is not told."""
    from py4j.protocol import Py4JError
    from pyspark.core.context import SparkContext

    gateway, context = SparkContext._gateway, SparkContext._active_spark_context  # noqa: SLF001  # there is no public way
    if spark is not None:
        context = spark.sparkContext
        if not jvm_gone:
            with suppress(Py4JError, OSError):  # it may go at any time
                spark.stop()
    if context is not None:
        context._jsc = None  # noqa: SLF001  # nobody is there any more who could be asked
        context.stop()  # what it has on this side: a server, and the thread of that
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  # as above


def _is_stopped(spark: "SparkSession") -> bool:
    """Whether Spark has ended the session, as it does where its cluster has gone; asked of a JVM that answers."""
    from py4j.protocol import Py4JError

    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001  # there is no public way
    except (AttributeError, OSError, Py4JError):
        return False  # another has put it away already, or the JVM does not answer: what it said last is told


def _is_out_of_memory(error: Exception) -> bool:
    """Whether a task found no room in the heap, after which Spark ends its JVM."""
    with suppress(Exception):  # its text is asked of a JVM that may be gone
        return "java.lang.OutOfMemoryError" in str(error)
    return False


def _is_connection_error(error: Exception) -> bool:
    """Whether it tells of the line to the JVM, and not of what the JVM was asked to do."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, (Py4JNetworkError, ConnectionError))
