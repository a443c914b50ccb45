from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import ConfigError, SourceUnfit
from syncd.mysql.connection import Connection, connect
from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Tls
from tests.services.certificates import Authority
from tests.services.guarded import Guarded, settings_of

pytestmark = pytest.mark.services


@pytest.mark.parametrize("tls", list(Tls))
def test_a_mode_encrypts_unless_it_is_disable(guarded: Guarded, tls: Tls) -> None:
    guarded.show(LOOPBACK)

    with connect(guarded.settings(tls), address=guarded.at) as connection:
        assert is_encrypted(connection) == (tls is not Tls.DISABLE)


@pytest.mark.parametrize("tls", [Tls.PREFER, Tls.REQUIRE])
def test_the_modes_between_believe_any_certificate(guarded: Guarded, tls: Tls) -> None:
    guarded.show("elsewhere")

    with connect(guarded.settings(tls), address=guarded.at) as connection:
        assert is_encrypted(connection)


def test_verify_takes_the_host_that_the_certificate_names(guarded: Guarded) -> None:
    guarded.show("db.internal", "*.shop.internal")

    for host in ("db.internal", "one.shop.internal"):
        with connect(guarded.settings(Tls.VERIFY, host=host), address=guarded.at) as connection:
            assert is_encrypted(connection)


def test_the_address_that_is_dialled_does_not_count(guarded: Guarded) -> None:
    """Through a tunnel every source is at 127.0.0.1: a certificate for that proves nothing."""
    guarded.show(LOOPBACK, "localhost")

    with pytest.raises(SourceUnfit, match=r"the certificate of db\.internal:\d+ is not trusted") as caught:
        connect(guarded.settings(Tls.VERIFY, host="db.internal"), address=guarded.at)

    assert caught.value.hint == "Use the host name of the certificate, or issue one that names db.internal."


def test_verify_refuses_a_certificate_that_has_expired(guarded: Guarded) -> None:
    # MySQL takes none that has expired already: it expires while it is shown.
    guarded.show(LOOPBACK, expires=timedelta(seconds=5))
    refusals: list[SourceUnfit] = []

    def refused() -> bool:
        try:
            connect(guarded.settings(Tls.VERIFY), address=guarded.at).close()
        except SourceUnfit as error:
            refusals.append(error)
        return bool(refusals)

    assert wait_until(refused, timeout_seconds=60)
    assert "expired" in refusals[0].message
    assert "Renew" in refusals[0].hint


def test_verify_refuses_an_authority_that_is_not_ours(guarded: Guarded, tmp_path: Path) -> None:
    guarded.show(LOOPBACK)

    with pytest.raises(SourceUnfit, match="not trusted") as caught:
        connect(guarded.settings(Tls.VERIFY, ca=Authority(tmp_path, name="another").ca), address=guarded.at)

    assert "`ca: FILE`" in caught.value.hint


def test_a_file_that_is_no_certificate_is_a_mistake_of_the_configuration(guarded: Guarded, tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("no certificate")

    with pytest.raises(ConfigError, match="contains no certificate"):
        connect(guarded.settings(Tls.VERIFY, ca=wrong), address=guarded.at)
    with pytest.raises(ConfigError, match="cannot be read"):
        connect(guarded.settings(Tls.VERIFY, ca=tmp_path / "none.pem"), address=guarded.at)


@pytest.mark.parametrize("tls", [Tls.REQUIRE, Tls.VERIFY])
def test_a_server_that_does_not_encrypt_gets_no_password(bare: Sandbox, tls: Tls) -> None:
    settings = settings_of(bare)

    with pytest.raises(SourceUnfit, match="SSL is required") as caught:
        connect(replace(settings, tls=tls))

    assert "tls: disable" in caught.value.hint


@pytest.mark.parametrize("tls", [Tls.DISABLE, Tls.PREFER])
def test_the_weak_modes_do_without_encryption(bare: Sandbox, tls: Tls) -> None:
    with connect(replace(settings_of(bare), tls=tls)) as connection:
        assert not is_encrypted(connection)


def test_a_server_that_demands_encryption_says_so(guarded: Guarded) -> None:
    guarded.show(LOOPBACK)
    guarded.run("SET GLOBAL require_secure_transport = ON")
    try:
        with pytest.raises(SourceUnfit) as caught:
            connect(guarded.settings(Tls.DISABLE), address=guarded.at)
    finally:
        guarded.run("SET GLOBAL require_secure_transport = OFF")

    assert "tls: require" in caught.value.hint


def is_encrypted(connection: Connection) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return bool(cursor.fetchone()[1])
