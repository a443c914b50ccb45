import contextlib
import gc
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic

import asyncssh
import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import SourceDown, SourceUnfit
from syncd.sandbox.faults.tcp import TcpProxy
from syncd.sandbox.process import LOOPBACK
from syncd.ssh.tunnel import SshTunnel, TunnelTimeouts
from tests.services.bastion import BastionServer

pytestmark = pytest.mark.services

IMPATIENT = TunnelTimeouts(keepalive_seconds=1.0, max_unanswered=2, open_timeout_seconds=5.0)
PATIENCE = 60.0
"""Seconds that a client waits for a word."""


def test_bytes_pass_both_ways(bastion: BastionServer, echo: int) -> None:
    sent = bytes(range(256)) * 4_096

    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel, entered(tunnel) as client:
        threading.Thread(target=client.sendall, args=(sent,)).start()

        assert received(client, len(sent)) == sent


def test_the_bastion_resolves_the_name_of_the_source(bastion: BastionServer, echo: int) -> None:
    bastion.names["db.internal"] = LOOPBACK

    with SshTunnel(bastion.settings(), server=("db.internal", echo)) as tunnel, entered(tunnel) as client:
        assert said_back(client)

    assert bastion.asked == [("db.internal", echo)]


def test_a_proxy_leads_to_the_source_by_its_name(bastion: BastionServer, echo: int) -> None:
    bastion.names["db.internal"] = LOOPBACK

    with SshTunnel(bastion.settings(), server=("db.internal", echo)) as tunnel:
        with socket.create_connection(tunnel.proxy_address(), 10) as client:
            assert granted(client, b"\3\x0bDB.internal", echo)
            assert said_back(client)
        # After a loss too, on the same port.
        proxy = tunnel.proxy_address()
        bastion.drop()
        with socket.create_connection(proxy, 10) as client:
            assert granted(client, b"\3\x0bdb.internal", echo)
            assert said_back(client)


def test_a_proxy_leads_nowhere_else(bastion: BastionServer, echo: int) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        for host, port in [(b"\3\x09elsewhere", echo), (b"\1\x7f\0\0\1", echo + 1), (b"\2", echo)]:
            with socket.create_connection(tunnel.proxy_address(), 10) as client:
                assert not granted(client, host, port)
        with socket.create_connection(tunnel.proxy_address(), 10) as client:
            assert granted(client, b"\1\x7f\0\0\1", echo)

    assert bastion.asked == [(LOOPBACK, echo)]


def test_a_client_that_speaks_no_socks_is_not_let_through(bastion: BastionServer, echo: int) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"\4\1\0\0\0\0\0\0", b"\5\1\2"):
            with socket.create_connection(tunnel.proxy_address(), 10) as client:
                client.sendall(said)
                client.shutdown(socket.SHUT_WR)

                assert ended(client)

    assert bastion.asked == []


def test_only_loopback_can_enter(bastion: BastionServer, echo: int) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        host, _ = tunnel.local_address()

    assert host == LOOPBACK


def test_many_connections_share_one_login(bastion: BastionServer, echo: int) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(entered(tunnel)) for _ in range(8)]

        assert all(said_back(client) for client in clients)
        assert bastion.logins == 1


def test_after_the_bastion_dropped_us_the_same_port_leads_there_again(bastion: BastionServer, echo: int) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        with entered(tunnel) as client:
            assert said_back(client)
            before = tunnel.local_address()

            assert bastion.drop() == 1

            assert ended(client)
        # Without asking the tunnel first, as a JDBC driver does.
        with socket.create_connection(before, PATIENCE) as client:
            assert said_back(client)


def test_a_bastion_that_was_restarted_is_dialled_again(bastion: BastionServer, echo: int) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        bastion.stop()
        assert wait_until(lambda: shut(tunnel), timeout_seconds=60)

        bastion.start()

        with entered(tunnel) as client:
            assert said_back(client)


def test_a_connection_made_while_the_bastion_is_away_ends_and_the_reason_is_known(
    bastion: BastionServer, echo: int
) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        near = tunnel.local_address()
        bastion.stop()

        with socket.create_connection(near, PATIENCE) as client:
            assert ended(client)

        assert isinstance(tunnel.last_error, SourceDown)


def test_a_silent_bastion_is_given_up_and_dialled_again(bastion: BastionServer, echo: int) -> None:
    with TcpProxy(bastion.port) as wire:
        bastion.know(port=wire.port)
        with SshTunnel(bastion.settings(port=wire.port), server=(LOOPBACK, echo), timeouts=IMPATIENT) as tunnel:
            with entered(tunnel) as client:
                assert said_back(client)

                wire.freeze()

                assert ended(client), "before the patience of its own socket ends"
            wire.thaw()
            with entered(tunnel) as client:
                assert said_back(client)


def test_a_bastion_that_takes_connections_and_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as mute, BastionServer(tmp_path) as bastion:
        settings = bastion.settings(port=mute.getsockname()[1])
        patience = TunnelTimeouts(open_timeout_seconds=0.5)
        began = monotonic()

        with (
            pytest.raises(SourceDown, match="no answer in time"),
            SshTunnel(settings, server=("db", 1), timeouts=patience),
        ):
            pass

        assert monotonic() - began < 15


def test_no_bastion_is_a_source_that_is_down(bastion: BastionServer) -> None:
    bastion.stop()

    with pytest.raises(SourceDown, match="the bastion") as caught, SshTunnel(bastion.settings(), server=("db", 1)):
        pass

    assert "Check that the bastion is running" in caught.value.hint


def test_a_source_that_the_bastion_does_not_reach_is_down(bastion: BastionServer) -> None:
    with socket.create_server((LOOPBACK, 0)) as gone:
        port = gone.getsockname()[1]

    with SshTunnel(bastion.settings(), server=(LOOPBACK, port)) as tunnel, entered(tunnel) as client:
        assert ended(client)

        assert isinstance(tunnel.last_error, SourceDown)
        assert f"does not reach {LOOPBACK}:{port}" in tunnel.last_error.message


def test_forbidden_forwarding_says_what_to_allow(bastion: BastionServer, echo: int) -> None:
    bastion.forwards = False

    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel, entered(tunnel) as client:
        assert ended(client)

        assert isinstance(tunnel.last_error, SourceUnfit)
        assert "AllowTcpForwarding" in tunnel.last_error.hint


def test_once_it_leads_through_again_there_is_no_trouble(bastion: BastionServer, echo: int) -> None:
    bastion.forwards = False
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        with entered(tunnel) as client:
            assert ended(client)
        bastion.forwards = True

        with entered(tunnel) as client:
            assert said_back(client)

        assert tunnel.last_error is None


def test_an_unknown_host_key_is_refused_with_the_command_that_fetches_it(bastion: BastionServer) -> None:
    bastion.known_hosts.write_text("")

    error = refused(bastion)

    assert "is not in" in error.message
    assert f"ssh-keyscan -p {bastion.port} {LOOPBACK} >> {bastion.known_hosts}" in error.hint


def test_an_empty_file_of_known_hosts_is_not_replaced_by_the_one_at_home(
    bastion: BastionServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library takes ~/.ssh/known_hosts when it is given an empty text."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(bastion.known_hosts.read_text())
    monkeypatch.setenv("HOME", str(tmp_path))
    bastion.known_hosts.write_text("")

    assert "is not in" in refused(bastion).message


def test_without_a_file_named_the_one_at_home_counts(
    bastion: BastionServer, echo: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    bastion.known_hosts.rename(tmp_path / ".ssh" / "known_hosts")
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = replace(bastion.settings(), known_hosts=None)

    with SshTunnel(settings, server=(LOOPBACK, echo)) as tunnel, entered(tunnel) as client:
        assert said_back(client)


def test_a_missing_file_of_known_hosts_knows_nobody(bastion: BastionServer) -> None:
    bastion.known_hosts.unlink()

    assert "is not in" in refused(bastion).message


def test_a_changed_host_key_is_refused_even_on_the_way_back(bastion: BastionServer, echo: int) -> None:
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        bastion.stop()
        bastion.renew_key()
        assert wait_until(lambda: shut(tunnel), timeout_seconds=60)
        bastion.start()

        with pytest.raises(SourceUnfit, match="another key than the one in") as caught:
            tunnel.local_address()

    assert "This may be an attack" in caught.value.hint


def test_a_host_key_of_another_kind_is_a_changed_one(bastion: BastionServer) -> None:
    other = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode()
    bastion.known_hosts.write_text(f"[{LOOPBACK}]:{bastion.port} {other}\n")
    told: list[str] = []

    def refused_for_good() -> bool:
        # This server, unlike sshd, may abort before its own offer has left: that is a lost line, and told as one.
        with pytest.raises((SourceDown, SourceUnfit)) as caught, SshTunnel(bastion.settings(), server=("db", 1)):
            pass
        told.append(caught.value.message)
        return isinstance(caught.value, SourceUnfit)

    assert wait_until(refused_for_good, timeout_seconds=60)
    assert "another key than the one in" in told[-1]


def test_a_refused_key_says_where_to_add_it(bastion: BastionServer) -> None:
    bastion.stop()
    bastion.forget_client()
    bastion.start()

    error = refused(bastion)

    assert "refuses user ops with the key" in error.message
    assert "ssh-copy-id" in error.hint


@pytest.mark.parametrize("form", ["pkcs1-pem", "pkcs8-pem"])
def test_an_encrypted_key_is_refused_before_anybody_is_dialled(bastion: BastionServer, form: str) -> None:
    key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    key.write_private_key(bastion.key_file, form, passphrase="open sesame")

    error = refused(bastion)

    assert "is encrypted" in error.message
    assert "ssh-add" in error.hint
    assert bastion.logins == 0


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen: install the OpenSSH client")
def test_a_key_that_ssh_keygen_encrypted_is_refused_too(bastion: BastionServer) -> None:
    bastion.key_file.unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "open sesame", "-f", bastion.key_file], check=True, timeout=60
    )

    assert "is encrypted" in refused(bastion).message


@pytest.mark.parametrize(
    ("text", "told"), [("not a key", "contains no valid SSH private key"), (None, "cannot be read")]
)
def test_a_file_that_is_no_key_is_named(bastion: BastionServer, text: str | None, told: str) -> None:
    if text is None:
        bastion.key_file.unlink()
    else:
        bastion.key_file.write_text(text)

    error = refused(bastion)

    assert told in error.message
    assert str(bastion.key_file) in error.message


def test_without_a_key_file_nobody_is_let_in_unless_an_agent_has_a_key(
    bastion: BastionServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    settings = replace(bastion.settings(), key_file=None)

    with pytest.raises(SourceUnfit, match="any key of its agent"), SshTunnel(settings, server=("db", 1)):
        pass


def test_a_host_that_does_not_speak_ssh_is_told_apart(bastion: BastionServer, echo: int) -> None:
    with pytest.raises((SourceDown, SourceUnfit), match="the bastion"):
        SshTunnel(bastion.settings(port=echo), server=("db", 1), timeouts=IMPATIENT).__enter__()


def test_at_its_end_no_thread_no_port_and_no_login_is_left(bastion: BastionServer, echo: int) -> None:
    before = set(threading.enumerate())
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        near = tunnel.local_address()
        with socket.create_connection(near, PATIENCE) as client:
            assert said_back(client)
    mine = [thread for thread in set(threading.enumerate()) - before if "tunnel" in thread.name]

    assert not mine
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(near, PATIENCE)
    assert wait_until(lambda: bastion.connections() == 0, timeout_seconds=60)


def test_a_connection_in_use_ends_with_the_tunnel(bastion: BastionServer, echo: int) -> None:
    with contextlib.ExitStack() as stack:
        with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
            client = stack.enter_context(entered(tunnel))
            assert said_back(client)

        assert ended(client)


def test_connections_that_come_with_the_end_are_ended_too(bastion: BastionServer, echo: int) -> None:
    """They are let in, and the end comes before anything is done for them."""
    with contextlib.ExitStack() as stack:
        clients = [client for _ in range(20) for client in let_in_at_the_end(bastion, echo, stack)]
        gc.collect()  # what was left open complains now

        assert all(ended(client) for client in clients)


def test_a_tunnel_that_could_not_open_leaves_no_thread(bastion: BastionServer) -> None:
    bastion.known_hosts.write_text("")

    refused(bastion)

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tunnel")]


PROGRAM = """
import signal, sys
from pathlib import Path
from syncd.ssh.tunnel import SshTunnel
from syncd.settings import TunnelSettings
port, key, known, how = sys.argv[1:]
settings = TunnelSettings(host="127.0.0.1", port=int(port), user="ops", key_file=Path(key), known_hosts=Path(known))
if how == "handled":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
tunnel = SshTunnel(settings, server=("127.0.0.1", 1))
tunnel.__enter__()
print("open", flush=True)
if how == "raised":
    raise SystemExit(3)
signal.pause()
"""


@pytest.mark.parametrize(("how", "code"), [("killed", -signal.SIGTERM), ("handled", 0), ("raised", 3)])
def test_a_process_that_ends_takes_its_tunnel_with_it_closed_or_not(
    bastion: BastionServer, how: str, code: int
) -> None:
    arguments = [str(bastion.port), str(bastion.key_file), str(bastion.known_hosts), how]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "open\n"
        if how != "raised":
            process.send_signal(signal.SIGTERM)

        assert process.wait(60) == code
        assert not process.stderr.read()
    assert wait_until(lambda: bastion.connections() == 0, timeout_seconds=60)


@contextlib.contextmanager
def entered(tunnel: SshTunnel) -> Iterator[socket.socket]:
    with socket.create_connection(tunnel.local_address(), PATIENCE) as client:
        yield client


def let_in_at_the_end(bastion: BastionServer, echo: int, stack: contextlib.ExitStack) -> list[socket.socket]:
    held = threading.Event()
    with SshTunnel(bastion.settings(), server=(LOOPBACK, echo)) as tunnel:
        near = tunnel.local_address()
        tunnel._loop.call_soon_threadsafe(held.wait)
        clients = [stack.enter_context(socket.create_connection(near, PATIENCE)) for _ in range(5)]
        tunnel._loop.call_soon_threadsafe(tunnel._closing.set)
        held.set()
    return clients


def received(client: socket.socket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count and (piece := client.recv(65_536)):
        got += piece
    return bytes(got)


def said_back(client: socket.socket) -> bool:
    client.sendall(b"hello")
    return received(client, 5) == b"hello"


def ended(client: socket.socket) -> bool:
    """Whether the other side has ended it, politely or not; a test that waits in vain fails on the socket's limit."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def granted(client: socket.socket, host: bytes, port: int) -> bool:
    """Whether a proxy lets us through to there, asked as Java asks."""
    client.sendall(b"\5\2\0\2")
    if received(client, 2) != b"\5\0":
        return False
    client.sendall(b"\5\1\0" + host + port.to_bytes(2, "big"))
    try:
        return received(client, 10)[:2] == b"\5\0"
    except ConnectionError:
        return False


def shut(tunnel: SshTunnel) -> bool:
    """Whether the loss of its bastion has come to its ears."""
    try:
        tunnel.local_address()
    except SourceDown:
        return True
    return False


def refused(bastion: BastionServer) -> SourceUnfit:
    with pytest.raises(SourceUnfit) as caught, SshTunnel(bastion.settings(), server=("db", 1)):
        pass
    return caught.value
