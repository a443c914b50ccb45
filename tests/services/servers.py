"""The two servers that tests of the source run against: MariaDB, and MySQL itself where it can be had."""

import os
from typing import Final

import pytest

from tests.services.real_mysql import Unavailable, can_be_had, real_mysql

ENVIRON: Final = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_SANDBOX")}
"""What a sandbox of a test is started with, whatever the sandbox of whoever runs the tests is."""

BOTH: Final = ["mariadb", "mysql"]
_FIRST, _OTHER = ("mysql", "mariadb") if can_be_had() else ("mariadb", "mysql")
ONE: Final = [_FIRST, pytest.param(_OTHER, marks=pytest.mark.long)]
"""For what takes long: MySQL itself where it can be had. The other server has its turn in the long proofs."""


def environ_of(kind: str) -> dict[str, str]:
    """The environment in which the sandbox's server is `mariadb` or `mysql`; a test without its server is skipped."""
    if kind != "mysql":
        return ENVIRON
    try:
        return {**ENVIRON, "PATH": f"{real_mysql()}:{ENVIRON['PATH']}"}
    except Unavailable as error:
        pytest.skip(str(error))
