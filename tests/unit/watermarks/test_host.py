import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watermarks.host import PROC, LocalHost, ProcessLocation

if TYPE_CHECKING:
    from collections.abc import Generator

    from watermarks.host import Host

BOOT = "5c3e2f1a-7d0b-4c55-9f4e-2a6b8c9d0e1f"
SPACE = "pid:[4026531836]"
PID = 2**22 + 7
"""Above every number that Linux gives: no process of the real machine has it."""

WHEREABOUTS = """
import dataclasses, json, pathlib, sys
from watermarks.host import LocalHost
if name := bytes.fromhex(sys.argv[1]):
    pathlib.Path("/proc/self/comm").write_bytes(name)
print(json.dumps(dataclasses.asdict(LocalHost().locate_process())), flush=True)
input()
"""
on_linux = pytest.mark.skipif(not PROC.joinpath("self/stat").exists(), reason="no /proc here")


def make_proc(root: Path, *, boot: str = BOOT, space: str = SPACE) -> Path:
    """A /proc without any process."""
    random = root / "sys/kernel/random"
    random.mkdir(parents=True)
    (random / "boot_id").write_text(f"{boot}\n")
    (root / "self/ns").mkdir(parents=True)
    (root / "self/ns/pid").symlink_to(space)
    return root


def make_process(
    proc: Path, pid: int = PID, *, name: bytes = b"python3", state: str = "S", started: int = 7001
) -> None:
    """Write what the kernel says of a process: the start is field 22, counted from 1."""
    numbers = " ".join(str(number) for number in range(4, 22))
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_bytes(b"%d (%s) %s %s %d 0 0\n" % (pid, name, state.encode(), numbers.encode(), started))


def make_whereabouts(*, started: str | None = "7001", place: str | None = f"{BOOT}/{SPACE}") -> ProcessLocation:
    return ProcessLocation(host="worker-1", pid_namespace=place, pid=PID, start_time=started)


@contextmanager
def child(name: bytes = b"") -> "Generator[tuple[subprocess.Popen[str], ProcessLocation]]":
    """A process of our own, of this name, that has told where it runs."""
    with subprocess.Popen(
        [sys.executable, "-c", WHEREABOUTS, name.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, ProcessLocation(**json.loads(process.stdout.readline()))
        finally:
            process.kill()


# On a /proc of our making.


def test_a_process_that_lives_is_not_dead(tmp_path: Path) -> None:
    make_process(make_proc(tmp_path))

    assert not LocalHost(tmp_path).is_dead(make_whereabouts())


def test_a_process_that_is_gone_is_dead(tmp_path: Path) -> None:
    make_proc(tmp_path)

    assert LocalHost(tmp_path).is_dead(make_whereabouts())


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_process_that_only_waits_to_be_buried_is_dead(tmp_path: Path, state: str) -> None:
    """In a container without an init nobody buries it, and its lease would never end early."""
    make_process(make_proc(tmp_path), state=state)

    assert LocalHost(tmp_path).is_dead(make_whereabouts())


@pytest.mark.parametrize("state", ["R", "S", "D", "T", "t", "I"])
def test_a_process_that_sleeps_or_is_stopped_is_not_dead(tmp_path: Path, state: str) -> None:
    """A paused owner wakes again: only its lease may take the work from it."""
    make_process(make_proc(tmp_path), state=state)

    assert not LocalHost(tmp_path).is_dead(make_whereabouts())


def test_a_number_used_again_is_another_process(tmp_path: Path) -> None:
    make_process(make_proc(tmp_path), started=7002)

    assert LocalHost(tmp_path).is_dead(make_whereabouts(started="7001"))


@pytest.mark.parametrize(
    "name", [b"a b", b"a) S 1 2", b"(sd-pam)", b"))))", b"((((", b"Z) Z", b"", b"\\n", "\u6ce8\u6587".encode()]
)
def test_blanks_and_brackets_in_a_name_are_part_of_the_name(tmp_path: Path, name: bytes) -> None:
    make_process(make_proc(tmp_path), name=name)

    host = LocalHost(tmp_path)

    assert not host.is_dead(make_whereabouts(started="7001"))
    assert host.is_dead(make_whereabouts(started="1"))


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", "\u0437\u0430\u0433\u0440\u0443\u0437\u043a\u0438".encode()[:15]], ids=ascii
)
def test_a_name_that_is_no_text_hides_nothing(tmp_path: Path, name: bytes) -> None:
    """The kernel cuts names after 15 bytes, in the midst of a letter too; an owner's old number can bear any."""
    make_process(make_proc(tmp_path), name=name)

    host = LocalHost(tmp_path)

    assert not host.is_dead(make_whereabouts(started="7001"))
    assert host.is_dead(make_whereabouts(started="7002"))


@pytest.mark.parametrize(
    "place",
    [
        f"{BOOT}/pid:[4026532999]",
        f"00000000-0000-0000-0000-000000000000/{SPACE}",
        None,
    ],
    ids=["another container", "another boot or machine", "not told"],
)
def test_of_a_process_elsewhere_nothing_is_known(tmp_path: Path, place: str | None) -> None:
    """Its number means another process here, or none: only the time of its lease can tell."""
    make_proc(tmp_path)

    assert not LocalHost(tmp_path).is_dead(make_whereabouts(place=place))


def test_of_a_process_whose_start_is_not_told_nothing_is_known(tmp_path: Path) -> None:
    make_proc(tmp_path)

    assert not LocalHost(tmp_path).is_dead(make_whereabouts(started=None))


def test_a_process_that_is_hidden_from_us_is_not_dead(tmp_path: Path) -> None:
    """hidepid and systemd's ProtectProc show no process of another user."""
    make_proc(tmp_path)
    hidden = replace(make_whereabouts(), pid=os.getpid())

    assert not LocalHost(tmp_path).is_dead(hidden)


def test_of_a_process_that_may_not_be_looked_at_nothing_is_known(tmp_path: Path) -> None:
    make_proc(tmp_path).joinpath(str(PID), "stat").mkdir(parents=True)

    host = LocalHost(tmp_path)

    assert not host.is_dead(make_whereabouts())


@pytest.mark.parametrize("pid", [0, 2**70])
def test_of_a_number_that_no_process_has_nothing_is_known(tmp_path: Path, pid: int) -> None:
    """Whoever wrote that, it was no process of ours: only the time of its lease can tell."""
    make_proc(tmp_path)

    assert not LocalHost(tmp_path).is_dead(replace(make_whereabouts(), pid=pid))


def test_the_name_of_the_host_is_no_evidence(tmp_path: Path) -> None:
    """Two machines may have one name, and one machine two."""
    make_proc(tmp_path)

    assert LocalHost(tmp_path).is_dead(replace(make_whereabouts(), host="worker-2"))
    assert not LocalHost(tmp_path).is_dead(replace(make_whereabouts(place="elsewhere"), host=socket.gethostname()))


@pytest.mark.parametrize("missing", ["sys/kernel/random/boot_id", "self/ns/pid"])
def test_a_machine_that_cannot_be_told_from_others_knows_nothing(tmp_path: Path, missing: str) -> None:
    make_proc(tmp_path).joinpath(missing).unlink()

    host = LocalHost(tmp_path)

    assert host.locate_process().pid_namespace is None
    assert not host.is_dead(make_whereabouts())
    assert not host.is_dead(make_whereabouts(place=None))


def test_a_machine_without_proc_knows_itself_by_name_alone(tmp_path: Path) -> None:
    here = LocalHost(tmp_path / "none").locate_process()

    assert here == ProcessLocation(host=socket.gethostname(), pid_namespace=None, pid=os.getpid(), start_time=None)


def test_a_process_tells_its_boot_its_namespace_and_its_start(tmp_path: Path) -> None:
    make_process(make_proc(tmp_path), os.getpid(), started=7003)

    here = LocalHost(tmp_path).locate_process()

    assert (here.pid_namespace, here.pid, here.start_time) == (f"{BOOT}/{SPACE}", os.getpid(), "7003")


# On the real one.


@on_linux
def test_this_very_process_is_not_dead() -> None:
    host: Host = LocalHost()
    here = host.locate_process()

    assert here.pid_namespace is not None
    assert here == LocalHost().locate_process()
    assert not host.is_dead(here)


@on_linux
def test_an_earlier_process_of_our_number_is_dead() -> None:
    """A container's only process is number 1 at every start."""
    here = LocalHost().locate_process()

    assert LocalHost().is_dead(replace(here, start_time="1"))


@on_linux
def test_a_killed_process_is_dead_before_and_after_it_is_buried() -> None:
    with child() as (process, its):
        before = LocalHost().is_dead(its)
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        as_zombie = LocalHost().is_dead(its)
        process.wait()
        after = LocalHost().is_dead(its)

    assert its.pid == process.pid
    assert (before, as_zombie, after) == (False, True, True)


@on_linux
def test_a_process_may_bear_any_name() -> None:
    with child(b"a) Z 1 \xff") as (_, its):
        assert its.start_time is not None
        assert not LocalHost().is_dead(its)


@on_linux
def test_a_stopped_process_is_not_dead() -> None:
    with child() as (process, its):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)

        assert not LocalHost().is_dead(its)
