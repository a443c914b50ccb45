"""The sandbox as a program holds it: up inside a `with`, its servers as addresses."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from syncd.host.directory_lock import LOCK_WAIT_SECONDS
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.sandbox_dirs import find_paths
from syncd.sandbox.service_table import SandboxOptions, make_services
from syncd.sandbox.supervisor import ServiceStatus, Supervisor, check_services, stop_services
from syncd.sandbox.warehouse import RedshiftAddress

ALL_SERVICES: Final = None


class Sandbox:
    """Real servers in one directory, up while the `with` lasts.

    `services` names those that are wanted; the others are not started. The
    directory keeps the data, so that the next sandbox there finds it again; `wait`
    is how many seconds another command may be at work there.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        services: Sequence[str] | None = ALL_SERVICES,
        environ: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
        mysql_options: Sequence[str] = (),
        wait: float = LOCK_WAIT_SECONDS,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._options = SandboxOptions(
            paths=find_paths(environ, directory=directory),
            environ=environ,
            ports=ports or {},
            mysql_options=mysql_options,
            report=report,
        )
        self._services = make_services(self._options, services)
        self._supervisor = Supervisor(self.directory, self._services, wait=wait, report=report)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def directory(self) -> Path:
        return self._options.paths.directory

    @property
    def mysql(self) -> MySqlAddress:
        """Where MySQL is now."""
        return self._options.mysql_address()

    @property
    def s3(self) -> S3Address:
        """Where S3 is now."""
        return self._options.s3_address()

    @property
    def redshift(self) -> RedshiftAddress:
        """Where the Redshift stand-in is now."""
        return self._options.redshift_address()

    def up(self) -> list[ServiceStatus]:
        """Start what does not run, and wait until it serves."""
        return self._supervisor.up()

    @contextmanager
    def up_or_undo(self) -> Iterator[list[ServiceStatus]]:
        """Start what does not run; whatever of that was started ends again if what follows cannot be done."""
        try:
            yield self.up()
        except BaseException:
            # An interruption too, and one between the last start and what follows.
            if started := self._supervisor.started:
                self._supervisor.stop(started)
            raise

    def down(self) -> list[str]:
        """End what runs; the names of what did."""
        return stop_services(self.directory)

    def status(self) -> list[ServiceStatus]:
        """How every service stands, asked now."""
        return check_services(self.directory, self._services)

    def restart(self, name: str, *, kill: bool = False) -> ServiceStatus:
        """End one service, with SIGKILL if asked, and start it again on the port it had."""
        return self._supervisor.restart(name, kill=kill)
