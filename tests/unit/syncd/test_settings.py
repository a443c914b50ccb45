"""Settings say what follows from them."""

import pytest

from syncd.settings import LakeSettings, SparkSettings


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", 2),
        ("local", 1),
        ("local[3]", 3),
        ("local[3,4]", 3),
        ("local[16]", 4),
        ("spark://host:7077", 4),
        ("yarn", 4),
    ],
)
def test_as_many_windows_are_read_at_once_as_there_are_slots_and_connections(master: str, expected: int) -> None:
    assert SparkSettings(master=master).window_parallelism(4, cores=2) == expected


@pytest.mark.parametrize(
    ("prefix", "address"),
    [("", "s3://lake"), ("/", "s3://lake"), ("syncd", "s3://lake/syncd"), ("/a/b/", "s3://lake/a/b")],
)
def test_a_lake_has_one_address_however_its_prefix_is_written(prefix: str, address: str) -> None:
    assert LakeSettings(bucket="lake", prefix=prefix).address == address
