"""set, reset, skip and undo, in any order, with loads between: the warehouse holds what the person asked for."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from syncd.settings import Mode
from tests.integration.load.conftest import Loader, Reader
from tests.services.landed import Read, content
from tests.services.prepared import Prepared, Row, position, row
from watermarks.batch import BatchId
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.operator import NothingToUndo, Operator
from watermarks.progress import BEFORE_FIRST_BATCH

pytestmark = pytest.mark.services

WISHES = ["reset loaded", "set loaded", "skip", "undo", "set extracted", "reset extracted"]
KEYS = 4


@dataclass(frozen=True)
class Half:
    """What a person asked of the loaded half, counted without the library's help."""

    load_generation: int = 1
    last: BatchId = BEFORE_FIRST_BATCH


@dataclass
class Life:
    """A stream, its source, and what must have become of both."""

    prepared: Prepared
    loader: Loader
    warehouse: Reader
    chance: random.Random
    source: dict[tuple[int, int], Row] = field(default_factory=dict)
    read: list[Read] = field(default_factory=list)
    mark: Cursor = START_CURSOR
    half: Half = field(default_factory=Half)
    before: tuple[Half, Cursor] | None = None
    """As the last change by a person found it."""
    changed: str = ""
    landed: set[tuple[int, BatchId]] = field(default_factory=set)
    second: int = 0

    @property
    def person(self) -> Operator:
        return Operator(journal=self.loader.journal, author="ann", reason="a test")

    def extract(self) -> None:
        """The source changes, and all that is behind the mark is read."""
        self.second += 1
        key = self.chance.randrange(KEYS)
        made = row(key, self.second, name=f"{key} at {self.second}")
        self.source[key, self.second if self.prepared.mode is not Mode.UPSERT else 0] = made
        rows = sorted((found for found in self.source.values() if position(found) > self.mark), key=position)
        self.read.append((self.prepared.increment(*rows), rows))
        self.mark = position(made)

    def load(self) -> None:
        self.loader.load(self.prepared)
        due = [link.id for link, _ in self.read if link.id > self.half.last]
        self.landed |= {(self.half.load_generation, batch) for batch in due}
        if due:
            self.half = replace(self.half, last=due[-1])

    def wish(self, what: str) -> None:
        if what == "skip" and not (self.read and self.read[-1][0].id > self.half.last):
            return  # there is nothing to skip
        half, mark = self.half, self.mark
        try:
            self._asked(what)
        except NothingToUndo:
            assert self.before is None
            return
        self.before, self.changed = (half, mark), what if what != "undo" else self.changed

    def _asked(self, what: str) -> None:
        stream, half = self.prepared.stream, self.half
        ids = [link.id for link, _ in self.read]
        match what:
            case "reset loaded":
                self.person.reset_marks(stream, reset_extract=False)
                self.half = Half(half.load_generation + 1)
            case "set loaded":
                after = self.chance.choice([BEFORE_FIRST_BATCH, *ids])
                self.person.set_marks(stream, load_after=after)
                self.half = Half(half.load_generation + 1, after)
            case "skip":
                self.person.skip_batches(stream, ids[-1])
                self.half = replace(half, last=ids[-1])
            case "undo":
                self.person.undo(stream)
                assert self.before is not None
                earlier, mark = self.before
                if self.changed in {"set extracted", "reset extracted"}:
                    self.mark = mark
                else:
                    self.half = Half(half.load_generation + 1, earlier.last)
            case "set extracted":
                self.mark = self.chance.choice([START_CURSOR, *(position(found) for found in self.source.values())])
                self.person.set_marks(stream, extract_cursor=self.mark)
            case _:
                self.mark = START_CURSOR
                self.person.reset_marks(stream, reset_load=False)

    def judge(self) -> None:
        """Every landing that was asked for is in the ledger once, and nothing else; the rows are what came of it."""
        sql = (
            "select load_generation, batch, count(*) from syncd_ledger"
            f" where table_name = 'public.{self.prepared.table}' group by 1, 2"
        )
        found = self.warehouse.client.rows(sql)
        wanted = [[generation, number(batch), 1] for generation, batch in sorted(self.landed)]
        assert sorted(found) == wanted
        landed = {batch for _, batch in self.landed}
        read = [(link, rows) for link, rows in self.read if link.id in landed]
        columns = "id, update_at, name" + (", _syncd_valid_to" if self.prepared.mode is Mode.HISTORY else "")
        assert self.warehouse.rows(self.prepared, columns) == content(self.prepared.mode, read)
        state = self.loader.journal.read_newest(self.prepared.stream.stem)
        assert state
        assert state.load_progress.load_generation == self.half.load_generation
        assert state.load_progress.last_batch == self.half.last


def number(batch: BatchId) -> int:
    return batch.generation * 10**12 + batch.seq


def orders() -> list[tuple[str, ...]]:
    """Every pair of wishes, with a load between them or not."""
    return [
        (*first, *between, second)
        for first, between, second in product(
            [(wish,) for wish in WISHES], [(), ("load",), ("extract", "load")], WISHES
        )
    ]


def live(life: Life, steps: tuple[str, ...]) -> None:
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


def play(prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader, plays: list[tuple[str, ...]]) -> None:
    for place, steps in enumerate(plays):
        mode = [Mode.UPSERT, Mode.APPEND, Mode.HISTORY][place % 3]
        life = Life(prepared(mode=mode), loader, warehouse, random.Random(place))
        try:
            live(life, steps)
        except BaseException as error:
            error.add_note(f"{mode}: {steps}, chance {place}")
            raise


def test_what_a_person_asked_for_is_what_lands(
    prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader
) -> None:
    play(prepared, loader, warehouse, random.Random(5).sample(orders(), 6))


@pytest.mark.long
def test_what_a_person_asked_for_is_what_lands_in_every_order(
    prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader
) -> None:
    play(prepared, loader, warehouse, orders())
