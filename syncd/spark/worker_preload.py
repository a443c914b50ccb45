"""The process from which Spark forks its Python workers, with their modules loaded once.

Spark ends a worker that was idle for a minute, so most batches begin with new ones. It runs this as `python -m
syncd.spark.worker_preload`, in place of PySpark's own.
"""

import gc
import os
from collections.abc import Mapping
from typing import Final

SINGLE_THREADED_ENVIRONMENT: Final[Mapping[str, str]] = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""With these the loaded libraries start no thread: a fork copies no threads, but every lock that one holds."""


def preload_modules() -> None:
    """Load the modules of a task, and exempt them from garbage collection: they are many and all stay."""
    os.environ |= SINGLE_THREADED_ENVIRONMENT
    import pandas  # noqa: ICN001, F401  # PySpark asks for its version
    import pyspark.worker  # noqa: F401  # only loaded

    import syncd.spark.window_task  # noqa: F401  # as above

    gc.freeze()


def main() -> None:
    """Preload, then fork workers on request until Spark closes the pipe."""
    from pyspark.daemon import manager

    preload_modules()
    manager()


if __name__ == "__main__":
    main()
