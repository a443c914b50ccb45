"""The service of one process: what its stages stand on, each made when it is first needed and ended with it."""

import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from syncd.app.lake_access import new_nonce, open_lake, open_quick_lake, open_store
from syncd.app.source_access import PassReader, SourceResources
from syncd.app.warehouse_access import MAX_ROWS_PER_LOAD, LazyTarget, WarehouseResources
from syncd.concurrency.lease_heartbeat import Heartbeat
from syncd.concurrency.once import locked_cached_property
from syncd.concurrency.response_monitor import ResponseMonitor, ignore_response
from syncd.concurrency.running_pass import RunningPass, StageSlot
from syncd.concurrency.stage_claim import ClaimKeeper, release_claims
from syncd.concurrency.stage_pass import StagePass
from syncd.errors import ConfigError, to_hinted_error
from syncd.events import EventListener, StreamFailed, StreamWaited
from syncd.extract.batch_producer import ExtractProducer
from syncd.extract.extract_pass import ExtractOutcome, ExtractPass, PassProducer
from syncd.extract.idle_streams import IdleStreams
from syncd.extract.plan_rules import ExtractRequest
from syncd.extract.planner import Planner
from syncd.lake.column_history import EarlierBatches
from syncd.load.load_pass import LoadOutcome, LoadPass
from syncd.load.quarantine_listing import Quarantine
from syncd.load.replay import ReplayProducer
from syncd.operations.repair_batches import RepairPlan, RepairProducer
from syncd.operations.stream_status import latest_known, mark_to_instant
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.ports.source import SourceBound
from syncd.s3.lease_store import LeaseStore
from syncd.s3.note_store import StoredGrowthNotes
from syncd.settings import Mode, Settings, StreamSettings, TargetSettings
from syncd.tables.column_mapping import map_columns
from syncd.tables.sort_order import CURSOR_NONE
from syncd.tables.wall_clock import parse_zone
from watermarks.batch import BatchId
from watermarks.clock import Clock, SystemClock
from watermarks.cursor import Cursor
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.lease import ProcessLease
from watermarks.names import SYSTEM_STEM, StreamName
from watermarks.progress import ExtractProgress, Run, RunStrategy
from watermarks.store import Store
from watermarks.system_default import SystemDefault

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.concurrency.response_monitor import WatchResponse
    from syncd.ports.source import BatchReader
    from syncd.s3.lake_client import S3Lake
    from syncd.s3.quarantine_files import LakeQuarantineRestorer
    from syncd.spark.reader import SparkReader
    from syncd.spark.spark_session import WarmSparkSession

LEASE_TTL_SECONDS: Final = 30.0
"""Seconds of silence after which another process may take over."""
LEASE_REQUESTS_PER_TTL: Final = 6
"""A request for a lease waits at most this part of its time to live: one that hangs leaves time for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """What one run asks for beyond the configuration."""

    request: ExtractRequest = field(default_factory=ExtractRequest)
    horizon_wait: timedelta = timedelta(seconds=60)
    """How long to wait for what only watching can tell: the end of transactions of which nothing is known, before a
    first run, and the silence of an owner that may be gone."""
    owner_wait: timedelta | None = None
    """How long to wait for the second of these alone, where that is to be another time."""
    dry_run: bool = False
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    """How it works, for whoever reads the mark: alone, beside other tables, or over several connections at once."""
    compare_ledger: bool = False
    """Of a load: whether the warehouse's ledger is asked though nothing is due."""
    skip_if_at_rest: bool = False
    """Of an extraction: whether a stream that was at rest is only asked whether it still is. For who comes often."""


class StageService:
    """All that passes stand on. What is made here is ended here, whatever happens.

    Any thread may ask for a pass, several at once: of one stage of one stream there is never but one.
    """

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
        on_lease_lost: "Callable[[], None]" = lambda: None,
    ) -> None:
        """Prepare; `lost` is called once, from another thread, when another process has ended this one's lease.

        A `lake` that whoever asks has open already need not be opened again; of another one `looks` says that nothing
        will be written to it. `silences` is for commands that end soon:
        a daemon has patience with each side, and a breaker.
        """
        self._settings = settings
        self._environ = environ
        self._emit = emit
        self.meter: Final = meter
        """Whoever counts what is asked of the outside."""
        self._clock = clock or SystemClock()
        self._make_store = make_store
        self._given_lake = lake
        self._lease_ttl_seconds = lease_ttl_seconds
        self._one_shot = one_shot
        self._read_only = read_only
        self._response_monitor = response_monitor
        self.watch_or_skip: Final[WatchResponse] = (
            ignore_response if response_monitor is None else response_monitor.watch_or_skip
        )
        """Whoever keeps an eye on how long servers take to let us in."""
        self.watch_response: Final[WatchResponse] = (
            ignore_response if response_monitor is None else response_monitor.watch
        )
        """The same, where streams try again by themselves, and know when none of them need try any more."""
        self._on_lease_lost = on_lease_lost
        self._stack = ExitStack()
        self._sources: dict[str, SourceResources] = {}
        self._warehouses: dict[str, WarehouseResources] = {}
        self._claims: dict[tuple[StreamName, Stage], ClaimKeeper] = {}
        self._loads: dict[StreamName, tuple[StreamSettings, LoadPass]] = {}
        self._lanes: dict[tuple[StreamName, Stage], StageSlot] = {}
        self._last_outcomes: dict[StreamName, ExtractOutcome] = {}
        """What extractions left, as far as they told up to when it is complete."""
        self._growth_notes: dict[StreamName, StoredGrowthNotes] = {}
        self._process: ProcessLease | None = None
        self._lease_renewed = False
        """Whether its lease is renewed."""
        self._guard = threading.RLock()
        """Of all that is made late, and of the dictionaries; nothing is asked of the outside under it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            release_claims(list(self._claims.values()))  # while the lease is renewed still
        finally:
            self._stack.close()

    def _claim_for(self, stream: StreamName, stage: Stage, options: PassOptions) -> ClaimKeeper:
        """The claim of a stage, kept until the end; it is as patient as the first pass wanted it to be."""
        key = stream, stage
        with self._guard:
            if key not in self._claims:
                lane = self._lane(stream, stage)
                self._claims[key] = ClaimKeeper(
                    stream,
                    stage,
                    self.journal,
                    clock=self._clock,
                    max_wait=options.horizon_wait if options.owner_wait is None else options.owner_wait,
                    pause=lane.pause,
                    on_wait=lambda why: self._emit(StreamWaited(stream=stream, reason=why)),
                )
            return self._claims[key]

    def _lane(self, stream: StreamName, stage: Stage) -> StageSlot:
        with self._guard:
            return self._lanes.setdefault((stream, stage), StageSlot(stream, stage))

    def end_pass(
        self, stream: StreamName, stage: Stage, *, why: str = "it was asked to", overran: bool = False
    ) -> bool:
        """End the pass of a stage that is under way, from any thread; whether there was one.

        Its job of Spark is cancelled and its connections are closed, and nobody else's: so it returns soon, with
        `PassStopped` in its outcome, unless it was done in that moment. It is a failure only if it `overran`.
        """
        return self._lane(stream, stage).end(why, overran=overran)

    def is_running(self, stream: StreamName, stage: Stage) -> bool:
        """Whether a pass of a stage is under way in this process."""
        return self._lane(stream, stage).is_busy

    @locked_cached_property
    def lake(self) -> "S3Lake":
        return self._given_lake or open_lake(
            self._settings.lake, read_only=self._read_only, meter=self.meter, response_monitor=self._response_monitor
        )

    @locked_cached_property
    def store(self) -> Store:
        return self._make_store(self.lake)

    @locked_cached_property
    def lease_lake(self) -> "S3Lake":
        """The lake over a client of its own, for this process's sign of life."""
        # Less than a second is too short on any line, however short a life the leases have.
        return open_quick_lake(
            self._settings.lake,
            timeout_seconds=max(1.0, self._lease_ttl_seconds / LEASE_REQUESTS_PER_TTL),
            meter=self.meter,
        )

    @locked_cached_property
    def journal(self) -> Journal[Watermark]:
        return Journal(self.store, Watermark, clock=self._clock)

    @locked_cached_property
    def session(self) -> "WarmSparkSession":
        """The one session of Spark; it starts with the first batch that is read."""
        from syncd.spark.spark_session import WarmSparkSession  # noqa: PLC0415  # only those who read need it

        session = WarmSparkSession(self._settings.spark, environ=self._environ, one_shot=self._one_shot)
        self._stack.callback(session.stop)
        return session

    def extract(self, settings: StreamSettings, options: PassOptions) -> ExtractOutcome:
        """Run the extract stage of one stream once; whatever stands in its way is told, and stops no other stream."""
        stream = settings.stream_name
        outcome = self._run_extract(stream, lambda now: self._extract(stream, settings, options, now))
        outcome = replace(
            outcome, complete_before=latest_known(outcome.complete_before, self._mark_instant(settings, outcome.mark))
        )
        with self._guard:
            self._last_outcomes[stream] = outcome
        return outcome

    def _run_extract(self, stream: StreamName, act: "Callable[[RunningPass], ExtractOutcome]") -> ExtractOutcome:
        try:
            with self._lane(stream, Stage.EXTRACT).begin_pass() as now:
                outcome = act(now)
                return replace(outcome, error=now.attribute_error(outcome.error) if outcome.error else None)
        except Exception as error:  # noqa: BLE001  # the way to its source may be closed: a bastion, a bucket; or a bug
            return ExtractOutcome(stream=stream, error=self._report_failure(stream, error))

    def load(self, settings: StreamSettings, options: PassOptions) -> LoadOutcome:
        """Run the load stage of one stream once; it needs nothing of the source, and stops no other stream."""
        stream = settings.stream_name
        try:
            with self._lane(stream, Stage.LOAD).begin_pass() as now:
                outcome = self._run_load(stream, settings, options)
                outcome = replace(outcome, error=now.attribute_error(outcome.error) if outcome.error else None)
        except Exception as error:  # noqa: BLE001  # as above
            return LoadOutcome(stream=stream, error=self._report_failure(stream, error))
        return replace(outcome, complete_before=self._target_complete_upto(settings, outcome))

    def _run_load(self, stream: StreamName, settings: StreamSettings, options: PassOptions) -> LoadOutcome:
        run = self._load_run_for(stream, settings, options)
        limit = options.request.limit
        if options.dry_run:
            return run.preview(limit=limit)
        return run.execute(self._new_run(options), limit=limit, compare=options.compare_ledger)

    def _new_run(self, options: PassOptions) -> Run:
        return Run(id=_new_run_id(self._clock.now()), strategy=options.strategy)

    def _report_failure(self, stream: StreamName, error: Exception) -> HintedError:
        failure = to_hinted_error(error)
        self._emit(StreamFailed(stream=stream, error=failure.message, hint=failure.hint))
        return failure

    def _mark_instant(self, settings: StreamSettings, mark: Cursor) -> datetime | None:
        """The instant of a mark: all that is stamped before it has passed."""
        if settings.cursor == CURSOR_NONE:
            return None
        zone = next((source.zone for source in self._settings.sources if source.name == settings.source), None)
        return mark_to_instant(mark, zone=parse_zone(zone) if zone else None)

    def _target_complete_upto(self, settings: StreamSettings, outcome: LoadOutcome) -> datetime | None:
        """Up to when the target is complete: as the lake is, where nothing of that waits."""
        with self._guard:
            extracted = self._last_outcomes.get(outcome.stream)
        marked = self._mark_instant(settings, outcome.mark)
        if extracted is None or outcome.error is not None or extracted.last_batch > outcome.last_batch:
            return marked
        return latest_known(extracted.complete_before, marked)

    def _load_run_for(self, stream: StreamName, settings: StreamSettings, options: PassOptions) -> LoadPass:
        target = settings.target
        if target is None:
            raise ConfigError(f"{stream} has no warehouse", hint="Add `warehouse:` to the configuration.")
        with self._guard:
            kept = self._loads.get(stream)
        if kept is None or kept[0] != settings:
            kept = settings, self._new_load_run(stream, settings, target, options)
            with self._guard:
                self._loads[stream] = kept
        return kept[1]

    def _new_load_run(
        self, stream: StreamName, settings: StreamSettings, target: TargetSettings, options: PassOptions
    ) -> LoadPass:
        lane = self._lane(stream, Stage.LOAD)
        sessions = self._warehouse_resources(target.warehouse).pass_sessions(lane)
        return LoadPass(
            self._stage_pass(stream, Stage.LOAD, options),
            journal=self.journal,
            target=LazyTarget(
                lambda: self._warehouse_resources(target.warehouse).make_target(stream, settings, target, sessions)
            ),
            rows_per_transaction=MAX_ROWS_PER_LOAD,
            appends=settings.mode is Mode.APPEND,
            is_in_ledger=lambda key: self._warehouse_resources(target.warehouse).ledger_holds(key, sessions),
            pause=lane.pause,
        )

    def _stage_pass(self, stream: StreamName, stage: Stage, options: PassOptions) -> StagePass:
        return StagePass(
            stream=stream,
            get_process=self._lease_owner,
            claim_keeper=self._claim_for(stream, stage, options),
            clock=self._clock,
            emit=self._emit,
            explain_interruption=self._lane(stream, stage).attribute_error,
        )

    def _warehouse_resources(self, name: str) -> "WarehouseResources":
        with self._guard:
            if name not in self._warehouses:
                settings = next(warehouse for warehouse in self._settings.warehouses if warehouse.name == name)
                self._warehouses[name] = self._stack.enter_context(WarehouseResources(settings, self))
            return self._warehouses[name]

    @property
    def process_name(self) -> str:
        """What other processes, and the warehouse, know this one by."""
        with self._guard:
            return self._get_process().name

    def _extract(
        self, stream: StreamName, settings: StreamSettings, options: PassOptions, running_pass: RunningPass
    ) -> ExtractOutcome:
        planner = self._new_planner(stream, settings, options, running_pass)
        producer = self._new_producer(planner, stream, settings, running_pass)
        if not options.skip_if_at_rest or options.dry_run:
            return self._run_pass(stream, producer, options)
        return self.resting_streams.run_unless_idle(
            self._new_extract_run(stream, producer, options),
            self._new_run(options),
            stream=stream,
            settings=settings,
            planner=planner,
        )

    def _run_pass(self, stream: StreamName, producer: PassProducer, options: PassOptions) -> ExtractOutcome:
        extract_pass = self._new_extract_run(stream, producer, options)
        return extract_pass.preview() if options.dry_run else extract_pass.execute(self._new_run(options))

    @locked_cached_property
    def resting_streams(self) -> IdleStreams:
        """The streams that are at rest."""

        def list_documents(prefix: str) -> "Mapping[str, tuple[int, str]]":
            return {found.key: (found.bytes, found.etag) for found in self.lake.list_objects(prefix)}

        return IdleStreams(self.journal.store.read, list_documents, clock=self._clock)

    def _new_planner(
        self, stream: StreamName, settings: StreamSettings, options: PassOptions, running_pass: RunningPass
    ) -> Planner:
        server = self._source_resources(settings.source)
        horizons = server.pass_horizons(running_pass)
        return Planner(
            source=server.pooled_source(running_pass),
            horizons=horizons,
            read_snapshot_horizon=horizons.current,
            settings=settings,
            history=BatchChain(self.journal, stream),
            zone=server.settings.zone,
            windows=self._settings.spark.window_parallelism(
                server.connection_pool.reading_limit, cores=os.cpu_count() or 1
            ),
            request=options.request,
            max_horizon_wait=options.horizon_wait,
            reread_margin=server.settings.reread,
            default_start=self._default_start,
            notes=self._growth_notes_for(stream),
        )

    def _new_producer(
        self, planner: Planner, stream: StreamName, settings: StreamSettings, running_pass: RunningPass
    ) -> ExtractProducer:
        server = self._source_resources(settings.source)
        return ExtractProducer(
            stream=stream,
            settings=settings,
            source=planner.source,
            planner=planner,
            map_columns=map_columns,
            reader=self.make_pass_reader(server, running_pass),
            parts=self.lake,
            earlier_batches=EarlierBatches(
                read_link=BatchChain(self.journal, stream).read_link,
                get_progress=lambda: self._extract_progress(stream),
            ),
            nonce=new_nonce,
            emit=self._emit,
        )

    def find_closed_position(self, settings: StreamSettings, options: PassOptions) -> SourceBound:
        """Below which position a table is complete at its source now; no row of it is read.

        Raises:
            NotKnownYet: nobody can tell yet.
        """
        stream = settings.stream_name
        with self._lane(stream, Stage.EXTRACT).begin_pass() as now:
            return self._new_planner(stream, settings, options, now).find_closed_position()

    def _new_extract_run(self, stream: StreamName, producer: PassProducer, options: PassOptions) -> ExtractPass:
        stage = self._stage_pass(stream, Stage.EXTRACT, options)
        return ExtractPass(stage, journal=self.journal, producer=producer, parts=self.lake)

    def _default_start(self) -> datetime | None:
        """Where streams begin that are told no other."""
        state = Journal(self.store, SystemDefault, clock=self._clock).read_newest(SYSTEM_STEM)
        return state.start if state else None

    def quarantine(self, settings: StreamSettings) -> Quarantine:
        """What lies in quarantine of one stream."""
        return Quarantine(stream=settings.stream_name, journal=self.journal, parts=self.lake)

    @locked_cached_property
    def quarantine_reader(self) -> "LakeQuarantineRestorer":
        """Whoever reads what lies in quarantine."""
        from syncd.s3.quarantine_files import LakeQuarantineRestorer  # noqa: PLC0415  # pyarrow takes long to load

        return LakeQuarantineRestorer(self.lake)

    def replay(
        self, settings: StreamSettings, options: PassOptions, *, batch: BatchId | None, will_load: bool
    ) -> ExtractOutcome:
        """Make batches of what lies in quarantine and passes by now; where it `lands`, the warehouse is looked at."""
        stream = settings.stream_name

        def run(_now: RunningPass) -> ExtractOutcome:
            producer = ReplayProducer(
                settings=settings,
                quarantine=self.quarantine(settings),
                restorer=self.quarantine_reader,
                parts=self.lake,
                nonce=new_nonce,
                emit=self._emit,
                batch=batch,
                require_target=partial(self._require_batch_column, settings) if will_load else lambda: None,
            )
            return self._run_pass(stream, producer, options)

        return self._run_extract(stream, run)

    def repair_rows(self, settings: StreamSettings, options: PassOptions, repair: RepairPlan) -> ExtractOutcome:
        """Make batches of the rows that a comparison found to differ, and of the keys of those that are gone."""
        stream = settings.stream_name

        def run(now: RunningPass) -> ExtractOutcome:
            from syncd.s3.part_files import write_deleted_keys  # noqa: PLC0415  # pyarrow takes long to load

            producer = RepairProducer(
                executor=self._new_producer(self._new_planner(stream, settings, options, now), stream, settings, now),
                source=self._source_resources(settings.source).pooled_source(now),
                settings=settings,
                repair=repair,
                write=partial(write_deleted_keys, self.lake, stream, at=repair.compared_at, nonce=new_nonce()),
            )
            return self._run_pass(stream, producer, options)

        return self._run_extract(stream, run)

    def _require_batch_column(self, settings: StreamSettings) -> None:
        if settings.target is not None:
            warehouse = self._warehouse_resources(settings.target.warehouse)
            sessions = warehouse.pass_sessions(self._lane(settings.stream_name, Stage.EXTRACT))
            warehouse.require_batch_column(settings, settings.target, sessions)

    def _extract_progress(self, stream: StreamName) -> ExtractProgress | None:
        state = self.journal.read(stream.stem)
        return state.extract_progress if state else None

    def _source_resources(self, name: str) -> "SourceResources":
        with self._guard:
            if name not in self._sources:
                settings = next(source for source in self._settings.sources if source.name == name)
                self._sources[name] = self._stack.enter_context(
                    SourceResources(settings, self, is_sequential=self._one_shot)
                )
            return self._sources[name]

    def make_pass_reader(self, server: "SourceResources", running_pass: RunningPass) -> "BatchReader":
        return PassReader(lambda: server.spark_reader, running_pass)

    def make_spark_reader(self, server: "SourceResources") -> "SparkReader":
        from syncd.spark.jdbc import choose_driver  # noqa: PLC0415  # only those who read need it
        from syncd.spark.reader import SparkReader  # noqa: PLC0415  # as above

        return SparkReader(
            self.session,
            server.settings,
            self.lake,
            driver=choose_driver(server.settings, self._settings.spark.driver),
            proxy=server.connection_factory.proxy,
            pool=server.connection_pool,
            kill_statements=server.end_reading,
        )

    def _growth_notes_for(self, stream: StreamName) -> StoredGrowthNotes:
        """What was seen of a growing table: asked of the lake once."""
        with self._guard:
            return self._growth_notes.setdefault(stream, StoredGrowthNotes(self.store, stream))

    def _lease_owner(self) -> ProcessLease:
        """This process as an owner, its lease renewed from now on."""
        with self._guard:
            process = self._get_process()
            if not self._lease_renewed:
                self._stack.enter_context(
                    Heartbeat(process, ttl_seconds=self._lease_ttl_seconds, on_lost=self._end_all_passes)
                )
                self._lease_renewed = True
            return process

    def _get_process(self) -> ProcessLease:
        """This process, by name; nothing is written before it owns something."""
        if self._process is None:
            store = LeaseStore(quick=self._make_store(self.lease_lake), patient=self.store)
            self._process = ProcessLease(store, clock=self._clock, ttl_seconds=self._lease_ttl_seconds)
        return self._process

    def _end_all_passes(self, why: str) -> None:
        """Our lease was ended: whatever is under way would be dropped, so it does not go on."""
        with self._guard:
            lanes = tuple(self._lanes.values())
        for lane in lanes:
            lane.end(f"this process was silent for too long, and another has ended its lease{why and f' ({why})'}")
        self._on_lease_lost()

    def release_idle(self) -> None:
        """Let go of what nobody has used for long: a JVM that is idle."""
        if "session" in self.__dict__:
            self.session.stop_if_idle()


def _new_run_id(now: datetime) -> str:
    return f"{now:%Y%m%dT%H%M%SZ}-{new_nonce()}"
