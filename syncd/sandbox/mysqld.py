"""Which MySQL the sandbox runs, and how.

In this order: the server that `SYNCD_SANDBOX_MYSQL` names, a `mysqld` or
`mariadbd` on PATH, MariaDB out of its Maven archive.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncd.errors import SourceDown
from syncd.host.cache_dirs import make_writable
from syncd.sandbox import mariadb
from syncd.sandbox.mysql import MySqlAddress, loopback_address
from syncd.sandbox.sandbox_dirs import SandboxPaths, read_secret, write_once, write_private
from syncd.sandbox.sandbox_errors import NoMySqlServer
from watermarks.errors import HintedError

EXTERNAL_MYSQL_VARIABLE: Final = "SYNCD_SANDBOX_MYSQL"
USER: Final = "syncd"
INITIALISE_TIMEOUT_SECONDS: Final = 300.0


class MySqlKind(StrEnum):
    MYSQL = "mysql"
    MARIADB = "mariadb"


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlPrograms:
    """A server's programs, wherever they came from."""

    kind: MySqlKind
    server: Path
    initialise: tuple[str, ...]
    basedir: tuple[str, ...] = ()


def find_programs(paths: SandboxPaths, *, environ: Mapping[str, str], report: Callable[[str], None]) -> MySqlPrograms:
    """The programs on PATH, else MariaDB's from the cache or the network.

    Raises:
        NoServer: neither can be had here.
    """
    path = environ.get("PATH")
    for name in ("mysqld", "mariadbd"):
        found = shutil.which(name, path=path)
        if found:
            return _programs_on_path(Path(found), path)
    if not mariadb.is_platform_supported():
        raise NoMySqlServer(
            "no mysqld and no mariadbd on PATH",
            hint=f"Install a MySQL or MariaDB server, or name one: {EXTERNAL_MYSQL_VARIABLE}=mysql://user:password@host:port/shop",
        )
    base = mariadb.ensure_unpacked(paths, environ=environ, report=report)
    return MySqlPrograms(
        kind=MySqlKind.MARIADB,
        server=base / "bin" / "mariadbd",
        initialise=(str(base / "scripts" / "mariadb-install-db"),),
        basedir=(f"--basedir={base}",),
    )


def _programs_on_path(server: Path, path: str | None) -> MySqlPrograms:
    told = subprocess.run([server, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    if "mariadb" not in told.lower():
        return MySqlPrograms(kind=MySqlKind.MYSQL, server=server, initialise=(str(server), "--initialize-insecure"))
    script = shutil.which("mariadb-install-db", path=path) or shutil.which("mysql_install_db", path=path)
    if script is None:
        raise NoMySqlServer(
            f"{server} is MariaDB, and its mariadb-install-db is not on PATH", hint="Install the whole server package."
        )
    return MySqlPrograms(kind=MySqlKind.MARIADB, server=server, initialise=(script,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalMySql:
    """Somebody else's server, which the sandbox uses and never starts or ends."""

    address: MySqlAddress
    name: str = "mysql"
    is_external: bool = True
    port: int | None = None
    start_error: type[HintedError] = SourceDown

    def prepare(self) -> None:
        """Nothing: it is there, or it is not."""

    def command(self, port: int) -> Sequence[str]:
        raise NotImplementedError(f"{self.name} at port {port} is not ours to start")

    @property
    def environ(self) -> Mapping[str, str]:
        return {}

    def probe(self, port: int) -> str | None:  # noqa: ARG002 - it has its own
        return self.address.ask_version()

    def url(self, port: int) -> str:  # noqa: ARG002  # as above
        return self.address.url_without_password


class OwnMySql:
    """A server of the sandbox's own: its data in one directory, reachable on loopback by one user.

    Innodb writes its log at each commit and leaves the flush to the system: what was
    committed outlives a killed server, though not a machine that loses power.
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
        make_writable(self._home, hint="Make the directory writable, or name another one with --dir.")
        self._programs = find_programs(self._paths, environ=self._environ, report=self._report)
        write_once(self._home / "password", secrets.token_urlsafe(18))
        if not self._data.exists():
            self._initialise(self._programs)
        # A killed server leaves them behind, and MySQL takes the old number in the lock for a living server.
        for left in ("mysql.sock", "mysql.sock.lock", "mysql.pid"):
            (self._data / left).unlink(missing_ok=True)
        write_private(self._home / "init.sql", _INIT_SQL.format(user=USER, password=self._password()))

    def command(self, port: int) -> Sequence[str]:
        assert self._programs is not None
        own = _OPTIONS_BY_KIND[self._programs.kind]
        return [
            str(self._programs.server),
            "--no-defaults",
            *self._programs.basedir,
            f"--datadir={self._data}",
            f"--port={port}",
            f"--init-file={self._home / 'init.sql'}",
            *_COMMON_OPTIONS,
            *own,
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
        return loopback_address(port, user=USER, password=self._password())

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
    "--socket=mysql.sock",  # relative to the data: a path of any depth would not fit a socket's 107 bytes
    "--pid-file=mysql.pid",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-log-bin",
)
_OPTIONS_BY_KIND: Final[Mapping[MySqlKind, tuple[str, ...]]] = {
    MySqlKind.MYSQL: ("--loose-mysqlx=OFF", "--secure-file-priv="),
    # MariaDB makes a key for TLS at each start, which took 2 to 8 s here against 0.3 s without.
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
    """Both servers refuse to run as root unless told so."""
    return ("--user=root",) if os.geteuid() == 0 else ()
