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
from syncd.sandbox.mysql import MySqlAddress, loopback
from syncd.sandbox.sandbox_dirs import Places, read_secret, write_once, write_private
from syncd.sandbox.sandbox_errors import NoServer
from watermarks.errors import HintedError

GIVEN: Final = "SYNCD_SANDBOX_MYSQL"
USER: Final = "syncd"
INITIALISED_WITHIN: Final = 300.0


class Kind(StrEnum):
    MYSQL = "mysql"
    MARIADB = "mariadb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """A server's programs, wherever they came from."""

    kind: Kind
    server: Path
    initialise: tuple[str, ...]
    basedir: tuple[str, ...] = ()


def find_programs(places: Places, *, environ: Mapping[str, str], tell: Callable[[str], None]) -> Programs:
    """The programs on PATH, else MariaDB's from the cache or the network.

    Raises:
        NoServer: neither can be had here.
    """
    path = environ.get("PATH")
    for name in ("mysqld", "mariadbd"):
        found = shutil.which(name, path=path)
        if found:
            return _on_path(Path(found), path)
    if not mariadb.runs_here():
        raise NoServer(
            "no mysqld and no mariadbd on PATH",
            hint=f"Install a MySQL or MariaDB server, or name one: {GIVEN}=mysql://user:password@host:port/shop",
        )
    base = mariadb.unpacked(places, environ=environ, tell=tell)
    return Programs(
        kind=Kind.MARIADB,
        server=base / "bin" / "mariadbd",
        initialise=(str(base / "scripts" / "mariadb-install-db"),),
        basedir=(f"--basedir={base}",),
    )


def _on_path(server: Path, path: str | None) -> Programs:
    told = subprocess.run([server, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    if "mariadb" not in told.lower():
        return Programs(kind=Kind.MYSQL, server=server, initialise=(str(server), "--initialize-insecure"))
    script = shutil.which("mariadb-install-db", path=path) or shutil.which("mysql_install_db", path=path)
    if script is None:
        raise NoServer(
            f"{server} is MariaDB, and its mariadb-install-db is not on PATH", hint="Install the whole server package."
        )
    return Programs(kind=Kind.MARIADB, server=server, initialise=(script,))


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenMySql:
    """Somebody else's server, which the sandbox uses and never starts or ends."""

    address: MySqlAddress
    name: str = "mysql"
    given: bool = True
    port: int | None = None
    down: type[HintedError] = SourceDown

    def prepare(self) -> None:
        """Nothing: it is there, or it is not."""

    def command(self, port: int) -> Sequence[str]:
        raise NotImplementedError(f"{self.name} at port {port} is not ours to start")

    @property
    def environ(self) -> Mapping[str, str]:
        return {}

    def ask(self, port: int) -> str | None:  # noqa: ARG002 - it has its own
        return self.address.ask_version()

    def url(self, port: int) -> str:  # noqa: ARG002  # as above
        return self.address.shown


class OwnMySql:
    """A server of the sandbox's own: its data in one directory, reachable on loopback by one user.

    Innodb writes its log at each commit and leaves the flush to the system: what was
    committed outlives a killed server, though not a machine that loses power.
    """

    name = "mysql"
    given = False
    down: type[HintedError] = SourceDown

    def __init__(
        self,
        home: Path,
        places: Places,
        *,
        environ: Mapping[str, str],
        port: int | None = None,
        options: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.port = port
        self._home = home
        self._places = places
        self._environ = environ
        self._options = options
        self._tell = tell
        self._programs: Programs | None = None

    def prepare(self) -> None:
        """Find the programs, make the password, initialise the data; a kill leaves a step undone, never half done."""
        make_writable(self._home, hint="Make the directory writable, or name another one with --dir.")
        self._programs = find_programs(self._places, environ=self._environ, tell=self._tell)
        write_once(self._home / "password", secrets.token_urlsafe(18))
        if not self._data.exists():
            self._initialise(self._programs)
        # A killed server leaves them behind, and MySQL takes the old number in the lock for a living server.
        for left in ("mysql.sock", "mysql.sock.lock", "mysql.pid"):
            (self._data / left).unlink(missing_ok=True)
        write_private(self._home / "init.sql", _INIT.format(user=USER, password=self._password()))

    def command(self, port: int) -> Sequence[str]:
        assert self._programs is not None
        own = _OPTIONS[self._programs.kind]
        return [
            str(self._programs.server),
            "--no-defaults",
            *self._programs.basedir,
            f"--datadir={self._data}",
            f"--port={port}",
            f"--init-file={self._home / 'init.sql'}",
            *_COMMON,
            *own,
            *_as_root(),
            *self._options,
        ]

    @property
    def environ(self) -> Mapping[str, str]:
        return {}

    def ask(self, port: int) -> str | None:
        return self.address(port).ask_version()

    def url(self, port: int) -> str:
        return self.address(port).url

    def address(self, port: int) -> MySqlAddress:
        return loopback(port, user=USER, password=self._password())

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _password(self) -> str:
        return read_secret(self._home / "password")

    def _initialise(self, programs: Programs) -> None:
        self._tell(f"initialising the data of {programs.kind.value}")
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
                *_INITIALISE[programs.kind],
                *_as_root(),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=INITIALISED_WITHIN,
        )
        if done.returncode != 0:
            log = self._home / "initialise.log"
            write_private(log, done.stdout)
            raise SourceDown(f"{programs.server.name} could not initialise its data", hint=f"See {log}")
        draft.rename(self._data)


_INITIALISE: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.MYSQL: (),
    Kind.MARIADB: ("--auth-root-authentication-method=normal", "--skip-test-db"),
}
_COMMON: Final = (
    "--bind-address=127.0.0.1",
    "--socket=mysql.sock",  # relative to the data: a path of any depth would not fit a socket's 107 bytes
    "--pid-file=mysql.pid",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-log-bin",
)
_OPTIONS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.MYSQL: ("--loose-mysqlx=OFF", "--secure-file-priv="),
    # MariaDB makes a key for TLS at each start, which took 2 to 8 s here against 0.3 s without.
    Kind.MARIADB: ("--ssl=0",),
}
_INIT: Final = """\
CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS '{user}'@'127.0.0.1' IDENTIFIED BY '{password}';
ALTER USER '{user}'@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL PRIVILEGES ON *.* TO '{user}'@'127.0.0.1' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}';
DROP USER IF EXISTS 'root'@'127.0.0.1';
DROP USER IF EXISTS 'root'@'::1';
"""


def _as_root() -> tuple[str, ...]:
    """Both servers refuse to run as root unless told so."""
    return ("--user=root",) if os.geteuid() == 0 else ()
