"""The ways that Spark takes to a source: TLS by an own authority, and a bastion that goes away in the middle."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from syncd.datatypes.columns import Policies
from syncd.errors import SourceDown, SourceUnfit
from syncd.lake.read_requests import ReadRequest, ReadResult, WindowQuery
from syncd.mysql.sql import identity_sql
from syncd.s3.lake_client import S3Lake
from syncd.sandbox.faults.tcp import TcpProxy
from syncd.sandbox.process import LOOPBACK
from syncd.settings import StreamSettings, Tls
from syncd.spark.reader import SparkReader
from syncd.spark.spark_session import WarmSparkSession
from syncd.tables.column_mapping import map_columns
from tests.integration.stage.conftest import Pipe
from tests.integration.stage.tables import fill, require_unmoved, require_whole
from tests.services.bastion import BastionServer
from tests.services.certificates import Authority
from tests.services.guarded import Guarded, guard
from tests.services.servers import ONE
from tests.services.type_table import described

if TYPE_CHECKING:
    from syncd.ports.source import BatchReader

pytestmark = pytest.mark.services

INSIDE = "db.internal"


@pytest.fixture(scope="module", params=ONE)
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with an own certificate, and S3 beside it."""
    with guard(request.param, tmp_path_factory.mktemp("guarded"), services=["mysql", "s3"]) as found:
        with found.box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        yield found


@pytest.fixture
def pipe(guarded: Guarded, warm: WarmSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipe:
    """Orders of 16 MB, whose every connection is encrypted and checked."""
    box = guarded.box
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(box.s3.access_key))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(box.s3.secret_key))
    pipe = Pipe(box=box, kind=guarded.kind, directory=tmp_path, client=box.s3.make_client(), warm=warm)
    pipe.options = f"tls: verify, ca: '{guarded.authority.ca}'"
    guarded.show(LOOPBACK)
    fill(pipe, pad=64)
    return pipe


def read(pipe: Pipe, guarded: Guarded, *, driver: str, ca: Path | None = None) -> ReadResult:
    """The table by the reader alone: the planner's own connection would have been refused before."""
    settings = pipe.settings
    with pipe.box.mysql.connect() as connection, connection.cursor() as cursor:
        ways = map_columns(described(cursor, "orders"), StreamSettings(source="mysql", database="shop", table="orders"))
    source = guarded.settings(Tls.VERIFY, ca=ca)
    selects = ", ".join(f"{way.select} AS `{way.name}`" for way in ways)
    reading = ReadRequest(
        queries=(WindowQuery(window=None, sql=f"SELECT {selects} FROM shop.orders WHERE id < 10"),),
        columns=ways,
        order=(),
        policies=Policies(),
        server_identity=identity(pipe),
        part_prefix=f"data/{driver}/",
        quarantine_prefix=f"quarantine/{driver}/",
        batch_number=1_000000000001,
        nonce="n",
    )
    return SparkReader(pipe.warm, source, S3Lake.from_settings(settings.lake), driver=driver).read(reading)


def identity(pipe: Pipe) -> str:
    [(found,)] = pipe.sql(f"SELECT {identity_sql(mariadb=pipe.kind == 'mariadb')}")
    return str(found.decode() if isinstance(found, bytes) else found)


@pytest.mark.parametrize("driver", ["mysql", "mariadb"])
def test_a_certificate_of_an_own_authority_is_believed(pipe: Pipe, driver: str) -> None:
    """Whichever driver is wished for, one that checks certificates is taken."""
    pipe.spark = f"driver: {driver}"

    outcome = pipe.run()

    assert outcome.error is None
    require_whole(pipe)


@pytest.mark.parametrize("driver", ["mysql", "mariadb"])
def test_the_reader_believes_the_authority_that_is_named(pipe: Pipe, guarded: Guarded, driver: str) -> None:
    assert sum(part.rows for part in read(pipe, guarded, driver=driver).parts) == 9


def test_the_reader_believes_no_other_authority(pipe: Pipe, guarded: Guarded, tmp_path: Path) -> None:
    with pytest.raises(SourceUnfit, match="not trusted") as caught:
        read(pipe, guarded, driver="mysql", ca=Authority(tmp_path, name="another").ca)
    assert "`ca: FILE`" in caught.value.hint


def test_the_reader_believes_no_certificate_for_another_host(pipe: Pipe, guarded: Guarded) -> None:
    guarded.show("elsewhere.internal")

    with pytest.raises(SourceUnfit, match="not trusted") as caught:
        read(pipe, guarded, driver="mysql")
    assert "Use the host name of the certificate" in caught.value.hint


def test_the_stage_stops_where_a_certificate_is_not_believed(pipe: Pipe, guarded: Guarded, tmp_path: Path) -> None:
    pipe.options = f"tls: verify, ca: '{Authority(tmp_path, name='another').ca}'"

    outcome = pipe.run()

    assert isinstance(outcome.error, SourceUnfit)
    require_unmoved(pipe)


@pytest.fixture
def bastion(tmp_path: Path) -> Iterator[BastionServer]:
    with BastionServer(tmp_path, names={INSIDE: LOOPBACK}) as server:
        yield server


@pytest.fixture
def wire(pipe: Pipe, guarded: Guarded, bastion: BastionServer) -> Iterator[TcpProxy]:
    """What lies between the bastion and the server, whose name only the bastion knows."""
    guarded.show(INSIDE)
    address = pipe.box.mysql
    with TcpProxy(address.port) as wire:
        tunnel = bastion.settings()
        pipe.url = f"mysql://{address.user}:{address.password}@{INSIDE}:{wire.port}/shop"
        pipe.options += (
            f", tunnel: {{host: {tunnel.host}, port: {tunnel.port}, user: {tunnel.user},"
            f" key_file: '{tunnel.key_file}', known_hosts: '{tunnel.known_hosts}'}}"
        )
        yield wire


@pytest.mark.parametrize("driver", ["mysql", "mariadb"])
def test_a_source_behind_a_bastion_is_read_to_its_last_row(
    pipe: Pipe, bastion: BastionServer, wire: TcpProxy, driver: str
) -> None:
    pipe.spark = f"driver: {driver}"

    outcome = pipe.run()

    assert outcome.error is None
    assert set(bastion.asked) == {(INSIDE, wire.port)}
    assert len(bastion.asked) >= 4, "planner, horizon, and two of Spark: one asks for the columns"
    require_whole(pipe)


@pytest.mark.parametrize("away", [False, True], ids=["comes back at once", "stays away for a run"])
def test_a_bastion_dropped_in_the_middle_of_a_read_loses_nothing(
    pipe: Pipe, bastion: BastionServer, wire: TcpProxy, *, away: bool
) -> None:
    dropped = []

    def drop() -> None:
        dropped.append(bastion.connections())
        (bastion.stop if away else bastion.drop)()

    pipe.wrap = lambda reader: _Armed(reader, lambda: wire.cut_after(5_000_000, drop))

    outcome = pipe.run()

    assert dropped == [1]
    assert isinstance(outcome.error, SourceDown), "it is tried again"
    assert outcome.mark == outcome.mark_before
    require_unmoved(pipe)
    pipe.wrap = lambda reader: reader
    if away:
        again = pipe.run()
        assert isinstance(again.error, SourceDown)
        assert "the bastion" in again.error.message
        bastion.start()

    assert pipe.run().error is None
    require_whole(pipe)


class _Armed:
    """A reader before whose first reading something happens."""

    def __init__(self, inner: "BatchReader", arm: Callable[[], None]) -> None:
        self._inner = inner
        self._arm = arm

    def prepare(self, *, little: bool) -> None:
        self._inner.prepare(little=little)

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        self._arm()
        return self._inner.read(reading, tell=tell)
