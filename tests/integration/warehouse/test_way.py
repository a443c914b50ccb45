"""The way to a warehouse: encrypted, believed for its name, and through a bastion."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from syncd.errors import CommitUnknown, ConfigError, WarehouseDown, WarehouseUnfit
from syncd.redshift.connection import connect, connection_to
from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.redshift import FaultTiming, RedshiftStandIn
from syncd.settings import Tls, WarehouseSettings
from tests.integration.warehouse.conftest import settings_of
from tests.services.bastion import BastionServer
from tests.services.certificates import DAY, Authority
from tests.services.tls_front import TlsFront
from tests.standin.clients import Client

pytestmark = pytest.mark.services
NAME = "cluster.example.com"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def front(server: RedshiftStandIn, tmp_path: Path, authority: Authority) -> Iterator[TlsFront]:
    authority.issue(tmp_path, names=[NAME])
    with TlsFront(server.port, tmp_path) as running:
        yield running


@pytest.fixture
def settings(server: RedshiftStandIn, authority: Authority) -> WarehouseSettings:
    """The warehouse by the name that its certificate has."""
    return replace(settings_of(server), host=NAME, tls=Tls.VERIFY, ca=authority.ca)


def test_certificate_of_an_authority_of_ones_own_is_believed(front: TlsFront, settings: WarehouseSettings) -> None:
    with closing(connect(settings, session_name="test", tunnel_address=front.at)) as session:
        assert session.rows("select repeat('x', 60000)") == [("x" * 60_000,)]

    assert front.greeted == [NAME]


def test_without_the_file_the_systems_authorities_decide(front: TlsFront, settings: WarehouseSettings) -> None:
    with pytest.raises(WarehouseUnfit, match="is not trusted") as caught:
        connect(replace(settings, ca=None), session_name="test", tunnel_address=front.at)

    assert "`ca: FILE`" in caught.value.hint


def test_certificate_of_another_authority_is_not_believed(
    front: TlsFront, settings: WarehouseSettings, tmp_path: Path
) -> None:
    other = Authority(tmp_path, name="another")

    with pytest.raises(WarehouseUnfit, match="is not trusted"):
        connect(replace(settings, ca=other.ca), session_name="test", tunnel_address=front.at)


@pytest.mark.parametrize("host", ["other.example.com", "127.0.0.1", "example.com"])
def test_certificate_must_name_the_host(front: TlsFront, settings: WarehouseSettings, host: str) -> None:
    with pytest.raises(WarehouseUnfit, match="is not trusted") as caught:
        connect(replace(settings, host=host), session_name="test", tunnel_address=front.at)

    assert host in caught.value.hint


def test_certificate_that_has_expired_is_not_believed(
    front: TlsFront, settings: WarehouseSettings, authority: Authority, tmp_path: Path
) -> None:
    authority.issue(tmp_path, names=[NAME], expires=-DAY)

    with pytest.raises(WarehouseUnfit, match="expired"):
        connect(settings, session_name="test", tunnel_address=front.at)


def test_no_password_goes_to_whom_does_not_encrypt(server: RedshiftStandIn, settings: WarehouseSettings) -> None:
    with pytest.raises(WarehouseUnfit, match="does not encrypt") as caught:
        connect(settings, session_name="test", tunnel_address=(LOOPBACK, server.port))

    assert "tls: disable" in caught.value.hint


@pytest.mark.parametrize("answer", [b"E", b"HTTP/1.1 400"])
def test_what_is_no_redshift_is_told_so(front: TlsFront, settings: WarehouseSettings, answer: bytes) -> None:
    front.answer = answer

    with pytest.raises(WarehouseDown, match="does not answer as Redshift does"):
        connect(settings, session_name="test", tunnel_address=front.at)


def test_somebody_who_never_answers_is_not_waited_for_long(
    settings: WarehouseSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncd.redshift.driver.CONNECT_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr("syncd.redshift.connection.GREETING_TIMEOUT_SECONDS", 0.5)
    with socket.create_server((LOOPBACK, 0)) as silent:
        for tls in (Tls.VERIFY, Tls.DISABLE):
            began = time.monotonic()
            with pytest.raises(WarehouseDown, match="no answer in time"):
                connect(
                    replace(settings, tls=tls), session_name="test", tunnel_address=(LOOPBACK, silent.getsockname()[1])
                )
            assert time.monotonic() - began < 9


def test_file_that_holds_no_certificate_is_a_mistake_of_the_configuration(
    front: TlsFront, settings: WarehouseSettings, tmp_path: Path
) -> None:
    (tmp_path / "empty.pem").write_text("nothing")

    for path in (tmp_path / "empty.pem", tmp_path / "absent.pem"):
        with pytest.raises(ConfigError):
            connect(replace(settings, ca=path), session_name="test", tunnel_address=front.at)


def test_encrypted_lines_break_as_others_do(
    server: RedshiftStandIn, front: TlsFront, settings: WarehouseSettings, client: Client
) -> None:
    table = client.table("a integer")
    session = connect(settings, session_name="test", tunnel_address=front.at)
    session.begin()
    session.run(f"insert into {table} values (1)")
    server.faults.drop(when=FaultTiming.AFTER)
    with pytest.raises(CommitUnknown):
        session.commit()

    late = connect(settings, session_name="test", tunnel_address=front.at)
    server.faults.hold("^insert")
    with pytest.raises(WarehouseDown, match="no answer within"):
        late.run(f"insert into {table} values (2)", within=timedelta(seconds=0.3))

    assert not session.is_alive
    assert not late.is_alive
    session.close()
    late.close()


@pytest.fixture
def bastion(tmp_path: Path) -> Iterator[BastionServer]:
    with BastionServer(tmp_path) as running:
        yield running


@pytest.fixture
def beyond(settings: WarehouseSettings, front: TlsFront, bastion: BastionServer) -> WarehouseSettings:
    """A warehouse whose name only the bastion knows."""
    bastion.names[NAME] = LOOPBACK
    return replace(settings, port=front.port, tunnel=bastion.settings())


def test_through_a_tunnel_the_certificate_is_checked_for_the_host_beyond(
    beyond: WarehouseSettings, bastion: BastionServer, front: TlsFront
) -> None:
    with connection_to(beyond) as way, closing(way.open("test")) as session:
        assert session.rows("select 1") == [(1,)]

    assert bastion.asked == [(NAME, front.port)]
    assert front.greeted == [NAME]


def test_certificate_of_the_near_end_is_none_of_the_host_beyond(
    beyond: WarehouseSettings, authority: Authority, tmp_path: Path
) -> None:
    authority.issue(tmp_path, names=[LOOPBACK, "localhost"])

    with connection_to(beyond) as way, pytest.raises(WarehouseUnfit, match=f"the certificate of {NAME}"):
        way.open("test")


def test_tunnel_that_died_is_a_warehouse_that_is_down_and_the_next_session_works(
    beyond: WarehouseSettings, bastion: BastionServer
) -> None:
    with connection_to(beyond) as way:
        with closing(way.open("test")) as session:
            bastion.drop()
            with pytest.raises(WarehouseDown):
                session.rows("select 1")
        with closing(way.open("test")) as session:
            assert session.rows("select 1") == [(1,)]


def test_refusals_of_a_bastion_are_told_of_the_warehouse(beyond: WarehouseSettings, bastion: BastionServer) -> None:
    with connection_to(beyond) as way:
        bastion.forwards = False
        with pytest.raises(WarehouseUnfit, match="does not forward"):
            way.open("test")
    bastion.stop()
    with pytest.raises(WarehouseDown, match="the bastion"), connection_to(beyond):
        pass
    bastion.start()


def test_without_a_tunnel_the_way_is_straight(server: RedshiftStandIn) -> None:
    with connection_to(settings_of(server)) as way, closing(way.open("test")) as session:
        assert session.rows("select 1") == [(1,)]
