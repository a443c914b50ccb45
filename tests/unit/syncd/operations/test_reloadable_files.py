"""What was taken over is in no file: a loaded half is reset alone only where the table was read whole since."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from syncd.operations.reloadable_files import RowsNotInLake, find_files_start, require_rows_in_lake
from tests.builders import ORDERS, at, extract, hold, make_process
from watermarks.cursor import START_CURSOR
from watermarks.document import Watermark
from watermarks.history import Journal
from watermarks.operator import ImportedPosition, Operator
from watermarks.stores.memory import MemoryStore
from watermarks.testing import ManualClock


@dataclass
class Desk:
    """A stream, and a person who may take it over."""

    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.journal = Journal(self.store, Watermark, clock=ManualClock())
        self.person = Operator(journal=self.journal, author="ann", reason="adopted")

    def take_over(self) -> None:
        self.person.import_position(ORDERS, ImportedPosition(cursor=at(7)))

    def extract(self) -> None:
        extract(self.journal, hold(make_process(self.store), self.journal), at(8, 1), at(9, 1))

    @property
    def state(self) -> Watermark:
        state = self.journal.read_newest(ORDERS.stem)
        assert state
        return state

    def change(self, act: Callable[[Operator], Watermark]) -> None:
        before = self.state
        require_rows_in_lake(self.journal, before, act(self.person))


@pytest.mark.parametrize("batches", [True, False])
def test_the_entry_before_the_first_batch_tells_of_a_takeover(*, batches: bool) -> None:
    desk = Desk()
    desk.take_over()
    if batches:
        desk.extract()

    assert find_files_start(desk.journal, desk.state) == at(7)


def test_a_stream_that_began_by_itself_was_not_taken_over() -> None:
    desk = Desk()
    desk.extract()
    desk.person.set_marks(ORDERS, extract_cursor=at(3))

    assert find_files_start(desk.journal, desk.state) == START_CURSOR
    desk.change(lambda person: person.reset_marks(ORDERS, reset_extract=False))


def test_a_takeover_that_was_undone_is_none() -> None:
    desk = Desk()
    desk.take_over()
    desk.person.undo(ORDERS)

    assert find_files_start(desk.journal, desk.state) == START_CURSOR


def test_a_loaded_half_alone_is_not_reset() -> None:
    desk = Desk()
    desk.take_over()
    desk.extract()

    with pytest.raises(RowsNotInLake, match="no file contains them"):
        desk.change(lambda person: person.reset_marks(ORDERS, reset_extract=False))


def test_both_halves_are_and_after_that_the_loaded_one_too() -> None:
    desk = Desk()
    desk.take_over()
    desk.extract()

    desk.change(lambda person: person.reset_marks(ORDERS))

    assert find_files_start(desk.journal, desk.state) == START_CURSOR
    desk.change(lambda person: person.reset_marks(ORDERS, reset_extract=False))


def test_an_undo_of_the_takeover_is_no_reset_of_one_half() -> None:
    desk = Desk()
    desk.take_over()

    desk.change(lambda person: person.undo(ORDERS))
