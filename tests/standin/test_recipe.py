"""The load as the facts leave it open (section 13): fence, ledger, COPY, newest version, apply, ledger, commit."""

import datetime as dt

import pyarrow as pa
import pytest
from redshift_connector.error import InterfaceError

from syncd.sandbox.redshift import FaultTiming, RedshiftStandIn
from tests.standin.clients import Bucket, Client, Clients
from tests.standin.test_transactions import waits

pytestmark = [pytest.mark.services, pytest.mark.fact("13")]
COLUMNS = '"id" bigint, "name" varchar(40), "data" varchar(max), "updated_at" timestamp'
NEWEST = (
    'select "id", "name", "data", "updated_at", row_number() over (partition by "id" order by "updated_at" desc) as "r"'
    ' from "scratch"'
)


def rows(*versions: tuple[int, str, int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([v[0] for v in versions], pa.int64()),
            "name": [v[1] for v in versions],
            "data": [f'{{"version": {v[2]}}}' for v in versions],
            "updated_at": pa.array(
                [dt.datetime(2026, 1, 1, 0, 0, v[2], tzinfo=dt.UTC) for v in versions], pa.timestamp("us", "UTC")
            ),
        }
    )


class Loader:
    """A loader of few words."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name

    def prepare(self) -> None:
        target = COLUMNS.replace('"data" varchar(max)', '"data" super')
        self.client.run(f'create table "{self.name}" ({target}) distkey ("id") compound sortkey ("updated_at")')
        self.client.run(f'create table "{self.name}_fence" ("epoch" bigint)')
        self.client.run(f'create table "{self.name}_ledger" ("batch" varchar(64), "rows" bigint)')

    def lock(self) -> None:
        self.client.run("begin")
        self.client.run(f'lock table "{self.name}_fence"')

    def land(self, batch: str, manifest: str) -> int:
        """Land a batch under the lock, or find it landed; returns the rows applied."""
        landed = self.client.value(f'select count(*) from "{self.name}_ledger" where "batch" = %s', (batch,))
        if landed:
            self.client.run("rollback")
            return 0
        self.client.run(f'create temp table "scratch" ({COLUMNS})')
        count = self.client.copy('"scratch" ("id", "name", "data", "updated_at")', manifest)
        self.client.run(f'delete from "{self.name}" using "scratch" where "{self.name}"."id" = "scratch"."id"')
        applied = self.client.run(
            f'insert into "{self.name}" ("id", "name", "data", "updated_at")'
            f' select "id", "name", json_parse("data"), "updated_at" from ({NEWEST}) "n" where "r" = 1'
        )
        self.client.run('drop table "scratch"')
        self.client.run(f'insert into "{self.name}_ledger" values (%s, %s)', (batch, count))
        self.client.run("commit")
        return applied


def content(client: Client, name: str) -> list[list[object]]:
    return client.rows(f'select "id", "name", json_serialize("data") from "{name}" order by "id"')


def test_batch_lands_once_with_the_newest_version_of_each_row(client: Client, bucket: Bucket) -> None:
    loader = Loader(client, "recipe_once")
    loader.prepare()
    manifest = bucket.manifest_of(rows((1, "old", 1), (2, "only", 1)), rows((1, "new", 2)))

    for expected in (2, 0):
        loader.lock()
        assert loader.land("0-1", manifest) == expected

    assert content(client, "recipe_once") == [[1, "new", '{"version":2}'], [2, "only", '{"version":1}']]


def test_two_loaders_of_one_batch_land_it_once(server: RedshiftStandIn, clients: Clients, bucket: Bucket) -> None:
    first, second = Loader(clients(), "recipe_two"), Loader(clients(), "recipe_two")
    first.prepare()
    manifest = bucket.manifest_of(rows((1, "a", 1)))
    first.lock()

    with waits(server, second.client, second.lock) as waiting:
        assert first.land("0-1", manifest) == 1
        waiting.done()

    assert second.land("0-1", manifest) == 0
    assert content(first.client, "recipe_two") == [[1, "a", '{"version":1}']]


@pytest.mark.parametrize(("when", "again"), [(FaultTiming.BEFORE, 1), (FaultTiming.AFTER, 0)])
def test_lost_answer_to_commit_is_settled_by_the_ledger(
    server: RedshiftStandIn, clients: Clients, bucket: Bucket, when: FaultTiming, again: int
) -> None:
    name = f"recipe_lost_{when}"
    lost, next_one = Loader(clients(), name), Loader(clients(), name)
    lost.prepare()
    manifest = bucket.manifest_of(rows((1, "a", 1)))
    server.faults.drop(when=when)
    lost.lock()
    with pytest.raises(InterfaceError, match="server socket closed"):
        lost.land("0-1", manifest)

    next_one.lock()

    assert next_one.land("0-1", manifest) == again
    assert content(next_one.client, name) == [[1, "a", '{"version":1}']]


def test_stuck_earlier_session_is_ended_by_its_successor(
    server: RedshiftStandIn, clients: Clients, bucket: Bucket
) -> None:
    stuck, successor, looker = (Loader(clients(), "recipe_stuck") for _ in range(3))
    stuck.prepare()
    stuck.lock()
    fence = looker.client.value("select '\"recipe_stuck_fence\"'::regclass::oid")
    holder = f"select distinct pid from svv_transactions where relation = {fence} and granted"

    with waits(server, successor.client, successor.lock) as waiting:
        assert looker.client.rows(holder) == [[stuck.client.pid]]
        looker.client.run(f"select pg_terminate_backend({stuck.client.pid})")
        waiting.done()

    assert successor.land("0-1", bucket.manifest_of(rows((1, "a", 1)))) == 1
