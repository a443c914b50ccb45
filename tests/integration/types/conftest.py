from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from syncd.mysql.connection import session_setup_statement
from syncd.sandbox.running_sandbox import Sandbox
from tests.services.servers import BOTH, environ_of


@pytest.fixture(scope="session", params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Sandbox]]:
    """MariaDB, then MySQL itself where it can be had; with its name."""
    environ = environ_of(request.param)
    options = ["--max-allowed-packet=64M"]
    directory = tmp_path_factory.mktemp("types")
    with Sandbox(directory, services=["mysql"], environ=environ, mysql_options=options) as sandbox:
        yield request.param, sandbox


@pytest.fixture(scope="session")
def cursor(server: tuple[str, Sandbox]) -> Iterator[Any]:
    """One session with the settings of the product's own."""
    address = server[1].mysql
    connection = pymysql.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=address.database,
        charset="utf8mb4",
        init_command=session_setup_statement(60),
        autocommit=True,
    )
    with connection, connection.cursor() as opened:
        yield opened
