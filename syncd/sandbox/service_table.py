"""Which services a sandbox has: one row each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncd.errors import LakeDown, SourceDown, WarehouseDown
from syncd.sandbox import mysqld, s3
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.sandbox_dirs import SandboxPaths, find_paths
from syncd.sandbox.service import SandboxService
from syncd.sandbox.state_file import read_state
from syncd.sandbox.warehouse import OwnRedshift, RedshiftAddress
from watermarks.errors import HintedError


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """What the services are made for: where, with which ports, told by whom."""

    paths: SandboxPaths
    environ: Mapping[str, str]
    report: Callable[[str], None] = lambda _line: None
    ports: Mapping[str, int] = field(default_factory=dict)
    mysql_options: Sequence[str] = ()

    def mysql_address(self) -> MySqlAddress:
        """Where MySQL is, with the password that a given one's record does not hold."""
        service = _make_mysql(self)
        if isinstance(service, mysqld.ExternalMySql):
            return service.address
        return service.address(self._recorded_port(service.name, SourceDown))

    def s3_address(self) -> S3Address:
        """Where S3 is."""
        service = _make_s3(self)
        if isinstance(service, s3.ExternalS3):
            return service.address
        return service.address(self._recorded_port(service.name, LakeDown))

    def redshift_address(self) -> RedshiftAddress:
        """Where the Redshift stand-in is."""
        service = _make_redshift(self)
        return service.address(self._recorded_port(service.name, WarehouseDown))

    def _recorded_port(self, name: str, down: type[HintedError]) -> int:
        record = read_state(self.paths.directory).get(name)
        if record is None:
            raise down(f"{name} was never started in {self.paths.directory}", hint="syncd sandbox up")
        return record.port


def _make_mysql(options: SandboxOptions) -> mysqld.ExternalMySql | mysqld.OwnMySql:
    given = options.environ.get(mysqld.EXTERNAL_MYSQL_VARIABLE)
    if given:
        return mysqld.ExternalMySql(address=MySqlAddress.from_url(given))
    return mysqld.OwnMySql(
        options.paths.directory / "mysql",
        options.paths,
        environ=options.environ,
        port=options.ports.get("mysql"),
        options=options.mysql_options,
        report=options.report,
    )


def _make_s3(options: SandboxOptions) -> s3.ExternalS3 | s3.OwnS3:
    given = options.environ.get(s3.EXTERNAL_S3_VARIABLE)
    if given:
        return s3.ExternalS3(address=s3.external_address(given, options.environ))
    return s3.OwnS3(home=options.paths.directory / "s3", port=options.ports.get("s3"))


def _make_redshift(options: SandboxOptions) -> OwnRedshift:
    return OwnRedshift(
        options.paths.directory / "redshift", lake=options.s3_address, port=options.ports.get("redshift")
    )


# The order of the rows is the order of starting; a later service may ask where an earlier one is.
SERVICES: Final[Mapping[str, Callable[[SandboxOptions], SandboxService]]] = {
    "s3": _make_s3,
    "redshift": _make_redshift,
    "mysql": _make_mysql,
}


def is_external_service(name: str, environ: Mapping[str, str]) -> bool:
    """Whether the service of this name is somebody else's server."""
    return SERVICES[name](SandboxOptions(paths=find_paths(environ), environ=environ)).is_external


def make_services(options: SandboxOptions, names: Sequence[str] | None = None) -> list[SandboxService]:
    """The services of these names, or all of them."""
    return [make(options) for name, make in SERVICES.items() if names is None or name in names]
