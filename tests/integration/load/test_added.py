"""A column that was added: rows from before it hold its default, though nobody reads them again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.events import ColumnIncomplete
from syncd.settings import Mode
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, row
from watermarks.batch import BatchId, BatchKind
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
PAID = SourceColumn(
    name="paid", data_type="int", column_type="int(11)", precision=10, scale=0, nullable=False, default="7"
)
NOTE = replace(NAME, name="note", default="'; \\ it''s")
ADDED = (ID, NAME, UPDATE_AT, PAID, NOTE)
DEFAULTS = {"paid": 7, "note": b"'; \\ it''s"}
SHOWN = "id, paid, note"
OLD = (7, "'; \\ it''s")


def altered(orders: Prepared) -> None:
    orders.columns = ADDED
    orders.defaults = DEFAULTS


@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY])
@pytest.mark.parametrize("notes", [True, False], ids=["with its batch", "without"])
def test_old_rows_get_the_default_and_new_ones_keep_their_own(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode, *, notes: bool
) -> None:
    orders = prepared(mode=mode, **({} if notes else {"notes": ()}))
    orders.increment(row(1, 1), row(2, 1))
    loader.load(orders)
    orders.increment(row(3, 2))
    altered(orders)
    orders.increment(row(2, 3, paid=0, note=None))

    loader.load(orders)

    old = [(2, *OLD)] if mode is not Mode.UPSERT else []
    assert warehouse.rows(orders, SHOWN) == sorted([(1, *OLD), *old, (3, *OLD), (2, 0, None)], key=str)


def test_a_default_wider_than_any_value_of_the_files_widens_its_column(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    loader.load(orders)
    text = SourceColumn(name="t", data_type="text", column_type="text", length=65535, octets=65535, charset="utf8mb4",
                  default="x")  # fmt: skip
    orders.columns, orders.defaults = (*orders.columns, text), {"t": b"x" * 5000}
    orders.increment(row(2, 2, t="short"))

    loader.load(orders)

    assert warehouse.rows(orders, "id, octet_length(t)") == [(1, 5000), (2, 5)]


def test_a_batch_without_rows_brings_the_default_as_well(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    orders = prepared()
    last = row(1, 1)
    orders.increment(last)
    loader.load(orders)
    altered(orders)
    orders.increment(high=orders.place(row(9, 9)))

    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, *OLD)]


def test_rows_read_before_the_column_came_get_the_default_when_they_land_again(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 1))
    altered(orders)
    orders.increment(row(2, 3, paid=1, note="own"))
    loader.load(orders)
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(orders.stream, reset_extract=False)

    loader.load(orders, limit=1)
    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, *OLD), (2, 1, "own")]


def test_a_replay_of_a_row_from_before_the_column_has_the_default(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    altered(orders)
    orders.increment(row(2, 3, paid=1, note="own"))
    loader.load(orders)
    orders.columns = (ID, NAME, UPDATE_AT)
    orders.beside(BatchKind.REPLAY, row(3, 1, name="mended"), origin=BatchId(1, 1))

    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, *OLD), (2, 1, "own"), (3, *OLD)]
    altered(orders)
    link = orders.increment(row(4, 4, paid=2, note="own"))
    assert [one["since"] for one in link.body["added"].values()] == ["1-2", "1-2"]


def test_a_column_that_went_and_came_back_has_its_new_default(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, NAME, UPDATE_AT, PAID))
    orders.increment(row(1, 1, paid=3), row(2, 1, paid=4))
    loader.load(orders)
    orders.columns = (ID, NAME, UPDATE_AT)
    orders.increment(row(2, 2))
    loader.load(orders)
    altered(orders)
    orders.increment(row(3, 3, paid=5, note=""))

    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, *OLD), (2, *OLD), (3, 5, "")]


def test_a_column_that_came_back_as_another_type_has_its_default_in_files_of_the_old_one(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, NAME, UPDATE_AT, replace(PAID, name="note")))
    orders.increment(row(1, 1, note=3))
    orders.columns = (ID, NAME, UPDATE_AT)
    orders.increment(row(2, 2))
    altered(orders)
    orders.increment(row(3, 3, paid=5, note="own"))

    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, *OLD), (2, *OLD), (3, 5, "own")]


def test_a_default_is_brought_by_a_later_batch_where_the_first_was_left_out(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    loader.load(orders)
    altered(orders)
    left_out = orders.increment(row(2, 2, paid=1, note="own"))
    Operator(journal=loader.journal, author="ann", reason="a test").skip_batches(orders.stream, left_out.id)
    orders.increment(row(3, 3, paid=2, note="own"))

    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, *OLD), (3, 2, "own")]


def test_a_default_that_is_computed_is_told_with_what_mends_it(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    loader.load(orders)
    orders.columns = (*orders.columns, replace(PAID, default="rand()", extra="default_generated"))
    orders.increment(row(2, 2, paid=9))

    outcome = loader.load(orders)

    assert warehouse.rows(orders, "id, paid") == [(1, None), (2, 9)]
    [told] = outcome.incomplete_columns
    assert told.startswith("paid is NULL in rows read before 1-2: its default is an expression: rand(). To read them")
    assert f"syncd run -t shop.{orders.table} --from 1970-01-01 --until 20" in told
    assert [event for event in loader.events if isinstance(event, ColumnIncomplete)]
    orders.increment(row(3, 3, paid=9))
    assert loader.load(orders).incomplete_columns == ()


def test_a_default_that_is_computed_is_told_by_a_later_batch_where_the_first_was_left_out(
    prepared: Prepare, loader: Loader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    loader.load(orders)
    orders.columns = (*orders.columns, replace(PAID, default="rand()", extra="default_generated"))
    left_out = orders.increment(row(2, 2, paid=9))
    Operator(journal=loader.journal, author="ann", reason="a test").skip_batches(orders.stream, left_out.id)
    orders.increment(row(3, 3, paid=9))

    [told] = loader.load(orders).incomplete_columns

    assert told.startswith("paid is NULL in rows read before 1-2: ")


def test_a_column_that_may_have_been_renamed_is_told(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    orders = prepared(columns=(ID, replace(NOTE, name="memo"), UPDATE_AT))
    orders.increment(row(1, 1, memo="kept at the source"))
    loader.load(orders)
    orders.columns, orders.defaults = (ID, NOTE, UPDATE_AT, PAID), DEFAULTS
    orders.increment(row(2, 2, note="own", paid=1))

    outcome = loader.load(orders)

    assert warehouse.rows(orders, "id, memo, note, paid") == [(1, "kept at the source", None, 7), (2, None, "own", 1)]
    [told] = outcome.incomplete_columns
    assert "note is NULL in rows read before 1-2: it replaced memo" in told


def test_a_column_of_another_type_in_the_place_of_one_that_went_is_a_new_one(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, UPDATE_AT, replace(NAME, name="memo")))
    orders.increment(row(1, 1, memo="gone"))
    loader.load(orders)
    orders.columns, orders.defaults = (ID, UPDATE_AT, PAID), DEFAULTS
    orders.increment(row(2, 2, paid=1))

    outcome = loader.load(orders)

    assert warehouse.rows(orders, "id, paid") == [(1, 7), (2, 1)]
    assert outcome.incomplete_columns == ()


@pytest.mark.parametrize(
    "case",
    [
        ({"data_type": "bigint", "column_type": "bigint unsigned"}, -1, "c", 2**64 - 1),
        ({"data_type": "decimal", "column_type": "decimal(9,2)", "precision": 9, "scale": 2}, "-1.50", "c::varchar",
         "-1.50"),
        ({"data_type": "double", "column_type": "double"}, 0.1, "c", 0.1),
        ({"data_type": "bit", "column_type": "bit(1)", "precision": 1}, 1, "c", True),
        ({"data_type": "date", "column_type": "date"}, "2024-02-29", "c::varchar", "2024-02-29"),
        ({"data_type": "datetime", "column_type": "datetime(6)"}, "2024-02-29 01:02:03.000004", "c::varchar",
         "2024-02-29 01:02:03.000004"),
        ({"data_type": "time", "column_type": "time"}, "-838:59:59", "c", "-838:59:59"),
        ({"data_type": "varbinary", "column_type": "varbinary(9)", "length": 9}, b"\0\xff", "to_hex(c)", "00ff"),
        ({"data_type": "json", "column_type": "json"}, b'{"a": [1, "\'"]}', "json_serialize(c)", '{"a":[1,"\'"]}'),
    ],
    ids=lambda each: each[0]["column_type"],
)  # fmt: skip
def test_a_default_of_each_type_is_the_value_that_a_row_would_bring(
    prepared: Prepare, loader: Loader, warehouse: Reader, case: tuple[dict[str, Any], Any, str, Any]
) -> None:
    column, travelled, shown, held = case
    orders = prepared()
    orders.increment(row(1, 1))
    loader.load(orders)
    orders.increment(row(3, 2))
    orders.columns, orders.defaults = (*orders.columns, SourceColumn(name="c", default="x", **column)), {"c": travelled}
    orders.increment(row(2, 3, c=None))

    loader.load(orders)

    assert warehouse.rows(orders, f"id, {shown}") == [(1, held), (2, None), (3, held)]
