"""Factory of passes: builds planners, producers and passes from the resources of a service."""

import os
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial

from syncd.app.lake_access import new_nonce
from syncd.app.process_resources import ProcessResources
from syncd.app.warehouse_access import MAX_ROWS_PER_LOAD
from syncd.concurrency.running_pass import RunningPass
from syncd.concurrency.stage_claim import ClaimKeeper, release_claims
from syncd.concurrency.stage_pass import StagePass
from syncd.concurrency.thread_helpers import locked_cached_property
from syncd.errors import ConfigError
from syncd.events import StreamWaited
from syncd.extract.batch_producer import ExtractProducer
from syncd.extract.extract_pass import ExtractPass, PassProducer
from syncd.extract.idle_streams import IdleStreams
from syncd.extract.plan_rules import ExtractRequest
from syncd.extract.planner import Planner
from syncd.lake.column_history import EarlierBatches
from syncd.load.load_pass import LoadPass
from syncd.load.quarantine_listing import Quarantine
from syncd.load.quarantine_replay import ReplayProducer
from syncd.operations.repair_batches import RepairPlan, RepairProducer
from syncd.s3.horizon_note_store import StoredGrowthNotes
from syncd.settings import Mode, StreamSettings, TargetSettings
from syncd.tables.column_mapping import map_columns
from watermarks.batch import BatchId
from watermarks.document import Stage
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.names import SYSTEM_STEM, StreamName
from watermarks.progress import ExtractProgress, Run, RunStrategy
from watermarks.system_default import SystemDefault


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """Options of one pass beyond the configuration."""

    request: ExtractRequest = field(default_factory=ExtractRequest)
    horizon_wait: timedelta = timedelta(seconds=60)
    """Longest wait for open transactions before a first run, and for another owner to renew its lease."""
    owner_wait: timedelta | None = None
    """Longest wait for another owner, if it differs from `horizon_wait`."""
    dry_run: bool = False
    strategy: RunStrategy = RunStrategy.SEQUENTIAL
    """Strategy that the mark records: alone, beside other tables, or over several connections."""
    compare_ledger: bool = False
    """True if a load reads the warehouse's ledger even if nothing is to be loaded."""
    skip_if_at_rest: bool = False
    """True if an extraction of an idle stream only checks that it still is; for frequent passes."""


class PassFactory:
    """Builds passes; keeps the claims and notes of streams from pass to pass."""

    def __init__(self, resources: ProcessResources) -> None:
        self._resources = resources
        self._emit = resources.emit
        self._clock = resources.clock
        self._guard = threading.RLock()
        """Guards the dictionaries; no request to another system is made under it."""
        self._claims: dict[tuple[StreamName, Stage], ClaimKeeper] = {}
        self._load_passes: dict[StreamName, tuple[StreamSettings, LoadPass]] = {}
        self._growth_notes: dict[StreamName, StoredGrowthNotes] = {}

    def release_claims(self) -> None:
        release_claims(list(self._claims.values()))

    def new_run(self, options: PassOptions) -> Run:
        return Run(id=f"{self._clock.now():%Y%m%dT%H%M%SZ}-{new_nonce()}", strategy=options.strategy)

    # The extract stage.

    def extract_pass(self, stream: StreamName, producer: PassProducer, options: PassOptions) -> ExtractPass:
        stage = self._stage_pass(stream, Stage.EXTRACT, options)
        return ExtractPass(stage, journal=self._resources.journal, producer=producer, parts=self._resources.lake)

    def planner(self, settings: StreamSettings, options: PassOptions, running_pass: RunningPass) -> Planner:
        stream, source = settings.stream_name, self._resources.source_resources(settings.source)
        horizons = source.pass_horizons(running_pass)
        return Planner(
            source=source.pooled_source(running_pass),
            horizons=horizons,
            read_snapshot_horizon=horizons.current,
            settings=settings,
            history=BatchChain(self._resources.journal, stream),
            zone=source.settings.zone,
            windows=self._resources.settings.spark.window_parallelism(
                source.connection_pool.reading_limit, cores=os.cpu_count() or 1
            ),
            request=options.request,
            max_horizon_wait=options.horizon_wait,
            reread_margin=source.settings.reread,
            default_start=self._default_start,
            notes=self._growth_notes_for(stream),
        )

    def extract_producer(
        self, settings: StreamSettings, options: PassOptions, running_pass: RunningPass
    ) -> ExtractProducer:
        stream, planner = settings.stream_name, self.planner(settings, options, running_pass)
        return ExtractProducer(
            stream=stream,
            settings=settings,
            source=planner.source,
            planner=planner,
            map_columns=map_columns,
            make_reader=partial(self._resources.make_reader, settings.source, running_pass),
            parts=self._resources.lake,
            earlier_batches=EarlierBatches(
                read_link=BatchChain(self._resources.journal, stream).read_link,
                get_progress=lambda: self._extract_progress(stream),
            ),
            nonce=new_nonce,
            emit=self._emit,
        )

    def repair_producer(
        self, settings: StreamSettings, options: PassOptions, repair: RepairPlan, running_pass: RunningPass
    ) -> RepairProducer:
        from syncd.s3.parts_writer import write_deleted_keys  # noqa: PLC0415  # pyarrow takes long to load

        lake, stream = self._resources.lake, settings.stream_name
        return RepairProducer(
            executor=self.extract_producer(settings, options, running_pass),
            source=self._resources.source_resources(settings.source).pooled_source(running_pass),
            settings=settings,
            repair=repair,
            write=partial(write_deleted_keys, lake, stream, at=repair.compared_at, nonce=new_nonce()),
        )

    def replay_producer(
        self, settings: StreamSettings, quarantine: Quarantine, *, batch: BatchId | None, will_load: bool
    ) -> ReplayProducer:
        return ReplayProducer(
            settings=settings,
            quarantine=quarantine,
            restorer=self._resources.quarantine_reader,
            parts=self._resources.lake,
            nonce=new_nonce,
            emit=self._emit,
            batch=batch,
            require_target=partial(self._require_batch_column, settings) if will_load else lambda: None,
        )

    @locked_cached_property
    def idle_streams(self) -> IdleStreams:
        def list_documents(prefix: str) -> dict[str, tuple[int, str]]:
            return {found.key: (found.bytes, found.etag) for found in self._resources.lake.list_objects(prefix)}

        return IdleStreams(self._resources.store.read, list_documents, clock=self._clock)

    # The load stage.

    def load_pass(self, settings: StreamSettings, options: PassOptions) -> LoadPass:
        """Return the load pass of a stream, kept as long as its settings stay the same."""
        stream, target = settings.stream_name, settings.target
        if target is None:
            raise ConfigError(f"{stream} has no warehouse", hint="Add `warehouse:` to the configuration.")
        with self._guard:
            kept = self._load_passes.get(stream)
        if kept is None or kept[0] != settings:
            kept = settings, self._new_load_pass(settings, target, options)
            with self._guard:
                self._load_passes[stream] = kept
        return kept[1]

    def _new_load_pass(self, settings: StreamSettings, target: TargetSettings, options: PassOptions) -> LoadPass:
        stream = settings.stream_name
        slot = self._resources.slot(stream, Stage.LOAD)
        warehouse = self._resources.warehouse_resources(target.warehouse)
        sessions = warehouse.pass_sessions(slot)
        return LoadPass(
            self._stage_pass(stream, Stage.LOAD, options),
            journal=self._resources.journal,
            get_target=cache(partial(warehouse.make_target, stream, settings, target, sessions)),
            rows_per_transaction=MAX_ROWS_PER_LOAD,
            appends=settings.mode is Mode.APPEND,
            is_in_ledger=lambda key: warehouse.ledger_holds(key, sessions),
            pause=slot.pause,
        )

    # What both stages need.

    def _stage_pass(self, stream: StreamName, stage: Stage, options: PassOptions) -> StagePass:
        return StagePass(
            stream=stream,
            get_process=self._resources.lease_owner,
            claim_keeper=self._claim_for(stream, stage, options),
            clock=self._clock,
            emit=self._emit,
            explain_interruption=self._resources.slot(stream, stage).attribute_error,
        )

    def _claim_for(self, stream: StreamName, stage: Stage, options: PassOptions) -> ClaimKeeper:
        """Return the claim of a stage, kept until the end; the options of the first pass decide how long it waits."""
        with self._guard:
            if (stream, stage) not in self._claims:
                self._claims[stream, stage] = ClaimKeeper(
                    stream,
                    stage,
                    self._resources.journal,
                    clock=self._clock,
                    max_wait=options.horizon_wait if options.owner_wait is None else options.owner_wait,
                    pause=self._resources.slot(stream, stage).pause,
                    on_wait=lambda why: self._emit(StreamWaited(stream=stream, reason=why)),
                )
            return self._claims[stream, stage]

    def _default_start(self) -> datetime | None:
        """Return the system-wide default of where streams begin."""
        state = Journal(self._resources.store, SystemDefault, clock=self._clock).read_newest(SYSTEM_STEM)
        return state.start if state else None

    def _extract_progress(self, stream: StreamName) -> ExtractProgress | None:
        state = self._resources.journal.read(stream.stem)
        return state.extract_progress if state else None

    def _growth_notes_for(self, stream: StreamName) -> StoredGrowthNotes:
        """Return the notes on a growing table, which are read from the lake once."""
        with self._guard:
            return self._growth_notes.setdefault(stream, StoredGrowthNotes(self._resources.store, stream))

    def _require_batch_column(self, settings: StreamSettings) -> None:
        if settings.target is not None:
            warehouse = self._resources.warehouse_resources(settings.target.warehouse)
            sessions = warehouse.pass_sessions(self._resources.slot(settings.stream_name, Stage.EXTRACT))
            warehouse.require_batch_column(settings, settings.target, sessions)
