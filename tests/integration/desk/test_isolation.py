"""A SERIALIZABLE database: whoever looks finds what landed where the loader entered it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from syncd.ports.preflight import CheckedSide, CheckResult, CheckSheet, CheckStatus
from syncd.redshift.preflight import check_warehouse
from syncd.sandbox.redshift import CopyStorage, Isolation, RedshiftStandIn
from syncd.settings import Secret, WarehouseSettings
from tests.integration.load.conftest import Loader, Reader
from tests.integration.marks.conftest import Marks
from tests.services.prepared import Prepared, row
from watermarks.batch import BatchId
from watermarks.document import Watermark

pytestmark = pytest.mark.services

Make = Callable[..., Marks]
SHARED = "public.syncd_ledger"


@pytest.fixture(scope="module")
def server(s3_url: str) -> Iterator[RedshiftStandIn]:
    words: dict[str, Any] = {"isolation": Isolation.SERIALIZABLE, "other_users": {"other": "Other1"}}
    with RedshiftStandIn(lake=CopyStorage(endpoint=s3_url), **words) as running:
        yield running


@pytest.fixture
def landed(prepared: Callable[..., Prepared], syncd: Make) -> Prepared:
    """Two batches, loaded as the command does it."""
    orders = prepared()
    orders.increment(row(1, 1), row(2, 2))
    orders.increment(row(3, 3))
    load(syncd(orders))
    return orders


def load(made: Marks) -> None:
    done = made.run("--all", "--load-only")
    assert done.code == 0, done.err


def state_of(orders: Prepared) -> Watermark:
    state = orders.journal.read_newest(orders.stream.stem)
    assert state is not None
    return state


def checked(made: Marks) -> tuple[int, int, dict[str, str]]:
    """How a check ends, how many entries of the ledger it has seen, and what it found."""
    done = made("watermark", "check", "--all", "--json")
    [told] = json.loads(done.out)["streams"]
    return done.code, told["ledger_entries"], {one["subject"]: one["message"] for one in told["findings"]}


def entered(warehouse: Reader, table: str) -> list[Any]:
    return [batch for (batch,) in warehouse.client.rows(f"select batch from {table} order by 1")]


def own_ledgers(warehouse: Reader) -> list[str]:
    return [
        name for (name,) in warehouse.client.rows(r"select relname from pg_class where relname like 'syncd_ledger\_%'")
    ]


def test_a_healthy_stream_agrees_and_nothing_has_to_be_rebuilt(syncd: Make, landed: Prepared) -> None:
    made, before = syncd(landed), state_of(landed)

    followed = made("watermark", "rebuild", "--all", "--from-ledger", "--yes")

    assert checked(made) == (0, 2, {})
    assert "2 entries, and the loaded mark agrees with them" in followed.out
    assert (followed.code, state_of(landed)) == (0, before)


def test_a_target_that_is_gone_is_noticed(syncd: Make, landed: Prepared, warehouse: Reader) -> None:
    warehouse.client.run(f'drop table "{landed.table}"')

    code, _, found = checked(syncd(landed))

    assert (code, list(found)) == (7, ["target"])
    assert "is missing, although rows were loaded into it" in found["target"]


def test_what_has_landed_can_be_cleaned(syncd: Make, landed: Prepared) -> None:
    done = syncd(landed)("s3clean", "clean", "--older-than", "0s", "--yes", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, told["removed"]["files"], told["kept"]) == (0, 2, [])


def test_what_landed_in_the_shared_ledger_counts_before_and_after_there_is_an_own_one(
    syncd: Make, prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader
) -> None:
    """As of a database that was made SERIALIZABLE later."""
    orders = prepared()
    orders.increment(row(1, 1))
    loader.load(orders)
    made, standing = syncd(orders), own_ledgers(warehouse)

    before = checked(made)
    orders.increment(row(2, 2))
    load(made)

    [own] = set(own_ledgers(warehouse)) - set(standing)
    assert (before, checked(made)) == ((0, 1, {}), (0, 2, {}))
    assert entered(warehouse, own) == [1000000000002]
    followed = made("watermark", "rebuild", "--all", "--from-ledger", "--yes")
    assert (followed.code, state_of(orders).load_progress.last_batch) == (0, BatchId(1, 2))
    assert "2 entries, and the loaded mark agrees with them" in followed.out


def test_a_shared_ledger_that_somebody_dropped_hides_no_own_one(
    syncd: Make, landed: Prepared, warehouse: Reader
) -> None:
    warehouse.client.run(f"drop table {SHARED}")

    assert checked(syncd(landed)) == (0, 2, {})


def doctor(warehouse: WarehouseSettings, orders: Prepared) -> dict[str, CheckResult]:
    """What it finds of ledgers."""
    sheet = CheckSheet(side=CheckedSide.WAREHOUSE)
    check_warehouse(warehouse, [orders.settings], sheet, nonce="n", lake=orders.lake.settings.address, copy=None)
    return {one.check: one for one in sheet.results if one.check.startswith("ledger")}


def test_the_doctor_tries_the_ledger_that_a_landing_would_use(
    loader: Loader, landed: Prepared, prepared: Callable[..., Prepared], warehouse: Reader
) -> None:
    before = [entered(warehouse, name) for name in own_ledgers(warehouse)]

    new, old = doctor(loader.warehouse, prepared()), doctor(loader.warehouse, landed)

    assert {name: (one.status, one.message) for name, one in new.items()} == {
        "ledger": (CheckStatus.PASS, "each stream has its own: created by the first load")
    }
    assert {name: (one.status, one.message) for name, one in old.items()} == {
        "ledger": (CheckStatus.PASS, "each stream has its own: 1 can be read and written")
    }
    assert [entered(warehouse, name) for name in own_ledgers(warehouse)] == before


def test_what_the_doctor_tells_to_paste_opens_the_ledger(loader: Loader, landed: Prepared, warehouse: Reader) -> None:
    somebody = replace(loader.warehouse, user="other", password=Secret("Other1"))

    refused = doctor(somebody, landed)
    for one in refused.values():
        warehouse.client.run(one.remedy)

    assert {name: one.status for name, one in refused.items()} == {
        "ledger": CheckStatus.FAIL,
        f"ledger of shop.{landed.table}": CheckStatus.FAIL,
    }
    assert {name: one.status for name, one in doctor(somebody, landed).items()} == {"ledger": CheckStatus.PASS}
