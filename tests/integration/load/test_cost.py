"""What a landing costs in statements and requests, counted, so that nothing adds one unseen."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from syncd.redshift.ledger import StreamLedger
from syncd.redshift.session import WarehouseSession
from tests.builders import RUN, make_process
from tests.integration.load.conftest import Loader, Reader
from tests.services.landed import Batches
from tests.services.prepared import Prepared, numbers, row
from watermarks.document import Stage
from watermarks.loading import Loading

pytestmark = pytest.mark.services

LANDING = [
    "BEGIN",
    "LOCK TABLE fence",
    "SELECT MAX(epoch)",
    "SELECT ledger",
    "SELECT columns",
    "CREATE TEMP TABLE",
    "COPY",
    "SELECT PG_LAST_COPY_COUNT()",
    "DELETE FROM target",
    "INSERT INTO target",
    "DROP TABLE",
    "INSERT INTO ledger",
    "COMMIT",
]
"""One batch, or a thousand of one shape, in a table that is as the files want it."""

CLAIM = [
    "GetObject owner",
    "GetObject claim",
    "GetObject document",
    "GetObject history",
    "PutObject claim",
    "GetObject document",
    "PutObject history",
    "PutObject document",
    "GetObject owner",
]
LAND = ["GetObject link", "PutObject list", "PutObject history", "PutObject document"]
"""With the document read before."""

WORDS = {
    "SELECT DISTINCT t.pid": "SELECT sessions at the fence",
    'LOCK TABLE "public"."syncd_fence': "LOCK TABLE fence",
    'DELETE FROM "public"."syncd_fence': "DELETE FROM fence",
    'INSERT INTO "public"."syncd_fence': "INSERT INTO fence",
    'INSERT INTO "public"."syncd_ledger': "INSERT INTO ledger",
    "SELECT load_generation, batch": "SELECT ledger",
    "SELECT MAX(epoch)": "SELECT MAX(epoch)",
    "SELECT a.attname": "SELECT columns",
    "SELECT PG_LAST": "SELECT PG_LAST_COPY_COUNT()",
    "SELECT 1 FROM": "SELECT a row of target",
    "CREATE TEMP TABLE": "CREATE TEMP TABLE",
    "CREATE TABLE IF": "CREATE fence or ledger",
    "COPY": "COPY",
    'DELETE FROM "public"': "DELETE FROM target",
    'INSERT INTO "public"': "INSERT INTO target",
    "DROP TABLE": "DROP TABLE",
}


KEYS = {
    "watermarks": "document",
    "history": "history",
    "claims": "claim",
    "owners": "owner",
    "batches": "link",
    "copy": "list",
    "data": "part",
}


def named(sql: str) -> str:
    return next((name for words, name in WORDS.items() if sql.startswith(words)), sql)


@contextmanager
def statements() -> Iterator[list[str]]:
    """Every statement that goes to the warehouse, by its name."""
    told: list[str] = []
    execute = WarehouseSession._execute

    def counting(session: WarehouseSession, sql: str, *rest: Any, **words: Any) -> Any:
        told.append(named(sql))
        return execute(session, sql, *rest, **words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WarehouseSession, "_execute", counting)
        yield told


@contextmanager
def requests(loader: Loader) -> Iterator[list[str]]:
    """Every request to S3, by its operation."""
    told: list[str] = []

    def sent(*, request: Any, operation_name: str, **_: Any) -> None:
        key = urlsplit(request.url).path
        told.append(f"{operation_name} {next(name for part, name in KEYS.items() if f'/{part}/' in key)}")

    events = loader.lake.client.meta.events
    events.register("request-created.s3", sent)
    yield told
    events.unregister("request-created.s3", sent)


@pytest.fixture
def batches(prepared: Callable[..., Prepared]) -> Batches:
    made = Batches(prepared())
    made.add(row(1, 1), row(2, 2))
    return made


def landing_of(loader: Loader, batches: Batches) -> Loading:
    """Of a process that has held the claim for a while."""
    process = make_process(loader.journal.store, f"kept{next(numbers)}")
    held = process.acquire(batches.prepared.stream, Stage.LOAD, loader.journal)
    target = loader.target(batches.prepared)
    landing = Loading(loader.journal, held, lambda: target)
    landing.load_next_batches(RUN, max_batches=1000, check_ledger=False)
    return landing


@pytest.mark.parametrize("count", [1, 20])
def test_batches_land_with_these_statements_and_no_more(batches: Batches, loader: Loader, count: int) -> None:
    landing = landing_of(loader, batches)
    for number in range(count):
        batches.add(row(number, 3 + number))

    with statements() as told:
        landing.load_next_batches(RUN, max_batches=1000, check_ledger=False)

    assert told == LANDING


def test_a_new_owner_raises_the_fence_and_looks_at_the_table_once(batches: Batches, loader: Loader) -> None:
    loader.load(batches.prepared)
    batches.add(row(1, 3))

    with statements() as told:
        outcome = loader.run(batches.prepared).execute(RUN)

    assert outcome.error is None
    epoch, place = LANDING.index("SELECT ledger"), LANDING.index("CREATE TEMP TABLE")
    assert told == [
        "SELECT sessions at the fence",
        *LANDING[:epoch],
        "DELETE FROM fence",
        "INSERT INTO fence",
        *LANDING[epoch:place],
        "SELECT a row of target",
        *LANDING[place:],
    ]


def test_a_first_pass_takes_sixteen_requests_and_every_further_one_five(
    batches: Batches, loader: Loader, warehouse: Reader
) -> None:
    """And one commit each. What is claimed stays so; the link before is read once, and the next has to follow it."""
    loader.load(batches.prepared)
    run = loader.run(batches.prepared)
    batches.add(row(3, 3))
    with requests(loader) as first, statements() as landed:
        assert run.execute(RUN).error is None
    batches.add(row(4, 4))
    with requests(loader) as second, statements() as landed_again:
        assert run.execute(RUN).error is None
    with requests(loader) as idle, statements() as nothing:
        assert run.execute(RUN).error is None
    with requests(loader) as end:
        loader.end()

    assert first == ["GetObject document", *CLAIM, "GetObject document", "GetObject link", *LAND]
    assert second == ["GetObject document", *LAND]
    assert (idle, nothing) == (["GetObject document"], [])
    assert end == ["GetObject claim", "PutObject claim"]
    assert (landed.count("COMMIT"), landed_again) == (1, LANDING)
    assert len(warehouse.rows(batches.prepared)) == 4


APART = """
import sys
import syncd.load.load_pass, syncd.redshift.batch_target, syncd.redshift.connection, syncd.s3.lake_client
import watermarks.stores.s3
print([name for name in ("pymysql", "pyspark", "py4j", "pandas") if name in sys.modules])
"""


def test_the_loader_imports_nothing_of_the_source() -> None:
    told = subprocess.run([sys.executable, "-c", APART], capture_output=True, text=True, check=True).stdout

    assert told.strip() == "[]"


def test_a_ledger_that_lost_much_is_asked_for_one_row_a_transaction_and_each_link_is_read_twice(
    batches: Batches, loader: Loader, warehouse: Reader
) -> None:
    """Once to see that all its files are there before the first lands again, and once to land it."""
    for number in range(3, 24):
        batches.add(row(number, number))
    loader.load(batches.prepared)
    forgotten = f"delete from syncd_ledger where table_name = 'public.{batches.prepared.table}' and batch % 1000000 > 3"
    warehouse.client.run(forgotten)
    run = loader.run(batches.prepared, max_rows=5)
    rows: list[int] = []
    asked = StreamLedger._query_entries

    def counting(ledger: StreamLedger, sql: str) -> Any:
        found = asked(ledger, sql)
        rows.append(len(found))
        return found

    with requests(loader) as told, statements() as done, pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamLedger, "_query_entries", counting)
        assert run.execute(RUN, compare=True).error is None

    lost = len(batches.read) - 3
    assert done.count("COMMIT") == lost // 5 + 1
    # And of each transaction but the last, one that does not fit into it any more.
    assert told.count("GetObject link") == 2 * lost + lost // 5
    # Each transaction finds nothing from the mark on, and then the newest that is there; the last look finds the mark.
    assert (sum(rows), len(rows)) == (lost // 5 + 2, 2 * (lost // 5 + 1) + 1)
    assert [batch for batch, _, _ in warehouse.ledger(batches.prepared)] == batches.ledger
