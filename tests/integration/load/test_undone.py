"""A reset of the loaded half that has begun to land, taken back by undo: what was taken out meanwhile stays out."""

from collections.abc import Callable

import pytest

from syncd.settings import Deletes, Mode
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import Prepared, moment, row
from watermarks.batch import BatchKind
from watermarks.cursor import Cursor
from watermarks.operator import Operator
from watermarks.progress import BatchOutOfOrder
from watermarks.window import Window

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]


def land(loader: Loader, stream: Prepared) -> None:
    while loader.load(stream).pending_batches:
        pass


def person(loader: Loader) -> Operator:
    return Operator(journal=loader.journal, author="ann", reason="a test")


@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY])
def test_a_row_that_was_gone_stays_gone(prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode) -> None:
    stream = prepared(mode=mode, layout={"deletes": Deletes.HARD})
    stream.increment(row(1, 1), row(2, 2))
    stream.bury(1, upto=Cursor.from_values(moment(3).replace(tzinfo=None)))
    land(loader, stream)
    before = warehouse.rows(stream)
    person(loader).reset_marks(stream.stream, reset_extract=False)
    loader.load(stream, limit=1)
    person(loader).undo(stream.stream)
    land(loader, stream)
    stream.increment(row(3, 9))

    land(loader, stream)

    assert warehouse.rows(stream) == [*before, (3, "row 3")]


def test_a_range_that_was_emptied_stays_empty(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(row(1, 1), row(2, 1), row(3, 1))
    events.beside(BatchKind.REPAIR, row(1, 1), row(3, 1), window=Window(Cursor.from_values(0), Cursor.from_values(3)))
    land(loader, events)
    person(loader).reset_marks(events.stream, reset_extract=False)
    loader.load(events, limit=1)
    person(loader).undo(events.stream)

    land(loader, events)

    assert warehouse.rows(events) == [(1, "row 1"), (3, "row 3")]


def test_what_was_left_out_does_not_land_by_an_undo(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    stream = prepared()
    stream.increment(row(1, 1))
    land(loader, stream)
    left_out = stream.increment(row(2, 2))
    person(loader).skip_batches(stream.stream, left_out.id)
    stream.increment(row(3, 3))
    land(loader, stream)
    person(loader).reset_marks(stream.stream, reset_extract=False)
    loader.load(stream, limit=1)

    with pytest.raises(BatchOutOfOrder, match="were skipped before"):
        person(loader).undo(stream.stream)

    assert warehouse.rows(stream) == [(1, "row 1"), (3, "row 3")]
