"""reset, set and undo by their commands, in any order, with loads between: the warehouse holds what was asked for."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import TYPE_CHECKING

import pytest

from tests.integration.load.conftest import Loader, Reader
from tests.integration.load.test_operator import Half, Life
from tests.integration.marks.conftest import Marks
from tests.services.prepared import Prepared, moment
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.progress import BEFORE_FIRST_BATCH

if TYPE_CHECKING:
    from watermarks.batch import BatchId

pytestmark = pytest.mark.services

RESETS = ("reset", "reset mysql", "reset redshift")
SETS = ("set", "set mysql", "set redshift", "set redshift after", "leave out")
WISHES = (*RESETS, *SETS, "undo")


@dataclass
class Commanded(Life):
    """A stream whose person has nothing but the commands; what must come of them is counted without the library."""

    marks: Marks = field(kw_only=True)
    halves: tuple[bool, bool] = (False, False)
    """Whether the last change was of the extracted half, and of the loaded half."""

    def wish(self, what: str) -> None:
        half, mark = self.half, self.mark
        if what == "undo" and self.before is None:
            assert self._do("undo") == 2
            return
        wanted, words = self._wanted(what)
        assert self._do(*words) == 0, what
        self.half, self.mark = wanted
        self.before = (half, mark)

    def _do(self, *words: str) -> int:
        done = self.marks(*words, "-t", self.prepared.table, "--yes", "--reason", "a test")
        return done.code

    def _wanted(self, what: str) -> tuple[tuple[Half, Cursor], tuple[str, ...]]:
        """What a change makes of both halves, and its words."""
        ids, second = [link.id for link, _ in self.read], self.chance.randrange(1, self.second + 1)
        at, stamp = Cursor.from_values(moment(second).replace(tzinfo=None)), ("--timestamp", moment(second).isoformat())
        link = self.chance.choice(self.read)[0]
        place = self.chance.choice([BEFORE_FIRST_BATCH, *ids])
        wishes: dict[str, tuple[BatchId | None, Cursor | None, tuple[str, ...]]] = {
            "reset": (BEFORE_FIRST_BATCH, START_CURSOR, ("reset",)),
            "reset mysql": (None, START_CURSOR, ("reset", "--mysql-only")),
            "reset redshift": (BEFORE_FIRST_BATCH, None, ("reset", "--redshift-only")),
            "set": (BEFORE_FIRST_BATCH, at, ("set", *stamp)),  # every file was written after what it holds
            "set mysql": (None, at, ("set", "--mysql-only", *stamp)),
            "set redshift": (link.id, None, ("set", "--redshift-only", "--timestamp", link.made_at.isoformat())),
            "set redshift after": (place, None, ("set", "--redshift-only", "--after", str(place))),
            "leave out": (ids[-1], None, ("set", "--redshift-only", "--preset", "now")),
        }
        if what == "undo":
            assert self.before is not None
            earlier, mark = self.before
            last, cursor = (earlier.last if self.halves[1] else None), (mark if self.halves[0] else None)
            words: tuple[str, ...] = ("undo",)
        else:
            last, cursor, words = wishes[what]
            self.halves = (cursor is not None, last is not None)
        half = self.half if last is None else Half(self.half.load_generation + 1, last)
        return (half, self.mark if cursor is None else cursor), words


def live(life: Commanded, steps: tuple[str, ...]) -> None:
    for _ in range(3):
        life.extract()
    life.load()
    life.extract()
    for step in steps:
        if step in WISHES:
            life.wish(step)
        else:
            getattr(life, step)()
    life.load()
    life.judge()
    life.extract()
    life.load()
    life.judge()


def orders() -> list[tuple[str, ...]]:
    """Every pair of wishes, and every order of a reset, a set and an undo, with loads between them or not."""
    between: list[tuple[str, ...]] = [(), ("load",), ("extract", "load")]
    pairs = [(first, *gap, second) for first, gap, second in product(WISHES, between, WISHES)]
    threes = [
        (one, *gap, two, *gap, three)
        for wishes in product(RESETS, SETS, ("undo",))
        for one, two, three in permutations(wishes)
        for gap in between[:2]
    ]
    return [*pairs, *threes]


Play = Callable[[list[tuple[str, ...]]], None]


@pytest.fixture
def play(prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader, marks: Callable[..., Marks]) -> Play:
    def played(plays: list[tuple[str, ...]]) -> None:
        for place, steps in enumerate(plays):
            stream = prepared()
            life = Commanded(stream, loader, warehouse, random.Random(place), marks=marks(stream))
            try:
                live(life, steps)
            except BaseException as error:
                error.add_note(f"{steps}, chance {place}")
                raise

    return played


@pytest.mark.slow
def test_what_was_asked_for_is_what_is_in_the_warehouse(play: Play) -> None:
    play(random.Random(3).sample(orders(), 4))


@pytest.mark.long
def test_what_was_asked_for_is_what_is_in_the_warehouse_in_every_order(play: Play) -> None:
    play(orders())
