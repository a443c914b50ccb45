"""The way to one warehouse: straight, or through its bastion."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncd.concurrency.response_monitor import Heed, unheeded
from syncd.errors import SourceDown, SourceUnfit, WarehouseDown, WarehouseUnfit
from syncd.ports.request_stats import Meter, unmetered
from syncd.redshift.connection import connect
from syncd.redshift.session import Session
from syncd.settings import WarehouseSettings
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.ssh.tunnel import Tunnel


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseWay:
    """How sessions with one warehouse are opened while its tunnel, if it has one, is open."""

    settings: WarehouseSettings
    tunnel: "Tunnel | None" = None
    meter: Meter = unmetered
    heed: Heed = unheeded

    def open(self, name: str) -> Session:
        """One more session, as `connect` opens it.

        Raises:
            WarehouseDown, WarehouseUnfit, ConfigError: as `connect`; what the bastion says comes first.
        """
        with _told_of_the_warehouse():
            at = None if self.tunnel is None else self.tunnel.near_end()
        try:
            with self.heed(f"Redshift at {self.settings.host}:{self.settings.port}"):
                return connect(self.settings, name=name, at=at, meter=self.meter)
        except WarehouseDown as error:
            # Of a bastion's refusal the driver sees no more than a lost connection.
            if self.tunnel is not None and (trouble := self.tunnel.trouble) is not None:
                raise _of_the_warehouse(trouble) from error
            raise


@contextmanager
def way_to(settings: WarehouseSettings, *, meter: Meter = unmetered, heed: Heed = unheeded) -> Iterator[WarehouseWay]:
    """The way to a warehouse, open inside the `with`; no bastion is dialled where none is configured.

    Raises:
        WarehouseDown, WarehouseUnfit: the bastion is away, or refuses us.
    """
    if settings.tunnel is None:
        yield WarehouseWay(settings=settings, meter=meter, heed=heed)
        return
    # The library of SSH takes longer to load than a run that finds nothing.
    from syncd.ssh.tunnel import Tunnel  # noqa: PLC0415  # see above

    with ExitStack() as stack:
        with _told_of_the_warehouse():
            tunnel = stack.enter_context(Tunnel(settings.tunnel, to=(settings.host, settings.port)))
        yield WarehouseWay(settings=settings, tunnel=tunnel, meter=meter, heed=heed)


@contextmanager
def _told_of_the_warehouse() -> Iterator[None]:
    try:
        yield
    except (SourceDown, SourceUnfit) as error:
        raise _of_the_warehouse(error) from error


def _of_the_warehouse(error: HintedError) -> HintedError:
    """What a bastion says about what is behind it: here it is a warehouse."""
    kind = WarehouseUnfit if isinstance(error, SourceUnfit) else WarehouseDown
    return kind(error.message, hint=error.hint)
