"""Of very many rows three are bad: all others land, and after a fix these three, each once.

Rows come as they travel from MySQL, pass what they pass in a task of Spark, and land in the stand-in; what is there is
asked by SQL of its own and told from the rows' numbers alone.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from syncd.datatypes.columns import Policies, Policy
from tests.integration.load.conftest import Loader, Reader
from tests.integration.load.replays import Replayer
from tests.services.prepared import ID, NAME, UPDATE_AT, moment, position, row, text_column
from tests.services.travelling import Travelling
from watermarks.document import Stage

pytestmark = pytest.mark.services
COLUMNS = (ID, NAME, UPDATE_AT, text_column("note"))
WIDE = 70_000
EACH = 50_000


def arriving(rows: int, wide: set[int], nameless: set[int]) -> Iterator[pa.RecordBatch]:
    """Rows 1 to so many, as the server sends them; some with a note that no VARCHAR holds, some without a name."""
    stamp = f"{moment(1):%Y-%m-%d %H:%M:%S.%f}"
    for first in range(1, rows + 1, EACH):
        keys = range(first, min(first + EACH, rows + 1))
        yield pa.RecordBatch.from_pydict(
            {
                "id": pa.array(keys, pa.int64()),
                "name": pa.array([None if key in nameless else b"row %d" % key for key in keys], pa.binary()),
                "update_at": pa.array([stamp] * len(keys)),
                "note": pa.array([b"x" * WIDE if key in wide else b"n" for key in keys], pa.binary()),
            }
        )


def told(rows: int, without: set[int]) -> tuple[int, ...]:
    """Of rows 1 to so many: how many, the sum of their numbers, how many different ones, all bytes of their names."""
    kept = [key for key in range(1, rows + 1) if key not in without]
    return len(kept), sum(kept), len(kept), sum(len(f"row {key}") for key in kept)


ASKED = "count(*), sum(id), count(distinct id), sum(octet_length(name))"


@pytest.mark.parametrize("kind", ["two at extraction and one at load", "three at load"])
@pytest.mark.parametrize("rows", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_of_very_many_rows_three_are_put_aside_and_come_back_once_they_are_mended(
    *,
    lake: Any,
    journal: Any,
    loader: Loader,
    warehouse: Reader,
    rows: int,
    kind: str,
    record_property: Callable[..., None],
) -> None:
    bad = {rows // 3, rows // 2 + 7, rows - 1}
    wide = set(sorted(bad)[:2]) if kind.startswith("two") else set[int]()
    nameless = bad - wide
    orders = Travelling(lake, journal, columns=COLUMNS)
    table = f'"{orders.table}"'
    warehouse.client.run(
        f'create table {table} ("id" bigint, "name" varchar(200) not null, "update_at" timestamp,'
        ' "note" varchar(65535), "_syncd_batch" bigint)'
    )
    orders.arriving = arriving(rows, wide, nameless)
    orders.increment(high=position(row(rows, 1)))
    replayer = Replayer(loader)

    began, used = time.monotonic(), time.process_time()
    landed = loader.load(orders)
    seconds, processor = time.monotonic() - began, time.process_time() - used
    trials = sum(sieve.trial_count for sieve in loader.sieves)
    print(f"\n{rows:,} rows, {kind}: {seconds:.1f} s, {processor:.1f} s of this processor, {trials} trials")  # noqa: T201  # a long proof prints what it measured
    record_property("trials", trials)

    assert landed.rows == rows - 3
    assert warehouse.rows(orders, ASKED, order="1") == [told(rows, bad)]
    assert replayer.waiting(orders) == 3
    shown = replayer.rows(orders)
    assert {(found.key["id"], found.reasons[0].column, found.reasons[0].size) for found in shown} == {
        *((key, "note", WIDE) for key in wide), *((key, "name", None) for key in nameless),
    }  # fmt: skip
    assert {found.file.stage for found in shown} == ({Stage.EXTRACT, Stage.LOAD} if wide else {Stage.LOAD})
    assert trials <= 5 + rows // 500_000 + 1 + 2 * 20 * len(nameless)

    for sql in (
        f'alter table {table} add column "n" varchar(200)',
        f'update {table} set "n" = "name"',
        f'alter table {table} drop column "name"',
        f'alter table {table} rename column "n" to "name"',
    ):
        warehouse.client.run(sql)
    replayed = replayer.replay(orders, policies=Policies(oversize=Policy.TRUNCATE))
    again = loader.load(orders)

    assert (replayed.rows, replayed.quarantined, again.rows, again.quarantined) == (3, 0, 3, 0)
    names = sum(len(f"row {key}") for key in nameless)
    count, numbers, different, size = told(rows, set())
    assert warehouse.rows(orders, ASKED, order="1") == [(count, numbers, different, size - names)]
    found = warehouse.client.rows(
        f"select id, name, octet_length(note), _syncd_batch from {table} where octet_length(note) > 1 or name is null"
        " order by id"
    )
    assert [tuple(one) for one in found] == [
        (key, None if key in nameless else f"row {key}", 65_535 if key in wide else 1, 10**12 + 1)
        for key in sorted(bad)
    ]
    assert replayer.waiting(orders) == 0
    assert replayer.replay(orders).batches == 0
