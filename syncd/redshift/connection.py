"""Opens sessions with a warehouse: who we are, over which line, and how the session is to be."""

from pathlib import Path
from typing import Final

import redshift_connector
from redshift_connector.error import Error

from syncd.errors import WarehouseDown
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.redshift.driver import DriverSocket, RedshiftDriver
from syncd.redshift.error_table import (
    PROTOCOL_ERRORS,
    SessionAddress,
    connection_lost,
    map_server_error,
    server_error_fields,
)
from syncd.redshift.login import get_login
from syncd.redshift.network_socket import open_socket
from syncd.redshift.session import WarehouseSession, statement_meter
from syncd.redshift.watchdog import WATCHDOG
from syncd.settings import WarehouseSettings
from watermarks.errors import HintedError

CA_BUNDLE_PATH: Final = Path(redshift_connector.__file__).parent / "files" / "redshift-ca-bundle.crt"
"""Amazon's, as the driver brings them: a small container has none of its own."""
GREETING_TIMEOUT_SECONDS: Final = 30.0
"""Seconds: a serverless warehouse that sleeps takes its time to let the first one in."""


def connect(
    settings: WarehouseSettings,
    *,
    session_name: str,
    tunnel_address: tuple[str, int] | None = None,
    meter: CallObserver = ignore_call,
) -> WarehouseSession:
    """A session that is ready for use; `name` is what the warehouse shows of us.

    `at` is the near end of a tunnel; certificates are still checked for the host beyond it.

    Raises:
        WarehouseDown: nobody answers, or lets anybody in for now.
        WarehouseUnfit: it does not let this user in, or is not believed.
        ConfigError: the file of the certificate authority is none.
    """
    login = get_login(settings)
    site = SessionAddress(host=settings.host, port=settings.port, database=settings.database, user=login.user)
    wire = DriverSocket(open_socket(settings, site, tunnel_address=tunnel_address, ca_bundle=CA_BUNDLE_PATH))
    try:
        driver = _start_driver(wire, site, password=login.password.value, name=f"syncd {session_name}")
        session = WarehouseSession(
            driver, wire, address=site, silence=settings.silence, meter=statement_meter(meter, settings.name)
        )
        session.run("SET error_on_nondeterministic_update TO true")  # else one of several matches is taken in silence
        if settings.query_group is not None:
            session.run(f"SET query_group TO {_literal(settings.query_group)}")
    except BaseException:
        wire.close()
        raise
    return session


def _start_driver(wire: DriverSocket, address: SessionAddress, *, password: str, name: str) -> RedshiftDriver:
    with WATCHDOG.limit(GREETING_TIMEOUT_SECONDS, wire.end_connection) as bound:
        try:
            return RedshiftDriver(wire, user=address.user, password=password, database=address.database, name=name)
        except (Error, OSError, *PROTOCOL_ERRORS) as error:
            raise _greeting_error(error, address, late=bound.timed_out) from error


def _greeting_error(error: Exception, address: SessionAddress, *, late: bool) -> HintedError:
    if (fields := server_error_fields(error)) is not None:
        return map_server_error(fields, address)
    if late:
        return connection_lost(TimeoutError(), address, during="before it stood")
    if isinstance(error, OSError):
        return connection_lost(error, address, during="before it stood")
    return WarehouseDown(
        f"{address} does not answer as Redshift does: {error}", hint="Are host and port right in `warehouse.url`?"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
