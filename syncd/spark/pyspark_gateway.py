"""PySpark on a JVM that syncd started; all uses of PySpark's private members are here or in `failures`."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from syncd.errors import ReaderDown
from syncd.spark.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGIN_TIMEOUT_SECONDS: Final = 10
NARROW_ARROW_BATCH_ROWS: Final = 4_096
"""Rows per Arrow batch if each is known to be narrow and none is measured."""
_NARROW_ROW_CONF: Final[Mapping[str, str]] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(NARROW_ARROW_BATCH_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


def require_no_other_session() -> None:
    """Make sure that no other session runs in this process: PySpark's state exists once per process.

    Raises:
        ReaderDown: another session runs.
    """
    from pyspark.core.context import SparkContext

    if SparkContext._active_spark_context is not None:  # noqa: SLF001  # there is no public way
        raise ReaderDown(
            "another Spark session runs in this process",
            hint="End that session first, or use a separate process for each session.",
        )


def narrow_row_session(spark: "SparkSession") -> "SparkSession":
    """Return a session for rows that are known to be narrow.

    To limit a batch by bytes, Spark asks after every row for the size of each column, which is a quarter of the JVM's
    work. This is a setting of a session, so the result is another session on the same JVM.
    """
    other = spark.newSession()
    for name, value in _NARROW_ROW_CONF.items():
        other.conf.set(name, value)
    return other


def load_pyspark() -> None:
    """Load the modules of a first read, while Java starts on another core."""
    import pandas  # noqa: ICN001, F401  # PySpark asks for its version
    import pyarrow  # noqa: ICN001, F401  # only loaded
    import pyspark.sql  # noqa: F401  # as above


def connect_session(jvm: Jvm, *, local: bool) -> "SparkSession":
    """Return PySpark's session on a JVM that it did not start."""
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # The only way to make PySpark use a running JVM.
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret}
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]  # untyped in PySpark
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    try:
        with _keep_interrupt_handler():
            context = SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm))
    except BaseException:
        SparkContext._gateway = gateway  # noqa: SLF001  # so that `forget_session` closes it
        raise
    # A running job reports that a JVM died; these would also print tracebacks.
    logging.getLogger().addFilter(_is_not_of_py4j)
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001  # as above
    # Only this bounds the wait of Connector/J for a server's greeting: neither of its own two limits does.
    gateway.jvm.java.sql.DriverManager.setLoginTimeout(LOGIN_TIMEOUT_SECONDS)
    if local and "PYSPARK_PYTHON" not in os.environ:
        # PySpark would use the first Python on PATH.
        context.pythonExec = sys.executable
    return SparkSession(context)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Keep the handler of Ctrl-C: PySpark installs its own, which cancels all jobs."""
    ours = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, ours)


def forget_session(spark: "SparkSession | None", *, jvm_gone: bool) -> None:
    """Make PySpark ready for another JVM, which it would never use otherwise; `jvm_gone` skips calls to the old one."""
    from py4j.protocol import Py4JError
    from pyspark.core.context import SparkContext

    gateway, context = SparkContext._gateway, SparkContext._active_spark_context  # noqa: SLF001  # there is no public way
    if spark is not None:
        context = spark.sparkContext
        if not jvm_gone:
            with suppress(Py4JError, OSError):  # the JVM may end at any time
                spark.stop()
    if context is not None:
        context._jsc = None  # noqa: SLF001  # no call to the JVM
        context.stop()  # the Python side: a server and its thread
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  # as above


def is_stopped(spark: "SparkSession") -> bool:
    """Return whether Spark has ended the session, as it does when its cluster is gone; asks a running JVM."""
    from py4j.protocol import Py4JError

    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001  # there is no public way
    except (AttributeError, OSError, Py4JError):
        return False  # another thread has stopped it, or the JVM does not answer: its last error is reported


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a task ran out of heap, after which Spark ends its JVM."""
    with suppress(Exception):  # the text comes from a JVM that may be gone
        return "java.lang.OutOfMemoryError" in str(error)
    return False


def is_connection_error(error: Exception) -> bool:
    """Return whether the connection to the JVM failed, and not the call."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, (Py4JNetworkError, ConnectionError))
