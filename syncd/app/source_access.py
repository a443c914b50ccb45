"""One source: the way to it, the connections that may be open at once, and whoever reads over them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from syncd.app.open_resources import ResourceOwner
from syncd.concurrency.once import locked_cached_property
from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import RunningPass
from syncd.lake.window_reads import ReadRequest, ReadResult
from syncd.mysql.connection import ConnectionFactory, open_connection_factory
from syncd.mysql.connection_pool import MAX_CONNECTION_AGE_SECONDS, PooledSource, SourceConnectionPool
from syncd.mysql.replica_horizon import ReplicaOnlyHorizons, ReplicatedHorizons
from syncd.mysql.shared_horizon import POLL_SHARED_SECONDS, ServerHorizons
from syncd.mysql.source import MySqlSource
from syncd.ports.source import Horizon, HorizonRequest, TableName
from syncd.s3.note_store import StoredHorizonNotes
from syncd.settings import SourceSettings

if TYPE_CHECKING:
    from syncd.app.stage_services import StageService
    from syncd.spark.reader import SparkReader


PRIMARY_CONNECTIONS: Final = 2
"""Connections: one for polls, one for the end of its log."""


class SourceResources(ResourceOwner):
    """One source; `alone` says that streams come one after the other, so that a reading may have every connection."""

    def __init__(self, settings: SourceSettings, service: "StageService", *, is_sequential: bool) -> None:
        super().__init__()
        self.settings: Final = settings
        self._service = service
        self._is_sequential = is_sequential

    @locked_cached_property
    def connection_factory(self) -> ConnectionFactory:
        return self._stack.enter_context(
            open_connection_factory(self.settings, response_monitor=self._service.watch_or_skip)
        )

    @locked_cached_property
    def connection_pool(self) -> SourceConnectionPool:
        """The connections that may be open at once, whatever for."""
        return self._make_pool(self.settings.max_connections, kept=0 if self._is_sequential else 1)

    def pooled_source(self, running_pass: RunningPass = NO_PASS) -> PooledSource:
        """The server, for the questions of one pass."""
        return PooledSource(
            self.connection_pool,
            self._source_factory(self.settings, self.connection_factory),
            running_pass=running_pass,
        )

    def _source_factory(
        self, settings: SourceSettings, connection_factory: ConnectionFactory
    ) -> Callable[[], MySqlSource]:
        return partial(MySqlSource, settings, connection_factory.open_connection, meter=self._service.meter)

    def pass_horizons(self, running_pass: RunningPass) -> "PassHorizons":
        """The horizons, for one pass."""
        return PassHorizons(self._shared_horizons, running_pass)

    @locked_cached_property
    def _shared_horizons(self) -> "ReplicaOnlyHorizons | ReplicatedHorizons":
        """The horizons of where rows are stamped; for a replica, once it has what they cover."""
        primary = self.settings.primary
        if primary is None:
            return ReplicaOnlyHorizons(
                self._make_server_horizons(self.settings, self.connection_factory, self.connection_pool),
                self.pooled_source(),
            )
        way = self._stack.enter_context(open_connection_factory(primary, response_monitor=self._service.watch_or_skip))
        places = self._make_pool(PRIMARY_CONNECTIONS)
        at_primary = PooledSource(places, self._source_factory(primary, way))
        return ReplicatedHorizons(
            self._make_server_horizons(primary, way, places), primary=at_primary, replica=self.pooled_source()
        )

    def _make_pool(self, max_connections: int, *, kept: int = 0) -> SourceConnectionPool:
        places: SourceConnectionPool = ResourcePool(
            max_connections, reserved=kept, max_age_seconds=MAX_CONNECTION_AGE_SECONDS
        )
        self._stack.callback(places.close)
        return places

    def _make_server_horizons(
        self, settings: SourceSettings, connection_factory: ConnectionFactory, connection_pool: SourceConnectionPool
    ) -> ServerHorizons:
        notes = StoredHorizonNotes(self._service.store, self.settings.name)
        shared_for = POLL_SHARED_SECONDS if self._is_sequential else 0.0
        horizons = ServerHorizons(
            settings,
            connection_factory.open_connection,
            notes,
            shared_seconds=shared_for,
            pool=connection_pool,
            meter=self._service.meter,
        )
        self._stack.callback(horizons.close)
        return horizons

    @locked_cached_property
    def spark_reader(self) -> "SparkReader":
        """Whoever reads windows of it, for every pass."""
        return self._service.make_spark_reader(self)

    def end_reading(self, nonce: str) -> None:
        """End, at the server, what an attempt that was given up reads still.

        Over a connection beside all places: what is to be ended may have every one of them.
        """
        with closing(self._source_factory(self.settings, self.connection_factory)()) as source:
            source.kill_statements(nonce)


class PassHorizons:
    """The horizons for one pass: a poll answers others too, and so a pass that is ended leaves it to go on."""

    def __init__(self, horizons: ReplicaOnlyHorizons | ReplicatedHorizons, running_pass: RunningPass) -> None:
        self._horizons = horizons
        self._under_way = running_pass

    def get_horizons(self, asked: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        return self._under_way.run_detached(lambda: self._horizons.get_horizons(asked, aged=aged), name="horizon")

    def wait_for_horizons(self, asked: Sequence[HorizonRequest], *, within: timedelta) -> Mapping[TableName, Horizon]:
        return self._under_way.run_detached(
            lambda: self._horizons.wait_for_horizons(asked, within=within), name="horizon"
        )

    def current(self, table: TableName) -> Horizon:
        return self._under_way.run_detached(lambda: self._horizons.read_snapshot_horizon(table), name="horizon")


class PassReader:
    """The reader for one pass; it is made with the first reading, and with it all that it stands on."""

    def __init__(self, make_reader: "Callable[[], SparkReader]", running_pass: RunningPass) -> None:
        self._make_reader = make_reader
        self._under_way = running_pass

    def prepare(self, *, little: bool) -> None:
        self._make_reader().prepare(little=little)

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        return self._make_reader().read(reading, tell=tell, running_pass=self._under_way)
