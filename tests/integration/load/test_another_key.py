"""A key that was changed at the source: batches from before and after it wait together, and rows stay apart."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.errors import SchemaDrift
from syncd.settings import Deletes, Mode
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, moment, row
from watermarks.batch import BatchId, BatchKind
from watermarks.cursor import Cursor
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
TENANT = SourceColumn(
    name="tenant", data_type="int", column_type="int(11)", precision=10, scale=0, nullable=False, default="1"
)
SEEN_AT = replace(UPDATE_AT, name="seen_at", nullable=True)
SHOWN = "tenant, id, name"


def keyed_anew(orders: Prepared, loader: Loader) -> None:
    """The key has a column more, and a person has begun a new generation, as the hint says."""
    orders.columns = (*orders.columns, TENANT) if TENANT not in orders.columns else orders.columns
    orders.key, orders.defaults = ("tenant", "id"), {"tenant": 1}
    person(loader).reset_marks(orders.stream, reset_load=False)


def person(loader: Loader) -> Operator:
    return Operator(journal=loader.journal, author="ann", reason="a test")


@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY])
def test_batches_of_two_keys_land_in_one_pass(prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode) -> None:
    orders = prepared(mode=mode)
    orders.increment(row(1, 1), row(2, 2))
    keyed_anew(orders, loader)
    orders.increment(row(1, 1, tenant=1), row(2, 2, tenant=1), row(2, 3, name="other", tenant=2))

    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, 1, "row 1"), (1, 2, "row 2"), (2, 2, "other")]
    person(loader).reset_marks(orders.stream, reset_extract=False)
    loader.load(orders)
    assert warehouse.rows(orders, SHOWN) == [(1, 1, "row 1"), (1, 2, "row 2"), (2, 2, "other")]


def test_a_replay_from_before_a_change_of_the_key_makes_no_two_rows_one(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, NAME, UPDATE_AT, TENANT))
    orders.increment(row(1, 1, tenant=1))
    keyed_anew(orders, loader)
    orders.increment(row(2, 2, tenant=1), row(2, 2, name="other", tenant=2))
    orders.key = ()
    orders.beside(BatchKind.REPLAY, row(3, 1, name="mended", tenant=1), origin=BatchId(1, 1))

    loader.load(orders)

    assert warehouse.rows(orders, SHOWN) == [(1, 1, "row 1"), (1, 2, "row 2"), (1, 3, "mended"), (2, 2, "other")]


def test_batches_of_two_order_columns_land_again(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.columns, orders.cursor = (*orders.columns, SEEN_AT), "seen_at"
    person(loader).reset_marks(orders.stream, reset_load=False)
    orders.increment(row(2, 3, name="newer", seen_at=row(9, 9)["update_at"]))
    loader.load(orders)
    person(loader).reset_marks(orders.stream, reset_extract=False)

    loader.load(orders)

    assert warehouse.rows(orders) == [(1, "row 1"), (2, "newer")]


CODE = SourceColumn(
    name="id", data_type="varchar", column_type="varchar(20)", length=20, octets=80, charset="utf8mb4",
    collation="utf8mb4_0900_ai_ci", nullable=False,
)  # fmt: skip
CODED = "id, name, update_at, _syncd_batch, _syncd_deleted_at is not null"


@pytest.mark.parametrize("limit", [None, 1], ids=["all at once", "one by one"])
@pytest.mark.parametrize("deletes", [Deletes.SOFT, Deletes.HARD])
@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY])
def test_a_key_that_became_a_text_is_the_same_key_in_files_from_before(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode, deletes: Deletes, *, limit: int | None
) -> None:
    orders = prepared(mode=mode, layout={"deletes": deletes})
    shown = CODED if deletes is Deletes.SOFT else "id, name, update_at, _syncd_batch"
    orders.increment(row(1, 1), row(2, 2), row(3, 3))
    orders.bury(3, upto=Cursor.from_values(moment(4).replace(tzinfo=None)))
    land(loader, orders)
    orders.columns = (CODE, NAME, UPDATE_AT)
    person(loader).reset_marks(orders.stream, reset_load=False)
    orders.increment({**row(1, 5), "id": "1"}, {**row(1, 6), "id": "A-1"})
    with pytest.raises(SchemaDrift) as drifted:
        loader.load(orders)
    for statement in drifted.value.hint.split(";")[:4]:
        warehouse.client.run(statement)
    land(loader, orders)
    before = warehouse.rows(orders, shown, "1, 3")
    person(loader).reset_marks(orders.stream, reset_extract=False)

    land(loader, orders, **({"limit": limit} if limit else {}))

    assert warehouse.rows(orders, shown, "1, 3") == before
    orders.columns = (ID, NAME, UPDATE_AT)
    orders.beside(BatchKind.REPLAY, row(1, 0, name="older"), row(7, 1), origin=BatchId(1, 1))
    loader.load(orders)
    found = [(key, name) for key, name, *_ in warehouse.rows(orders, shown, "1, 3")]
    older = [] if mode is Mode.UPSERT else [("1", "older")]
    assert sorted(found) == sorted([*older, ("7", "row 7"), *((key, name) for key, name, *_ in before)])


def land(loader: Loader, orders: Prepared, **words: int) -> None:
    while loader.load(orders, **words).pending_batches:
        pass
