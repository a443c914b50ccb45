"""Ways to a source, with real ends: servers, a bastion, and wires that break."""

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.running_sandbox import Sandbox
from tests.services.bastion import BastionServer
from tests.services.guarded import Guarded, guard, sandbox_of
from tests.services.servers import BOTH


@pytest.fixture
def bastion(tmp_path: Path) -> Iterator[BastionServer]:
    with BastionServer(tmp_path) as server:
        yield server


@pytest.fixture(scope="module", params=BOTH)
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guard(request.param, tmp_path_factory.mktemp("guarded"), services=["mysql"]) as found:
        yield found


@pytest.fixture(scope="module", params=BOTH)
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A server that does not encrypt."""
    options = [] if request.param == "mariadb" else ["--tls-version="]
    with sandbox_of(request.param, tmp_path_factory.mktemp("bare"), options) as box:
        yield box


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says what it is told."""
    with _Echo((LOOPBACK, 0), _Repeat) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _Echo(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


class _Repeat(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while piece := self.request.recv(65_536):
            self.request.sendall(piece)
