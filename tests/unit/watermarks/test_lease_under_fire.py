"""Faults found in review: leases that hang, and owners thought dead."""

import os
from pathlib import Path

import pytest

from watermarks.errors import OutcomeUnknown
from watermarks.host import LocalHost, ProcessLocation
from watermarks.lease import LeaseEnded, ProcessLease
from watermarks.names import owner_key
from watermarks.stores.memory import MemoryStore
from watermarks.testing import FaultyStore, ManualClock, StoreFault, StoreOperation, script_faults


def process(store: MemoryStore | FaultyStore, name: str) -> ProcessLease:
    one = ProcessLease(store, name, clock=ManualClock())
    one.renew()
    return one


def proc(root: Path, pid: int, stat: str | None) -> Path:
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "sys/kernel/random/boot_id").write_text("boot\n")
    (root / "self/ns").mkdir(parents=True)
    (root / "self/ns/pid").symlink_to("pid:[1]")
    (root / str(pid)).mkdir()
    if stat is not None:
        (root / str(pid) / "stat").write_text(stat)
    return root


def test_a_process_that_one_may_not_look_at_is_not_dead(tmp_path: Path) -> None:
    """hidepid and ProtectProc hide processes of others; too many open files hide all of them."""
    host = LocalHost(proc(tmp_path, 4711, None))
    (tmp_path / "4711/stat").mkdir()  # reading it fails with another error than that it is not there
    other = ProcessLocation(host="h", pid_namespace="boot/pid:[1]", pid=4711, start_time="12345")

    assert not host.is_dead(other)


def test_a_process_that_is_hidden_but_can_be_signalled_is_not_dead(tmp_path: Path) -> None:
    host = LocalHost(proc(tmp_path, 4711, None))
    other = ProcessLocation(host="h", pid_namespace="boot/pid:[1]", pid=os.getppid(), start_time="12345")

    assert not host.is_dead(other)


def test_a_renewal_that_never_arrived_does_not_count() -> None:
    memory = MemoryStore()
    store = FaultyStore(memory, script_faults(StoreOperation.REPLACE, owner_key("p"), StoreFault.LOST_REQUEST))
    one = process(store, "p")
    before = memory.read(owner_key("p"))

    try:
        one.renew()
    except OutcomeUnknown:
        return

    assert memory.read(owner_key("p")) != before


def test_a_process_whose_object_is_gone_does_not_renew_nothing_for_ever() -> None:
    store = MemoryStore()
    one = process(store, "p")
    del store._objects[owner_key("p")]

    with pytest.raises(LeaseEnded, match="is missing"):
        one.renew()
