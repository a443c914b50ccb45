"""Access to lake, warehouse and MySQL for one command, each opened with first use."""

from functools import cached_property
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import ResourceOwner, open_lake, open_store
from syncd.concurrency.response_monitor import ResponseMonitor, ignore_response
from syncd.settings import Settings, SourceSettings
from watermarks.clock import Clock, SystemClock
from watermarks.document import Watermark
from watermarks.history import Journal
from watermarks.store import Store

if TYPE_CHECKING:
    from syncd.mysql.connection import ConnectionFactory
    from syncd.redshift.session import WarehouseSession
    from syncd.s3.lake_client import S3Lake


class SideAccess(ResourceOwner):
    """Lake, warehouse sessions and connections to MySQL, which end with the `with` block."""

    def __init__(
        self,
        settings: Settings,
        *,
        session_name: str,
        read_only: bool,
        max_connections: int | None = None,
        lake: "S3Lake | None" = None,
        clock: Clock | None = None,
        response_monitor: ResponseMonitor | None = None,
    ) -> None:
        """Open nothing yet; a `read_only` command fails fast if the lake is away, others wait for it."""
        super().__init__()
        self.settings: Final = settings
        self.clock: Final = clock or SystemClock()
        self.response_monitor: Final = response_monitor
        self._watch = ignore_response if response_monitor is None else response_monitor.watch_or_skip
        self._session_name = session_name
        self._read_only = read_only
        self._max_connections = max_connections
        self._given_lake = lake
        self._connection_factories = dict[str, "ConnectionFactory"]()
        self._sessions = dict[str, "WarehouseSession"]()

    @cached_property
    def lake(self) -> "S3Lake":
        return self._given_lake or open_lake(
            self.settings.lake,
            read_only=self._read_only,
            connections=self._max_connections,
            response_monitor=self.response_monitor,
        )

    @cached_property
    def store(self) -> Store:
        return open_store(self.lake)

    @cached_property
    def journal(self) -> Journal[Watermark]:
        return Journal(self.store, Watermark, clock=self.clock)

    def open_session(self, warehouse: str) -> "WarehouseSession":
        """Return the session of a warehouse; a dead one is replaced."""
        from syncd.redshift.connection import connection_to  # noqa: PLC0415  # the driver takes long to load

        session = self._sessions.get(warehouse)
        if session is None or not session.is_alive:
            connections = connection_to(self.settings.warehouse(warehouse), monitor=self._watch)
            session = self._stack.enter_context(connections).open(self._session_name)
            self._stack.callback(session.close)
            self._sessions[warehouse] = session
        return session

    def connection_factory(self, source: SourceSettings) -> "ConnectionFactory":
        """Return the factory of connections to a source, with its tunnel if it has one."""
        from syncd.mysql.connection import open_connection_factory  # noqa: PLC0415  # as above

        if source.name not in self._connection_factories:
            factory = open_connection_factory(source, response_monitor=self._watch)
            self._connection_factories[source.name] = self._stack.enter_context(factory)
        return self._connection_factories[source.name]
