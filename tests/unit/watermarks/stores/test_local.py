import errno
import fcntl
import hashlib
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from watermarks.errors import AlreadyExists, Misuse, OutcomeUnknown, StaleRevision, StoreUnavailable
from watermarks.store import Revision
from watermarks.stores.local import HIDDEN_DIRECTORY, LocalStore

REPLACE_FOREVER = """
import sys
from pathlib import Path
from watermarks.stores.local import LocalStore

store, size = LocalStore(Path(sys.argv[1])), int(sys.argv[2])
there = store.read("doc")
number, seen = int(there.body[:8]), there.revision
print("ready", flush=True)
while True:
    number += 1
    seen = store.put("doc", f"{number:08}".encode() * size, expected=seen)
    store.put(f"kept/{number}", str(number).encode(), expected=None)
    print(number, flush=True)
"""
HOLD_THE_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "documents", lock_timeout_seconds=0.05)


def failing(code: int) -> Callable[..., None]:
    def fail(*args: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def lock_of(store: LocalStore, key: str) -> Path:
    return store.root / HIDDEN_DIRECTORY / f"{hashlib.sha256(key.encode()).hexdigest()[:2]}.lock"


def scratch_of(store: LocalStore, key: str) -> Path:
    return lock_of(store, key).with_suffix(".new")


def test_a_document_is_a_plain_file_under_its_key(store: LocalStore) -> None:
    store.put("watermarks/shop/orders.json", b'{"a": 1}\n', expected=None)

    assert (store.root / "watermarks" / "shop" / "orders.json").read_text() == '{"a": 1}\n'


def test_a_document_follows_the_umask_as_any_file_does(store: LocalStore) -> None:
    store.put("doc", b"x", expected=None)
    (store.root / "other").write_bytes(b"x")

    assert (store.root / "doc").stat().st_mode == (store.root / "other").stat().st_mode


def test_nothing_is_made_before_the_first_write(store: LocalStore) -> None:
    assert store.read("doc") is None
    assert [*store.list("")] == []

    assert not store.root.exists()


def test_a_relative_root_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore(Path("documents"))
    store.put("doc", b"x", expected=None)

    monkeypatch.chdir("/")

    assert [*store.list("")] == ["doc"]


def test_two_objects_on_one_directory_are_one_store(store: LocalStore) -> None:
    other = LocalStore(store.root)
    seen = store.put("doc", b"first", expected=None)

    other.put("doc", b"second", expected=seen)

    with pytest.raises(StaleRevision):
        store.put("doc", b"third", expected=seen)


def test_the_hidden_folder_is_neither_listed_nor_written(store: LocalStore) -> None:
    store.put("doc", b"x", expected=None)
    store.put(".storefront", b"x", expected=None)

    assert (store.root / HIDDEN_DIRECTORY).is_dir()
    assert [*store.list("")] == [".storefront", "doc"]
    assert [*store.list(HIDDEN_DIRECTORY)] == [".storefront"]
    assert [*store.list(f"{HIDDEN_DIRECTORY}/")] == []
    for key in (HIDDEN_DIRECTORY, f"{HIDDEN_DIRECTORY}/00.lock"):
        with pytest.raises(Misuse, match="directory of the store's locks"):
            store.put(key, b"x", expected=None)
        with pytest.raises(Misuse, match="directory of the store's locks"):
            store.read(key)


def test_writing_leaves_a_bounded_number_of_hidden_files(store: LocalStore) -> None:
    for number in range(300):
        store.put(f"history/{number}", b"x", expected=None)

    hidden = [path.name for path in (store.root / HIDDEN_DIRECTORY).iterdir()]

    assert len(hidden) <= 256
    assert {name.rpartition(".")[2] for name in hidden} == {"lock"}


def test_a_listing_walks_only_folders_that_can_hold_the_prefix(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("history/a/1", "history/b/1", "plans/a/1", "history/ab/c/1"):
        store.put(key, b"x", expected=None)
    walked: list[str] = []
    scan = os.scandir

    def note(path: Path) -> "os._ScandirIterator[str]":
        walked.append(str(path.relative_to(store.root)))
        return scan(path)

    monkeypatch.setattr(os, "scandir", note)

    assert [*store.list("history/a")] == ["history/a/1", "history/ab/c/1"]

    assert walked == ["history", "history/a", "history/ab", "history/ab/c"]


def test_strangers_files_that_can_be_no_key_are_not_listed(store: LocalStore) -> None:
    store.put("doc", b"x", expected=None)
    (store.root / "two\nlines").write_bytes(b"x")
    Path(os.fsdecode(os.fsencode(store.root) + b"/\xff")).write_bytes(b"x")
    (store.root / "nowhere").symlink_to("missing")
    os.mkfifo(store.root / "pipe")

    assert [*store.list("")] == ["doc"]


def test_reading_a_pipe_fails_and_does_not_wait(store: LocalStore) -> None:
    store.put("doc", b"x", expected=None)
    os.mkfifo(store.root / "pipe")

    with pytest.raises(StoreUnavailable, match="not a plain file"):
        store.read("pipe")


def test_a_folder_of_documents_is_no_document(store: LocalStore) -> None:
    seen = store.put("a/b", b"x", expected=None)

    assert store.read("a") is None
    with pytest.raises(Misuse, match="both a document and a folder"):
        store.put("a", b"x", expected=None)
    with pytest.raises(StaleRevision):
        store.put("a", b"x", expected=seen)


def test_a_document_is_no_folder_of_documents(store: LocalStore) -> None:
    store.put("a", b"x", expected=None)

    assert store.read("a/b") is None
    assert [*store.list("a/")] == []
    for key in ("a/b", "a/b/c"):
        with pytest.raises(Misuse, match="both a document and a folder"):
            store.put(key, b"x", expected=None)


def test_a_name_too_long_for_the_file_system_is_a_misuse(store: LocalStore) -> None:
    store.put("doc", b"x", expected=None)

    for act in (lambda: store.read("n" * 300), lambda: store.put(f"{'n' * 300}/a", b"x", expected=None)):
        with pytest.raises(Misuse, match="too long"):
            act()


def test_a_folder_that_was_removed_is_made_again(store: LocalStore) -> None:
    store.put("a/b/1", b"x", expected=None)
    (store.root / "a/b/1").unlink()
    (store.root / "a/b").rmdir()

    store.put("a/b/2", b"x", expected=None)

    assert [*store.list("")] == ["a/b/2"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_of_another_user_is_named(store: LocalStore) -> None:
    store.put("doc", b"x", expected=None)
    store.root.chmod(0o500)

    with pytest.raises(StoreUnavailable, match="permission denied") as caught:
        store.put("other/doc", b"x", expected=None)

    store.root.chmod(0o700)
    assert "owns the directory" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "owns the directory"),
        (errno.EIO, "log of the kernel"),
        (errno.EBADF, "mounted"),
    ],
)
def test_what_fails_before_publishing_has_written_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int, hint: str
) -> None:
    seen = store.put("doc", b"first", expected=None)
    store.put("a/doc", b"x", expected=None)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing(code))

        with pytest.raises(StoreUnavailable) as created:
            store.put("a/other", b"x", expected=None)
        with pytest.raises(StoreUnavailable) as replaced:
            store.put("doc", b"second", expected=seen)

    assert hint in created.value.hint
    assert hint in replaced.value.hint
    assert [*store.list("")] == ["a/doc", "doc"]
    assert not scratch_of(store, "doc").exists()
    assert store.put("doc", b"second", expected=seen)


def test_a_write_that_the_kernel_cuts_off_leaves_nothing(store: LocalStore) -> None:
    seen = store.put("doc", b"first", expected=None)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises(StoreUnavailable, match="too large") as caught:
            store.put("doc", b"x" * 1_000_000, expected=seen)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert "ulimit" in caught.value.hint
    assert (store.root / "doc").read_bytes() == b"first"
    assert not scratch_of(store, "doc").exists()


@pytest.mark.parametrize("verb", ["link", "rename"])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.ENOSPC, StoreUnavailable),
        (errno.EROFS, StoreUnavailable),
        (errno.EXDEV, StoreUnavailable),
        (errno.ENAMETOOLONG, Misuse),
        (errno.EIO, OutcomeUnknown),
        (errno.ESTALE, OutcomeUnknown),
        (errno.ETIMEDOUT, OutcomeUnknown),
    ],
)
def test_a_publication_is_refused_or_in_doubt(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, verb: str, code: int, expected: type[Exception]
) -> None:
    """A refusal of the kernel says that nothing was done; an error of the disk or of the network says nothing."""
    seen = store.put("doc", b"first", expected=None)
    monkeypatch.setattr(os, "link", failing(code))
    monkeypatch.setattr(Path, "replace", failing(code))

    with pytest.raises(expected):
        store.put("new", b"x", expected=None) if verb == "link" else store.put("doc", b"second", expected=seen)


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_a_name_that_may_not_last_is_in_doubt(store: LocalStore, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    seen = store.put("doc", b"first", expected=None)
    store.put("other", b"x", expected=None)
    force = os.fsync

    def fail_for_folders(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").resolve().is_dir():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        force(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail_for_folders)
        with pytest.raises(OutcomeUnknown, match="was written, but its folder"):
            store.put("new", b"x", expected=None) if verb == "create" else store.put("doc", b"second", expected=seen)

    there = store.read("new" if verb == "create" else "doc")
    assert there is not None
    assert there.body in (b"x", b"second")


def test_every_byte_and_every_name_is_forced_before_the_answer(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[Path] = []
    force = os.fsync

    def note(handle: int) -> None:
        forced.append(Path(f"/proc/self/fd/{handle}").resolve().relative_to(store.root.parent))
        force(handle)

    monkeypatch.setattr(os, "fsync", note)

    seen = store.put("a/b/doc", b"first", expected=None)

    root, scratch = Path(store.root.name), scratch_of(store, "a/b/doc").relative_to(store.root.parent)
    assert set(forced) == {Path(), root, root / "a", root / "a/b", scratch}
    assert forced.index(scratch) < forced.index(root / "a/b")

    forced.clear()
    store.put("a/b/doc", b"second", expected=seen)

    assert forced == [scratch, root / "a/b"]


def test_a_taken_name_is_forced_before_its_refusal(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller may find its own document there, published by a life that was killed before it could force it."""
    store.put("a/doc", b"first", expected=None)
    monkeypatch.setattr("watermarks.stores.local._sync_folder", failing(errno.EIO))

    with pytest.raises(OutcomeUnknown):
        store.put("a/doc", b"first", expected=None)


def test_a_scratch_file_left_by_a_kill_is_replaced(store: LocalStore) -> None:
    store.put("doc", b"first", expected=None)
    scratch_of(store, "other").write_bytes(b"half")

    store.put("other", b"whole", expected=None)

    assert (store.root / "other").read_bytes() == b"whole"
    assert not scratch_of(store, "other").exists()


def test_a_scratch_file_that_is_a_document_already_is_not_written_over(store: LocalStore) -> None:
    """A kill between the link and the removal leaves one file with two names."""
    seen = store.put("doc", b"first", expected=None)
    scratch_of(store, "doc").hardlink_to(store.root / "doc")

    with pytest.raises(AlreadyExists):
        store.put("doc", b"second, and longer", expected=None)
    assert (store.root / "doc").read_bytes() == b"first"

    scratch_of(store, "doc").hardlink_to(store.root / "doc")
    reader = (store.root / "doc").open("rb")
    store.put("doc", b"third", expected=seen)

    with reader:
        assert reader.read() == b"first"
    assert (store.root / "doc").read_bytes() == b"third"


def test_a_lock_held_elsewhere_is_waited_for_and_then_named(store: LocalStore) -> None:
    seen = store.put("doc", b"first", expected=None)

    with lock_of(store, "doc").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match=r"held the lock for 0\.05 s"):
            store.put("doc", b"second", expected=seen)
        assert store.read("doc") is not None

    store.put("doc", b"second", expected=seen)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, lock_timeout_seconds=20)
    seen = store.put("doc", b"first", expected=None)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(lock_of(store, "doc"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        written = threading.Event()

        def write() -> None:
            store.put("doc", b"second", expected=seen)
            written.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert not written.wait(0.1)
        holder.kill()
        writer.join(20)

    assert written.is_set()
    assert (tmp_path / "doc").read_bytes() == b"second"


def test_a_child_that_was_forked_does_not_keep_the_lock(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = store.put("doc", b"first", expected=None)
    copies: list[int] = []
    take = fcntl.flock

    def take_and_copy(lock: int, how: int) -> None:
        take(lock, how)
        if how != fcntl.LOCK_UN:
            copies.append(os.dup(lock))

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", take_and_copy)
        seen = store.put("doc", b"second", expected=seen)

    store.put("doc", b"third", expected=seen)
    for copy in copies:
        os.close(copy)
    assert len(copies) == 1


def test_a_revision_is_the_digest_of_the_content(store: LocalStore) -> None:
    assert store.put("doc", b"{}", expected=None) == Revision(hashlib.sha256(b"{}").hexdigest())


def test_a_kill_at_any_point_leaves_whole_documents_and_no_lock(tmp_path: Path) -> None:
    """Forty lives, each killed so many writes and a little while after it began."""
    size = 20_000
    store = LocalStore(tmp_path, lock_timeout_seconds=5)
    store.put("doc", b"00000000" * size, expected=None)
    number = 0
    for turn in range(40):
        said = _killed_after(turn % 4, turn // 4 * 0.0005, tmp_path, size)

        there = store.read("doc")
        assert there is not None
        assert int(there.body[:8]) - (said or number) in (0, 1)
        number = int(there.body[:8]) + 1
        assert there.body == f"{number - 1:08}".encode() * size
        store.put("doc", f"{number:08}".encode() * size, expected=there.revision)

    kept = {key: store.read(key) for key in store.list("kept/")}
    assert kept
    assert all(there and f"kept/{there.body.decode()}" == key for key, there in kept.items())


def _killed_after(writes: int, seconds: float, root: Path, size: int) -> int:
    """The last number that a life said to be written, or 0."""
    life = subprocess.Popen(
        [sys.executable, "-c", REPLACE_FOREVER, str(root), str(size)], stdout=subprocess.PIPE, text=True
    )
    with life:
        assert life.stdout is not None
        assert life.stdout.readline() == "ready\n"
        said = [int(life.stdout.readline()) for _ in range(writes)]
        timer = threading.Timer(seconds, life.kill)
        timer.start()
        said += [int(line) for line in life.stdout if line.endswith("\n")]
        timer.join()
    return said[-1] if said else 0
