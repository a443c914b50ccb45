import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncd.daemon.systemd import SystemdNoticeSocket, SystemdNotifier
from watermarks.clock import SystemClock
from watermarks.testing import ManualClock


class Turning:
    """A loop that turns when it is told to."""

    last_iteration_at = 0.0
    is_stopping = False


@pytest.fixture
def line() -> Iterator[socket.socket]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(Path(folder) / "notify"))
        made.settimeout(10)
        yield made


def systemd(line: socket.socket, **more: str) -> SystemdNoticeSocket:
    return SystemdNoticeSocket.from_environ({"NOTIFY_SOCKET": line.getsockname(), **more})


def heard(line: socket.socket) -> str:
    return line.recv(4096).decode()


def test_it_is_ready_once_the_loop_has_turned_and_stopping_at_the_end(line: socket.socket) -> None:
    loop = Turning()
    with SystemdNotifier(
        systemd(line), loop, clock=SystemClock(), describe_status=lambda: "3 tables", interval_seconds=0.01
    ):
        loop.last_iteration_at = 1.0
        assert heard(line) == "READY=1"
        assert heard(line) == "STATUS=3 tables"
    assert heard(line) == "STOPPING=1"


def test_one_that_was_told_to_stop_says_so_before_it_has_ended_and_once(line: socket.socket) -> None:
    loop = Turning()
    with SystemdNotifier(systemd(line), loop, clock=SystemClock(), describe_status=lambda: "", interval_seconds=0.01):
        loop.last_iteration_at = 1.0
        assert heard(line) == "READY=1"
        loop.is_stopping = True
        assert heard(line) == "STOPPING=1"
    line.settimeout(0.2)
    with pytest.raises(TimeoutError):
        heard(line)


def test_a_loop_that_stands_still_is_told_of_no_more(line: socket.socket) -> None:
    loop, clock = Turning(), ManualClock()
    clock.advance(100)
    with SystemdNotifier(
        systemd(line, WATCHDOG_USEC="30000000"), loop, clock=clock, describe_status=lambda: "", interval_seconds=0.01
    ):
        loop.last_iteration_at = 100.0
        assert [heard(line), heard(line)] == ["READY=1", "WATCHDOG=1"]
        clock.advance(29)
        assert heard(line) == "WATCHDOG=1"
        clock.advance(31)
        line.settimeout(0.2)
        with pytest.raises(TimeoutError):
            heard(line)


def test_without_systemd_nothing_is_started() -> None:
    with SystemdNotifier(
        SystemdNoticeSocket.from_environ({}), Turning(), clock=SystemClock(), describe_status=lambda: ""
    ) as alive:
        assert not alive._thread.is_alive()
