"""Store in a directory: one plain file for each document, for one machine and any number of processes."""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from watermarks.errors import AlreadyExists, HintedError, Misuse, OutcomeUnknown, StaleRevision, StoreUnavailable
from watermarks.store import Revision, StoredObject, can_start_key, check_key, is_key

HIDDEN_DIRECTORY: Final = ".store"
"""Directory at the root for locks and for files being written; it holds no documents."""

FIRST_LOCK_PAUSE_SECONDS: Final = 0.001
MAX_LOCK_PAUSE_SECONDS: Final = 0.02

ERRNO_HINTS: Final = {
    errno.EACCES: "Check that this user owns the directory and everything in it: ls -laR",
    errno.EPERM: "Check that this user owns the directory, and that its file system has hard links.",
    errno.ENOSPC: "The disk is full: free some space, then try again.",
    errno.EDQUOT: "The quota of this user is used up: free some space, then try again.",
    errno.EFBIG: "The document is larger than this process may write. See: ulimit -f",
    errno.EROFS: "The file system is mounted read-only. See: mount",
    errno.EIO: "The disk reports an error: check the log of the kernel before you use the disk again.",
    errno.EMFILE: "This process has too many files open: raise LimitNOFILE.",
    errno.ENFILE: "This machine has too many files open: raise fs.file-max.",
    errno.ELOOP: "A symbolic link in the directory points to itself: remove it.",
    errno.EXDEV: "The directory must be one file system: nothing may be mounted inside it.",
    errno.EOPNOTSUPP: "The file system must have hard links and locks; choose another directory.",
    errno.ENOLCK: "The file system must have locks; choose another directory.",
}
DEFAULT_HINT: Final = "Check that the disk is mounted and works."

UNCHANGED_ERRNOS: Final = frozenset(
    {*ERRNO_HINTS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EMLINK, errno.ENAMETOOLONG}
) - {errno.EIO}
"""Errors of link and rename that mean that nothing was changed; after any other the outcome is unknown."""


@dataclass(slots=True)
class LocalStore:
    """Documents as files under one directory, which must be case-sensitive and have hard links.

    A document is written to a scratch file, forced to the disk and then published
    by one operation of the kernel: `link` for a new key, which refuses a name that
    exists, and `rename` for a known one, under a lock. So a reader sees a whole
    document or none, and a kill leaves nothing that is read.

    A revision is the digest of the content. Equal content would have an equal
    revision, but every document carries its own number, so none repeats.

    One of 256 lock files guards a key, chosen by digest, so their number does not
    grow with the documents. A lock ends with its process. The holder of a lock owns
    the scratch file of the same name, so the next writer removes what a kill leaves
    there. Nothing in `.store` may be removed while a process uses the directory.
    """

    root: Path
    lock_timeout_seconds: float = 30.0
    """Limit for the wait for the lock of a key."""

    _durable_folders: set[Path] = field(default_factory=set[Path], repr=False)

    def __post_init__(self) -> None:
        self.root = self.root.absolute()

    def read(self, key: str) -> StoredObject | None:
        path = self._path(key)
        with _map_os_errors(key, "reading"):
            body = _read_file(path)
        return None if body is None else StoredObject(body=body, revision=_revision_of(body))

    def put(self, key: str, body: bytes, *, expected: Revision | None) -> Revision:
        path = self._path(key)
        with self._hold_lock(key) as scratch:
            if expected is None:
                self._create(key, path, scratch, body)
            else:
                self._replace(key, path, scratch, body, expected)
        return _revision_of(body)

    def list(self, prefix: str) -> Iterator[str]:
        folder, _, _ = prefix.rpartition("/")
        if not can_start_key(prefix) or _is_hidden(folder):
            return
        with _map_os_errors(prefix, "listing"):
            yield from _walk(self.root, folder, prefix)

    def _create(self, key: str, path: Path, scratch: Path, body: bytes) -> None:
        with self._write_scratch(key, scratch, body):
            with _map_os_errors(key, "making the folder of"):
                self._make_durable_folder(path.parent)
            with _map_publish_errors(key):
                taken = not _try_link(scratch, path)
            # A name that exists is forced too: it may be the caller's own document, whose
            # writer was killed before it came to this line.
            _sync_published_name(key, path)
            if taken:
                raise _key_taken_error(key, path)

    def _replace(self, key: str, path: Path, scratch: Path, body: bytes, expected: Revision) -> None:
        with _map_os_errors(key, "comparing"):
            stored = _read_file(path)
        if stored is None or _revision_of(stored) != expected:
            raise StaleRevision(f"{key} was {'removed' if stored is None else 'changed'} since it was read", key=key)
        with self._write_scratch(key, scratch, body), _map_publish_errors(key):
            scratch.replace(path)
        _sync_published_name(key, path)

    def _path(self, key: str) -> Path:
        check_key(key)
        if _is_hidden(key):
            raise Misuse(f"{key} is in the directory of the store's locks", hint="Use another directory.", key=key)
        return self.root / key

    @contextlib.contextmanager
    def _hold_lock(self, key: str) -> Generator[Path]:
        """Hold the lock of a key and give the scratch file that belongs to it."""
        stripe = hashlib.sha256(key.encode()).hexdigest()[:2]
        hidden = self.root / HIDDEN_DIRECTORY
        with _map_os_errors(key, "locking"):
            self._make_durable_folder(hidden)
            lock = os.open(hidden / f"{stripe}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with _map_os_errors(key, "locking"):
                self._wait_for(lock, key)
            yield hidden / f"{stripe}.new"
        finally:
            # A child that was forked meanwhile shares the lock; closing alone would leave it held.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def _wait_for(self, lock: int, key: str) -> None:
        # The kernel's own wait has no timeout, and a stopped process may hold the lock without end.
        deadline = time.monotonic() + self.lock_timeout_seconds
        pause = FIRST_LOCK_PAUSE_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"{key}: another process has held the lock for {self.lock_timeout_seconds:g} s",
                        hint=f"Find that process; it may be suspended: fuser -v {self.root / HIDDEN_DIRECTORY}/*.lock",
                        key=key,
                    ) from None
            else:
                return
            time.sleep(pause)
            pause = min(pause * 2, MAX_LOCK_PAUSE_SECONDS)

    @contextlib.contextmanager
    def _write_scratch(self, key: str, scratch: Path, body: bytes) -> Generator[None]:
        try:
            with _map_os_errors(key, "writing"):
                # A scratch file left by a kill may be a second name of a document: remove it, since
                # opening it would overwrite the document.
                scratch.unlink(missing_ok=True)
                _write_file(scratch, body)
            yield
        finally:
            # If this fails, the next writer of this stripe removes it.
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)

    def _make_durable_folder(self, folder: Path) -> None:
        """Make a folder and its parents, and force their names to the disk.

        A folder made by another process is forced too, since that process may not have done so yet. Each is forced
        once in the life of this object.
        """
        if folder in self._durable_folders and folder.is_dir():
            return
        above = folder.parent
        outside = folder == self.root or self.root not in folder.parents
        if outside and folder.is_dir():
            return
        self._make_durable_folder(above)
        folder.mkdir(exist_ok=True)
        _sync_folder(above)
        self._durable_folders.add(folder)


def _is_hidden(key: str) -> bool:
    return key == HIDDEN_DIRECTORY or key.startswith(f"{HIDDEN_DIRECTORY}/")


def _revision_of(body: bytes) -> Revision:
    return Revision(hashlib.sha256(body).hexdigest())


def _open_to_read(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe at this path would wait.
    return os.open(path, flags | os.O_NONBLOCK)


def _read_file(path: Path) -> bytes | None:
    try:
        with open(path, "rb", opener=_open_to_read) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "not a plain file")
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _write_file(path: Path, body: bytes) -> None:
    with path.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _try_link(scratch: Path, path: Path) -> bool:
    try:
        os.link(scratch, path)
    except FileExistsError:
        return False
    return True


def _sync_published_name(key: str, path: Path) -> None:
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise OutcomeUnknown(
            f"{key} was written, but its folder could not be flushed to the disk: {_describe_os_error(error)}",
            hint=ERRNO_HINTS.get(error.errno or 0, DEFAULT_HINT),
            key=key,
        ) from error


def _walk(root: Path, folder: str, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(root / folder) as entries:
            # With a slash, a folder sorts among its neighbours as the keys in it do: a.b, a/x, ab.
            names = sorted(entry.name + "/" * entry.is_dir() for entry in entries if entry.is_dir() or entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        key = f"{folder}/{name}" if folder else name
        if not key.startswith(prefix) or _is_hidden(key) or not is_key(key.removesuffix("/")):
            continue
        if key.endswith("/"):
            yield from _walk(root, key.removesuffix("/"), prefix)
        else:
            yield key


def _key_taken_error(key: str, path: Path) -> HintedError:
    if path.is_dir():
        return _nested_key_error(key)
    return AlreadyExists(f"{key} exists", key=key)


def _nested_key_error(key: str) -> Misuse:
    return Misuse(
        f"{key} cannot be both a document and a folder of documents",
        hint="Choose keys so that none is a folder of another one.",
        key=key,
    )


@contextlib.contextmanager
def _map_os_errors(key: str, action: str) -> Generator[None]:
    """Map errors of the kernel while nothing is published yet."""
    try:
        yield
    except OSError as error:
        raise _to_store_error(key, action, error) from error


@contextlib.contextmanager
def _map_publish_errors(key: str) -> Generator[None]:
    """Map errors of a publication: refused, or with an unknown outcome."""
    try:
        yield
    except OSError as error:
        if error.errno in UNCHANGED_ERRNOS:
            raise _to_store_error(key, "publishing", error) from error
        raise OutcomeUnknown(
            f"{key}: publishing it failed: {_describe_os_error(error)}",
            hint=ERRNO_HINTS.get(error.errno or 0, DEFAULT_HINT),
            key=key,
        ) from error


def _to_store_error(key: str, action: str, error: OSError) -> HintedError:
    match error.errno:
        case errno.ENAMETOOLONG:
            return Misuse(
                f"{key}: a name in the key is too long for the file system", hint="Choose a shorter name.", key=key
            )
        case errno.ENOTDIR | errno.EISDIR | errno.EEXIST:
            return _nested_key_error(key)
        case _:
            return StoreUnavailable(
                f"{key}: {action} it failed: {_describe_os_error(error)}",
                hint=ERRNO_HINTS.get(error.errno or 0, DEFAULT_HINT),
                key=key,
            )


def _describe_os_error(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"{reason}: {error.filename}" if error.filename else reason
