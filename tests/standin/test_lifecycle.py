"""Starting, stopping, dying: what is left, and how the next one starts."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redshift_connector.error import InterfaceError

from syncd.sandbox.redshift import CannotStart, FaultTiming, RedshiftStandIn, cluster
from syncd.sandbox.redshift.fault_port import RemoteFaultInjector
from tests.standin.clients import Clients, connect

pytestmark = pytest.mark.services
SOON = 60.0
ROUNDS = 20 if os.environ.get("SYNCD_LONG") else 3


def reachable() -> Path:
    """A new directory that the server's user can reach; pytest's own are closed to others."""
    made = Path(tempfile.mkdtemp(prefix="syncd-test-"))
    made.chmod(0o711)
    return made


@pytest.fixture
def empty() -> Iterator[Path]:
    made = reachable()
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def furnished() -> Iterator[Path]:
    """The files of a server that was started and stopped once; making them takes the most of a start."""
    made = reachable()
    with RedshiftStandIn(made):
        pass
    yield made
    shutil.rmtree(made)


@pytest.fixture
def directory(empty: Path, furnished: Path) -> Path:
    subprocess.run(["cp", "-a", furnished / "data", empty], check=True)
    return empty


def postmaster(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])


def wait_gone(pid: int) -> None:
    """Return when the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], SOON)[0], f"process {pid} is still there"
    finally:
        os.close(descriptor)


class Apart:
    """A stand-in in a process of its own."""

    def __init__(self, directory: Path, *words: str) -> None:
        command = [sys.executable, "-m", "syncd.sandbox.redshift", "--directory", str(directory), *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.told: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.host, self.port = self.told["host"], self.told["port"]
        self.database, self.user, self.password = "dev", "loader", "Sandbox1"

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(SOON)
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_stopped_server_leaves_no_process_and_its_data_stays(directory: Path) -> None:
    with RedshiftStandIn(directory) as server:
        client = connect(server)
        client.connection.autocommit = True
        client.run("create table kept (a integer)")
        client.close()
        pid = postmaster(directory)
    wait_gone(pid)

    with RedshiftStandIn(directory) as server:
        client = connect(server)
        assert client.value("select count(*) from kept") == 0
        client.close()


def test_server_without_a_directory_leaves_no_file() -> None:
    with RedshiftStandIn() as server:
        home = server.home

    assert not home.exists()


def test_open_connections_end_with_the_server(directory: Path) -> None:
    with RedshiftStandIn(directory) as server:
        client = connect(server)

    with pytest.raises((InterfaceError, OSError)):
        client.value("select 1")
    client.connection._usock.close()


def test_killed_server_leaves_no_process_and_the_next_one_starts(directory: Path) -> None:
    for round_number in range(ROUNDS):
        apart = Apart(directory)
        client = connect(apart)
        client.connection.autocommit = True
        client.run("create table if not exists rounds (a integer)")
        client.run(f"insert into rounds values ({round_number})")
        assert client.value("select count(*) from rounds") == round_number + 1
        pid = postmaster(directory)
        apart.end(signal.SIGKILL)
        client.connection._usock.close()
        wait_gone(pid)


def test_server_killed_together_with_its_watcher_leaves_no_process(directory: Path) -> None:
    apart = Apart(directory)
    pid = postmaster(directory)
    watcher = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    apart.process.send_signal(signal.SIGSTOP)
    os.kill(watcher, signal.SIGKILL)
    apart.end(signal.SIGKILL)

    wait_gone(pid)


def test_server_that_is_asked_to_end_ends_clean(directory: Path) -> None:
    apart = Apart(directory)
    pid = postmaster(directory)

    apart.end(signal.SIGTERM)

    assert apart.process.returncode == 0
    wait_gone(pid)
    assert not (directory / "data" / "postmaster.pid").exists()


@pytest.mark.parametrize("content", ["{self}\n", "999999\n", "", "no number\n"])
def test_stale_pid_file_is_no_obstacle(directory: Path, content: str) -> None:
    with RedshiftStandIn(directory):
        pass
    (directory / "data" / "postmaster.pid").write_text(content.replace("{self}", str(os.getpid())))

    with RedshiftStandIn(directory) as server:
        client = connect(server)
        assert client.value("select 1") == 1
        client.close()


def test_half_made_files_are_made_anew(empty: Path) -> None:
    (empty / "data").mkdir()
    (empty / "data" / "base").mkdir()

    with RedshiftStandIn(empty) as server:
        client = connect(server)
        assert client.value("select len('é')") == 1
        client.close()


def test_half_made_database_is_made_anew(directory: Path) -> None:
    with RedshiftStandIn(directory) as server:
        behind = server.connect_postgres()
        behind.run("SET allow_system_table_mods = on")
        behind.run("DROP VIEW pg_catalog.redshift_finished")
        behind.close()

    with RedshiftStandIn(directory) as server:
        client = connect(server)
        assert client.value("select len('é')") == 1
        client.close()


def test_data_of_another_version_are_told_and_kept(directory: Path) -> None:
    with RedshiftStandIn(directory) as server:
        behind = server.connect_postgres()
        behind.run("SET allow_system_table_mods = on")
        behind.run("CREATE OR REPLACE VIEW pg_catalog.redshift_finished AS SELECT 'other' AS made_by")
        behind.close()

    with pytest.raises(CannotStart, match="another version"):
        RedshiftStandIn(directory).start()

    assert not (directory / "data" / "postmaster.pid").exists()
    assert (directory / "data" / "PG_VERSION").exists()


def test_two_servers_in_one_directory_are_refused(directory: Path) -> None:
    with RedshiftStandIn(directory) as server:
        pid = postmaster(directory)
        with pytest.raises(CannotStart, match="is in use"):
            RedshiftStandIn(directory).start()

        assert postmaster(directory) == pid
        client = connect(server)
        assert client.value("select 1") == 1
        client.close()


def test_busy_port_is_told_and_leaves_no_process(empty: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(CannotStart, match=f"port {port} on 127.0.0.1 is taken") as caught:
            RedshiftStandIn(empty, port=port).start()

    assert caught.value.hint
    assert not (empty / "data").exists()


def test_directory_that_is_a_file_is_told(empty: Path) -> None:
    (empty / "file").touch()

    with pytest.raises(CannotStart) as caught:
        RedshiftStandIn(empty / "file").start()

    assert caught.value.hint


def test_path_too_long_for_a_socket_is_no_obstacle(empty: Path) -> None:
    deep = empty / ("d" * 60) / ("e" * 60)

    with RedshiftStandIn(deep) as server:
        home = server.home
        client = connect(server)
        assert client.value("select 1") == 1
        client.close()

    shutil.rmtree(home)


def test_a_directory_that_was_removed_and_made_again_has_an_empty_server(empty: Path) -> None:
    deep = empty / ("d" * 60) / ("e" * 60)
    homes = set()
    for _ in range(2):
        with RedshiftStandIn(deep) as server:
            homes.add(server.home)
            client = connect(server)
            client.connection.autocommit = True
            client.run("create table mine (a integer)")
            client.close()
        shutil.rmtree(deep)

    [home] = homes
    assert home != deep
    shutil.rmtree(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_directory_closed_to_others_is_no_obstacle_for_root(empty: Path) -> None:
    closed = empty / "closed"
    closed.mkdir(mode=0o700)

    with RedshiftStandIn(closed / "inner") as server:
        home = server.home
        client = connect(server)
        assert client.value("select 1") == 1
        client.close()

    shutil.rmtree(home)


def test_faults_are_asked_for_from_another_process(directory: Path) -> None:
    apart = Apart(directory)
    faults = RemoteFaultInjector(apart.told["control_port"])
    clients = Clients(apart)
    client = clients()
    client.run("create table t (a integer)")

    faults.fail("^insert", "no", nth=2)
    client.run("insert into t values (1)")
    assert client.refused("insert into t values (2)")["M"] == "no"
    dropped = faults.drop("^insert", when=FaultTiming.AFTER)
    with pytest.raises(InterfaceError):
        client.run("insert into t values (3)")
    dropped.wait_reached()
    with pytest.raises(TimeoutError):
        faults.hold("^never").wait_reached(0.01)
    with pytest.raises(RuntimeError):
        faults.send("explode")
    faults.freeze()
    faults.thaw()
    faults.clear()

    assert clients().value("select count(*) from t") == 2
    clients.close()
    apart.end(signal.SIGTERM)


def test_process_that_cannot_start_says_two_lines() -> None:
    command = [sys.executable, "-m", "syncd.sandbox.redshift", "--directory", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 6
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_programs_closed_to_others_are_copied_for_root(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = cluster.installed_programs().parent.parent
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    for part in (package / "pginstall18", package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, closed / part.relative_to(package.parent), symlinks=True)
    monkeypatch.setattr(cluster, "installed_programs", lambda: closed / package.name / "pginstall18" / "bin")

    for _ in range(2):
        with RedshiftStandIn(directory / "data") as server:
            client = connect(server)
            assert client.value("select len('é')") == 1
            client.close()

    assert (directory / "data" / "postgresql" / "complete").exists()
