"""What comes out of Spark, and what it means; the JVM that is asked for the reason may be gone by then."""

from typing import NoReturn

import pytest

from syncd.errors import ReaderDown
from syncd.settings import Secret, SourceSettings
from syncd.spark.failures import is_row_too_wide, map_spark_error

SETTINGS = SourceSettings(name="mysql", host="db", user="sync", password=Secret("hunter2"), database="shop")


class Cause:
    """An exception of a JVM that is gone: whatever is asked of it ends on the line."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ConnectionRefusedError(111, "Connection refused")


class Told(Exception):
    java_exception = Cause()


def test_an_error_of_a_jvm_that_ended_since_is_no_bug() -> None:
    assert not is_row_too_wide(Told())
    with pytest.raises(ReaderDown, match="ended during a job"):
        raise map_spark_error(Told(), SETTINGS)
