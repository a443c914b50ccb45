"""Rows that are gone at the source: tombstones take them out, or mark them, and never one that came back."""

from collections.abc import Callable
from datetime import datetime

import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.redshift.amendments import Amendments
from syncd.redshift.ledger import TargetTableChanged
from syncd.settings import Deletes, MetadataColumn, Mode
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, Prepared, moment, row
from watermarks.batch import BatchId, BatchKind
from watermarks.cursor import Cursor
from watermarks.errors import Misuse
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
MODES = [Mode.UPSERT, Mode.APPEND, Mode.HISTORY]
KEPT = [Deletes.SOFT, Deletes.HARD]


def second(number: int) -> datetime:
    return moment(number).replace(tzinfo=None)


def upto(number: int) -> Cursor:
    return Cursor.from_values(second(number))


@pytest.fixture
def orders(prepared: Prepare) -> Callable[..., Prepared]:
    def make(mode: Mode, deletes: Deletes, **words: object) -> Prepared:
        return prepared(mode=mode, layout={"deletes": deletes}, **words)

    return make


def present(warehouse: Reader, stream: Prepared, deletes: Deletes) -> list[tuple[object, ...]]:
    """The rows that are there, as whoever reads the target asks for them."""
    found = 'select id, name from "{}"{} order by 1, 2'
    marked = deletes is Deletes.SOFT or stream.mode is Mode.HISTORY
    where = " where _syncd_deleted_at is null" if marked else ""
    return [tuple(one) for one in warehouse.client.rows(found.format(stream.table, where))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("deletes", KEPT)
def test_a_row_that_is_gone_goes_and_its_neighbours_stay(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode, deletes: Deletes
) -> None:
    stream = orders(mode, deletes)
    stream.increment(row(1, 1), row(2, 2), row(3, 3))
    loader.load(stream)
    stream.bury(2, 9, upto=upto(3), gone_at=moment(50))

    outcome = loader.load(stream)

    assert (outcome.batches, outcome.rows) == (1, 2)
    assert present(warehouse, stream, deletes) == [(1, "row 1"), (3, "row 3")]
    if deletes is Deletes.SOFT or mode is Mode.HISTORY:
        [gone] = warehouse.rows(stream, "id, _syncd_deleted_at, _syncd_batch", "2")[:1]
        assert gone == (2, second(50), 1_000000000002)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("deletes", KEPT)
@pytest.mark.parametrize("together", [True, False], ids=["in one landing", "one after the other"])
def test_a_row_that_was_inserted_again_stays_whenever_it_was_read(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode, deletes: Deletes, *, together: bool
) -> None:
    """Read before the tombstones, but stamped above their bound; or read after them, whatever its stamp."""
    stream = orders(mode, deletes)
    stream.increment(row(1, 1), row(2, 1))
    loader.load(stream)
    stream.increment(row(1, 7, name="above the bound"))
    if not together:
        loader.load(stream)
    stream.bury(1, 2, upto=upto(3))
    if not together:
        loader.load(stream)
    stream.beside(BatchKind.REPAIR, row(2, 2, name="read later"))

    loader.load(stream)

    now = present(warehouse, stream, deletes)
    assert {(1, "above the bound"), (2, "read later")} <= set(now)
    if mode is Mode.UPSERT:
        assert len(now) == 2
        assert warehouse.rows(stream) == now  # what came back is marked no more


@pytest.mark.parametrize("mode", MODES)
def test_where_deletes_are_ignored_tombstones_land_as_nothing(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode
) -> None:
    stream = orders(mode, Deletes.IGNORE)
    stream.increment(row(1, 1))
    loader.load(stream)
    stream.bury(1, upto=upto(3))

    outcome = loader.load(stream)

    assert (outcome.batches, outcome.rows) == (1, 0)
    assert warehouse.rows(stream) == [(1, "row 1")]
    assert warehouse.ledger(stream) == [(1_000000000001, 1, "increment"), (1_000000000002, 0, "repair")]


def test_history_closes_the_version_where_the_tombstones_bound_is_and_keeps_it_closed(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    stream = orders(Mode.HISTORY, Deletes.SOFT)
    stream.increment(row(1, 1, name="first"))
    stream.increment(row(1, 4, name="third"))
    loader.load(stream)
    stream.bury(1, upto=upto(10))
    loader.load(stream)
    stream.beside(BatchKind.REPLAY, row(1, 3, name="second"), origin=BatchId(1, 1))
    loader.load(stream)
    shown = "name, _syncd_valid_to, _syncd_deleted_at is not null"

    assert warehouse.rows(stream, shown, "update_at") == [
        ("first", second(3), False),
        ("second", second(4), False),
        ("third", second(10), True),
    ]
    stream.increment(row(1, 20, name="back"))
    loader.load(stream)
    assert warehouse.rows(stream, shown, "update_at")[2:] == [("third", second(10), True), ("back", None, False)]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_marked_is_not_brought_back_by_a_replay(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode
) -> None:
    stream = orders(mode, Deletes.SOFT)
    stream.increment(row(1, 1), row(2, 1))
    stream.bury(1, upto=upto(3))
    loader.load(stream)
    stream.beside(BatchKind.REPLAY, row(1, 1, name="mended"), origin=BatchId(1, 1))

    loader.load(stream)

    assert present(warehouse, stream, Deletes.SOFT) == [(2, "row 2")]


@pytest.mark.parametrize("deletes", KEPT)
@pytest.mark.parametrize("mode", MODES)
def test_tombstones_that_land_again_do_what_they_did(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode, deletes: Deletes
) -> None:
    stream = orders(mode, deletes)
    stream.increment(row(1, 1), row(2, 1))
    stream.bury(1, upto=upto(3))
    stream.increment(row(3, 4))
    loader.load(stream)
    before = warehouse.rows(stream)
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(stream.stream, reset_extract=False)

    for _ in range(3):
        loader.load(stream, limit=1)

    assert warehouse.rows(stream) == before
    assert present(warehouse, stream, deletes) == [(2, "row 2"), (3, "row 3")]


@pytest.mark.parametrize("deletes", KEPT)
@pytest.mark.parametrize("limit", [None, 1], ids=["all at once", "one by one"])
def test_tombstones_that_land_again_mark_no_older_version(
    orders: Prepare, loader: Loader, warehouse: Reader, deletes: Deletes, limit: int | None
) -> None:
    stream = orders(Mode.HISTORY, deletes)
    for number, name in enumerate(("first", "second", "third"), start=1):
        stream.increment(row(1, number, name=name))
        loader.load(stream)
    stream.bury(1, upto=upto(10))
    loader.load(stream)
    shown = "name, _syncd_valid_to, _syncd_deleted_at is not null"
    once = [("first", second(2), False), ("second", second(3), False), ("third", second(10), True)]
    assert warehouse.rows(stream, shown, "update_at") == once

    for _ in range(2):
        Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(stream.stream, reset_extract=False)
        while loader.load(stream, limit=limit).pending_batches:
            pass

        assert warehouse.rows(stream, shown, "update_at") == once


def test_history_with_tombstones_is_what_it_was_when_it_lands_again_in_a_table_that_was_emptied(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """What mends marks and ends that are wrong, for what is marked stays as it is."""
    stream = orders(Mode.HISTORY, Deletes.SOFT)
    stream.increment(row(1, 1, name="first"))
    stream.increment(row(1, 2, name="second"))
    stream.bury(1, upto=upto(10))
    loader.load(stream)
    before = warehouse.rows(stream, "name, _syncd_valid_to, _syncd_deleted_at, _syncd_batch")
    warehouse.client.run(f'delete from "{stream.table}"')
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(stream.stream, reset_extract=False)

    loader.load(stream)

    assert warehouse.rows(stream, "name, _syncd_valid_to, _syncd_deleted_at, _syncd_batch") == before


@pytest.mark.parametrize("mode", MODES)
def test_a_key_that_is_buried_twice_in_one_batch_is_buried_once(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode
) -> None:
    stream = orders(mode, Deletes.SOFT)
    stream.increment(row(1, 1), row(2, 1))
    stream.bury(1, 1, 1, upto=upto(3))

    loader.load(stream)

    assert present(warehouse, stream, Deletes.SOFT) == [(2, "row 2")]
    assert len(warehouse.rows(stream)) == 2


def test_a_row_without_a_position_is_older_than_any_bound(orders: Prepare, loader: Loader, warehouse: Reader) -> None:
    stream = orders(Mode.UPSERT, Deletes.HARD, columns=(ID, NAME, SourceColumn(
        name="update_at", data_type="datetime", column_type="datetime(6)", fraction=6)))  # fmt: skip
    stream.chunk({"id": 1, "name": "a", "update_at": None}, row(2, 1), horizon=upto(9), done=True)
    loader.load(stream)
    stream.bury(1, upto=upto(1))

    loader.load(stream)

    assert warehouse.rows(stream) == [(2, "row 2")]


def test_a_table_that_grows_by_its_key_needs_no_bound(orders: Prepare, loader: Loader, warehouse: Reader) -> None:
    stream = orders(Mode.APPEND, Deletes.HARD, cursor="id")
    stream.increment(row(1, 1), row(2, 1))
    loader.load(stream)
    stream.bury(1, upto=Cursor(()))

    loader.load(stream)

    assert warehouse.rows(stream) == [(2, "row 2")]


def test_without_a_bound_in_its_order_no_row_is_called_gone(orders: Prepare) -> None:
    stream = orders(Mode.UPSERT, Deletes.HARD)
    stream.increment(row(1, 1))

    with pytest.raises(Misuse, match="need an upper bound of update_at"):
        stream.bury(1, upto=Cursor(()))


def test_a_table_that_was_loaded_before_deletes_counted_gets_the_columns_for_them(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    stream = prepared(notes=())
    stream.increment(row(1, 1), row(2, 1))
    loader.load(stream)
    stream.layout = {"deletes": Deletes.SOFT}
    stream.bury(1, upto=upto(3))

    loader.load(stream)

    assert present(warehouse, stream, Deletes.SOFT) == [(2, "row 2")]
    stream.increment(row(1, 5, name="back"))
    loader.load(stream)
    assert warehouse.rows(stream, "id, name, _syncd_batch, _syncd_deleted_at") == [
        (1, "back", 1_000000000003, None),
        (2, "row 2", None, None),
    ]


def test_tombstones_for_a_table_that_was_never_made_are_nothing(orders: Prepare, loader: Loader) -> None:
    stream = orders(Mode.UPSERT, Deletes.HARD)
    stream.bury(1, upto=upto(3))

    assert loader.load(stream).rows == 0


def test_a_table_of_nothing_but_its_key_knows_its_rows_from_its_tombstones(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    stream = orders(Mode.APPEND, Deletes.HARD, cursor="id", columns=(ID,), notes=(MetadataColumn.BATCH,))
    stream.increment({"id": 1, "update_at": None}, {"id": 2, "update_at": None})
    stream.bury(1, upto=Cursor(()))

    loader.load(stream)

    assert warehouse.rows(stream, "id, 0") == [(2, 0)]


def test_a_key_of_text_goes_by_its_very_bytes(orders: Prepare, loader: Loader, warehouse: Reader) -> None:
    stream = orders(Mode.UPSERT, Deletes.HARD, key=("name",))
    stream.increment(row(1, 1, name="a"), row(2, 1, name="a "), row(3, 1, name="A"))
    stream.bury("a ", upto=upto(3))

    loader.load(stream)

    assert warehouse.rows(stream) == [(1, "a"), (3, "A")]


def test_a_table_whose_last_row_was_taken_out_is_gone_on_with(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    stream = orders(Mode.UPSERT, Deletes.HARD)
    stream.increment(row(1, 1))
    loader.load(stream)
    stream.bury(1, upto=upto(1))
    loader.load(stream)
    assert warehouse.rows(stream) == []
    stream.increment(row(2, 2))

    loader.load(stream)

    assert warehouse.rows(stream) == [(2, "row 2")]


@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND])
@pytest.mark.parametrize("deletes", [Deletes.SOFT, Deletes.IGNORE])
def test_a_table_whose_last_row_was_taken_out_is_gone_on_with_after_deletes_became_another(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode, deletes: Deletes
) -> None:
    stream = orders(mode, Deletes.HARD)
    stream.increment(row(1, 1))
    loader.load(stream)
    stream.bury(1, upto=upto(1))
    loader.load(stream)
    stream.layout = {"deletes": deletes}
    loader.load(stream, compare=True)
    stream.increment(row(2, 2))

    loader.load(stream)

    assert warehouse.rows(stream) == [(2, "row 2")]


@pytest.mark.parametrize("before", [Deletes.SOFT, Deletes.IGNORE])
@pytest.mark.parametrize("now", list(Deletes))
def test_a_table_that_somebody_emptied_stops_its_stream_where_tombstones_took_nothing_out(
    orders: Prepare, loader: Loader, warehouse: Reader, before: Deletes, now: Deletes
) -> None:
    if (before, now) == (Deletes.SOFT, Deletes.HARD):
        return  # which of the two way they landed nothing tells
    stream = orders(Mode.UPSERT, before)
    stream.increment(row(1, 1))
    loader.load(stream)
    stream.bury(1, upto=upto(1))
    loader.load(stream)
    warehouse.client.run(f'delete from "{stream.table}"')
    stream.layout = {"deletes": now}

    with pytest.raises(TargetTableChanged, match=r"is empty, although \d+ rows? were loaded into it"):
        loader.load(stream, compare=True)


def test_a_mark_that_is_set_back_before_the_tombstones_that_emptied_the_table_is_gone_on_from(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    stream = orders(Mode.UPSERT, Deletes.HARD)
    first = stream.increment(row(1, 1))
    stream.bury(1, upto=upto(5))
    loader.load(stream)
    Operator(journal=loader.journal, author="ann", reason="a test").set_marks(stream.stream, load_after=first.id)
    stream.increment(row(2, 9))

    loader.load(stream)

    assert warehouse.rows(stream) == [(2, "row 2")]


def test_a_table_that_somebody_else_emptied_is_found_after_tombstones_that_only_mark(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    stream = orders(Mode.UPSERT, Deletes.SOFT)
    stream.increment(row(1, 1))
    stream.bury(1, upto=upto(1))
    loader.load(stream)
    warehouse.client.run(f'delete from "{stream.table}"')
    stream.increment(row(2, 2))

    with pytest.raises(TargetTableChanged, match="is empty"):
        loader.load(stream)


@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.REPLACE])
def test_nobody_looks_for_rows_put_aside_of_what_is_not_to_land(
    prepared: Callable[..., Prepared], loader: Loader, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    looked: list[BatchId] = []
    monkeypatch.setattr(Amendments, "_read", lambda _self, link: looked.append(link.id))
    stream = prepared(mode=mode, **({"cursor": "none"} if mode is Mode.REPLACE else {}))
    for number in range(1, 4):
        if mode is Mode.REPLACE:
            stream.chunk(row(number, 1), done=True)
        else:
            stream.increment(row(number, number))
            stream.bury(number, upto=upto(number))

    loader.load(stream)

    assert looked == []


VERSIONS = "name, _syncd_valid_to, _syncd_deleted_at is not null"


@pytest.mark.parametrize("how", ["together", "again one by one", "again together"])
def test_history_knows_a_version_that_came_back_with_its_stamp_however_it_lands(
    orders: Prepare, loader: Loader, warehouse: Reader, how: str
) -> None:
    """Put back from a backup, and read again by its key."""
    stream = orders(Mode.HISTORY, Deletes.SOFT)
    stream.increment(row(1, 1, name="first"))
    stream.increment(row(1, 2, name="second"))
    stream.bury(1, upto=upto(10))
    stream.beside(BatchKind.REPAIR, row(1, 2, name="second"))

    _land(loader, stream, None if how == "together" else 1)
    if how != "together":
        Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(stream.stream, reset_extract=False)
        _land(loader, stream, 1 if how == "again one by one" else None)

    assert warehouse.rows(stream, VERSIONS, "update_at") == [("first", second(2), False), ("second", None, False)]


@pytest.mark.parametrize("how", ["once", "again one by one", "again together"])
def test_history_ends_no_older_version_by_tombstones_from_before_the_newest(
    orders: Prepare, loader: Loader, warehouse: Reader, how: str
) -> None:
    stream = orders(Mode.HISTORY, Deletes.SOFT)
    stream.increment(row(1, 1, name="first"))
    stream.increment(row(1, 7, name="second"))
    stream.bury(1, upto=upto(5))
    stream.bury(1, upto=upto(10))
    _land(loader, stream, 1)

    if how != "once":
        Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(stream.stream, reset_extract=False)
        _land(loader, stream, 1 if how == "again one by one" else None)

    found = warehouse.rows(stream, VERSIONS, "update_at")
    assert found == [("first", second(7), False), ("second", second(10), True)]


def _land(loader: Loader, stream: Prepared, limit: int | None) -> None:
    while loader.load(stream, **({"limit": limit} if limit else {})).pending_batches:
        pass


ALL = [(mode, deletes) for mode in MODES for deletes in KEPT]
MARKED = "name, _syncd_deleted_at is not null, _syncd_batch"


@pytest.mark.parametrize("together", [True, False], ids=["in one pass", "one by one"])
@pytest.mark.parametrize(("mode", "deletes"), ALL)
def test_a_version_that_comes_back_from_quarantine_after_its_tombstones_is_gone_as_the_others_are(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode, deletes: Deletes, *, together: bool
) -> None:
    """It was read before them and is the newer one; where rows are deleted, nothing is left that could tell."""
    stream = orders(mode, deletes)
    stream.increment(row(1, 1, name="older"))
    origin = stream.increment(row(2, 2)).id
    stream.bury(1, upto=upto(10))
    stream.beside(BatchKind.REPLAY, row(1, 2, name="mended"), origin=origin)

    _land(loader, stream, None if together else 1)

    if mode is Mode.UPSERT and deletes is Deletes.SOFT:
        assert warehouse.rows(stream, MARKED, "update_at")[:1] == [("older", True, 10**12 + 3)]
    elif mode is Mode.HISTORY:
        shown = "name, _syncd_valid_to, _syncd_deleted_at is not null"
        found = warehouse.rows(stream, shown, "id, update_at")
        assert [(name, end) for name, end, _ in found[:2]] == [("older", second(2)), ("mended", second(10))]
        assert found[1][2]
    elif deletes is Deletes.SOFT:
        found = warehouse.rows(stream, MARKED, "id, update_at")
        assert found[:2] == [("older", True, 10**12 + 3), ("mended", True, 10**12 + 3)]
    else:
        assert (1, "mended") in warehouse.rows(stream)


@pytest.mark.parametrize("how", ["in one pass", "one by one", "again one by one", "again in one pass"])
@pytest.mark.parametrize("mode", MODES)
def test_a_version_that_had_come_back_before_the_tombstones_is_no_ghost_when_it_leaves_quarantine(
    orders: Prepare, loader: Loader, warehouse: Reader, mode: Mode, how: str
) -> None:
    """Read between the looking and the tombstones, with a stamp above their bound, and put aside."""
    stream = orders(mode, Deletes.SOFT)
    seen = stream.increment(row(1, 1, name="older")).id
    origin = stream.increment(row(2, 12)).id
    stream.bury(1, upto=upto(10), seen=seen)
    stream.beside(BatchKind.REPLAY, row(1, 12, name="back"), origin=origin)

    _land(loader, stream, None if "one pass" in how else 1)
    if how.startswith("again"):
        Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(stream.stream, reset_extract=False)
        _land(loader, stream, None if "one pass" in how else 1)

    now = present(warehouse, stream, Deletes.SOFT)
    assert now == [(1, "back"), (2, "row 2")]
    if mode is Mode.HISTORY:
        assert warehouse.rows(stream, VERSIONS, "id, update_at")[:2] == [
            ("older", second(10), True), ("back", None, False),
        ]  # fmt: skip


def test_a_replay_that_a_restored_warehouse_has_lost_lands_again_over_a_mark_that_does_not_mean_it(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    stream = orders(Mode.UPSERT, Deletes.SOFT)
    seen = stream.increment(row(1, 1, name="older")).id
    origin = stream.increment(row(2, 12)).id
    stream.bury(1, upto=upto(10), seen=seen)
    loader.load(stream)
    warehouse.client.run(f'create table "was_{stream.table}" as select * from "{stream.table}"')
    stream.beside(BatchKind.REPLAY, row(1, 12, name="back"), origin=origin)
    loader.load(stream)
    warehouse.client.run(f'delete from "{stream.table}"')
    warehouse.client.run(f'insert into "{stream.table}" select * from "was_{stream.table}"')
    warehouse.client.run(
        f"delete from syncd_ledger where table_name = 'public.{stream.table}' and batch = {10**12 + 4}"
    )

    loader.load(stream, compare=True)

    assert present(warehouse, stream, Deletes.SOFT) == [(1, "back"), (2, "row 2")]


def test_what_a_replay_brings_stands_by_the_tombstones_that_named_its_own_key(
    orders: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """The same tombstones have marked another row, of which the batch had read a version with a later stamp."""
    stream = orders(Mode.HISTORY, Deletes.SOFT)
    stream.increment(row(1, 1), row(2, 1))
    origin = stream.increment(row(1, 5, name="read first")).id
    stream.beside(BatchKind.REPAIR, row(1, 3, name="read last"))
    stream.bury(1, 2, upto=upto(10))
    stream.beside(BatchKind.REPLAY, row(2, 5, name="mended"), origin=origin)

    _land(loader, stream, None)

    assert warehouse.rows(stream, VERSIONS, "id, update_at") == [
        ("row 1", second(5), False),
        ("read last", second(10), True),
        ("read first", second(5), False),
        ("row 2", second(5), True),
        ("mended", second(10), True),
    ]
