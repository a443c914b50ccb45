"""Cases of a parametrized test that CI runs, and those that only `make test-all` runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def fast_first(values: Iterable[object], *, fast: int = 1) -> list[Any]:
    """Return the values for `parametrize`: the first `fast` as they are, the others marked `slow`."""
    return [
        value if place < fast else pytest.param(value, marks=pytest.mark.slow) for place, value in enumerate(values)
    ]
