"""The way to one source: straight, or through its bastion."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncd.concurrency.response_monitor import WatchResponse, ignore_response
from syncd.errors import SourceDown
from syncd.mysql.connection import Connection, connect
from syncd.settings import SourceSettings

if TYPE_CHECKING:
    from syncd.ssh.tunnel import SshTunnel


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFactory:
    """How connections to one source are made while its tunnel, if it has one, is open."""

    settings: SourceSettings
    tunnel: "SshTunnel | None" = None
    response_monitor: WatchResponse = ignore_response

    def endpoint(self) -> tuple[str, int]:
        """The host and port that a client of this machine connects to.

        Raises:
            SourceDown, SourceUnfit: the bastion is away, or refuses us.
        """
        return (self.settings.host, self.settings.port) if self.tunnel is None else self.tunnel.local_address()

    def proxy(self) -> tuple[str, int] | None:
        """The SOCKS proxy for a client that checks the certificate for the name it dials; none without a tunnel.

        Raises:
            SourceDown, SourceUnfit: the bastion is away, or refuses us.
        """
        return None if self.tunnel is None else self.tunnel.proxy_address()

    def open_connection(self) -> Connection:
        """One more connection, as `connect` makes it.

        Raises:
            SourceDown, SourceUnfit, ConfigError: as `connect`; what the bastion says comes first.
        """
        try:
            with self.response_monitor(f"MySQL at {self.settings.host}:{self.settings.port}"):
                return connect(self.settings, address=self.endpoint())
        except SourceDown as error:
            # Of a bastion's refusal the driver sees no more than a lost connection.
            if self.tunnel is not None and (trouble := self.tunnel.last_error) is not None:
                raise trouble from error
            raise


@contextmanager
def open_connection_factory(
    settings: SourceSettings, *, response_monitor: WatchResponse = ignore_response
) -> Iterator[ConnectionFactory]:
    """The way to a source, open inside the `with`; no bastion is dialled where none is configured.

    Raises:
        SourceDown, SourceUnfit: the bastion is away, or refuses us.
    """
    if settings.tunnel is None:
        yield ConnectionFactory(settings=settings, response_monitor=response_monitor)
        return
    # The library of SSH takes longer to load than a run that finds nothing.
    from syncd.ssh.tunnel import SshTunnel  # noqa: PLC0415  # see above

    with SshTunnel(settings.tunnel, server=(settings.host, settings.port)) as tunnel:
        yield ConnectionFactory(settings=settings, tunnel=tunnel, response_monitor=response_monitor)
