"""The way to one warehouse: straight, or through its bastion."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncd.concurrency.response_monitor import WatchResponse, ignore_response
from syncd.errors import SourceDown, SourceUnfit, WarehouseDown, WarehouseUnfit
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.redshift.connection import connect
from syncd.redshift.session import WarehouseSession
from syncd.settings import WarehouseSettings
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.ssh.tunnel import SshTunnel


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseConnectionFactory:
    """How sessions with one warehouse are opened while its tunnel, if it has one, is open."""

    settings: WarehouseSettings
    tunnel: "SshTunnel | None" = None
    meter: CallObserver = ignore_call
    monitor: WatchResponse = ignore_response

    def open(self, name: str) -> WarehouseSession:
        """One more session, as `connect` opens it.

        Raises:
            WarehouseDown, WarehouseUnfit, ConfigError: as `connect`; what the bastion says comes first.
        """
        with _as_warehouse_errors():
            at = None if self.tunnel is None else self.tunnel.local_address()
        try:
            with self.monitor(f"Redshift at {self.settings.host}:{self.settings.port}"):
                return connect(self.settings, session_name=name, tunnel_address=at, meter=self.meter)
        except WarehouseDown as error:
            # Of a bastion's refusal the driver sees no more than a lost connection.
            if self.tunnel is not None and (trouble := self.tunnel.last_error) is not None:
                raise _to_warehouse_error(trouble) from error
            raise


@contextmanager
def connection_to(
    settings: WarehouseSettings, *, meter: CallObserver = ignore_call, monitor: WatchResponse = ignore_response
) -> Iterator[WarehouseConnectionFactory]:
    """The way to a warehouse, open inside the `with`; no bastion is dialled where none is configured.

    Raises:
        WarehouseDown, WarehouseUnfit: the bastion is away, or refuses us.
    """
    if settings.tunnel is None:
        yield WarehouseConnectionFactory(settings=settings, meter=meter, monitor=monitor)
        return
    # The library of SSH takes longer to load than a run that finds nothing.
    from syncd.ssh.tunnel import SshTunnel  # noqa: PLC0415  # see above

    with ExitStack() as stack:
        with _as_warehouse_errors():
            tunnel = stack.enter_context(SshTunnel(settings.tunnel, server=(settings.host, settings.port)))
        yield WarehouseConnectionFactory(settings=settings, tunnel=tunnel, meter=meter, monitor=monitor)


@contextmanager
def _as_warehouse_errors() -> Iterator[None]:
    try:
        yield
    except (SourceDown, SourceUnfit) as error:
        raise _to_warehouse_error(error) from error


def _to_warehouse_error(error: HintedError) -> HintedError:
    """What a bastion says about what is behind it: here it is a warehouse."""
    kind = WarehouseUnfit if isinstance(error, SourceUnfit) else WarehouseDown
    return kind(error.message, hint=error.hint)
