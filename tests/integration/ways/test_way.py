import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.connection import map_driver_errors, open_connection_factory
from syncd.sandbox.process import LOOPBACK
from syncd.settings import SourceSettings, Tls
from tests.services.bastion import BastionServer
from tests.services.guarded import Guarded

pytestmark = pytest.mark.services

INSIDE = "db.internal"


@pytest.fixture
def beyond(guarded: Guarded, bastion: BastionServer) -> SourceSettings:
    """A source whose name only the bastion knows, and whose certificate names it so."""
    bastion.names[INSIDE] = LOOPBACK
    guarded.show(INSIDE)
    return replace(guarded.settings(Tls.VERIFY, host=INSIDE), tunnel=bastion.settings())


def test_without_a_tunnel_the_way_is_straight(guarded: Guarded) -> None:
    guarded.show(LOOPBACK)
    settings = guarded.settings(Tls.VERIFY)

    with open_connection_factory(settings) as way, closing(way.open_connection()) as connection:
        assert way.endpoint() == (settings.host, settings.port)
        assert way.proxy() is None
        assert connection.open


def test_through_a_tunnel_the_certificate_is_checked_for_the_host_beyond(
    beyond: SourceSettings, bastion: BastionServer, guarded: Guarded
) -> None:
    with (
        open_connection_factory(beyond) as way,
        closing(way.open_connection()) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT REPEAT('x', 1000000)")

        assert len(cursor.fetchone()[0]) == 1_000_000
        assert way.endpoint()[0] == LOOPBACK
        assert way.proxy() not in (None, way.endpoint())
        assert bastion.asked == [(INSIDE, guarded.box.mysql.port)]


def test_a_certificate_for_the_near_end_is_none_for_the_host_beyond(beyond: SourceSettings, guarded: Guarded) -> None:
    guarded.show(LOOPBACK, "localhost")

    with open_connection_factory(beyond) as way, pytest.raises(SourceUnfit, match=r"the certificate of db\.internal"):
        way.open_connection()


def test_a_connection_in_a_tunnel_that_died_is_down_and_the_next_one_works(
    beyond: SourceSettings, bastion: BastionServer
) -> None:
    with open_connection_factory(beyond) as way:
        with closing(way.open_connection()) as connection:
            bastion.stop()

            with pytest.raises(SourceDown), map_driver_errors(beyond), connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        with pytest.raises(SourceDown, match="the bastion"):
            way.open_connection()

        bastion.start()

        with closing(way.open_connection()) as connection:
            assert connection.open


def test_what_the_bastion_forbids_is_told_in_place_of_what_the_driver_saw(
    beyond: SourceSettings, bastion: BastionServer
) -> None:
    bastion.forwards = False

    with open_connection_factory(beyond) as way, pytest.raises(SourceUnfit, match="does not forward to") as caught:
        way.open_connection()

    assert isinstance(caught.value.__cause__, SourceDown)


def test_a_host_that_the_bastion_does_not_know_is_down(beyond: SourceSettings, bastion: BastionServer) -> None:
    bastion.names[INSIDE] = "nowhere.invalid"

    with open_connection_factory(beyond) as way, pytest.raises(SourceDown, match="does not reach"):
        way.open_connection()


def test_no_library_of_ssh_is_loaded_where_no_tunnel_is() -> None:
    program = "import sys, syncd.mysql.connection; sys.exit('asyncssh' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
