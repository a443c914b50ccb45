"""The commands of whoever looks, on batches prepared without a JVM: a lake, a stand-in, and a MySQL that is away."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.integration.load.conftest import Loader, journal, lake, loader, prepared, warehouse
from tests.integration.marks.conftest import Marks, marks
from tests.services.prepared import Prepared, row
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server

__all__ = [
    "bucket", "client", "clients", "journal", "lake", "loader", "marks", "no_fault_left", "prepared", "s3_url",
    "server", "warehouse",
]  # fmt: skip


@pytest.fixture
def syncd(marks: Callable[..., Marks]) -> Callable[..., Marks]:
    """`syncd` in this process, with a configuration of these tables."""
    return partial(marks, group=())


@pytest.fixture
def two_landed(prepared: Callable[..., Prepared], loader: Loader) -> Prepared:
    """Three batches, the first two of them loaded."""
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.increment(row(3, 3), parts=1)
    loader.load(orders)
    orders.increment(row(4, 4))
    return orders
