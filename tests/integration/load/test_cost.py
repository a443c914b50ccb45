"""What a landing costs in statements and requests, counted, so that nothing adds one unseen."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from syncd.adapters.redshift.session import Session
from tests.builders import RUN, make_process
from tests.integration.load.conftest import Loader, Reader
from tests.services.landed import Batches
from tests.services.prepared import Prepared, numbers, row
from watermarks.document import Stage
from watermarks.landing import Landing

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

FENCE = [
    "SELECT sessions at the fence",
    "BEGIN",
    "LOCK TABLE fence",
    "SELECT MAX(epoch)",
    "DELETE FROM fence",
    "INSERT INTO fence",
    "COMMIT",
]
"""With a new epoch."""

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


def named(sql: str) -> str:
    return next((name for words, name in WORDS.items() if sql.startswith(words)), sql)


@contextmanager
def statements() -> Iterator[list[str]]:
    """Every statement that goes to the warehouse, by its name."""
    told: list[str] = []
    execute = Session._execute

    def counting(session: Session, sql: str, *rest: Any, **words: Any) -> Any:
        told.append(named(sql))
        return execute(session, sql, *rest, **words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_execute", counting)
        yield told


@contextmanager
def requests(loader: Loader) -> Iterator[list[str]]:
    """Every request to S3, by its operation."""
    told: list[str] = []

    def sent(*, operation_name: str, **_: Any) -> None:
        told.append(operation_name)

    events = loader.lake.client.meta.events
    events.register("request-created.s3", sent)
    yield told
    events.unregister("request-created.s3", sent)


@pytest.fixture
def batches(prepared: Callable[..., Prepared]) -> Batches:
    made = Batches(prepared())
    made.add(row(1, 1), row(2, 2))
    return made


def landing_of(loader: Loader, batches: Batches) -> Landing:
    """Of a process that has held the claim for a while."""
    process = make_process(loader.journal.store, f"kept{next(numbers)}")
    held = process.acquire(batches.prepared.stream, Stage.LOAD, loader.journal)
    landing = Landing(loader.journal, held, loader.target(batches.prepared))
    landing.turn(RUN, most=1000, compare=False)
    return landing


@pytest.mark.parametrize("count", [1, 20])
def test_batches_land_with_these_statements_and_no_more(batches: Batches, loader: Loader, count: int) -> None:
    landing = landing_of(loader, batches)
    for number in range(count):
        batches.add(row(number, 3 + number))

    with statements() as told:
        landing.turn(RUN, most=1000, compare=False)

    assert told == LANDING


def test_a_new_owner_raises_the_fence_and_looks_at_the_table_once(batches: Batches, loader: Loader) -> None:
    loader.load(batches.prepared)
    batches.add(row(1, 3))

    with statements() as told:
        outcome = loader.run(batches.prepared).once(RUN)

    assert outcome.error is None
    place = LANDING.index("CREATE TEMP TABLE")
    assert told == [*FENCE, *LANDING[:place], "SELECT a row of target", *LANDING[place:]]


def test_a_tick_with_the_claim_held_takes_five_requests(batches: Batches, loader: Loader, warehouse: Reader) -> None:
    """The document, the link and the list for COPY; the history's entry and the document."""
    landing = landing_of(loader, batches)
    batches.add(row(3, 3))

    with requests(loader) as told:
        landing.turn(RUN, most=1000, compare=False)

    assert told == ["GetObject", "GetObject", "PutObject", "PutObject", "PutObject"]
    assert warehouse.rows(batches.prepared) == [(1, "row 1"), (2, "row 2"), (3, "row 3")]


def test_a_tick_with_nothing_due_takes_one_request_and_no_statement(batches: Batches, loader: Loader) -> None:
    landing = landing_of(loader, batches)

    with requests(loader) as asked, statements() as told:
        landing.turn(RUN, most=1000, compare=False)

    assert (asked, told) == (["GetObject"], [])


APART = """
import sys
import syncd.stages.load, syncd.adapters.redshift.target, syncd.adapters.redshift.connect, syncd.adapters.s3
import watermarks.stores.s3
print([name for name in ("pymysql", "pyspark", "py4j", "pandas") if name in sys.modules])
"""


def test_the_loader_imports_nothing_of_the_source() -> None:
    told = subprocess.run([sys.executable, "-c", APART], capture_output=True, text=True, check=True).stdout

    assert told.strip() == "[]"
