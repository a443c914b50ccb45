"""Columns that come, go and change their type in any order, resets and replays between: rows end as MySQL has them."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.errors import SchemaDrift
from syncd.settings import Mode
from tests.builders import RUN
from tests.integration.load.conftest import Loader, Reader
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, Row, moment
from watermarks.batch import BatchKind, BatchLink
from watermarks.operator import Operator

pytestmark = pytest.mark.services

NAMES = "abc"
NUMBER = SourceColumn(name="", data_type="int", column_type="int", precision=10, scale=0)
TYPES = {"number": NUMBER, "big": replace(NUMBER, data_type="bigint", column_type="bigint", precision=19), "text": NAME}
DEFAULTS = [None, 7, 8]
WISHES = ["add", "drop", "retype", "read", "load", "load one", "reset", "replay"]


def typed(kind: str, value: object) -> Any:
    if value is None:
        return None
    return str(value) if kind == "text" else int(str(value))


@dataclass
class Life:
    """A table at the source, and the stream that follows it; every change of the table is read before the next."""

    prepared: Prepared
    loader: Loader
    warehouse: Reader
    chance: random.Random
    columns: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Type and default by name."""
    rows: dict[int, Row] = field(default_factory=dict)
    read: list[tuple[BatchLink, tuple[SourceColumn, ...], list[Row]]] = field(default_factory=list)

    def live(self, steps: int) -> None:
        self.extract()
        for _ in range(steps):
            self.wish(self.chance.choice(WISHES))
        self.load()

    def wish(self, what: str) -> None:
        match what:
            case "add" | "drop" | "retype":
                self.alter(what)
                self.extract()
            case "read":
                self.extract()
            case "load":
                self.load()
            case "load one":
                self.load(limit=1)
            case "reset":
                Operator(journal=self.loader.journal, author="ann", reason="a test").reset_marks(
                    self.prepared.stream, reset_extract=False
                )
            case _:
                self.replay()

    def alter(self, what: str) -> None:
        name = self.chance.choice(NAMES)
        known = self.columns.get(name)
        if (what == "add") is (known is not None):
            return
        kind = self.chance.choice(list(TYPES))
        if what == "drop":
            del self.columns[name]
        else:
            self.columns[name] = (kind, known[1] if known else self.chance.choice(DEFAULTS))
        for key, row in self.rows.items():
            held = {**{name: self.columns[name][1] for name in self.columns}, **row}
            self.rows[key] = self.row(key, row["update_at"], held)

    def row(self, key: int, at: object, held: Row) -> Row:
        return {
            "id": key,
            "update_at": at,
            **{name: typed(kind, held[name]) for name, (kind, _) in self.columns.items()},
        }

    def extract(self) -> None:
        """Some rows change, and are read with the columns of now."""
        at = moment(len(self.read) + 1)
        keys = self.chance.sample(range(1, 7), self.chance.randint(1, 3))
        changed = [self.row(key, at, {name: self.chance.choice([None, 42]) for name in self.columns}) for key in keys]
        self.rows |= {row["id"]: row for row in changed}
        self.prepared.columns = (ID, UPDATE_AT, *self.described())
        self.prepared.defaults = {
            name: typed(kind, default) if kind != "text" or default is None else str(default).encode()
            for name, (kind, default) in self.columns.items()
        }
        self.read.append((self.prepared.increment(*changed), self.prepared.columns, changed))

    def described(self) -> Iterator[SourceColumn]:
        for name, (kind, default) in self.columns.items():
            yield replace(TYPES[kind], name=name, default=None if default is None else str(default))

    def replay(self) -> None:
        """A row comes back as some batch read it, with the columns of then."""
        link, columns, rows = self.chance.choice(self.read)
        now, defaults = self.prepared.columns, self.prepared.defaults
        self.prepared.columns, self.prepared.defaults = columns, dict.fromkeys(NAMES)
        self.prepared.beside(BatchKind.REPLAY, self.chance.choice(rows), origin=link.id)
        self.prepared.columns, self.prepared.defaults = now, defaults

    def load(self, **words: Any) -> None:
        """Load; whenever the stream stops for a type, do as the hint says."""
        for _ in range(10):
            most = self.chance.choice([1, 3, 10_000_000])
            outcome = self.loader.run(self.prepared, max_rows=most).execute(RUN, **words)
            self.loader.end()
            if outcome.error is None:
                return
            assert isinstance(outcome.error, SchemaDrift), outcome.error
            for statement in filter(str.strip, outcome.error.hint.split(";")):
                self.warehouse.client.run(statement)
        pytest.fail("the stream stops again and again, whatever is done as it says")


@pytest.mark.slow
@pytest.mark.parametrize("mode", [Mode.UPSERT, Mode.APPEND, Mode.HISTORY])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_becomes_of_columns_rows_hold_what_they_hold_at_the_source(
    prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader, mode: Mode, seed: int
) -> None:
    orders = prepared(columns=(ID, UPDATE_AT), mode=mode)
    life = Life(orders, loader, warehouse, random.Random(f"{mode} {seed}"))

    life.live(12)

    names = ["id", *life.columns]
    found = {row[0]: row for row in warehouse.rows(orders, ", ".join(names), order="update_at")}  # the newest is last
    assert found == {key: tuple(row[name] for name in names) for key, row in life.rows.items()}
