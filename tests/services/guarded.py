"""A server that shows certificates of an authority of the tests' own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.running_sandbox import Sandbox
from syncd.settings import Secret, SourceSettings, Tls
from tests.services.certificates import DAY, Authority
from tests.services.servers import environ_of


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


def sandbox_of(kind: str, folder: Path, options: Sequence[str], services: Sequence[str] = ("mysql",)) -> Sandbox:
    return Sandbox(folder, services=services, environ=environ_of(kind), mysql_options=options)


@contextmanager
def guard(kind: str, folder: Path, *, services: Sequence[str]) -> Iterator[Guarded]:
    """A server with a certificate of our own authority, and what else is wanted beside it."""
    certificates, data = folder / "certificates", folder / "data"
    certificates.mkdir()
    authority = Authority(certificates)
    authority.issue(certificates, names=[LOOPBACK])
    files = {"ca": authority.ca, "cert": certificates / "server.pem", "key": certificates / "server.key"}
    options = [f"--ssl-{name}={file}" for name, file in files.items()]
    if kind == "mariadb":
        options.append("--ssl=1")
    with sandbox_of(kind, data, options, services) as box:
        yield Guarded(kind=kind, box=box, authority=authority, folder=certificates)
