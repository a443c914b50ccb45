"""A line that ends at any byte, either way: never a success that is none, never an error of the wrong class."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from syncd.errors import CommitUnknown, WarehouseDown
from syncd.redshift.connection import connect
from syncd.redshift.session import WarehouseSession
from syncd.sandbox.redshift import RedshiftStandIn
from tests.integration.warehouse.conftest import settings_of
from tests.services.cutter import Cutter, Way
from tests.standin.clients import Bucket, Client, ints

pytestmark = pytest.mark.services
SAMPLE = 10


@dataclass(frozen=True)
class Landing:
    """One landing of one row, from the greeting to COMMIT."""

    server: RedshiftStandIn
    client: Client
    table: str
    location: str

    def land(self, cutter: Cutter) -> None:
        session = connect(settings_of(self.server), session_name="cut", tunnel_address=cutter.at)
        try:
            session.begin()
            session.run(f"lock {self.table}")
            session.run(f"copy {self.table} from '{self.location}' iam_role default format as parquet manifest")
            assert session.rows("select pg_last_copy_count(), 'ZIZ' || %s", ["ZZZZZ"]) == [(1, "ZIZZZZZZ")]
            self.commit(session)
        finally:
            session.close()

    def commit(self, session: WarehouseSession) -> None:
        session.commit()
        assert not session.in_transaction

    def cut(self, way: Way, after: int) -> type[BaseException] | None:
        """Land with the line cut there; how it ended, when that agrees with what the warehouse holds."""
        ended: type[BaseException] | None = None
        with Cutter(self.server.port, way=way, after=after) as cutter:
            try:
                self.land(cutter)
            except (WarehouseDown, CommitUnknown) as error:
                ended = type(error)
        rows = self.held()
        assert rows == 1 if ended is None else ended is CommitUnknown or rows == 0, (way, after, ended, rows)
        return ended

    def held(self) -> int:
        """The rows that landed; the table is empty afterwards, and nobody holds it any more."""
        self.client.run("begin")
        self.client.run(f"lock {self.table}")
        rows = int(self.client.value(f"select count(*) from {self.table}"))
        self.client.run(f"delete from {self.table}")
        self.client.run("commit")
        return rows


@pytest.fixture
def landing(server: RedshiftStandIn, client: Client, bucket: Bucket) -> Landing:
    return Landing(server, client, client.table("a integer"), bucket.manifest_of(ints(a=1)))


@pytest.fixture
def lengths(server: RedshiftStandIn, landing: Landing) -> dict[Way, int]:
    """How many bytes go each way in a landing that nobody cuts."""
    with Cutter(server.port) as cutter:
        landing.land(cutter)
    assert landing.held() == 1
    return cutter.passed


WAYS: tuple[Way, ...] = ("up", "down")


def places(lengths: dict[Way, int], *, last: int) -> Iterator[tuple[Way, int]]:
    """All places of the last bytes of each way, where COMMIT is, and some of those before."""
    chosen = random.Random(6)
    for way in WAYS:
        end = lengths[way]
        yield from ((way, after) for after in sorted(chosen.sample(range(1, end - last), SAMPLE)))
        yield from ((way, after) for after in range(end - last, end + 1))


@pytest.mark.slow
def test_line_cut_at_some_bytes_and_at_each_of_the_last(landing: Landing, lengths: dict[Way, int]) -> None:
    ended = [landing.cut(way, after) for way, after in places(lengths, last=30)]

    assert {WarehouseDown, CommitUnknown, None} == set(ended)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_line_cut_at_every_byte(landing: Landing, lengths: dict[Way, int], way: Way) -> None:
    for after in range(1, lengths[way] + 1):
        landing.cut(way, after)
