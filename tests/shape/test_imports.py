"""What importing costs: the library stands on the standard library, the command loads no driver."""

import ast
import subprocess
import sys

PROBE = """
import sys
before = set(sys.modules)
{statement}
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(name for name in loaded if name not in sys.stdlib_module_names))
"""

ALL_OF_WATERMARKS = """
import importlib, pkgutil, watermarks
for module in pkgutil.walk_packages(watermarks.__path__, "watermarks."):
    if module.name not in ("watermarks.stores.s3", "watermarks.testing"):
        importlib.import_module(module.name)
"""

HELP = """
import contextlib, io, syncd.cli.main as main
with contextlib.redirect_stdout(io.StringIO()):
    main.syncd(["--help"], standalone_mode=False)
"""


def loaded_by(statement: str) -> set[str]:
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_watermarks_loads_no_third_party_module() -> None:
    assert loaded_by(ALL_OF_WATERMARKS) == {"watermarks"}


def test_help_loads_no_driver() -> None:
    drivers = {"boto3", "botocore", "pymysql", "pyspark", "redshift_connector", "apscheduler", "pyarrow", "pandas"}

    loaded = loaded_by(HELP)

    assert "click" in loaded
    assert loaded.isdisjoint(drivers)
