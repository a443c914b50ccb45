"""Which services a sandbox has: one row each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncd.errors import LakeDown, SourceDown, WarehouseDown
from syncd.sandbox import mysqld, s3
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.sandbox_dirs import Places, find_places
from syncd.sandbox.service import Service
from syncd.sandbox.state_file import read_state
from syncd.sandbox.warehouse import RedshiftAddress, StandIn
from watermarks.errors import HintedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the services are made for: where, with which ports, told by whom."""

    places: Places
    environ: Mapping[str, str]
    tell: Callable[[str], None] = lambda _line: None
    ports: Mapping[str, int] = field(default_factory=dict)
    mysql_options: Sequence[str] = ()

    def source(self) -> MySqlAddress:
        """Where MySQL is, with the password that a given one's record does not hold."""
        service = _mysql(self)
        if isinstance(service, mysqld.GivenMySql):
            return service.address
        return service.address(self._port_of(service.name, SourceDown))

    def lake(self) -> S3Address:
        """Where S3 is."""
        service = _s3(self)
        if isinstance(service, s3.GivenS3):
            return service.address
        return service.address(self._port_of(service.name, LakeDown))

    def warehouse(self) -> RedshiftAddress:
        """Where the Redshift stand-in is."""
        service = _redshift(self)
        return service.address(self._port_of(service.name, WarehouseDown))

    def _port_of(self, name: str, down: type[HintedError]) -> int:
        record = read_state(self.places.directory).get(name)
        if record is None:
            raise down(f"{name} was never started in {self.places.directory}", hint="syncd sandbox up")
        return record.port


def _mysql(wish: Wish) -> mysqld.GivenMySql | mysqld.OwnMySql:
    given = wish.environ.get(mysqld.GIVEN)
    if given:
        return mysqld.GivenMySql(address=MySqlAddress.parse(given))
    return mysqld.OwnMySql(
        wish.places.directory / "mysql",
        wish.places,
        environ=wish.environ,
        port=wish.ports.get("mysql"),
        options=wish.mysql_options,
        tell=wish.tell,
    )


def _s3(wish: Wish) -> s3.GivenS3 | s3.OwnS3:
    given = wish.environ.get(s3.GIVEN)
    if given:
        return s3.GivenS3(address=s3.given_address(given, wish.environ))
    return s3.OwnS3(home=wish.places.directory / "s3", port=wish.ports.get("s3"))


def _redshift(wish: Wish) -> StandIn:
    return StandIn(wish.places.directory / "redshift", lake=wish.lake, port=wish.ports.get("redshift"))


# The order of the rows is the order of starting; a later service may ask where an earlier one is.
SERVICES: Final[Mapping[str, Callable[[Wish], Service]]] = {
    "s3": _s3,
    "redshift": _redshift,
    "mysql": _mysql,
}


def given(name: str, environ: Mapping[str, str]) -> bool:
    """Whether the service of this name is somebody else's server."""
    return SERVICES[name](Wish(places=find_places(environ), environ=environ)).given


def make_services(wish: Wish, names: Sequence[str] | None = None) -> list[Service]:
    """The services of these names, or all of them."""
    return [make(wish) for name, make in SERVICES.items() if names is None or name in names]
