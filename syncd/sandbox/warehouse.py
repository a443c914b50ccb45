"""The sandbox's Redshift as its clients see it, and the service that runs the stand-in."""

import secrets
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from syncd.errors import WarehouseDown
from syncd.host.cache_dirs import make_writable
from syncd.sandbox.ports import LOOPBACK
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.sandbox_dirs import read_secret, write_once
from watermarks.errors import HintedError

if TYPE_CHECKING:
    Connection: TypeAlias = Any  # the driver brings no types

STAND_IN_MODULE: Final = "syncd.sandbox.redshift"
USER: Final = "loader"
DATABASE: Final = "dev"
ASKED_WITHIN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RedshiftAddress:
    """Where the stand-in is, and as whom one enters; it speaks without TLS."""

    host: str
    port: int
    user: str
    password: str
    database: str

    @property
    def url(self) -> str:
        return f"redshift://{self.user}:{quote(self.password, safe='')}@{self.host}:{self.port}/{self.database}"

    def connect(self, *, timeout_seconds: int | None = None) -> "Connection":
        """A connection that commits each statement by itself; an answer may take so many seconds."""
        from syncd.sandbox.driver_connection import StandInConnection  # loads the driver

        connection: Connection = StandInConnection(
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
        """What the server calls itself; none while nobody answers."""
        if not self._is_listening():
            return None
        import redshift_connector

        try:
            with self.connect(timeout_seconds=ASKED_WITHIN) as connection:
                cursor = connection.cursor()
                cursor.execute("SELECT version()")
                (version,) = cursor.fetchone() or ("",)
        except (redshift_connector.error.Error, OSError):
            return None
        return f"Redshift {version.rpartition('Redshift ')[2].strip(chr(0) + ' ')}, a stand-in"

    def _is_listening(self) -> bool:
        """Whether anybody takes connections: asked before the driver is loaded."""
        try:
            socket.create_connection((self.host, self.port), timeout=ASKED_WITHIN).close()
        except OSError:
            return False
        return True


class OwnRedshift:
    """The stand-in in a process of its own; it ends its PostgreSQL itself, and finds one that a kill left."""

    name = "redshift"
    is_external = False
    start_error: type[HintedError] = WarehouseDown

    def __init__(self, home: Path, *, lake: Callable[[], S3Address], port: int | None = None) -> None:
        self.port = port
        self._home = home
        self._lake = lake

    def prepare(self) -> None:
        make_writable(self._home, hint="Make the directory writable, or name another one with --dir.")
        write_once(self._home / "password", secrets.token_urlsafe(18))

    def command(self, port: int) -> Sequence[str]:
        lake = self._lake()
        place = ("--directory", str(self._home / "cluster"), "--port", str(port))
        entry = ("--database", DATABASE, "--user", USER)
        return [
            sys.executable,
            "-m",
            STAND_IN_MODULE,
            *place,
            *entry,
            "--s3-endpoint",
            lake.endpoint,
            "--s3-region",
            lake.region,
        ]

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
