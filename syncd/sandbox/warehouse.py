"""The sandbox's Redshift as its clients see it, and the service that runs the stand-in."""

import secrets
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from syncd.errors import WarehouseDown
from syncd.host.directories import make_writable
from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.sandbox_dirs import read_secret, write_once
from watermarks.errors import HintedError

if TYPE_CHECKING:
    Connection: TypeAlias = Any  # the driver brings no types

STAND_IN_MODULE: Final = "syncd.sandbox.redshift"
USER: Final = "loader"
DATABASE: Final = "dev"
PROBE_TIMEOUT_SECONDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RedshiftAddress:
    """Address and login of the stand-in, which has no TLS."""

    host: str
    port: int
    user: str
    password: str
    database: str

    @property
    def url(self) -> str:
        return f"redshift://{self.user}:{quote(self.password, safe='')}@{self.host}:{self.port}/{self.database}"

    def connect(self, *, timeout_seconds: int | None = None) -> "Connection":
        """Connect with autocommit; `timeout_seconds` bounds each answer."""
        connection: Connection = _driver_connection()(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.database,
            ssl=False,
            timeout=timeout_seconds,
        )
        connection.autocommit = True
        return connection

    def ask_version(self) -> str | None:
        """Return the server's version text, or None while it does not answer."""
        if not self._is_listening():
            return None
        import redshift_connector

        try:
            with self.connect(timeout_seconds=PROBE_TIMEOUT_SECONDS) as connection:
                cursor = connection.cursor()
                cursor.execute("SELECT version()")
                (version,) = cursor.fetchone() or ("",)
        except (redshift_connector.error.Error, OSError):
            return None
        return f"Redshift {version.rpartition('Redshift ')[2].strip(chr(0) + ' ')}, a stand-in"

    def _is_listening(self) -> bool:
        """Return True if the port accepts connections; asked before the driver is loaded."""
        try:
            socket.create_connection((self.host, self.port), timeout=PROBE_TIMEOUT_SECONDS).close()
        except OSError:
            return False
        return True


class OwnRedshift:
    """The stand-in in a process of its own; it ends its PostgreSQL itself, and ends one that a kill left."""

    name = "redshift"
    is_external = False
    start_error: type[HintedError] = WarehouseDown

    def __init__(self, home: Path, *, lake: Callable[[], S3Address], port: int | None = None) -> None:
        self.port = port
        self._home = home
        self._lake = lake

    def prepare(self) -> None:
        make_writable(self._home, hint="Make the directory writable, or choose another one with --dir.")
        write_once(self._home / "password", secrets.token_urlsafe(18))

    def command(self, port: int) -> Sequence[str]:
        lake = self._lake()
        storage = ("--directory", str(self._home / "cluster"), "--port", str(port))
        login = ("--database", DATABASE, "--user", USER)
        s3 = ("--s3-endpoint", lake.endpoint, "--s3-region", lake.region)
        return [sys.executable, "-m", STAND_IN_MODULE, *storage, *login, *s3]

    @property
    def environ(self) -> Mapping[str, str]:
        return {**self._lake().environ, "SYNCD_SANDBOX_REDSHIFT_PASSWORD": read_secret(self._home / "password")}

    def probe(self, port: int) -> str | None:
        return self.address(port).ask_version()

    def url(self, port: int) -> str:
        return self.address(port).url

    def address(self, port: int) -> RedshiftAddress:
        password = read_secret(self._home / "password")
        return RedshiftAddress(host=LOOPBACK, port=port, user=USER, password=password, database=DATABASE)


@cache
def _driver_connection() -> type:
    """Return the driver's connection class, which closes its socket if the server's greeting fails."""
    from redshift_connector.core import Connection as DriverConnection  # loads the driver

    class StandInConnection(DriverConnection):
        def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # the driver brings no types
            try:
                super().__init__(**settings)
            except BaseException:
                for end in (getattr(self, "_sock", None), getattr(self, "_usock", None)):
                    if end is not None:
                        with suppress(OSError):  # unsent bytes do not matter
                            end.close()
                raise

    return StandInConnection
