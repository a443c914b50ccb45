import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncd.daemon.systemd import SystemdNoticeSocket


class Manager:
    """The other end of a notice socket, where systemd would be."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind("\0" + address[1:] if address.startswith("@") else address)
        self.line.settimeout(60)

    def heard(self) -> list[str]:
        return self.line.recv(4096).decode().splitlines()

    def silent(self) -> bool:
        self.line.settimeout(0)
        try:
            self.line.recv(4096)
        except BlockingIOError:
            return True
        return False


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[Manager]:
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "notify")
        if request.param == "abstract":
            if not Path("/proc").exists():
                pytest.skip("abstract sockets are of Linux alone")
            place = f"@syncd-{os.getpid()}"
        made = Manager(place)
        yield made
        made.line.close()


def test_a_service_says_how_it_is(manager: Manager) -> None:
    systemd = SystemdNoticeSocket.from_environ({"NOTIFY_SOCKET": manager.address})

    systemd.notify_ready("3 tables,\nall well")
    assert manager.heard() == ["READY=1", "STATUS=3 tables, all well"]
    systemd.notify_status("behind")
    assert manager.heard() == ["STATUS=behind"]
    systemd.notify_stopping()
    assert manager.heard() == ["STOPPING=1"]


def test_the_watchdog_hears_of_a_loop_that_turns_and_only_of_one(manager: Manager) -> None:
    systemd = SystemdNoticeSocket.from_environ({"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "30000000"})

    systemd.ping_watchdog(100.0)
    assert manager.heard() == ["WATCHDOG=1"]
    systemd.ping_watchdog(109.0)
    assert manager.silent()
    systemd.ping_watchdog(110.0)
    manager.line.settimeout(5)
    assert manager.heard() == ["WATCHDOG=1"]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
    ],
)
def test_a_watchdog_that_is_not_meant_for_us_is_not_pinged(environ: dict[str, str], manager: Manager) -> None:
    systemd = SystemdNoticeSocket.from_environ({"NOTIFY_SOCKET": manager.address, **environ}, pid=4711)

    systemd.ping_watchdog(100.0)

    assert systemd.watchdog_timeout_seconds is None
    assert manager.silent()


def test_without_systemd_nothing_is_told() -> None:
    SystemdNoticeSocket.from_environ({}).notify_ready("well")


def test_a_manager_that_is_gone_or_does_not_listen_makes_nobody_wait(manager: Manager) -> None:
    systemd = SystemdNoticeSocket.from_environ({"NOTIFY_SOCKET": manager.address})

    for _ in range(2000):  # more than its queue holds
        systemd.notify_status("x" * 1000)
    manager.line.close()
    systemd.notify_status("after the end")
