"""What each mode makes of batches of every kind."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from threading import Thread

import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.errors import SchemaDrift
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.settings import Deletes, Mode
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, Prepared, json_column, moment, row
from watermarks.batch import BatchId, BatchKind
from watermarks.cursor import Cursor
from watermarks.operator import Operator
from watermarks.window import Window

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]


def test_batches_land_in_one_transaction_with_the_newest_version_of_each_row(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.increment(row(1, 3, name="newer"), row(3, 4))

    outcome = loader.load(orders)

    assert (outcome.batches, outcome.rows, str(outcome.last_batch), outcome.pending_batches) == (2, 4, "1-2", 0)
    assert warehouse.rows(orders, "id, name, _syncd_batch") == [
        (1, "newer", 1_000000000002),
        (2, "row 2", 1_000000000001),
        (3, "row 3", 1_000000000002),
    ]
    assert warehouse.ledger(orders) == [(1_000000000001, 2, "increment"), (1_000000000002, 2, "increment")]


def test_a_later_batch_wins_though_its_cursor_is_lower(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    """A long UPDATE carries the stamp of its beginning, and is read later."""
    orders = prepared()
    orders.increment(row(1, 5, name="read first"), row(2, 9))
    orders.beside(BatchKind.REPAIR, row(1, 3, name="read last"))

    loader.load(orders)

    assert warehouse.rows(orders) == [(1, "read last"), (2, "row 2")]


def test_of_one_key_twice_in_a_batch_the_higher_cursor_wins(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 5, name="higher"), row(1, 3, name="lower"), row(1, 4, name="between"))

    loader.load(orders)

    assert warehouse.rows(orders) == [(1, "higher")]


def test_rows_ahead_and_a_snapshot_in_chunks_land_each_row_once(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    horizon = Cursor.from_values(moment(10).replace(tzinfo=None))
    orders.chunk(row(1, 1), row(2, 2), horizon=horizon)
    loader.load(orders)
    orders.beside(BatchKind.AHEAD, row(2, 12, name="hot"))
    orders.chunk(row(3, 3), row(2, 2, name="of the snapshot"), horizon=horizon, done=True)
    orders.increment(row(2, 12, name="hot"), row(4, 13))

    loader.load(orders)

    assert warehouse.rows(orders) == [(1, "row 1"), (2, "hot"), (3, "row 3"), (4, "row 4")]


def test_a_replay_lands_only_where_no_later_batch_has_been(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.increment(row(2, 3, name="newer"))
    loader.load(orders)
    orders.beside(BatchKind.REPLAY, row(2, 2, name="older"), row(3, 2, name="mended"), origin=BatchId(1, 1))

    loader.load(orders)

    assert warehouse.rows(orders, "id, name, _syncd_batch") == [
        (1, "row 1", 1_000000000001),
        (2, "newer", 1_000000000002),
        (3, "mended", 1_000000000001),
    ]


def test_append_keeps_every_version_and_a_range_read_again_does_not_double(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(row(1, 1), row(2, 1), row(3, 1))
    loader.load(events)
    Operator(journal=loader.journal, author="ann", reason="a test").set_marks(
        events.stream, extract_cursor=Cursor.from_values(1)
    )
    events.increment(row(2, 1, name="again"), row(3, 1), row(4, 2))

    loader.load(events)

    assert warehouse.rows(events) == [(1, "row 1"), (2, "again"), (3, "row 3"), (4, "row 4")]


def test_append_takes_out_what_lay_in_a_range_that_was_read_again(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(row(1, 1), row(2, 1), row(3, 1))
    loader.load(events)
    window = Window(Cursor.from_values(0), Cursor.from_values(3))
    events.beside(BatchKind.REPAIR, row(1, 1), row(3, 1), window=window)

    loader.load(events)

    assert warehouse.rows(events) == [(1, "row 1"), (3, "row 3")]


def test_a_range_that_lands_again_leaves_what_a_later_batch_read_of_it(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(row(1, 1), row(2, 1), row(3, 1))
    events.beside(
        BatchKind.REPAIR, row(2, 1, name="read later"), window=Window(Cursor.from_values(1), Cursor.from_values(3))
    )
    loader.load(events)
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(events.stream, reset_extract=False)

    for _ in range(2):  # one batch at a time
        loader.load(events, limit=1)
        assert (2, "read later") in warehouse.rows(events)


def test_history_ends_each_version_where_the_next_begins(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    prices = prepared(mode=Mode.HISTORY)
    prices.increment(row(1, 1, name="first"), row(2, 1))
    loader.load(prices)
    prices.increment(row(1, 5, name="third"))
    prices.increment(row(1, 6, name="fourth"), row(2, 7, name="other"))
    loader.load(prices)
    prices.beside(BatchKind.REPLAY, row(1, 3, name="second"), origin=BatchId(1, 1))

    loader.load(prices)

    def second(number: int) -> datetime:
        return moment(number).replace(tzinfo=None)

    assert warehouse.rows(prices, "id, name, _syncd_valid_to", order="1, update_at") == [
        (1, "first", second(3)),
        (1, "second", second(5)),
        (1, "third", second(6)),
        (1, "fourth", None),
        (2, "row 2", second(7)),
        (2, "other", None),
    ]


def open_versions(warehouse: Reader, stream: Prepared) -> list[tuple[object, ...]]:
    return [found[:2] for found in warehouse.rows(stream, "id, name, _syncd_valid_to") if found[2] is None]


@pytest.mark.parametrize("apart", [False, True], ids=["of one shape", "of two shapes"])
def test_history_keeps_one_version_of_each_row_open_however_many_land_at_once(
    prepared: Prepare, loader: Loader, warehouse: Reader, *, apart: bool
) -> None:
    """So many keys that the server joins them in an order of its own."""
    prices, keys = prepared(mode=Mode.HISTORY), range(1, 3001)
    prices.increment(*(row(key, 10, name="first") for key in keys))
    prices.increment(*(row(key, 20, name="second") for key in keys))
    if apart:
        prices.columns = (*prices.columns, json_column("doc"))
    prices.increment(*(row(key, 30, name="third") for key in keys))

    outcome = loader.load(prices)

    assert (outcome.batches, outcome.rows) == (3, 9000)
    assert open_versions(warehouse, prices) == [(key, "third") for key in keys]
    ends = warehouse.client.rows(
        f'select name, min(_syncd_valid_to), max(_syncd_valid_to) from "{prices.table}" group by 1 order by 1'
    )
    second, third = (moment(at).replace(tzinfo=None) for at in (20, 30))
    assert ends == [["first", second, second], ["second", third, third], ["third", None, None]]


def test_history_ends_versions_of_keys_that_differ_in_blanks_and_land_in_two_shapes(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    tags = prepared(mode=Mode.HISTORY, key=("name",))
    tags.increment(row(1, 1, name="a"), row(2, 1, name="a "))
    loader.load(tags)
    tags.increment(row(3, 2, name="a"))
    tags.columns = (*tags.columns, json_column("doc"))
    tags.increment(row(4, 3, name="a "))

    loader.load(tags)

    assert open_versions(warehouse, tags) == [(3, "a"), (4, "a ")]


def test_history_ends_a_version_that_somebody_doubled_as_one(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    prices = prepared(mode=Mode.HISTORY)
    prices.increment(row(1, 1, name="first"))
    loader.load(prices)
    warehouse.client.run(f'insert into "{prices.table}" select * from "{prices.table}"')
    prices.increment(row(1, 2, name="second"))

    loader.load(prices)

    end = moment(2).replace(tzinfo=None)
    assert warehouse.rows(prices, "name, _syncd_valid_to", "1") == [("first", end), ("first", end), ("second", None)]


def test_history_that_was_ended_wrongly_is_right_once_it_has_landed_again(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    prices, shown = prepared(mode=Mode.HISTORY), "id, name, _syncd_valid_to"
    prices.increment(row(1, 1, name="first"), row(2, 1))
    prices.increment(row(1, 2, name="second"))
    loader.load(prices)
    before = warehouse.rows(prices, shown)
    warehouse.client.run(f'update "{prices.table}" set _syncd_valid_to = update_at')
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(prices.stream, reset_extract=False)

    loader.load(prices)

    assert warehouse.rows(prices, shown) == before


def test_history_holds_a_version_once_however_often_it_is_read(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    prices = prepared(mode=Mode.HISTORY)
    prices.increment(row(1, 1))
    loader.load(prices)
    prices.beside(BatchKind.REPAIR, row(1, 1, name="read again"))

    loader.load(prices)

    assert warehouse.rows(prices, "id, name, _syncd_valid_to") == [(1, "read again", None)]


def test_of_whole_tables_only_the_newest_lands_and_no_reader_sees_it_empty(
    prepared: Prepare, loader: Loader, warehouse: Reader, server: RedshiftStandIn
) -> None:
    countries = prepared(mode=Mode.REPLACE, cursor="none")
    countries.chunk(row(1, 1), row(2, 1), done=True)
    loader.load(countries)
    countries.chunk(row(1, 1, name="never"), done=True)
    countries.chunk(row(3, 1), row(4, 1), done=True)

    held = server.faults.hold("COMMIT")
    thread = Thread(target=loader.load, args=(countries,))
    thread.start()
    held.wait_reached()
    seen = warehouse.rows(countries)
    held.release()
    thread.join(120)

    assert seen == [(1, "row 1"), (2, "row 2")]
    assert warehouse.rows(countries) == [(3, "row 3"), (4, "row 4")]
    assert [rows for _, rows, _ in warehouse.ledger(countries)] == [2, 0, 2]


def test_a_whole_table_that_is_empty_empties_its_target(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    countries = prepared(mode=Mode.REPLACE, cursor="none")
    countries.chunk(row(1, 1), done=True)
    loader.load(countries)
    countries.chunk(done=True)

    loader.load(countries)

    assert warehouse.rows(countries) == []


def test_an_increment_that_waits_while_the_mode_becomes_replace_is_no_whole_table(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    loader.load(orders)
    orders.increment(row(3, 3))
    orders.mode, orders.cursor = Mode.REPLACE, "none"

    loader.load(orders)
    assert warehouse.rows(orders) == [(1, "row 1"), (2, "row 2")]
    orders.chunk(row(4, 4), done=True)
    loader.load(orders)

    assert warehouse.rows(orders) == [(4, "row 4")]


def test_a_whole_table_that_waits_while_the_mode_becomes_upsert_stops_the_stream_by_name(
    prepared: Prepare, loader: Loader
) -> None:
    orders = prepared(mode=Mode.REPLACE, cursor="none")
    orders.chunk(row(1, 1), done=True)
    orders.mode = Mode.UPSERT

    with pytest.raises(SchemaDrift, match="1-1 contains the whole table"):
        loader.load(orders)


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        (Mode.UPSERT, [(1, "third"), (2, "second")]),
        (Mode.APPEND, [(1, "first"), (1, "second"), (1, "third"), (2, "first"), (2, "second")]),
    ],
)
def test_a_history_whose_mode_becomes_another_stops_with_the_statements_that_make_it_fit(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode, left: list[tuple[int, str]]
) -> None:
    """Versions that have ended would stand beside the newest for ever, and those that come would never end."""
    prices = prepared(mode=Mode.HISTORY)
    prices.increment(row(1, 1, name="first"), row(2, 1, name="first"))
    prices.increment(row(1, 2, name="second"), row(2, 2, name="second"))
    loader.load(prices)
    prices.mode = mode
    prices.increment(row(1, 3, name="third"))

    with pytest.raises(SchemaDrift, match=f"the mode is now {mode}") as stopped:
        loader.load(prices)
    for statement in filter(str.strip, stopped.value.hint.partition(" or: ")[2].split(";")):
        warehouse.client.run(statement)
    loader.load(prices)

    assert warehouse.rows(prices) == left


KEYED = [Mode.UPSERT, Mode.APPEND, Mode.HISTORY]


@pytest.mark.parametrize("mode", KEYED)
@pytest.mark.parametrize("other", ["a ", "A", "", "ä"], ids=["blank", "case", "nothing", "accent"])
def test_keys_that_differ_in_their_bytes_are_two_rows(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode, other: str
) -> None:
    """Redshift compares without blanks at the end; MySQL, under a collation without padding, does not."""
    tags = prepared(mode=mode, key=("name",))
    tags.increment(row(1, 1, name="a"), row(2, 1, name=other))
    loader.load(tags)
    tags.increment(row(3, 2, name="a"))

    loader.load(tags)

    newest = [(2, other), (3, "a")]
    assert warehouse.rows(tags) == (newest if mode is Mode.UPSERT else [(1, "a"), *newest])


@pytest.mark.parametrize("mode", KEYED)
def test_a_key_twice_in_a_batch_is_as_many_rows_as_the_mode_knows_versions(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode
) -> None:
    """Once in each of two files, once more as it is, and a later version of it."""
    orders = prepared(mode=mode)
    orders.increment(row(1, 1), row(1, 3, name="later"), row(1, 1), row(2, 2), row(2, 2), parts=2)

    loader.load(orders)

    versions = [] if mode is Mode.UPSERT else [(1, "row 1")]
    assert warehouse.rows(orders) == [(1, "later"), *versions, (2, "row 2")]


def test_a_whole_table_without_a_key_keeps_rows_that_are_alike(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    logs = prepared(mode=Mode.REPLACE, cursor="none")
    logs.chunk(row(1, 1), row(1, 1), row(1, 1, name="row 1 "), done=True)

    loader.load(logs)

    assert warehouse.rows(logs) == [(1, "row 1"), (1, "row 1"), (1, "row 1 ")]


@pytest.mark.parametrize("mode", KEYED)
def test_a_key_that_changed_is_another_row_and_the_old_one_goes_with_its_tombstone(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode
) -> None:
    orders = prepared(mode=mode, layout={"deletes": Deletes.SOFT})
    orders.increment(row(1, 1), row(2, 1))
    loader.load(orders)
    orders.increment(row(7, 2, name="row 1"))
    loader.load(orders)
    assert warehouse.rows(orders) == [(1, "row 1"), (2, "row 2"), (7, "row 1")]
    orders.bury(1, upto=Cursor.from_values(moment(2).replace(tzinfo=None)))
    orders.increment(row(1, 3, name="of another"))

    loader.load(orders)

    now = "_syncd_deleted_at is null" + (" and _syncd_valid_to is null" if mode is Mode.HISTORY else "")
    found = warehouse.client.rows(f'select id, name from "{orders.table}" where {now} order by 1')
    assert [tuple(one) for one in found] == [(1, "of another"), (2, "row 2"), (7, "row 1")]


@pytest.mark.parametrize("mode", KEYED)
def test_a_key_that_is_null_is_no_key_and_its_row_is_put_aside(
    prepared: Prepare, loader: Loader, warehouse: Reader, mode: Mode
) -> None:
    """A query of one's own can make one; no later batch would ever find it."""
    tags = prepared(mode=mode, key=("name",))
    tags.increment(row(1, 1, name="a"), row(2, 1, name=None))

    loader.load(tags)

    assert warehouse.rows(tags) == [(1, "a")]
    assert [(batch, rows) for batch, rows, _ in loader.put_aside] == [("1-1", 1)]


def test_a_null_in_a_whole_table_is_a_value_like_others(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    tags = prepared(mode=Mode.REPLACE, cursor="none", key=("name",))
    tags.chunk(row(1, 1, name="a"), row(2, 1, name=None), done=True)

    loader.load(tags)

    assert warehouse.rows(tags) == [(1, "a"), (2, None)]


def test_documents_become_super_and_files_of_an_older_shape_land_with_newer_ones(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared()
    orders.increment(row(1, 1))
    orders.columns = (*orders.columns, json_column("doc"))
    orders.increment(row(2, 2, doc=b'{"a": [1, null, "x"]}'), row(3, 3, doc=None))

    loader.load(orders)

    assert warehouse.rows(orders, "id, json_serialize(doc)") == [(1, None), (2, '{"a":[1,null,"x"]}'), (3, None)]


@pytest.mark.parametrize("limit", [1, None], ids=["one by one", "together"])
def test_history_has_one_open_version_of_a_row_whose_position_became_null(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    nullable = SourceColumn(name="update_at", data_type="datetime", column_type="datetime(6)", fraction=6)
    prices = prepared(mode=Mode.HISTORY, columns=(ID, NAME, nullable))
    prices.increment(row(1, 1, name="first"))
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(prices.stream, reset_load=False)
    horizon = Cursor.from_values(moment(9).replace(tzinfo=None))
    prices.chunk({"id": 1, "name": "second", "update_at": None}, horizon=horizon, done=True)

    while loader.load(prices, **({"limit": limit} if limit else {})).pending_batches:
        pass

    found = warehouse.rows(prices, "name, _syncd_valid_to")
    assert found == [("first", moment(1).replace(tzinfo=None)), ("second", None)]


@pytest.mark.parametrize("way", ["the statements", "a reset"])
@pytest.mark.parametrize("limit", [None, 1], ids=["all at once", "one by one"])
def test_what_a_table_that_appended_kept_goes_by_what_the_documentation_says(
    prepared: Prepare, loader: Loader, warehouse: Reader, way: str, limit: int | None
) -> None:
    events = prepared(mode=Mode.APPEND)
    events.increment(row(1, 1), row(1, 2, name="newer in one batch"), row(2, 2))
    events.increment(row(2, 3, name="newer"), row(3, 3))
    loader.load(events)
    assert len(warehouse.rows(events)) == 5
    events.mode = Mode.UPSERT

    if way == "a reset":
        Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(events.stream, reset_extract=False)
        while loader.load(events, limit=limit).pending_batches:
            pass
    else:
        warehouse.client.run(f"update \"{events.table}\" set _syncd_batch = null where id = 2 and name = 'row 2'")
        told = (Path(__file__).parents[3] / "docs" / "how-to" / "drift.md").read_text()
        [statements] = [block.partition("```")[0] for block in told.split("```sql\n")[1:]]
        for statement in filter(str.strip, statements.split(";")):
            warehouse.client.run(statement.replace("shop.events", f"public.{events.table}"))

    assert warehouse.rows(events) == [(1, "newer in one batch"), (2, "newer"), (3, "row 3")]
