"""Ranges that are read again in a table that appends: what stands there now is what the last reading found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from syncd.settings import Deletes, Mode
from tests.builders import RUN
from tests.integration.load.conftest import Loader, Reader
from tests.integration.load.test_cost import LANDING, statements
from tests.services.prepared import Prepared, Row, json_column, moment, position, row
from watermarks.batch import BatchKind
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.operator import Operator
from watermarks.window import Window

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]

TOGETHER = pytest.mark.parametrize("limit", [1, None], ids=["one by one", "together"])
"""In one landing, or in one for each batch."""


def read(low: int, high: int) -> Window:
    return Window(Cursor.from_values(low), Cursor.from_values(high))


def at(second: int, *key: int) -> Cursor:
    return Cursor.from_values(moment(second).replace(tzinfo=None), *key)


def set_back(loader: Loader, stream: Prepared, to: Cursor) -> None:
    Operator(journal=loader.journal, author="ann", reason="a test").set_marks(stream.stream, extract_cursor=to)


def reset(loader: Loader, stream: Prepared) -> None:
    Operator(journal=loader.journal, author="ann", reason="a test").reset_marks(stream.stream, reset_extract=False)


def land(loader: Loader, stream: Prepared, limit: int | None) -> None:
    """Land all that waits, so many batches at a time."""
    while loader.load(stream, **({"limit": limit} if limit else {})).batches:
        pass


@pytest.mark.parametrize("left", [(), (2,), (2, 3)], ids=["nothing", "one row", "the last row"])
@TOGETHER
def test_a_range_read_again_holds_what_stands_there_now_and_nothing_else(
    prepared: Prepare, loader: Loader, warehouse: Reader, left: Sequence[int], limit: int | None
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(*(row(key, 1) for key in (1, 2, 3, 4)))
    land(loader, events, limit)
    set_back(loader, events, Cursor.from_values(1))
    events.increment(*(row(key, 1) for key in left), high=Cursor.from_values(3))
    events.increment(row(4, 1), row(5, 2))

    land(loader, events, limit)

    assert [key for key, _ in warehouse.rows(events)] == [1, *left, 4, 5]


def test_a_range_without_a_row_is_emptied_where_nothing_else_lands(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """And an older version goes with its range, as it does where its neighbours are still there."""
    prices = prepared(mode=Mode.APPEND)
    prices.increment(row(1, 1), row(2, 2), row(3, 3))
    prices.increment(row(2, 5, name="moved on"))
    land(loader, prices, None)
    prices.beside(BatchKind.REPAIR, window=Window(at(1, 1), at(3)))

    land(loader, prices, None)

    assert warehouse.rows(prices) == [(1, "row 1"), (2, "moved on"), (3, "row 3")]


def test_a_first_batch_without_a_row_makes_the_table_and_empties_nothing(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(high=Cursor.from_values(3))
    land(loader, events, None)

    assert warehouse.rows(events) == []


def test_an_upsert_takes_no_range_for_empty(prepared: Prepare, loader: Loader, warehouse: Reader) -> None:
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    land(loader, orders, None)
    orders.beside(BatchKind.REPAIR, window=Window(START_CURSOR, at(2, 2)))

    land(loader, orders, None)

    assert warehouse.rows(orders) == [(1, "row 1"), (2, "row 2")]


@TOGETHER
def test_where_one_range_ends_and_the_next_begins_a_row_that_is_gone_goes(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    """A bulk statement gave them all one stamp, and batches end among them."""
    orders = prepared(mode=Mode.APPEND)
    orders.increment(*(row(key, 5) for key in range(1, 9)))
    land(loader, orders, None)
    set_back(loader, orders, START_CURSOR)
    orders.increment(row(2, 5), high=at(5, 4))
    orders.increment(row(7, 5), row(8, 5))

    land(loader, orders, limit)

    assert [key for key, _ in warehouse.rows(orders)] == [2, 7, 8]


@pytest.mark.parametrize("window", [Window(at(3), at(5)), Window(at(3, 1), at(5, 2))], ids=["instants", "rows"])
def test_a_range_ends_where_it_says(prepared: Prepare, loader: Loader, warehouse: Reader, window: Window) -> None:
    """A bound that is an instant alone stands before all rows of it."""
    orders = prepared(mode=Mode.APPEND)
    rows = [row(key, second) for second in (2, 3, 4, 5, 6) for key in (1, 2, 3)]
    orders.increment(*rows)
    land(loader, orders, None)
    orders.beside(BatchKind.REPAIR, window=window)

    land(loader, orders, None)

    left = sorted((found["id"], found["update_at"].second) for found in rows if position(found) not in window)
    assert warehouse.rows(orders, "id, cast(extract(second from update_at) as int)") == left


@TOGETHER
def test_of_an_order_that_only_the_source_knows_what_lies_at_the_ends_of_a_range_stays(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    """Whether a text lies before another is the collation's affair; so only between two stamps all is known."""
    tags = prepared(mode=Mode.APPEND, key=("name",))
    tags.increment(*(row(key, key) for key in range(1, 8)))
    land(loader, tags, None)
    ends = [Cursor.from_values(moment(second).replace(tzinfo=None), f"row {second}") for second in (1, 4, 7)]
    set_back(loader, tags, ends[0])
    tags.increment(high=ends[1])
    tags.increment(high=ends[2])

    land(loader, tags, limit)

    assert [key for key, _ in warehouse.rows(tags)] == [1, 4, 7]


@TOGETHER
def test_what_a_batch_brought_goes_with_a_later_reading_of_its_range_that_did_not_find_it(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(row(1, 1), row(2, 1), row(3, 1))
    events.beside(BatchKind.REPAIR, row(1, 1), row(3, 1), window=read(0, 3))
    events.increment(row(4, 2))
    events.beside(BatchKind.REPAIR, window=read(3, 4))

    land(loader, events, limit)

    assert [key for key, _ in warehouse.rows(events)] == [1, 3]


@TOGETHER
def test_a_row_that_a_replay_brought_goes_with_a_later_reading_and_not_with_an_earlier_one(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    first = events.increment(row(1, 1), row(4, 1))
    events.beside(BatchKind.REPLAY, row(2, 1), origin=first.id)
    events.beside(BatchKind.REPAIR, row(1, 1), row(4, 1), window=read(0, 4))
    events.beside(BatchKind.REPLAY, row(3, 1), origin=first.id)

    land(loader, events, limit)

    assert [key for key, _ in warehouse.rows(events)] == [1, 3, 4]


@TOGETHER
def test_files_that_land_again_in_two_shapes_end_as_they_did_at_first(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    """What lay between two ranges that abut was read by a batch between them, and not found by the later one."""
    events = prepared(mode=Mode.APPEND, cursor="id")
    plain = events.columns
    events.increment(row(1, 1), row(2, 1))
    events.columns = (*plain, json_column("doc"))
    events.beside(BatchKind.REPAIR, row(4, 1), window=read(3, 5))
    events.columns = plain
    events.increment(row(3, 2), row(6, 2))
    land(loader, events, 1)
    before = warehouse.rows(events)
    reset(loader, events)

    land(loader, events, limit)

    assert [key for key, _ in before] == [1, 2, 3, 6]
    assert warehouse.rows(events) == before


@TOGETHER
def test_a_row_marked_as_gone_between_two_ranges_goes_with_the_later_one_also_when_they_land_again(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id", layout={"deletes": Deletes.SOFT})
    events.increment(row(1, 1), row(2, 1), row(3, 1), row(4, 1))
    land(loader, events, None)
    set_back(loader, events, START_CURSOR)
    events.increment(row(1, 1), row(2, 1))
    events.bury(3, upto=Cursor.from_values(4))
    land(loader, events, None)
    reset(loader, events)
    events.increment(row(4, 1))

    land(loader, events, limit)

    assert [key for key, _ in warehouse.rows(events)] == [1, 2, 4]


def test_batches_that_wait_behind_one_another_land_in_one_transaction(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    """Only a range that is read twice takes two."""
    orders = prepared(mode=Mode.APPEND, layout={"deletes": Deletes.HARD})
    orders.chunk(row(1, 1), row(2, 2), horizon=at(5))
    orders.chunk(row(3, 3), horizon=at(5), done=True)
    orders.increment(row(4, 6))
    orders.bury(1, upto=at(6, 4))
    orders.increment(row(5, 7))
    orders.increment(high=at(8, 1))

    with statements() as first:
        assert loader.load(orders).batches == 6
    orders.beside(BatchKind.REPAIR, row(4, 6), window=Window(at(5), at(7)))
    orders.beside(BatchKind.REPAIR, row(5, 7), window=Window(at(6, 9), at(7, 9)))
    with statements() as second:
        assert loader.load(orders).batches == 2

    assert [told.count("INSERT INTO ledger") for told in (first, second)] == [1, 2]
    assert warehouse.rows(orders) == [(2, "row 2"), (3, "row 3"), (4, "row 4"), (5, "row 5")]


def test_a_batch_that_appends_takes_one_statement_more_and_one_without_a_row_no_file(
    prepared: Prepare, loader: Loader
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(row(1, 1))
    run = loader.run(events)
    run.execute(RUN)
    events.increment(row(2, 1))
    events.increment(row(3, 1))
    with statements() as some:
        run.execute(RUN)
    events.increment(high=Cursor.from_values(4))
    with statements() as none:
        run.execute(RUN)

    place = LANDING.index("DELETE FROM target")
    assert some == [*LANDING[:place], "DELETE FROM target", *LANDING[place:]]
    rows = {"CREATE TEMP TABLE", "COPY", "SELECT PG_LAST_COPY_COUNT()", "INSERT INTO target", "DROP TABLE"}
    assert none == [each for each in LANDING if each not in rows]


@dataclass
class Source:
    """A table that changes, and the batches that read it at random; so many streams read the very same."""

    random: Random
    streams: Sequence[Prepared]
    by_key: bool
    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    appended: list[Row] = field(default_factory=list[Row])
    """What has to stand in the target."""
    mark: Cursor = START_CURSOR
    version: int = 0

    def place(self, found: Row) -> Cursor:
        return self.streams[0].place(found)

    def change(self) -> None:
        """Rows come, go, and move on."""
        for _ in range(self.random.randint(1, 4)):
            key = self.random.randint(1, 12)
            self.version += 1
            if self.random.random() < 0.4:
                self.rows.pop(key, None)
            else:
                second = key if self.by_key else self.random.randint(1, 6)
                self.rows[key] = row(key, second, name=f"version {self.version}")

    def bound(self) -> Cursor:
        if self.by_key:
            return Cursor.from_values(self.random.randint(0, 12))
        key = (self.random.randint(0, 12),) if self.random.random() < 0.7 else ()
        return at(self.random.randint(0, 6), *key)

    def window(self, low: Cursor | None = None) -> Window:
        some = self.bound() if low is None else low
        other = self.bound()
        return Window(some, other) if some < other else Window(other if low is None else some, some)

    def read(self, window: Window) -> list[Row]:
        """What stands in a range; of it nothing else is to be left in the target."""
        found = [each for each in self.rows.values() if self.place(each) in window]
        self.appended = [each for each in self.appended if self.place(each) not in window] + found
        return found

    def batch(self, loader: Loader) -> None:
        """One batch more, in each of the streams."""
        way = self.random.random()
        if way < 0.15 and self.mark != START_CURSOR:
            self.mark = min(self.bound(), self.mark)
            for stream in self.streams:
                set_back(loader, stream, self.mark)
        if way < 0.6:
            window = self.window(self.mark)
            if window.is_empty:
                return
            found, self.mark = self.read(window), window.high
            for stream in self.streams:
                stream.increment(*found, high=window.high)
        else:
            window = self.window()
            found = self.read(window)
            for stream in self.streams:
                stream.beside(BatchKind.REPAIR, *found, window=window)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("by_key", [True, False], ids=["by key", "by stamp"])
def test_batches_land_together_as_they_land_one_by_one(
    prepared: Prepare, loader: Loader, warehouse: Reader, *, by_key: bool, seed: int
) -> None:
    """Landed apart, together, and all again: the target holds of each range what its last reading found."""
    cursor = "id" if by_key else "update_at"
    apart, together = (prepared(mode=Mode.APPEND, cursor=cursor) for _ in range(2))
    source = Source(Random(seed), [apart, together], by_key)

    for _ in range(8):
        source.change()
        source.batch(loader)
    land(loader, apart, 1)
    land(loader, together, None)

    due = sorted((each["id"], each["name"]) for each in source.appended)
    assert warehouse.rows(apart) == due
    assert warehouse.rows(together) == due
    for stream, limit in ((apart, None), (together, 3)):
        reset(loader, stream)
        land(loader, stream, limit)
        assert warehouse.rows(stream) == due


@TOGETHER
def test_what_is_read_again_unasked_takes_nothing_out(
    prepared: Prepare, loader: Loader, warehouse: Reader, limit: int | None
) -> None:
    """Another server answers, and keeps less than the target; a number that it has given again is its row."""
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(*(row(key, 1) for key in range(1, 5)))
    events.beside(
        BatchKind.REPAIR, row(3, 2, name="given again"), window=Window(START_CURSOR, Cursor.from_values(4)), asked=False
    )

    land(loader, events, limit)

    assert warehouse.rows(events) == [(1, "row 1"), (2, "row 2"), (3, "given again"), (4, "row 4")]


def test_a_table_that_a_range_read_again_has_emptied_is_gone_on_with(
    prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    events = prepared(mode=Mode.APPEND, cursor="id")
    events.increment(row(1, 1), row(2, 1))
    land(loader, events, None)
    events.beside(BatchKind.REPAIR, window=read(0, 2))
    land(loader, events, None)
    assert warehouse.rows(events) == []
    loader.load(events, compare=True)
    events.increment(row(3, 2))

    land(loader, events, None)

    assert warehouse.rows(events) == [(3, "row 3")]
