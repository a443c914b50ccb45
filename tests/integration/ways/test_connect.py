import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from time import monotonic

import pytest

from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.connection import connect, map_driver_errors
from syncd.sandbox.faults.tcp import TcpProxy
from syncd.sandbox.process import LOOPBACK
from syncd.settings import Secret, SourceSettings, Tls
from tests.services.guarded import Guarded
from tests.services.leak import LeakyWire

pytestmark = pytest.mark.services

PASSWORDS = ["plain", "Zoë's ключ 🗝", 'quote\'s "and" \\ 50%', "x" * 200]


def test_a_session_is_in_utc_and_commits_by_itself(guarded: Guarded) -> None:
    with connect(guarded.settings(Tls.DISABLE), address=guarded.at) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@time_zone, @@autocommit, @@sql_mode, @@character_set_results")

        assert cursor.fetchone() == ("+00:00", 1, "", "utf8mb4")


@pytest.mark.parametrize("tls", [Tls.DISABLE, Tls.REQUIRE])
@pytest.mark.parametrize("password", PASSWORDS)
def test_any_password_lets_in_with_a_cold_cache_and_a_warm_one(guarded: Guarded, tls: Tls, password: str) -> None:
    """A server that has not met the user yet wants the password itself: inside TLS, or under its RSA key."""
    with someone(guarded, password) as them:
        settings = replace(them, tls=tls)
        guarded.run("FLUSH PRIVILEGES")  # MySQL forgets whom it has let in

        for _ in ("cold", "warm"):
            with connect(settings, address=guarded.at) as connection:
                assert connection.open


def test_each_server_was_asked_in_its_own_way_of_logging_in(guarded: Guarded) -> None:
    """Otherwise the test before this one proves less than its name says."""
    with someone(guarded, "plain"), guarded.box.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT plugin FROM mysql.user WHERE user = 'someone'")

        assert cursor.fetchone() == ("mysql_native_password" if guarded.kind == "mariadb" else "caching_sha2_password",)


@pytest.mark.parametrize("tls", [Tls.DISABLE, Tls.REQUIRE])
@pytest.mark.parametrize("wrong", ["password", "user"])
def test_a_stranger_is_refused_and_no_password_is_told(guarded: Guarded, tls: Tls, wrong: str) -> None:
    settings = guarded.settings(tls)
    if wrong == "password":
        settings = replace(settings, password=Secret("hunter2"))
    else:
        settings = replace(settings, user="nobody", password=Secret("hunter2"))

    with pytest.raises(SourceUnfit, match="Access denied") as caught:
        connect(settings, address=guarded.at)

    error = caught.value
    assert "Check the password" in error.hint
    assert "hunter2" not in f"{error!r} {error.hint} {error.facts} {error.__cause__!r}"


def test_an_unknown_database_is_refused_by_name(guarded: Guarded) -> None:
    with pytest.raises(SourceUnfit, match="elsewhere") as caught:
        connect(replace(guarded.settings(Tls.DISABLE), database="elsewhere"), address=guarded.at)

    assert "database name" in caught.value.hint


def test_a_missing_right_names_the_grant(guarded: Guarded) -> None:
    with (
        someone(guarded, "plain") as settings,
        connect(settings, address=guarded.at) as connection,
        connection.cursor() as cursor,
        pytest.raises(SourceUnfit) as caught,
        map_driver_errors(replace(settings, database="mysql")),
    ):
        cursor.execute("SELECT * FROM mysql.user")

    assert caught.value.hint == "GRANT SELECT ON mysql.* TO someone"


def test_nobody_there_is_a_source_that_is_down() -> None:
    with socket.create_server((LOOPBACK, 0)) as gone:
        port = gone.getsockname()[1]

    with pytest.raises(SourceDown) as caught:
        connect(somewhere(port))

    assert "Check that the server is running" in caught.value.hint


def test_a_name_that_does_not_resolve_is_a_source_that_is_down() -> None:
    with pytest.raises(SourceDown, match=r"nowhere\.invalid"):
        connect(replace(somewhere(3306), host="nowhere.invalid"))


@pytest.mark.parametrize("tls", [Tls.DISABLE, Tls.VERIFY])
def test_a_server_that_takes_us_and_says_nothing_is_waited_for_no_longer_than_silence(tls: Tls) -> None:
    with socket.create_server((LOOPBACK, 0)) as mute:
        began = monotonic()

        with pytest.raises(SourceDown, match="timed out"):
            connect(replace(somewhere(mute.getsockname()[1]), tls=tls))

    assert monotonic() - began < 9


def test_a_greeting_is_not_waited_for_as_long_as_a_long_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncd.mysql.connection.GREETING_TIMEOUT_SECONDS", 0.5)
    with socket.create_server((LOOPBACK, 0)) as mute:
        began = monotonic()

        with pytest.raises(SourceDown, match="timed out"):
            connect(replace(somewhere(mute.getsockname()[1]), silence=timedelta(seconds=20)))

    assert monotonic() - began < 9


def test_who_was_greeted_is_waited_for_as_long_as_was_asked(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncd.mysql.connection.GREETING_TIMEOUT_SECONDS", 3.0)
    guarded.show(LOOPBACK)
    settings = replace(guarded.settings(Tls.DISABLE), silence=timedelta(seconds=20))

    with (
        closing(connect(settings, address=(LOOPBACK, guarded.box.mysql.port))) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT SLEEP(4)")
        assert cursor.fetchall() == ((0,),)


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x05\x00\x00\x00\x0aabcd", b"\x01\0\0\0\0"]
)
def test_a_server_of_another_kind_is_not_taken_for_ours(greeting: bytes) -> None:
    with greeting_with(greeting) as port, pytest.raises(SourceDown):
        connect(somewhere(port))


@pytest.mark.parametrize("tls", [Tls.DISABLE, Tls.VERIFY])
def test_a_server_that_falls_silent_in_an_answer_is_down(guarded: Guarded, tls: Tls) -> None:
    guarded.show(LOOPBACK)
    settings = replace(guarded.settings(tls), silence=timedelta(seconds=3))  # it greets sooner, however busy it is
    with TcpProxy(guarded.box.mysql.port) as wire:
        connection = connect(settings, address=(LOOPBACK, wire.port))
        wire.freeze()

        with (
            pytest.raises(SourceDown, match="Lost connection"),
            map_driver_errors(settings),
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT 1")

    assert not connection.open


@pytest.mark.parametrize("tls", [Tls.DISABLE, Tls.VERIFY])
def test_a_wire_that_breaks_at_any_byte_is_a_source_that_is_down(guarded: Guarded, tls: Tls) -> None:
    guarded.show(LOOPBACK)
    settings = guarded.settings(tls)
    whole = length_of_answers(guarded, settings)
    dice = random.Random(tls)
    places = {*range(0, 100, 7), *(dice.randrange(whole) for _ in range(60))}

    for place in sorted(places):
        with LeakyWire(guarded.box.mysql.port, after=place, reset=dice.random() < 0.5) as wire:
            try:
                ask(settings, wire.port)
            except SourceDown:
                continue
            pytest.fail(f"an answer cut after {place} of {whole} bytes was taken for whole")


def ask(settings: SourceSettings, port: int) -> None:
    with (
        connect(settings, address=(LOOPBACK, port)) as connection,
        map_driver_errors(settings),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT REPEAT('x', 3000) UNION ALL SELECT REPEAT('y', 3000)")
        assert len(cursor.fetchall()) == 2


def length_of_answers(guarded: Guarded, settings: SourceSettings) -> int:
    """Less than what a server sends in all until the last row is there: later bytes may be cut unnoticed."""
    return 6_000 if settings.tls is Tls.DISABLE else 7_000


@contextmanager
def someone(guarded: Guarded, password: str) -> Iterator[SourceSettings]:
    """A user with this password and no rights, for the time of the `with`."""
    with guarded.box.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER someone IDENTIFIED BY %s", (password,))
    try:
        yield replace(guarded.settings(Tls.DISABLE), user="someone", password=Secret(password))
    finally:
        guarded.run("DROP USER someone")


@contextmanager
def greeting_with(greeting: bytes) -> Iterator[int]:
    """The port of a server that says one thing to one client, and goes."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def greet() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(60)


def somewhere(port: int) -> SourceSettings:
    return SourceSettings(
        name="mysql",
        host=LOOPBACK,
        port=port,
        user="sync",
        password=Secret("hunter2"),
        tls=Tls.DISABLE,
        silence=timedelta(seconds=0.5),
    )
