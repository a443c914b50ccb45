"""Settings say what follows from them."""

import pytest

from syncd.core.settings import SparkSettings


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
    assert SparkSettings(master=master).at_once(4, cores=2) == expected
