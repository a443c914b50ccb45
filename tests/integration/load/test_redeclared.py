"""A column that was altered in place: what rows hold that were read before is not known, and that is told once."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.events import ColumnIncomplete
from syncd.lake.manifest import Manifest
from syncd.settings import Mode
from tests.builders import RUN
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, row
from watermarks.batch import BatchId, BatchKind
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.operator import Operator
from watermarks.store import Revision
from watermarks.stores.s3 import S3Store

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
LONG = replace(NAME, column_type="varchar(99)", length=99)
SHORT = replace(NAME, column_type="varchar(9)", length=9)


@pytest.fixture
def orders(prepared: Prepare, loader: Loader) -> Prepared:
    """A stream with one row in the target, whose column is then made shorter."""
    orders = prepared(columns=(ID, LONG, UPDATE_AT))
    orders.increment(row(1, 1, name="longer than nine"))
    loader.load(orders)
    orders.columns = (ID, SHORT, UPDATE_AT)
    return orders


def test_a_shorter_text_is_told_with_what_mends_it_once(loader: Loader, warehouse: Reader, orders: Prepared) -> None:
    orders.increment(row(2, 2))

    outcome = loader.load(orders)

    [told] = outcome.incomplete_columns
    assert told.startswith("name may differ from the source in rows read before 1-2: it was declared varchar(99) ")
    assert f"syncd run -t shop.{orders.table} --from 1970-01-01 --until 20" in told
    [event] = [event for event in loader.events if isinstance(event, ColumnIncomplete)]
    assert event.values_kept
    assert warehouse.rows(orders, "id, name") == [(1, "longer than nine"), (2, "row 2")]
    orders.increment(row(3, 3))
    assert loader.load(orders).incomplete_columns == ()


def test_a_longer_text_is_told_nobody(loader: Loader, orders: Prepared) -> None:
    orders.columns = (ID, replace(LONG, column_type="varchar(200)", length=200), UPDATE_AT)
    orders.increment(row(2, 2))

    assert loader.load(orders).incomplete_columns == ()


@pytest.mark.parametrize("kind", [BatchKind.REPAIR, BatchKind.AHEAD])
def test_a_change_that_a_batch_beside_the_mark_reads_first_is_told_with_it(
    loader: Loader, orders: Prepared, kind: BatchKind
) -> None:
    orders.beside(kind, row(1, 1))
    orders.increment(row(2, 2))

    [told] = loader.load(orders).incomplete_columns

    assert "in rows read before 1-2: " in told


def test_batches_that_read_no_row_anew_lose_no_change(loader: Loader, orders: Prepared) -> None:
    orders.bury(1, upto=Cursor.from_values(row(1, 1)["update_at"].replace(tzinfo=None), 1))
    orders.beside(BatchKind.REPLAY, row(3, 1), origin=BatchId(1, 1))
    orders.increment(row(2, 2))

    [told] = loader.load(orders).incomplete_columns

    assert "in rows read before 1-4: " in told


def test_a_change_is_told_by_a_later_batch_where_the_first_was_left_out(loader: Loader, orders: Prepared) -> None:
    left_out = orders.increment(row(2, 2))
    Operator(journal=loader.journal, author="ann", reason="a test").skip_batches(orders.stream, left_out.id)
    orders.increment(row(3, 3))

    [told] = loader.load(orders).incomplete_columns

    assert "in rows read before 1-2: " in told
    orders.increment(row(4, 4))
    assert loader.load(orders).incomplete_columns == ()


def test_a_stream_that_is_read_by_its_key_is_told_to_begin_anew(prepared: Prepare, loader: Loader) -> None:
    orders = prepared(columns=(ID, LONG, UPDATE_AT), cursor="id")
    orders.increment(row(1, 1))
    loader.load(orders)
    orders.columns = (ID, SHORT, UPDATE_AT)
    orders.increment(row(2, 2))

    [told] = loader.load(orders).incomplete_columns

    assert told.endswith(f"syncd watermark reset -t shop.{orders.table} --mysql-only --reason 'a column was altered'")


def test_a_default_that_came_stays_beside_a_change_of_its_column(
    loader: Loader, warehouse: Reader, orders: Prepared
) -> None:
    paid = SourceColumn(name="paid", data_type="int", column_type="int(11)", precision=10, scale=0, default="7")
    orders.columns, orders.defaults = (*orders.columns, paid), {"paid": 7}
    orders.increment(row(2, 2, paid=1))
    orders.columns = (ID, SHORT, UPDATE_AT, replace(paid, column_type="mediumint(9)", data_type="mediumint"))
    link = orders.increment(row(3, 3, paid=2))

    told = loader.load(orders).incomplete_columns

    assert [line.partition(" ")[0] for line in told] == ["name", "paid"]
    assert warehouse.rows(orders, "id, paid") == [(1, 7), (2, 1), (3, 2)]
    assert Manifest.from_link(link).redeclared_columns["paid"].since == BatchId(1, 3)


def test_a_change_whose_batch_was_left_out_is_told_though_tombstones_land_before(
    loader: Loader, orders: Prepared
) -> None:
    left_out = orders.increment(row(2, 2))
    Operator(journal=loader.journal, author="ann", reason="a test").skip_batches(orders.stream, left_out.id)
    orders.bury(1, upto=Cursor.from_values(row(1, 1)["update_at"].replace(tzinfo=None), 1))
    assert loader.load(orders).incomplete_columns == ()
    orders.increment(row(3, 3))

    [told] = loader.load(orders).incomplete_columns

    assert "in rows read before 1-2: " in told
    orders.increment(row(4, 4))
    assert loader.load(orders).incomplete_columns == ()


class Killed(BaseException):
    """What a process does not survive."""


@pytest.mark.parametrize(("made", "again"), [(False, 1), (True, 0)], ids=["before its entry", "behind it"])
def test_a_kill_at_the_entry_of_the_mark_loses_no_line(
    loader: Loader, orders: Prepared, monkeypatch: pytest.MonkeyPatch, *, made: bool, again: int
) -> None:
    orders.increment(row(2, 2))
    put = S3Store.put

    def dies(store: S3Store, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        if not (key.startswith("history/") and b'"change":"load"' in body.replace(b" ", b"")):
            return put(store, key, body, expected=expected)
        if made:
            put(store, key, body, expected=expected)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(S3Store, "put", dies)
        with pytest.raises(Killed):
            loader.run(orders).execute(RUN)
    told = [event for event in loader.events if isinstance(event, ColumnIncomplete)]
    loader.end()

    after = loader.load(orders)

    assert len(told) == 1
    assert len(after.incomplete_columns) == again
    assert loader.load(orders).incomplete_columns == ()


@pytest.mark.parametrize("cursor", ["update_at", "id"])
def test_who_reads_all_of_it_anew_is_not_told_to(prepared: Prepare, loader: Loader, cursor: str) -> None:
    orders = prepared(columns=(ID, LONG, UPDATE_AT), cursor=cursor)
    orders.increment(row(1, 1))
    loader.load(orders)
    orders.columns = (ID, SHORT, UPDATE_AT)
    Operator(journal=loader.journal, author="ann", reason="altered").set_marks(
        orders.stream, extract_cursor=START_CURSOR
    )

    orders.increment(row(1, 1), row(2, 2))

    assert loader.load(orders).incomplete_columns == ()


def test_in_a_table_that_appends_the_price_of_reading_again_is_told(prepared: Prepare, loader: Loader) -> None:
    events = prepared(columns=(ID, LONG, UPDATE_AT), mode=Mode.APPEND)
    events.increment(row(1, 1))
    loader.load(events)
    events.columns = (ID, SHORT, UPDATE_AT)
    events.increment(row(2, 2))

    [told] = loader.load(events).incomplete_columns

    assert (
        "To read them again, which removes older versions of these rows and rows that were deleted at the"
        " source: syncd run" in told
    )
