import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import LakeDown, SourceDown
from syncd.sandbox.process import LOOPBACK, ProcessId
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.sandbox_dirs import STATE_FILE, read_state
from syncd.sandbox.supervisor import ServiceState, stop_services

pytestmark = pytest.mark.services
Remains = Callable[[Path], list[ProcessId]]


@pytest.fixture
def box(tmp_path: Path, environ: dict[str, str]) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path / "box", services=["mysql", "s3"], environ=environ)
    yield sandbox
    sandbox.down()


def pids(box: Sandbox) -> dict[str, int | None]:
    return {found.name: found.pid for found in box.status()}


def test_up_returns_when_real_servers_serve(shared: Sandbox) -> None:
    with shared.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 6 * 7, @@time_zone")
        assert cursor.fetchone() == (42, "+00:00")
    client = shared.s3.make_client()
    client.put_object(Bucket=shared.s3.bucket, Key="up/a", Body=b"here")
    assert client.get_object(Bucket=shared.s3.bucket, Key="up/a")["Body"].read() == b"here"


def test_a_second_up_leaves_everything_as_it_runs(box: Sandbox) -> None:
    first = box.up()

    second = box.up()

    assert [found.started_now for found in first] == [True, True]
    assert [found.started_now for found in second] == [False, False]
    assert [found.pid for found in first] == [found.pid for found in second]


def test_down_ends_its_own_processes_and_keeps_their_data(box: Sandbox, shared: Sandbox, remains: Remains) -> None:
    box.up()
    with box.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO kept VALUES (7)")
    box.s3.make_client().put_object(Bucket="lake", Key="kept", Body=b"7")
    others = pids(shared)

    assert box.down() == ["mysql", "s3"]

    assert remains(box.directory) == []
    assert pids(shared) == others
    assert [found.state for found in box.status()] == [ServiceState.STOPPED] * 2
    box.up()
    with box.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM kept")
        assert cursor.fetchone() == (7,)
    assert box.s3.make_client().get_object(Bucket="lake", Key="kept")["Body"].read() == b"7"


def test_down_where_nothing_ran_says_so(tmp_path: Path) -> None:
    assert stop_services(tmp_path / "never") == []


def test_a_killed_service_is_seen_and_started_again(box: Sandbox) -> None:
    before = {found.name: found for found in box.up()}
    killed = read_state(box.directory)["s3"].process
    assert killed is not None

    killed.kill()

    assert {found.name: found.state for found in box.status()} == {
        "mysql": ServiceState.RUNNING,
        "s3": ServiceState.KILLED,
    }
    after = {found.name: found for found in box.up()}
    assert after["mysql"].pid == before["mysql"].pid
    assert after["s3"].started_now
    assert after["s3"].port == before["s3"].port


def test_a_server_that_stopped_answering_is_replaced(box: Sandbox, remains: Remains) -> None:
    box.up()
    frozen = read_state(box.directory)["mysql"].process
    assert frozen is not None
    frozen.send(signal.SIGSTOP)
    assert {found.name: found.state for found in box.status()}["mysql"] is ServiceState.SILENT

    box.up()

    assert not frozen.is_alive()
    assert len(remains(box.directory)) == 2


@pytest.mark.parametrize("damage", ['{"format": "syncd.sandbox"', None])
def test_processes_are_found_again_without_the_state_file(box: Sandbox, remains: Remains, damage: str | None) -> None:
    box.up()
    before = remains(box.directory)
    state = box.directory / STATE_FILE
    state.unlink() if damage is None else state.write_text(damage)

    box.up()

    assert not any(process.is_alive() for process in before)
    assert len(remains(box.directory)) == 2


def test_a_stranger_on_the_port_of_last_time_is_left_alone(box: Sandbox) -> None:
    port = {found.name: found.port for found in box.up()}["s3"]
    box.down()
    with socket.create_server((LOOPBACK, port)):
        found = {found.name: found for found in box.up()}["s3"]

    assert found.port != port


def test_one_service_that_cannot_come_up_takes_the_others_down(
    tmp_path: Path, environ: dict[str, str], remains: Remains
) -> None:
    box = Sandbox(tmp_path / "box", environ=environ, mysql_options=["--no-such-option"])

    with pytest.raises(SourceDown, match=r"mysql ended before it answered: .*no-such-option") as caught:
        box.up()

    assert caught.value.hint == f"See {box.directory}/log/mysql.log"
    assert remains(box.directory) == []


@pytest.mark.parametrize(
    ("given", "raised"),
    [
        ({"SYNCD_SANDBOX_MYSQL": "mysql://u@127.0.0.1:1/x"}, SourceDown),
        ({"SYNCD_SANDBOX_S3": "http://127.0.0.1:1"}, LakeDown),
    ],
)
def test_a_given_server_that_does_not_answer_is_said(
    tmp_path: Path, environ: dict[str, str], given: dict[str, str], raised: type[Exception], remains: Remains
) -> None:
    box = Sandbox(tmp_path / "box", environ={**environ, **given})

    with pytest.raises(raised, match="does not answer at"):
        box.up()

    assert remains(box.directory) == []


def test_given_servers_are_used_and_never_ended(
    tmp_path: Path, environ: dict[str, str], shared: Sandbox, remains: Remains
) -> None:
    given = {
        **environ,
        **shared.s3.environ,
        "SYNCD_SANDBOX_MYSQL": shared.mysql.url,
        "SYNCD_SANDBOX_S3": shared.s3.endpoint,
    }
    box = Sandbox(tmp_path / "box", services=["mysql", "s3"], environ=given)
    before = pids(shared)

    standing = box.up()

    assert [found.state for found in standing] == [ServiceState.EXTERNAL, ServiceState.EXTERNAL]
    assert box.mysql == shared.mysql
    assert box.s3.endpoint == shared.s3.endpoint
    assert box.down() == []
    assert remains(box.directory) == []
    assert pids(shared) == before


def started(box: Path, environ: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "syncd", "sandbox", "up", "--dir", str(box)]
    return subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def read_up_to(process: subprocess.Popen[str], word: str) -> None:
    assert process.stderr is not None
    assert any(word in line for line in process.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["initialising", "mysql answers", "filling"])
def test_an_up_killed_on_its_way_is_made_good_by_the_next(
    tmp_path: Path, environ: dict[str, str], remains: Remains, word: str
) -> None:
    directory = tmp_path / "box"
    with started(directory, environ) as up:
        read_up_to(up, word)
        up.kill()
    box = Sandbox(directory, environ=environ)

    with started(directory, environ) as again:
        again.communicate()
    assert again.returncode == 0

    assert [found.state for found in box.status()] == [ServiceState.RUNNING] * 3
    with box.mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM orders")
        assert cursor.fetchone() == (1000,)
    box.down()
    assert remains(directory) == []


def test_what_an_interrupted_user_of_it_started_ends_and_what_ran_before_stays(
    tmp_path: Path, environ: dict[str, str], remains: Remains
) -> None:
    directory = tmp_path / "box"
    box = Sandbox(directory, services=["s3"], environ=environ)

    with pytest.raises(KeyboardInterrupt), box.up_or_undo():
        raise KeyboardInterrupt
    assert remains(directory) == []

    box.up()
    with pytest.raises(KeyboardInterrupt), box.up_or_undo():
        raise KeyboardInterrupt
    assert len(remains(directory)) == 1
    box.down()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_up_that_is_interrupted_leaves_nothing_running(
    tmp_path: Path, environ: dict[str, str], remains: Remains, number: signal.Signals
) -> None:
    directory = tmp_path / "box"
    with started(directory, environ) as up:
        read_up_to(up, "mysql answers")
        os.kill(up.pid, number)
        up.communicate()
    assert up.returncode == 130

    assert wait_until(lambda: remains(directory) == [], timeout_seconds=60)
