"""Opens sessions with a warehouse: who we are, over which line, and how the session is to be."""

from pathlib import Path
from typing import Final

import redshift_connector
from redshift_connector.error import Error

from syncd.errors import WarehouseDown
from syncd.ports.request_stats import Meter, unmetered
from syncd.redshift.driver import Driver, Wire
from syncd.redshift.error_table import STRANGE, Site, fields_of, lost, refused
from syncd.redshift.login import login_of
from syncd.redshift.network_socket import open_line
from syncd.redshift.session import Session, metered_by
from syncd.redshift.watchdog import WATCHDOG
from syncd.settings import WarehouseSettings
from watermarks.errors import HintedError

AUTHORITIES: Final = Path(redshift_connector.__file__).parent / "files" / "redshift-ca-bundle.crt"
"""Amazon's, as the driver brings them: a small container has none of its own."""
GREETED_WITHIN: Final = 30.0
"""Seconds: a serverless warehouse that sleeps takes its time to let the first one in."""


def connect(
    settings: WarehouseSettings, *, name: str, at: tuple[str, int] | None = None, meter: Meter = unmetered
) -> Session:
    """A session that is ready for use; `name` is what the warehouse shows of us.

    `at` is the near end of a tunnel; certificates are still checked for the host beyond it.

    Raises:
        WarehouseDown: nobody answers, or lets anybody in for now.
        WarehouseUnfit: it does not let this user in, or is not believed.
        ConfigError: the file of the certificate authority is none.
    """
    login = login_of(settings)
    site = Site(host=settings.host, port=settings.port, database=settings.database, user=login.user)
    wire = Wire(open_line(settings, site, at=at, authorities=AUTHORITIES))
    try:
        driver = _greeted(wire, site, password=login.password.value, name=f"syncd {name}")
        session = Session(driver, wire, site=site, silence=settings.silence, meter=metered_by(meter, settings.name))
        session.run("SET error_on_nondeterministic_update TO true")  # else one of several matches is taken in silence
        if settings.query_group is not None:
            session.run(f"SET query_group TO {_literal(settings.query_group)}")
    except BaseException:
        wire.close()
        raise
    return session


def _greeted(wire: Wire, site: Site, *, password: str, name: str) -> Driver:
    with WATCHDOG.bound(GREETED_WITHIN, wire.shut) as bound:
        try:
            return Driver(wire, user=site.user, password=password, database=site.database, name=name)
        except (Error, OSError, *STRANGE) as error:
            raise _not_greeted(error, site, late=bound.passed) from error


def _not_greeted(error: Exception, site: Site, *, late: bool) -> HintedError:
    if (fields := fields_of(error)) is not None:
        return refused(fields, site)
    if late:
        return lost(TimeoutError(), site, during="before it stood")
    if isinstance(error, OSError):
        return lost(error, site, during="before it stood")
    return WarehouseDown(
        f"{site} does not answer as Redshift does: {error}", hint="Are host and port right in `warehouse.url`?"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
