"""The process that Spark forks its Python workers from, with all loaded that each of them would load anew.

Spark ends a worker that had nothing to do for a minute, and so most batches begin with new ones. It runs this as
`python -m syncd.spark.worker_preload`, in place of PySpark's own.
"""

import gc
import os
from collections.abc import Mapping
from typing import Final

SINGLE_THREADED_ENVIRONMENT: Final[Mapping[str, str]] = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""With these, what is loaded starts no thread: a fork takes none along, but every lock that one holds."""


def preload_modules() -> None:
    """Load what a task wants, and let no collection look at it again: there is much of it, and none of it goes away."""
    os.environ |= SINGLE_THREADED_ENVIRONMENT
    import pandas  # noqa: ICN001, F401  # PySpark asks for its version
    import pyspark.worker  # noqa: F401  # it is loaded, and no more

    import syncd.spark.task  # noqa: F401  # as above

    gc.freeze()


def main() -> None:
    """Load, then fork a worker for whoever asks, until Spark closes the pipe."""
    from pyspark.daemon import manager

    preload_modules()
    manager()


if __name__ == "__main__":
    main()
