"""Another table under a stream's name: what its rows below the mark are is not known, and that is told once."""

from collections.abc import Callable
from typing import Any

import pytest

from syncd.events import TableReplaced
from syncd.settings import Mode
from tests.integration.load.conftest import Loader
from tests.services.prepared import Prepared, row
from watermarks.batch import BatchId, BatchKind
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
REMADE = {"made": {"numbers": ["8"], "looked": None, "remade": "1-2"}}


def another(prepared: Prepare, loader: Loader, **words: Any) -> Prepared:
    """A stream with one row in the target, whose next batch is of another table."""
    orders = prepared(**words)
    orders.increment(row(1, 1))
    loader.load(orders)
    orders.plan_body = REMADE
    return orders


def test_it_is_told_once_with_what_finds_and_mends_it(prepared: Prepare, loader: Loader) -> None:
    orders = another(prepared, loader)
    orders.increment(row(2, 2))

    [told] = loader.load(orders).incomplete_columns

    assert told.startswith("the table was replaced before batch 1-2 (by RENAME ")
    assert f": syncd verify -t shop.{orders.table} --repair --yes. To read them again: syncd run -t" in told
    assert f"-t shop.{orders.table} --from 1970-01-01 --until 20" in told
    [event] = [event for event in loader.events if isinstance(event, TableReplaced)]
    assert event.since == BatchId(1, 2)
    orders.increment(row(3, 3))
    assert loader.load(orders).incomplete_columns == ()


def test_a_later_batch_tells_it_where_the_first_was_left_out(prepared: Prepare, loader: Loader) -> None:
    orders = another(prepared, loader)
    left_out = orders.increment(row(2, 2))
    Operator(journal=loader.journal, author="ann", reason="a test").skip_batches(orders.stream, left_out.id)
    orders.increment(row(3, 3))

    [told] = loader.load(orders).incomplete_columns

    assert "replaced before batch 1-2 " in told


def test_a_replay_between_tells_nothing_and_loses_nothing(prepared: Prepare, loader: Loader) -> None:
    orders = another(prepared, loader)
    orders.plan_body = {"made": {"remade": "1-3"}}
    orders.beside(BatchKind.REPLAY, row(3, 1), origin=BatchId(1, 1))
    assert loader.load(orders).incomplete_columns == ()
    orders.increment(row(2, 2))

    [told] = loader.load(orders).incomplete_columns

    assert "replaced before batch 1-3 " in told


def test_in_a_table_that_appends_the_price_of_reading_again_is_told(prepared: Prepare, loader: Loader) -> None:
    events = another(prepared, loader, mode=Mode.APPEND)
    events.increment(row(2, 2))

    [told] = loader.load(events).incomplete_columns

    assert (
        "To read them again, which removes older versions of these rows and rows that were deleted at the"
        " source: syncd run" in told
    )
