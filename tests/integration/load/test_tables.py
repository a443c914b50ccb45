"""The target table: how it is made, what it is widened by, and what only a person may change."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from redshift_connector.error import ProgrammingError

from syncd.datatypes.source_table import SourceColumn
from syncd.errors import SchemaDrift
from syncd.redshift.quoting import TableRef
from syncd.redshift.session import WarehouseSession
from syncd.settings import Deletes, MetadataColumn, Mode
from tests.builders import RUN
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, Row, json_column, moment, row, text_column
from watermarks.batch import BatchId, BatchKind
from watermarks.cursor import Cursor
from watermarks.errors import HintedError
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
AMOUNT = SourceColumn(name="amount", data_type="int", column_type="int(11)", precision=10, scale=0)
BIG_AMOUNT = replace(AMOUNT, data_type="bigint", column_type="bigint(20)", precision=19)
DECIMAL = SourceColumn(name="amount", data_type="decimal", column_type="decimal(12,4)", precision=12, scale=4)
CODE = replace(NAME, name="amount")
NARROW_DECIMAL = replace(DECIMAL, column_type="decimal(10,2)", precision=10, scale=2)


def described(warehouse: Reader, prepared: Prepared) -> dict[str, str]:
    found = warehouse.client.rows(f"""select "column", type from pg_table_def where tablename = '{prepared.table}'""")
    return dict(found)


def test_a_table_is_made_as_the_configuration_lays_it_out(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    layout = {"distkey": "ID", "sortkey": ("update_at", "id"), "encode": {"name": "zstd"}, "grants": ("public",)}
    orders = prepared(layout=layout, notes=(MetadataColumn.BATCH, MetadataColumn.LOADED_AT))
    orders.increment(row(1, 1))

    loader.load(orders)

    found = warehouse.client.rows(
        'select "column", type, encoding, distkey, sortkey, "notnull" from pg_table_def'
        f" where tablename = '{orders.table}'"
    )
    assert [tuple(each) for each in found] == [
        ("id", "bigint", "none", True, 2, False),
        ("name", "character varying(200)", "zstd", False, 0, False),
        ("update_at", "timestamp without time zone", "none", False, 1, False),
        ("_syncd_batch", "bigint", "az64", False, 0, False),
        ("_syncd_loaded_at", "timestamp without time zone", "az64", False, 0, False),
    ]
    [[loaded]] = warehouse.client.rows(f"select _syncd_loaded_at > '2026-01-01' from {orders.table}")
    assert loaded
    sql = f"select has_table_privilege('other', '{orders.table}', 'select')"
    assert warehouse.client.value(sql)


def test_names_that_are_reserved_or_strange_are_names_like_others(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    names = ("Order", "select", "2nd place", 'a "quote"', "größe", "x" * 60)
    columns = tuple(replace(NAME, name=name) for name in names)
    orders = prepared(table='Select "Odd"', columns=(ID, UPDATE_AT, *columns), notes=())
    values = {name.lower() if name.isascii() else name: f"v{place}" for place, name in enumerate(names)}
    orders.increment({"id": 1, "update_at": row(1, 1)["update_at"], **values})

    loader.load(orders)

    [found] = warehouse.client.rows('select * from "select ""odd"""')
    assert found[2:] == [f"v{place}" for place in range(6)]


def test_text_is_as_wide_as_it_needs_and_grows_with_it(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    notes = prepared(columns=(ID, text_column("note"), UPDATE_AT))
    notes.increment(row(1, 1, note="x" * 1_000))
    loader.load(notes)
    widths = [described(warehouse, notes)["note"]]
    for second, size in ((2, 1_024), (3, 1_025), (4, 16_385), (5, 65_535)):
        notes.increment(row(second, second, note="ä" * (size // 2) + "x" * (size % 2)))
        loader.load(notes)
        widths.append(described(warehouse, notes)["note"])

    assert widths == [f"character varying({width})" for width in (1_024, 1_024, 4_096, 65_535, 65_535)]
    sizes = warehouse.rows(notes, "id, octet_length(note)")
    assert sizes == [(1, 1_000), (2, 1_024), (3, 1_025), (4, 16_385), (5, 65_535)]


def test_a_column_that_came_lands_with_older_files_and_one_that_went_becomes_null(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, NAME, UPDATE_AT))
    orders.increment(row(1, 1), row(2, 1))
    loader.load(orders)
    orders.increment(row(2, 2))
    orders.columns = (ID, UPDATE_AT, AMOUNT)
    orders.increment({"id": 3, "update_at": row(3, 3)["update_at"], "amount": 7})

    loader.load(orders)

    assert warehouse.rows(orders, "id, name, amount") == [(1, "row 1", None), (2, "row 2", None), (3, None, 7)]


@pytest.mark.parametrize("declared", ["bigint", "decimal(20,0)", "integer"])
def test_a_type_that_holds_every_value_takes_them(
    prepared: Prepare, loader: Loader, warehouse: Reader, declared: str
) -> None:
    orders = prepared(columns=(ID, UPDATE_AT, AMOUNT))
    warehouse.client.run(f'create table "{orders.table}" ("id" bigint, "update_at" timestamp, "amount" {declared})')
    orders.increment({"id": 1, "update_at": row(1, 1)["update_at"], "amount": -(2**31)})

    loader.load(orders)

    assert warehouse.rows(orders, "id, amount") == [(1, -(2**31))]
    assert "_syncd_batch" not in described(warehouse, orders)


def test_files_whose_types_differ_land_together_in_the_type_of_the_target(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """Each file by its own type: what a union would make of two scales is not left to it."""
    orders = prepared(columns=(ID, UPDATE_AT, DECIMAL))
    orders.increment({"id": 1, "update_at": row(1, 1)["update_at"], "amount": Decimal("1.2345")})
    loader.load(orders)
    orders.columns = (ID, UPDATE_AT, NARROW_DECIMAL)
    orders.increment({"id": 2, "update_at": row(2, 2)["update_at"], "amount": Decimal("2.34")})
    orders.columns = (ID, UPDATE_AT, DECIMAL)
    orders.increment({"id": 3, "update_at": row(3, 3)["update_at"], "amount": Decimal("3.4567")})

    told: list[str] = []
    run = WarehouseSession.run

    def telling(session: WarehouseSession, sql: str, *rest: Any, **more: Any) -> int:
        told.append(sql)
        return run(session, sql, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WarehouseSession, "run", telling)
        loader.load(orders)

    found = warehouse.rows(orders, "id, amount")
    assert found == [(1, Decimal("1.2345")), (2, Decimal("2.3400")), (3, Decimal("3.4567"))]
    [inserted] = [sql for sql in told if sql.startswith("INSERT") and orders.table in sql and "UNION ALL" in sql]
    assert inserted.count('CAST("amount" AS DECIMAL(12,4)) AS "amount"') == 2


def test_a_changed_type_stops_the_stream_and_the_statements_of_the_hint_mend_it(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, UPDATE_AT, AMOUNT))
    orders.increment({"id": 1, "update_at": row(1, 1)["update_at"], "amount": 5})
    loader.load(orders)
    orders.columns = (ID, UPDATE_AT, BIG_AMOUNT)
    orders.increment({"id": 2, "update_at": row(2, 2)["update_at"], "amount": 2**40})

    with pytest.raises(SchemaDrift, match=r"amount is INTEGER, but the source's column is now BIGINT") as caught:
        loader.load(orders)
    assert warehouse.rows(orders, "id, amount") == [(1, 5)]
    for statement in filter(str.strip, caught.value.hint.split(";")):
        warehouse.client.run(statement)
    loader.load(orders)

    assert warehouse.rows(orders, "id, amount") == [(1, 5), (2, 2**40)]


def test_the_statements_of_the_hint_write_into_no_column_that_is_there(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """Who pastes them runs each, also behind one that failed."""
    others = tuple(replace(AMOUNT, name=name) for name in ("amount_new", "amount_new_2"))
    orders = prepared(columns=(ID, UPDATE_AT, AMOUNT, *others))
    orders.increment({**sold(1, 5), "amount_new": 6, "amount_new_2": 7})
    loader.load(orders)
    orders.columns = (ID, UPDATE_AT, BIG_AMOUNT, *others)
    orders.increment({**sold(2, 2**40), "amount_new": 8, "amount_new_2": 9})

    with pytest.raises(SchemaDrift) as caught:
        loader.load(orders)
    for statement in filter(str.strip, caught.value.hint.split(";")):
        with suppress(ProgrammingError):
            warehouse.client.run(statement)
    loader.load(orders)

    assert warehouse.rows(orders, "id, amount, amount_new, amount_new_2") == [(1, 5, 6, 7), (2, 2**40, 8, 9)]


def retyped(prepared: Prepare, loader: Loader, warehouse: Reader) -> Prepared:
    """A stream whose integers became texts, in a table that a person has changed as the hint says."""
    orders = prepared(columns=(ID, UPDATE_AT, AMOUNT))
    orders.increment(sold(1, 5))
    orders.increment(sold(2, 6))
    loader.load(orders)
    orders.columns = (ID, UPDATE_AT, CODE)
    orders.increment(sold(2, "B-6"))
    with pytest.raises(
        SchemaDrift, match=r"amount is INTEGER, but the source's column is now VARCHAR\(200\)"
    ) as caught:
        loader.load(orders)
    for statement in filter(str.strip, caught.value.hint.split(";")):
        warehouse.client.run(statement)
    loader.load(orders)
    assert warehouse.rows(orders, "id, amount") == [(1, "5"), (2, "B-6")]
    return orders


def sold(key: int, amount: object) -> Row:
    return {"id": key, "update_at": row(key, key)["update_at"], "amount": amount}


def test_a_replay_from_before_a_change_of_type_lands_in_the_type_of_now(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = retyped(prepared, loader, warehouse)
    orders.columns = (ID, UPDATE_AT, AMOUNT)
    orders.beside(BatchKind.REPLAY, sold(3, 7), origin=BatchId(1, 1))
    loader.load(orders)
    orders.beside(BatchKind.REPLAY, sold(4, 8), origin=BatchId(1, 1))
    orders.columns = (ID, UPDATE_AT, CODE)
    orders.increment(sold(5, "B" * 150))

    loader.load(orders)

    assert warehouse.rows(orders, "id, amount") == [(1, "5"), (2, "B-6"), (3, "7"), (4, "8"), (5, "B" * 150)]


def test_files_from_before_a_change_of_type_land_again_by_themselves(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = retyped(prepared, loader, warehouse)
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(orders.stream, reset_extract=False)

    for _ in range(3):
        loader.load(orders, limit=1)  # no transaction sees both types

    assert warehouse.rows(orders, "id, amount") == [(1, "5"), (2, "B-6")]


def test_texts_that_were_numbers_land_again_in_a_column_of_numbers(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, UPDATE_AT, CODE))
    orders.increment(sold(1, "5"))
    loader.load(orders)
    orders.columns = (ID, UPDATE_AT, AMOUNT)
    orders.increment(sold(2, 6))
    with pytest.raises(SchemaDrift) as caught:
        loader.load(orders)
    for statement in filter(str.strip, caught.value.hint.split(";")):
        warehouse.client.run(statement)
    loader.load(orders)
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(orders.stream, reset_extract=False)

    for _ in range(2):
        loader.load(orders, limit=1)

    assert warehouse.rows(orders, "id, amount") == [(1, 5), (2, 6)]


@pytest.mark.parametrize("apart", [True, False])
def test_texts_that_became_documents_are_documents(
    prepared: Prepare, loader: Loader, warehouse: Reader, *, apart: bool
) -> None:
    orders = prepared(columns=(ID, UPDATE_AT, text_column("amount")))
    orders.increment(sold(1, '{"a": 1}'))
    loader.load(orders)
    orders.increment(sold(2, '{"a": 2}'))
    orders.columns = (ID, UPDATE_AT, json_column("amount"))
    orders.increment(sold(3, '{"a": 3}'))
    with pytest.raises(SchemaDrift, match=r"the source's column is now SUPER") as caught:
        loader.load(orders)
    for statement in filter(str.strip, caught.value.hint.split(";")):
        warehouse.client.run(statement)

    for _ in range(2):
        loader.load(orders, **({"limit": 1} if apart else {}))

    shown = "id, json_typeof(amount), json_serialize(amount)"
    assert warehouse.rows(orders, shown) == [(key, "object", f'{{"a":{key}}}') for key in (1, 2, 3)]


def test_a_version_that_is_longer_than_its_column_by_now_is_put_aside_and_never_cut(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    prices = prepared(columns=(ID, UPDATE_AT, BIG_AMOUNT), mode=Mode.HISTORY)
    prices.increment(sold(1, 123_456_789_012), sold(2, 5))
    prices.columns = (ID, UPDATE_AT, replace(CODE, column_type="varchar(2)", length=2, octets=8))
    prices.increment(sold(3, "ab"))

    loader.load(prices)

    assert warehouse.rows(prices, "id, amount") == [(2, "5"), (3, "ab")]
    assert [(batch, rows) for batch, rows, _ in loader.put_aside] == [("1-1", 1)]


def test_a_column_that_must_not_be_null_and_that_no_file_has_stops_the_stream(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, UPDATE_AT))
    warehouse.client.run(
        f'create table "{orders.table}" ("id" bigint, "update_at" timestamp, "mine" int not null, "own" int not null'
        " default 3)"
    )
    orders.increment({"id": 1, "update_at": row(1, 1)["update_at"]})

    with pytest.raises(SchemaDrift, match=r"mine is NOT NULL") as caught:
        loader.load(orders)
    warehouse.client.run(caught.value.hint.rstrip(";"))
    loader.load(orders)

    assert warehouse.rows(orders, "id, own") == [(1, 3)]


def test_a_text_with_a_default_is_never_widened_behind_its_owners_back(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, NAME, UPDATE_AT))
    sql = f"""create table "{orders.table}" ("id" bigint, "name" varchar(3) default 'x', "update_at" timestamp)"""
    warehouse.client.run(sql)
    orders.increment(row(1, 1, name="long name"))

    with pytest.raises(SchemaDrift) as caught:
        loader.load(orders)
    for statement in filter(str.strip, caught.value.hint.split(";")):
        warehouse.client.run(statement)
    loader.load(orders)

    assert warehouse.rows(orders) == [(1, "long name")]


def test_a_text_whose_encoding_is_never_widened_stops_the_stream_with_the_statements(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(columns=(ID, NAME, UPDATE_AT))
    sql = f"""create table "{orders.table}" ("id" bigint, "name" varchar(3) encode bytedict, "update_at" timestamp)"""
    warehouse.client.run(sql)
    orders.increment(row(1, 1, name="long name"))

    with pytest.raises(SchemaDrift, match="encoding is bytedict") as caught:
        loader.load(orders)
    for statement in filter(str.strip, caught.value.hint.split(";")):
        warehouse.client.run(statement)
    loader.load(orders)

    assert warehouse.rows(orders) == [(1, "long name")]


def test_history_in_a_table_of_somebody_elses_gets_the_columns_it_needs(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    prices = prepared(mode=Mode.HISTORY)
    sql = f'create table "{prices.table}" ("id" bigint, "name" varchar(200), "update_at" timestamp)'
    warehouse.client.run(sql)
    warehouse.client.run(f"""insert into "{prices.table}" values (1, 'before us', '2020-01-01')""")
    prices.increment(row(1, 1), row(2, 1))

    loader.load(prices)

    assert warehouse.rows(prices, "id, name, _syncd_valid_to is null", order="1, update_at") == [
        (1, "before us", False),
        (1, "row 1", True),
        (2, "row 2", True),
    ]


def test_a_schema_that_is_not_there_stops_its_stream_alone(prepared: Prepare, loader: Loader) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    outcome = loader.run(orders, table=TableRef(schema="no_such", name="t")).execute(RUN)
    other = prepared()
    other.increment(row(1, 1))

    assert isinstance(outcome.error, HintedError)
    assert loader.load(other).rows == 1


@pytest.mark.parametrize("table", ["k", "v"])
@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY])
def test_a_table_of_one_letter_is_one_like_others(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode, table: str
) -> None:
    """No name by which statements call what they join to it is its own."""
    letters = prepared(mode=mode, table=table, layout={"deletes": Deletes.SOFT})
    warehouse.client.run(f'drop table if exists "{table}"')
    letters.increment(row(1, 1), row(2, 1))
    origin = letters.increment(row(1, 2, name="newer")).id
    letters.bury(2, upto=Cursor.from_values(moment(3).replace(tzinfo=None)))
    letters.beside(BatchKind.REPLAY, row(2, 2, name="mended"), origin=origin)

    while loader.load(letters).pending_batches:
        pass

    newest = warehouse.rows(letters, "id, name, _syncd_deleted_at is not null", "update_at desc, id")
    assert (1, "newer", False) in newest
    assert (2, "row 2", True) in newest
