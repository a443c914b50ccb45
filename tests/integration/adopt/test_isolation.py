"""A SERIALIZABLE database: each stream has a ledger of its own, and a takeover asks all of them."""

from collections.abc import Callable, Iterator

import pytest

from syncd.sandbox.redshift import CopyStorage, Isolation, RedshiftStandIn
from syncd.sandbox.running_sandbox import Sandbox
from tests.integration.adopt.conftest import Adopted

pytestmark = [pytest.mark.services, pytest.mark.parametrize("box", ["mariadb"], indirect=True)]
Make = Callable[..., Adopted]


@pytest.fixture(scope="module")
def standin(box: Sandbox) -> Iterator[RedshiftStandIn]:
    s3 = box.s3
    lake = CopyStorage(
        endpoint=s3.endpoint, access_key=str(s3.access_key), secret_key=str(s3.secret_key), region=str(s3.region)
    )
    with RedshiftStandIn(lake=lake, isolation=Isolation.SERIALIZABLE) as running:
        yield running


def own_ledgers(one: Adopted) -> list[str]:
    found = one.pair.client.rows(r"select relname from pg_class where relname like 'syncd_ledger\_%'")
    return [name for (name,) in found]


def loaded(adopted: Make, table: str) -> Adopted:
    """By a stream of ours."""
    one = adopted(table, "settle: 0s")
    one.source()
    one.pair.run()
    return one


def test_a_lake_that_was_emptied_is_no_new_one(adopted: Make) -> None:
    one = loaded(adopted, "emptied")
    s3, keys = one.pair.box.s3, one.pair.keys()
    s3.make_client().delete_objects(Bucket=s3.bucket, Delete={"Objects": [{"Key": key} for key in keys]})

    told = one.told("--yes")

    assert (told["exit"], told["state"]) == (7, "failed")
    assert "batches of shop.emptied in public.emptied, and the lake has none" in told["error"]["message"]
    assert one.pair.keys() == []


def test_a_table_of_another_stream_is_refused(adopted: Make) -> None:
    """Its own ledger and the shared one may both know of it: it is told once."""
    one = loaded(adopted, "owned")
    lake, bucket = one.pair.prefix, one.pair.box.s3.bucket
    one.pair.there(*(f"insert into syncd_ledger select * from {name}" for name in own_ledgers(one)))
    one.pair.prefix = f"{lake}b"

    told = one.told("--yes")

    assert (told["exit"], told["state"]) == (2, "failed")
    other = f"another stream: mysql/shop.owned of s3://{bucket}/{lake}"
    assert told["error"]["message"] == f"public.owned is the target of {other}"
    assert one.pair.keys() == []


def test_a_table_of_nobody_is_taken_over_beside_those_of_others(adopted: Make) -> None:
    loaded(adopted, "somebodys")
    one = adopted("nobodys")
    one.source()
    one.load()

    told = one.told("--yes")

    assert (told["exit"], told["state"], told["error"]) == (0, "taken over", None)
