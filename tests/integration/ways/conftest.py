"""Ways to a source, with real ends: servers, a bastion, and wires that break."""

import socketserver
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from syncd.core.settings import Secret, SourceSettings, Tls
from syncd.sandbox.ports import LOOPBACK
from syncd.sandbox.whole import Sandbox
from tests.services.bastion import BastionServer
from tests.services.certificates import DAY, Authority
from tests.services.servers import environ_of


@pytest.fixture
def bastion(tmp_path: Path) -> Iterator[BastionServer]:
    with BastionServer(tmp_path) as server:
        yield server


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A server, and the certificate that it shows."""

    kind: str
    box: Sandbox
    authority: Authority
    folder: Path

    def settings(self, tls: Tls, *, host: str = LOOPBACK, ca: Path | None = None) -> SourceSettings:
        """How it is configured; `host` is what the certificate is checked for."""
        return replace(settings_of(self.box), tls=tls, host=host, ca=ca or self.authority.ca)

    @property
    def at(self) -> tuple[str, int]:
        return LOOPBACK, self.box.mysql.port

    def show(self, *names: str, expires: timedelta = DAY) -> None:
        """Show a certificate for these hosts from now on."""
        self.authority.issue(self.folder, names=names, expires=expires)
        self.run("FLUSH SSL" if self.kind == "mariadb" else "ALTER INSTANCE RELOAD TLS")

    def run(self, *statements: str) -> None:
        with self.box.mysql.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def settings_of(box: Sandbox) -> SourceSettings:
    address = box.mysql
    return SourceSettings(
        name="mysql",
        host=address.host,
        port=address.port,
        user=address.user,
        password=Secret(address.password),
        tls=Tls.DISABLE,
        silence=timedelta(seconds=20),
    )


def sandbox_of(kind: str, folder: Path, options: Sequence[str]) -> Sandbox:
    return Sandbox(folder, services=["mysql"], environ=environ_of(kind), mysql_options=options)


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with a certificate of our own authority."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    authority.issue(folder, names=[LOOPBACK])
    files = {"ca": authority.ca, "cert": folder / "server.pem", "key": folder / "server.key"}
    options = [f"--ssl-{name}={file}" for name, file in files.items()]
    if request.param == "mariadb":
        options.append("--ssl=1")
    with sandbox_of(request.param, tmp_path_factory.mktemp("guarded"), options) as box:
        yield Guarded(kind=request.param, box=box, authority=authority, folder=folder)


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
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
