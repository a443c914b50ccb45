"""A real server for the planner, shared by all tests of this folder."""

from collections.abc import Iterator

import pytest

from syncd.sandbox.running_sandbox import Sandbox
from tests.integration.planner.servers import Server
from tests.services.servers import ONE, environ_of


@pytest.fixture(scope="session", params=ONE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """MySQL itself where it can be had; with an empty database `lab`."""
    environ = environ_of(request.param)
    with Sandbox(tmp_path_factory.mktemp("planner"), services=["mysql"], environ=environ) as sandbox:
        running = Server(sandbox, request.param)
        with running.admin("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS lab")
        yield running
