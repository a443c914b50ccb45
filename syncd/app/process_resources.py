"""Resources of one process: lake, store, lease, Spark session, sources and warehouses, opened with first use."""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import ResourceOwner, open_lake, open_quick_lake, open_store
from syncd.app.source_access import SourceResources
from syncd.app.warehouse_access import WarehouseResources
from syncd.concurrency.response_monitor import ResponseMonitor, ignore_response
from syncd.concurrency.running_pass import RunningPass, StageSlot
from syncd.concurrency.stage_claim import Heartbeat
from syncd.concurrency.thread_helpers import locked_cached_property
from syncd.events import EventListener
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.settings import Settings
from watermarks.clock import Clock, SystemClock
from watermarks.document import Stage, Watermark
from watermarks.history import Journal
from watermarks.lease import ProcessLease
from watermarks.names import StreamName
from watermarks.store import Store

if TYPE_CHECKING:
    from syncd.concurrency.response_monitor import WatchResponse
    from syncd.ports.source import BatchReader
    from syncd.s3.lake_client import S3Lake
    from syncd.s3.quarantine_files import LakeQuarantineRestorer
    from syncd.spark.spark_session import WarmSparkSession

LEASE_TTL_SECONDS: Final = 30.0
"""Time without a renewal after which another process may take over."""
LEASE_REQUESTS_PER_TTL: Final = 6
"""Part of the time to live that a request for a lease may take, so that a hanging one leaves time for the next."""


class ProcessResources(ResourceOwner):
    """Everything that passes of one process share."""

    def __init__(
        self,
        settings: Settings,
        *,
        environ: Mapping[str, str],
        emit: EventListener,
        meter: CallObserver = ignore_call,
        clock: Clock | None = None,
        make_store: "Callable[[S3Lake], Store]" = open_store,
        lake: "S3Lake | None" = None,
        lease_ttl_seconds: float = LEASE_TTL_SECONDS,
        one_shot: bool = False,
        read_only: bool = False,
        response_monitor: ResponseMonitor | None = None,
        on_lease_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Open nothing yet.

        Another thread calls `on_lease_lost` once if another process ends this one's lease. `lake` is a client that
        the caller has open. `response_monitor` is for commands; a daemon retries and has a breaker for each system.
        """
        super().__init__()
        self.settings: Final = settings
        self.clock: Final = clock or SystemClock()
        self.emit: Final = emit
        self.meter: Final = meter
        self.watch_or_skip: Final[WatchResponse] = (
            ignore_response if response_monitor is None else response_monitor.watch_or_skip
        )
        """Watches how long servers take to accept a connection."""
        self.watch_response: Final[WatchResponse] = (
            ignore_response if response_monitor is None else response_monitor.watch
        )
        """The same for streams that retry by themselves and share the knowledge that a server is down."""
        self._environ = environ
        self._on_lease_lost = on_lease_lost
        self._make_store = make_store
        self._given_lake = lake
        self._lease_ttl_seconds = lease_ttl_seconds
        self._one_shot = one_shot
        self._read_only = read_only
        self._response_monitor = response_monitor
        self._slots: dict[tuple[StreamName, Stage], StageSlot] = {}
        self._sources: dict[str, SourceResources] = {}
        self._warehouses: dict[str, WarehouseResources] = {}
        self._process: ProcessLease | None = None
        self._is_lease_renewed = False
        self._guard = threading.RLock()
        """Guards what is made late; no request to another system is made under it."""

    @locked_cached_property
    def lake(self) -> "S3Lake":
        return self._given_lake or open_lake(
            self.settings.lake, read_only=self._read_only, meter=self.meter, response_monitor=self._response_monitor
        )

    @locked_cached_property
    def store(self) -> Store:
        return self._make_store(self.lake)

    @locked_cached_property
    def journal(self) -> Journal[Watermark]:
        return Journal(self.store, Watermark, clock=self.clock)

    @locked_cached_property
    def lease_lake(self) -> "S3Lake":
        """The lake over a client of its own, for the renewals of this process's lease."""
        # Less than a second is too short on any network, however short the leases live.
        timeout_seconds = max(1.0, self._lease_ttl_seconds / LEASE_REQUESTS_PER_TTL)
        return open_quick_lake(self.settings.lake, timeout_seconds=timeout_seconds, meter=self.meter)

    @locked_cached_property
    def session(self) -> "WarmSparkSession":
        """The Spark session, which starts with the first batch that is read."""
        from syncd.spark.spark_session import WarmSparkSession  # noqa: PLC0415  # only passes with rows need it

        session = WarmSparkSession(self.settings.spark, environ=self._environ, one_shot=self._one_shot)
        self._stack.callback(session.stop)
        return session

    @locked_cached_property
    def quarantine_reader(self) -> "LakeQuarantineRestorer":
        from syncd.s3.quarantine_files import LakeQuarantineRestorer  # noqa: PLC0415  # pyarrow takes long to load

        return LakeQuarantineRestorer(self.lake)

    def source_resources(self, name: str) -> SourceResources:
        with self._guard:
            if name not in self._sources:
                source = SourceResources(self.settings.source(name), self, is_sequential=self._one_shot)
                self._sources[name] = self._stack.enter_context(source)
            return self._sources[name]

    def warehouse_resources(self, name: str) -> WarehouseResources:
        with self._guard:
            if name not in self._warehouses:
                warehouse = WarehouseResources(self.settings.warehouse(name), self)
                self._warehouses[name] = self._stack.enter_context(warehouse)
            return self._warehouses[name]

    def make_reader(self, source: str, running_pass: RunningPass) -> "BatchReader":
        """Return the reader of a source for one pass."""
        return self.source_resources(source).spark_reader(running_pass)

    # The lease.

    @property
    def process_name(self) -> str:
        """Name of this process in leases and warehouse sessions."""
        return self._get_process().name

    def lease_owner(self) -> ProcessLease:
        """Return this process as an owner, whose lease is renewed from now on."""
        with self._guard:
            process = self._get_process()
            if not self._is_lease_renewed:
                heartbeat = Heartbeat(process, ttl_seconds=self._lease_ttl_seconds, on_lost=self._end_all_passes)
                self._stack.enter_context(heartbeat)
                self._is_lease_renewed = True
            return process

    def _get_process(self) -> ProcessLease:
        """Return this process by name; nothing is written before it owns something."""
        with self._guard:
            if self._process is None:
                self._process = ProcessLease(
                    self.store,
                    owner_store=self._make_store(self.lease_lake),
                    clock=self.clock,
                    ttl_seconds=self._lease_ttl_seconds,
                )
            return self._process

    def _end_all_passes(self, why: str) -> None:
        """Interrupt every pass: another process has ended the lease, so that their results would be dropped."""
        with self._guard:
            slots = tuple(self._slots.values())
        for slot in slots:
            detail = f" ({why})" if why else ""
            slot.end(f"this process did not renew its lease in time, and another process has ended the lease{detail}")
        self._on_lease_lost()

    def slot(self, stream: StreamName, stage: Stage) -> StageSlot:
        """Return the slot of a stage, in which at most one pass runs."""
        with self._guard:
            return self._slots.setdefault((stream, stage), StageSlot(stream, stage))

    def release_idle(self) -> None:
        """Stop an idle JVM."""
        if "session" in self.__dict__:
            self.session.stop_if_idle()
