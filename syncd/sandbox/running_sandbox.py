"""The sandbox as a program uses it: its servers run inside a `with`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from syncd.errors import LakeDown, SourceDown, WarehouseDown
from syncd.host.directories import LOCK_WAIT_SECONDS
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.mysql_server import EXTERNAL_MYSQL_VARIABLE, OwnMySql
from syncd.sandbox.s3 import EXTERNAL_S3_VARIABLE, OwnS3, S3Address, external_address
from syncd.sandbox.sandbox_dirs import find_paths, read_state
from syncd.sandbox.service import ExternalService, SandboxService
from syncd.sandbox.supervisor import ServiceStatus, Supervisor, check_services, stop_services
from syncd.sandbox.warehouse import OwnRedshift, RedshiftAddress
from watermarks.errors import HintedError

ALL_SERVICES: Final = ("s3", "redshift", "mysql")
"""The order of starting; a later service may need the address of an earlier one."""


class Sandbox:
    """Real servers in one directory, up while the `with` lasts.

    `services` names the wanted ones; the others are not started. The directory keeps
    the data for the next sandbox there; `wait` is how many seconds another command
    may hold the directory.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        services: Sequence[str] = ALL_SERVICES,
        environ: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
        mysql_options: Sequence[str] = (),
        wait: float = LOCK_WAIT_SECONDS,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._paths = find_paths(self._environ, directory=directory)
        self.directory = self._paths.directory
        ports = ports or {}
        self._own_s3 = OwnS3(home=self.directory / "s3", port=ports.get("s3"))
        self._own_redshift = OwnRedshift(self.directory / "redshift", lake=lambda: self.s3, port=ports.get("redshift"))
        self._own_mysql = OwnMySql(
            self.directory / "mysql",
            self._paths,
            environ=self._environ,
            port=ports.get("mysql"),
            options=mysql_options,
            report=report,
        )
        self._services = [self._make_service(name) for name in ALL_SERVICES if name in services]
        self._supervisor = Supervisor(self.directory, self._services, wait=wait, report=report)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def mysql(self) -> MySqlAddress:
        """Address of MySQL, with the password that the record of an external server does not hold."""
        if given := self._environ.get(EXTERNAL_MYSQL_VARIABLE):
            return MySqlAddress.from_url(given)
        return self._own_mysql.address(self._recorded_port("mysql", SourceDown))

    @property
    def s3(self) -> S3Address:
        if given := self._environ.get(EXTERNAL_S3_VARIABLE):
            return external_address(given, self._environ)
        return self._own_s3.address(self._recorded_port("s3", LakeDown))

    @property
    def redshift(self) -> RedshiftAddress:
        return self._own_redshift.address(self._recorded_port("redshift", WarehouseDown))

    def is_external(self, name: str) -> bool:
        """Return True if an environment variable names the server."""
        return any(service.is_external for service in self._services if service.name == name)

    def up(self) -> list[ServiceStatus]:
        """Start what does not run, and wait until it serves."""
        return self._supervisor.up()

    @contextmanager
    def up_or_undo(self) -> Iterator[list[ServiceStatus]]:
        """Start what does not run, and end the started services again if the body fails."""
        try:
            yield self.up()
        except BaseException:
            # Also an interruption, and one between the last start and the body.
            if started := self._supervisor.started:
                self._supervisor.stop(started)
            raise

    def down(self) -> list[str]:
        """End every service and return the names of those that ran."""
        return stop_services(self.directory)

    def status(self) -> list[ServiceStatus]:
        """Probe every service now."""
        return check_services(self.directory, self._services)

    def restart(self, name: str, *, kill: bool = False) -> ServiceStatus:
        """End one service, with SIGKILL if asked, and start it again on the port it had."""
        return self._supervisor.restart(name, kill=kill)

    def _make_service(self, name: str) -> SandboxService:
        if name == "mysql" and self._environ.get(EXTERNAL_MYSQL_VARIABLE):
            mysql = self.mysql
            return ExternalService(
                name=name, location=mysql.url_without_password, ask=mysql.ask_version, start_error=SourceDown
            )
        if name == "s3" and self._environ.get(EXTERNAL_S3_VARIABLE):
            return ExternalService(name=name, location=self.s3.endpoint, ask=self.s3.probe, start_error=LakeDown)
        own: Mapping[str, SandboxService] = {
            "s3": self._own_s3,
            "redshift": self._own_redshift,
            "mysql": self._own_mysql,
        }
        return own[name]

    def _recorded_port(self, name: str, down: type[HintedError]) -> int:
        record = read_state(self.directory).get(name)
        if record is None:
            raise down(f"{name} was never started in {self.directory}", hint="syncd sandbox up")
        return record.port
