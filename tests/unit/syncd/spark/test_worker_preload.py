"""What Spark's Python workers are forked from."""

import subprocess
import sys

LOADED = """
import gc
import sys
from pathlib import Path
from syncd.spark.worker_preload import preload_modules
preload_modules()
assert {"botocore", "pandas", "pyarrow", "pyspark.worker", "syncd.spark.window_task"} <= set(sys.modules)
assert gc.get_freeze_count() > 50_000
assert len(list(Path("/proc/self/task").iterdir())) == 1
"""


def test_what_workers_want_is_loaded_without_a_thread() -> None:
    """A fork takes no thread along, but every lock that one holds: a worker that wants it would wait for ever."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
