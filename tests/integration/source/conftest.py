from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.running_sandbox import Sandbox
from tests.services.servers import BOTH, environ_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceServer:
    """A real server; `kind` is mariadb or mysql."""

    kind: str
    box: Sandbox

    @property
    def address(self) -> MySqlAddress:
        return self.box.mysql

    @property
    def url(self) -> str:
        return self.address.url

    @property
    def mariadb(self) -> bool:
        return self.kind == "mariadb"


@pytest.fixture(scope="module", params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceServer]:
    """MariaDB, then MySQL itself where it can be had."""
    environ = environ_of(request.param)
    with Sandbox(tmp_path_factory.mktemp("source"), services=["mysql"], environ=environ) as box:
        yield SourceServer(kind=request.param, box=box)
