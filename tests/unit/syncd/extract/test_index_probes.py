"""Probes over a source that answers as a test says."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from syncd.datatypes.source_table import ServerInfo, SourceColumn, SourceIndex, SourceTable
from syncd.errors import ValueRefused
from syncd.extract.index_probes import IndexPath, Prober
from syncd.settings import StreamSettings
from syncd.tables.sort_order import StreamOrder, resolve_order
from watermarks.cursor import START_CURSOR, Cursor

CODE = SourceColumn(
    name="code", data_type="varchar", column_type="varchar(20)", length=20, octets=20, charset="utf8mb4",
    collation="utf8mb4_bin", nullable=False,
)  # fmt: skip
UPDATE_AT = SourceColumn(name="update_at", data_type="datetime", column_type="datetime", nullable=False)
TABLE = SourceTable(
    database="shop",
    name="codes",
    kind="BASE TABLE",
    engine="InnoDB",
    columns=(CODE, UPDATE_AT),
    indexes=(
        SourceIndex(name="PRIMARY", columns=("code",), unique=True, whole=True),
        SourceIndex(name="by_time", columns=("update_at",), unique=False, whole=True),
    ),
)


@dataclass
class Scripted:
    """Gives one answer after another to probes, and finds every path served."""

    answers: list[list[tuple[object, ...]]]
    asked: list[str] = field(default_factory=list)

    def get_server_info(self) -> ServerInfo:
        return ServerInfo(identity="s", version=(11, 4, 0), mariadb=True)

    def describe_table(self, database: str, name: str) -> SourceTable:
        return TABLE

    def show_create_table(self, database: str, name: str) -> str:
        raise NotImplementedError

    def find_overload(self) -> str | None:
        return None

    def fetch_rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        if sql.startswith("EXPLAIN"):
            return [(1, "SIMPLE", "codes", "range", "PRIMARY", "PRIMARY", "82", None, 5, "Using where")]
        self.asked.append(sql)
        return self.answers.pop(0)

    def discard_connections(self) -> None:
        raise NotImplementedError


def order() -> StreamOrder:
    return resolve_order(TABLE, StreamSettings(source="s", database="shop", table="codes"))


def test_a_window_that_ends_where_it_begins_is_refused() -> None:
    path = IndexPath.from_key(order())
    prober = Prober(source=Scripted([[("?",)]]), windows=1)

    with pytest.raises(ValueRefused, match=r"shop\.codes cannot be read beyond"):
        prober.find_bounds(path, Cursor.from_values("?"), rows=10)


def test_a_batch_that_would_never_end_is_refused() -> None:
    path = IndexPath.from_key(order())
    source = Scripted([[("a",)], [("?",)], [("?",)], [("?",)]])

    with pytest.raises(ValueRefused, match="cannot be read beyond"):
        Prober(source=source, windows=1).find_all_bounds(path, START_CURSOR, rows=10)
    assert len(source.asked) == 3


def test_the_rest_of_the_rows_has_to_lie_behind_what_was_read() -> None:
    path = IndexPath.from_key(order())

    with pytest.raises(ValueRefused, match="cannot be read beyond"):
        Prober(source=Scripted([[], [("?",)]]), windows=1).find_bounds(path, Cursor.from_values("?"), rows=10)


@pytest.mark.parametrize(("answer", "rows"), [([], 50_000), ([("k",)], 500_000)])
def test_a_batch_of_few_rows_is_known_as_such(answer: list[tuple[object, ...]], rows: int) -> None:
    """By what is left behind a probe of a whole window alone, it could hold half a million: no reader would hurry."""
    path = IndexPath.from_key(order())
    source = Scripted([[], [("z",)], answer])

    found = Prober(source=source, windows=2).find_bounds(path, START_CURSOR, rows=1_000_000)

    assert (found.rows, found.high) == (rows, Cursor.from_values("z"))


def test_the_last_window_of_a_batch_of_many_rows_is_not_asked_twice() -> None:
    path = IndexPath.from_key(order())
    source = Scripted([[("m",)], [], [("z",)]])

    found = Prober(source=source, windows=2).find_bounds(path, START_CURSOR, rows=1_000_000)

    assert (found.rows, len(source.asked)) == (1_000_000, 3)
