"""Resources of one source: connections, horizons and the reader of its rows."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import ResourceOwner
from syncd.concurrency.resource_pool import NO_PASS, ResourcePool
from syncd.concurrency.running_pass import RunningPass
from syncd.concurrency.thread_helpers import locked_cached_property
from syncd.mysql.connection import ConnectionFactory, open_connection_factory
from syncd.mysql.replica_horizon import ReplicaOnlyHorizons, ReplicatedHorizons
from syncd.mysql.shared_horizon import POLL_SHARED_SECONDS, ServerHorizons
from syncd.mysql.source import MAX_CONNECTION_AGE_SECONDS, MySqlSource, SourceConnectionPool
from syncd.ports.source import Horizon, HorizonRequest, TableName
from syncd.s3.horizon_note_store import StoredHorizonNotes
from syncd.settings import SourceSettings

if TYPE_CHECKING:
    from syncd.app.process_resources import ProcessResources
    from syncd.datatypes.columns import ColumnMapping
    from syncd.spark.reader import SparkReader


PRIMARY_CONNECTIONS: Final = 2
"""One connection for polls, and one for the end of the binary log."""


class SourceResources(ResourceOwner):
    """Resources of one source; `is_sequential`: streams run one after the other, each with all connections."""

    def __init__(self, settings: SourceSettings, process: "ProcessResources", *, is_sequential: bool) -> None:
        super().__init__()
        self.settings: Final = settings
        self._process = process
        self._is_sequential = is_sequential
        self._wide_mappings: set[tuple[ColumnMapping, ...]] = set()
        """Column mappings with wide rows, which all readers of this source share."""

    @locked_cached_property
    def connection_factory(self) -> ConnectionFactory:
        return self._stack.enter_context(
            open_connection_factory(self.settings, response_monitor=self._process.watch_or_skip)
        )

    @locked_cached_property
    def connection_pool(self) -> SourceConnectionPool:
        """Pool of all connections to the source."""
        return self._make_pool(self.settings.max_connections, kept=0 if self._is_sequential else 1)

    def pooled_source(self, running_pass: RunningPass = NO_PASS) -> MySqlSource:
        """Return the source for the queries of one pass."""
        return MySqlSource(
            self.settings,
            self.connection_factory.open_connection,
            pool=self.connection_pool,
            running_pass=running_pass,
            meter=self._process.meter,
        )

    def pass_horizons(self, running_pass: RunningPass) -> "PassHorizons":
        return PassHorizons(self._shared_horizons, running_pass)

    @locked_cached_property
    def _shared_horizons(self) -> "ReplicaOnlyHorizons | ReplicatedHorizons":
        """Horizons of the server that stamps rows; with a replica as source, once the replica has applied them."""
        primary = self.settings.primary
        if primary is None:
            return ReplicaOnlyHorizons(
                self._make_server_horizons(self.settings, self.connection_factory, self.connection_pool),
                self.pooled_source(),
            )
        factory = self._stack.enter_context(
            open_connection_factory(primary, response_monitor=self._process.watch_or_skip)
        )
        pool = self._make_pool(PRIMARY_CONNECTIONS)
        at_primary = MySqlSource(primary, factory.open_connection, pool=pool, meter=self._process.meter)
        return ReplicatedHorizons(
            self._make_server_horizons(primary, factory, pool), primary=at_primary, replica=self.pooled_source()
        )

    def _make_pool(self, max_connections: int, *, kept: int = 0) -> SourceConnectionPool:
        pool: SourceConnectionPool = ResourcePool(
            max_connections, reserved=kept, max_age_seconds=MAX_CONNECTION_AGE_SECONDS
        )
        self._stack.callback(pool.close)
        return pool

    def _make_server_horizons(
        self, settings: SourceSettings, connection_factory: ConnectionFactory, connection_pool: SourceConnectionPool
    ) -> ServerHorizons:
        notes = StoredHorizonNotes(self._process.store, self.settings.name)
        shared_for = POLL_SHARED_SECONDS if self._is_sequential else 0.0
        horizons = ServerHorizons(
            settings,
            connection_factory.open_connection,
            notes,
            shared_seconds=shared_for,
            pool=connection_pool,
            meter=self._process.meter,
        )
        self._stack.callback(horizons.close)
        return horizons

    def spark_reader(self, running_pass: RunningPass) -> "SparkReader":
        """Return the reader of the rows for one pass; Spark starts with its first use."""
        from syncd.spark.jdbc import choose_driver  # noqa: PLC0415  # only passes with rows need Spark
        from syncd.spark.reader import SparkReader  # noqa: PLC0415  # as above

        return SparkReader(
            self._process.session,
            self.settings,
            self._process.lake,
            driver=choose_driver(self.settings, self._process.settings.spark.driver),
            proxy=self.connection_factory.proxy,
            pool=self.connection_pool,
            kill_statements=self.end_reading,
            wide_mappings=self._wide_mappings,
            running_pass=running_pass,
        )

    def end_reading(self, nonce: str) -> None:
        """Kill the statements of an abandoned attempt at the server.

        The connection is not from the pool: the statements may occupy all of it.
        """
        opener = self.connection_factory.open_connection
        with closing(MySqlSource(self.settings, opener, meter=self._process.meter)) as source:
            source.kill_statements(nonce)


class PassHorizons:
    """Horizons for one pass; a poll continues when the pass is interrupted, since it also serves other passes."""

    def __init__(self, horizons: ReplicaOnlyHorizons | ReplicatedHorizons, running_pass: RunningPass) -> None:
        self._horizons = horizons
        self._running_pass = running_pass

    def get_horizons(self, requests: Sequence[HorizonRequest], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        return self._running_pass.run_detached(lambda: self._horizons.get_horizons(requests, aged=aged), name="horizon")

    def wait_for_horizons(
        self, requests: Sequence[HorizonRequest], *, within: timedelta
    ) -> Mapping[TableName, Horizon]:
        return self._running_pass.run_detached(
            lambda: self._horizons.wait_for_horizons(requests, within=within), name="horizon"
        )

    def current(self, table: TableName) -> Horizon:
        return self._running_pass.run_detached(lambda: self._horizons.read_snapshot_horizon(table), name="horizon")
