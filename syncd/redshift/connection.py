"""Connections to a warehouse: socket, greeting and session settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import redshift_connector
from redshift_connector.error import Error

from syncd.concurrency.response_monitor import WatchResponse, ignore_response
from syncd.errors import WarehouseDown, WarehouseUnfit
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.redshift.answer_timeout import WATCHDOG
from syncd.redshift.driver import DriverSocket, RedshiftDriver, open_socket
from syncd.redshift.error_table import (
    PROTOCOL_ERRORS,
    SessionAddress,
    connection_lost,
    map_server_error,
    server_error_fields,
)
from syncd.redshift.login import get_login
from syncd.redshift.quoting import text_literal
from syncd.redshift.session import WarehouseSession, statement_meter
from syncd.settings import WarehouseSettings
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.ssh.tunnel import SshTunnel

CA_BUNDLE_PATH: Final = Path(redshift_connector.__file__).parent / "files" / "redshift-ca-bundle.crt"
"""Amazon's authorities, as shipped with the driver: a small container has none."""
GREETING_TIMEOUT_SECONDS: Final = 30.0
"""A paused serverless warehouse takes time to accept its first session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseConnectionFactory:
    """Factory of sessions with one warehouse, valid while its tunnel is open."""

    settings: WarehouseSettings
    tunnel: "SshTunnel | None" = None
    meter: CallObserver = ignore_call
    monitor: WatchResponse = ignore_response

    def open(self, name: str) -> WarehouseSession:
        """Open a session.

        Raises:
            WarehouseDown, WarehouseUnfit, ConfigError: as `connect`; an error of the bastion comes first.
        """
        near_end = None if self.tunnel is None else self.tunnel.local_address()
        try:
            with self.monitor(f"Redshift at {self.settings.host}:{self.settings.port}"):
                return connect(self.settings, session_name=name, tunnel_address=near_end, meter=self.meter)
        except WarehouseDown as error:
            # The driver sees a bastion's refusal only as a lost connection.
            if self.tunnel is not None and (bastion_error := self.tunnel.last_error) is not None:
                raise bastion_error from error
            raise


@contextmanager
def connection_to(
    settings: WarehouseSettings, *, meter: CallObserver = ignore_call, monitor: WatchResponse = ignore_response
) -> Iterator[WarehouseConnectionFactory]:
    """Open the tunnel of a warehouse, if it has one, and yield its connection factory.

    Raises:
        WarehouseDown, WarehouseUnfit: the bastion does not answer, or refuses the login.
    """
    if settings.tunnel is None:
        yield WarehouseConnectionFactory(settings=settings, meter=meter, monitor=monitor)
        return
    # The SSH library takes longer to load than a run that finds nothing.
    from syncd.ssh.tunnel import SshTunnel  # noqa: PLC0415  # see above

    server = (settings.host, settings.port)
    with SshTunnel(settings.tunnel, server=server, down_error=WarehouseDown, unfit_error=WarehouseUnfit) as tunnel:
        yield WarehouseConnectionFactory(settings=settings, tunnel=tunnel, meter=meter, monitor=monitor)


def connect(
    settings: WarehouseSettings,
    *,
    session_name: str,
    tunnel_address: tuple[str, int] | None = None,
    meter: CallObserver = ignore_call,
) -> WarehouseSession:
    """Open a session; the warehouse shows `session_name` for it.

    `tunnel_address` is the near end of a tunnel; the certificate is still checked for the configured host.

    Raises:
        WarehouseDown: no answer, or the warehouse accepts no session for now.
        WarehouseUnfit: the warehouse refuses this user, or its certificate is not trusted.
        ConfigError: the file of the certificate authority holds no certificate.
    """
    login = get_login(settings)
    address = SessionAddress(host=settings.host, port=settings.port, database=settings.database, user=login.user)
    wire = DriverSocket(open_socket(settings, address, tunnel_address=tunnel_address, ca_bundle=CA_BUNDLE_PATH))
    try:
        driver = _start_driver(wire, address, password=login.password.value, name=f"syncd {session_name}")
        session = WarehouseSession(
            driver, wire, address=address, silence=settings.silence, meter=statement_meter(meter, settings.name)
        )
        # Otherwise Redshift silently takes any one of several matching rows.
        session.run("SET error_on_nondeterministic_update TO true")
        if settings.query_group is not None:
            session.run(f"SET query_group TO {text_literal(settings.query_group)}")
    except BaseException:
        wire.close()
        raise
    return session


def _start_driver(wire: DriverSocket, address: SessionAddress, *, password: str, name: str) -> RedshiftDriver:
    with WATCHDOG.limit(GREETING_TIMEOUT_SECONDS, wire.end_connection) as wait:
        try:
            return RedshiftDriver(wire, user=address.user, password=password, database=address.database, name=name)
        except (Error, OSError, *PROTOCOL_ERRORS) as error:
            raise _greeting_error(error, address, late=wait.timed_out) from error


def _greeting_error(error: Exception, address: SessionAddress, *, late: bool) -> HintedError:
    if (fields := server_error_fields(error)) is not None:
        return map_server_error(fields, address)
    if late:
        return connection_lost(TimeoutError(), address, during="during login")
    if isinstance(error, OSError):
        return connection_lost(error, address, during="during login")
    return WarehouseDown(
        f"{address} does not answer as Redshift does: {error}", hint="Check host and port in `warehouse.url`."
    )
