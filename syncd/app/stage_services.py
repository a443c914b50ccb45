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

from syncd.app.lake_access import nonce, open_lake, open_quick_lake, open_store, stream_of
from syncd.app.source_access import PassReader, Server
from syncd.app.warehouse_access import MOST_ROWS, LateTarget, Warehouse
from syncd.concurrency.lease_heartbeat import Heartbeat
from syncd.concurrency.once import once
from syncd.concurrency.response_monitor import Silences, unheeded
from syncd.concurrency.running_pass import Lane, UnderWay
from syncd.concurrency.stage_claim import Claiming, give_back
from syncd.errors import ConfigError, hinted
from syncd.events import StreamFailed, StreamWaited, Tell
from syncd.extract.batch_producer import ExtractProducer
from syncd.extract.extract_pass import ExtractRun, Outcome, RunProducer
from syncd.extract.idle_streams import RestingRun, Rests
from syncd.extract.plan_rules import Request
from syncd.extract.planner import Planner
from syncd.horizon import zone_of
from syncd.lake.column_history import Earlier
from syncd.load.load_pass import LoadOutcome, LoadRun
from syncd.load.quarantine_listing import Quarantine
from syncd.load.replay import ReplayProducer
from syncd.operations.adoption_rules import Closed
from syncd.operations.completeness import instant_of_mark, latest
from syncd.operations.repair_batches import MendingProducer, Repair
from syncd.ports.request_stats import Meter, unmetered
from syncd.s3.lease_store import LeaseStore
from syncd.s3.note_store import StoredSeen
from syncd.settings import Mode, Settings, StreamSettings, TargetSettings
from syncd.tables.column_mapping import passages
from syncd.tables.sort_order import WHOLE
from watermarks.batch import BatchId
from watermarks.clock import Clock, SystemClock
from watermarks.cursor import Cursor
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.extraction import Chain
from watermarks.history import Journal
from watermarks.lease import Process
from watermarks.names import SYSTEM, StreamName
from watermarks.progress import Extracted, Run, Strategy
from watermarks.store import Store
from watermarks.system_default import SystemDefault

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.concurrency.response_monitor import Heed
    from syncd.ports.source import Reader
    from syncd.s3.lake_client import Lake
    from syncd.s3.quarantine_files import LakeRestorer
    from syncd.spark.reader import SparkReader
    from syncd.spark.spark_session import Session

TTL: Final = 30.0
"""Seconds of silence after which another process may take over."""
LEASE_WAITS: Final = 6
"""A request for a lease waits at most this part of its time to live: one that hangs leaves time for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one run asks for beyond the configuration."""

    request: Request = field(default_factory=Request)
    wait: timedelta = timedelta(seconds=60)
    """How long to wait for what only watching can tell: the end of transactions of which nothing is known, before a
    first run, and the silence of an owner that may be gone."""
    patience: timedelta | None = None
    """How long to wait for the second of these alone, where that is to be another time."""
    dry: bool = False
    strategy: Strategy = Strategy.SEQUENTIAL
    """How it works, for whoever reads the mark: alone, beside other tables, or over several connections at once."""
    compare: bool = False
    """Of a load: whether the warehouse's ledger is asked though nothing is due."""
    brief: bool = False
    """Of an extraction: whether a stream that was at rest is only asked whether it still is. For who comes often."""


class Service:
    """All that passes stand on. What is made here is ended here, whatever happens.

    Any thread may ask for a pass, several at once: of one stage of one stream there is never but one.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        environ: Mapping[str, str],
        tell: Tell,
        meter: Meter = unmetered,
        clock: Clock | None = None,
        store: "Callable[[Lake], Store]" = open_store,
        lake: "Lake | None" = None,
        ttl: float = TTL,
        one_shot: bool = False,
        looks: bool = False,
        silences: Silences | None = None,
        lost: "Callable[[], None]" = lambda: None,
    ) -> None:
        """Prepare; `lost` is called once, from another thread, when another process has ended this one's lease.

        A `lake` that whoever asks has open already need not be opened again; of another one `looks` says that nothing
        will be written to it. `silences` is for commands that end soon:
        a daemon has patience with each side, and a breaker.
        """
        self._settings = settings
        self._environ = environ
        self._tell = tell
        self.meter: Final = meter
        """Whoever counts what is asked of the outside."""
        self._clock = clock or SystemClock()
        self._make_store = store
        self._given = lake
        self._ttl = ttl
        self._one_shot = one_shot
        self._looks = looks
        self._silences = silences
        self.heed: Final[Heed] = unheeded if silences is None else silences.heed
        """Whoever keeps an eye on how long servers take to let us in."""
        self.watch: Final[Heed] = unheeded if silences is None else silences.watch
        """The same, where streams try again by themselves, and know when none of them need try any more."""
        self._lost = lost
        self._stack = ExitStack()
        self._sources: dict[str, Server] = {}
        self._warehouses: dict[str, Warehouse] = {}
        self._claims: dict[tuple[StreamName, Stage], Claiming] = {}
        self._loads: dict[StreamName, tuple[StreamSettings, LoadRun]] = {}
        self._lanes: dict[tuple[StreamName, Stage], Lane] = {}
        self._complete: dict[StreamName, Outcome] = {}
        """What extractions left, as far as they told up to when it is complete."""
        self._seen: dict[StreamName, StoredSeen] = {}
        self._process: Process | None = None
        self._alive = False
        """Whether its lease is renewed."""
        self._guard = threading.RLock()
        """Of all that is made late, and of the dictionaries; nothing is asked of the outside under it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            give_back(list(self._claims.values()))  # while the lease is renewed still
        finally:
            self._stack.close()

    def _claiming(self, stream: StreamName, stage: Stage, wanted: Pass) -> Claiming:
        """The claim of a stage, kept until the end; it is as patient as the first pass wanted it to be."""
        key = stream, stage
        with self._guard:
            if key not in self._claims:
                lane = self._lane(stream, stage)
                self._claims[key] = Claiming(
                    stream,
                    stage,
                    self.journal,
                    clock=self._clock,
                    patience=wanted.wait if wanted.patience is None else wanted.patience,
                    pause=lane.pause,
                    tell=lambda why: self._tell(StreamWaited(stream=stream, reason=why)),
                )
            return self._claims[key]

    def _lane(self, stream: StreamName, stage: Stage) -> Lane:
        with self._guard:
            return self._lanes.setdefault((stream, stage), Lane(stream, stage))

    def end(self, stream: StreamName, stage: Stage, *, why: str = "it was asked to", overran: bool = False) -> bool:
        """End the pass of a stage that is under way, from any thread; whether there was one.

        Its job of Spark is cancelled and its connections are closed, and nobody else's: so it returns soon, with
        `PassStopped` in its outcome, unless it was done in that moment. It is a failure only if it `overran`.
        """
        return self._lane(stream, stage).end(why, overran=overran)

    def is_under_way(self, stream: StreamName, stage: Stage) -> bool:
        """Whether a pass of a stage is under way in this process."""
        return self._lane(stream, stage).is_busy

    @once
    def lake(self) -> "Lake":
        return self._given or open_lake(
            self._settings.lake, looks=self._looks, meter=self.meter, silences=self._silences
        )

    @once
    def store(self) -> Store:
        return self._make_store(self.lake)

    @once
    def lease_lake(self) -> "Lake":
        """The lake over a client of its own, for this process's sign of life."""
        # Less than a second is too short on any line, however short a life the leases have.
        return open_quick_lake(self._settings.lake, within=max(1.0, self._ttl / LEASE_WAITS), meter=self.meter)

    @once
    def journal(self) -> Journal[Watermark]:
        return Journal(self.store, Watermark, clock=self._clock)

    @once
    def session(self) -> "Session":
        """The one session of Spark; it starts with the first batch that is read."""
        from syncd.spark.spark_session import Session  # noqa: PLC0415  # only those who read need it

        session = Session(self._settings.spark, environ=self._environ, one_shot=self._one_shot)
        self._stack.callback(session.stop)
        return session

    def extract(self, settings: StreamSettings, wanted: Pass) -> Outcome:
        """Run the extract stage of one stream once; whatever stands in its way is told, and stops no other stream."""
        stream = stream_of(settings)
        outcome = self._extracted(stream, wanted, lambda now: self._run_of(stream, settings, wanted, now))
        outcome = replace(outcome, complete=latest(outcome.complete, self._marked(settings, outcome.mark)))
        with self._guard:
            self._complete[stream] = outcome
        return outcome

    def _extracted(
        self, stream: StreamName, wanted: Pass, make: "Callable[[UnderWay], ExtractRun | RestingRun]"
    ) -> Outcome:
        try:
            with self._lane(stream, Stage.EXTRACT).passing() as now:
                run = make(now)
                outcome = run.look() if wanted.dry else run.once(self._run(wanted))
                return replace(outcome, error=now.named(outcome.error) if outcome.error else None)
        except Exception as error:  # noqa: BLE001  # the way to its source may be closed: a bastion, a bucket; or a bug
            return Outcome(stream=stream, error=self._failed(stream, error))

    def load(self, settings: StreamSettings, wanted: Pass) -> LoadOutcome:
        """Run the load stage of one stream once; it needs nothing of the source, and stops no other stream."""
        stream = stream_of(settings)
        try:
            with self._lane(stream, Stage.LOAD).passing() as now:
                outcome = self._loaded(stream, settings, wanted)
                outcome = replace(outcome, error=now.named(outcome.error) if outcome.error else None)
        except Exception as error:  # noqa: BLE001  # as above
            return LoadOutcome(stream=stream, error=self._failed(stream, error))
        return replace(outcome, complete=self._landed_upto(settings, outcome))

    def _loaded(self, stream: StreamName, settings: StreamSettings, wanted: Pass) -> LoadOutcome:
        run = self._load_of(stream, settings, wanted)
        limit = wanted.request.limit
        if wanted.dry:
            return run.look(limit=limit)
        return run.once(self._run(wanted), limit=limit, compare=wanted.compare)

    def _run(self, wanted: Pass) -> Run:
        return Run(id=_run_id(self._clock.now()), strategy=wanted.strategy)

    def _failed(self, stream: StreamName, error: Exception) -> HintedError:
        failure = hinted(error)
        self._tell(StreamFailed(stream=stream, error=failure.message, hint=failure.hint))
        return failure

    def _marked(self, settings: StreamSettings, mark: Cursor) -> datetime | None:
        """The instant of a mark: all that is stamped before it has passed."""
        if settings.cursor == WHOLE:
            return None
        zone = next((source.zone for source in self._settings.sources if source.name == settings.source), None)
        return instant_of_mark(mark, zone=zone_of(zone) if zone else None)

    def _landed_upto(self, settings: StreamSettings, outcome: LoadOutcome) -> datetime | None:
        """Up to when the target is complete: as the lake is, where nothing of that waits."""
        with self._guard:
            extracted = self._complete.get(outcome.stream)
        marked = self._marked(settings, outcome.mark)
        if extracted is None or outcome.error is not None or extracted.last > outcome.last:
            return marked
        return latest(extracted.complete, marked)

    def _load_of(self, stream: StreamName, settings: StreamSettings, wanted: Pass) -> LoadRun:
        target = settings.target
        if target is None:
            raise ConfigError(f"{stream} has no warehouse", hint="Add `warehouse:` to the configuration.")
        with self._guard:
            kept = self._loads.get(stream)
        if kept is None or kept[0] != settings:
            kept = settings, self._new_load(stream, settings, target, wanted)
            with self._guard:
                self._loads[stream] = kept
        return kept[1]

    def _new_load(self, stream: StreamName, settings: StreamSettings, target: TargetSettings, wanted: Pass) -> LoadRun:
        lane = self._lane(stream, Stage.LOAD)
        sessions = self._warehouse(target.warehouse).sessions(lane)
        return LoadRun(
            stream=stream,
            journal=self.journal,
            owner=self._owner,
            target=LateTarget(lambda: self._warehouse(target.warehouse).target(stream, settings, target, sessions)),
            clock=self._clock,
            tell=self._tell,
            rows=MOST_ROWS,
            claiming=self._claiming(stream, Stage.LOAD, wanted),
            appends=settings.mode is Mode.APPEND,
            holds=lambda key: self._warehouse(target.warehouse).holds(key, sessions),
            pause=lane.pause,
            named=lane.named,
        )

    def _warehouse(self, name: str) -> "Warehouse":
        with self._guard:
            if name not in self._warehouses:
                settings = next(warehouse for warehouse in self._settings.warehouses if warehouse.name == name)
                self._warehouses[name] = self._stack.enter_context(Warehouse(settings, self))
            return self._warehouses[name]

    @property
    def name(self) -> str:
        """What other processes, and the warehouse, know this one by."""
        with self._guard:
            return self._this().name

    def _run_of(
        self, stream: StreamName, settings: StreamSettings, wanted: Pass, now: UnderWay
    ) -> ExtractRun | RestingRun:
        planner = self._planner_of(stream, settings, wanted, now)
        run = self._extracting(stream, self._producer_of(planner, stream, settings, now), wanted)
        if not wanted.brief:
            return run
        return RestingRun(run, stream=stream, settings=settings, planner=planner, rests=self.rests)

    @once
    def rests(self) -> Rests:
        """The streams that are at rest."""
        return Rests(self.journal.store.read, self.lake.standing, clock=self._clock)

    def _planner_of(self, stream: StreamName, settings: StreamSettings, wanted: Pass, now: UnderWay) -> Planner:
        server = self._server(settings.source)
        horizons = server.horizons(now)
        return Planner(
            source=server.source(now),
            horizons=horizons,
            current=horizons.current,
            settings=settings,
            past=Chain(self.journal, stream),
            zone=server.settings.zone,
            windows=self._settings.spark.at_once(server.places.for_readings, cores=os.cpu_count() or 1),
            request=wanted.request,
            wait=wanted.wait,
            reread=server.settings.reread,
            default_start=self._default_start,
            notes=self._seen_of(stream),
        )

    def _producer_of(
        self, planner: Planner, stream: StreamName, settings: StreamSettings, now: UnderWay
    ) -> ExtractProducer:
        server = self._server(settings.source)
        return ExtractProducer(
            stream=stream,
            settings=settings,
            source=planner.source,
            planning=planner,
            passages=passages,
            reader=self.reader_of(server, now),
            parts=self.lake,
            earlier=Earlier(links=Chain(self.journal, stream), half=lambda: self._half(stream)),
            nonce=nonce,
            tell=self._tell,
        )

    def closed(self, settings: StreamSettings, wanted: Pass) -> Closed:
        """Below which position a table is complete at its source now; no row of it is read.

        Raises:
            NotKnownYet: nobody can tell yet.
        """
        stream = stream_of(settings)
        with self._lane(stream, Stage.EXTRACT).passing() as now:
            return self._planner_of(stream, settings, wanted, now).closed()

    def _extracting(self, stream: StreamName, producer: RunProducer, wanted: Pass) -> ExtractRun:
        return ExtractRun(
            stream=stream,
            journal=self.journal,
            owner=self._owner,
            producer=producer,
            parts=self.lake,
            clock=self._clock,
            tell=self._tell,
            claiming=self._claiming(stream, Stage.EXTRACT, wanted),
            named=self._lane(stream, Stage.EXTRACT).named,
        )

    def _default_start(self) -> datetime | None:
        """Where streams begin that are told no other."""
        state = Journal(self.store, SystemDefault, clock=self._clock).newest(SYSTEM)
        return state.start if state else None

    def quarantine(self, settings: StreamSettings) -> Quarantine:
        """What lies in quarantine of one stream."""
        return Quarantine(stream=stream_of(settings), journal=self.journal, parts=self.lake)

    @once
    def restorer(self) -> "LakeRestorer":
        """Whoever reads what lies in quarantine."""
        from syncd.s3.quarantine_files import LakeRestorer  # noqa: PLC0415  # pyarrow takes long to load

        return LakeRestorer(self.lake)

    def replay(self, settings: StreamSettings, wanted: Pass, *, batch: BatchId | None, lands: bool) -> Outcome:
        """Make batches of what lies in quarantine and passes by now; where it `lands`, the warehouse is looked at."""
        stream = stream_of(settings)

        def run(_now: UnderWay) -> ExtractRun:
            producer = ReplayProducer(
                settings=settings,
                quarantine=self.quarantine(settings),
                restorer=self.restorer,
                parts=self.lake,
                nonce=nonce,
                tell=self._tell,
                batch=batch,
                require=partial(self._require_number, settings) if lands else lambda: None,
            )
            return self._extracting(stream, producer, wanted)

        return self._extracted(stream, wanted, run)

    def mend(self, settings: StreamSettings, wanted: Pass, repair: Repair) -> Outcome:
        """Make batches of the rows that a comparison found to differ, and of the keys of those that are gone."""
        stream = stream_of(settings)

        def run(now: UnderWay) -> ExtractRun:
            from syncd.s3.tombstone_files import write_keys  # noqa: PLC0415  # pyarrow takes long to load

            producer = MendingProducer(
                inner=self._producer_of(self._planner_of(stream, settings, wanted, now), stream, settings, now),
                source=self._server(settings.source).source(now),
                settings=settings,
                repair=repair,
                write=partial(write_keys, self.lake, stream, at=repair.at, nonce=nonce()),
            )
            return self._extracting(stream, producer, wanted)

        return self._extracted(stream, wanted, run)

    def _require_number(self, settings: StreamSettings) -> None:
        if settings.target is not None:
            warehouse = self._warehouse(settings.target.warehouse)
            sessions = warehouse.sessions(self._lane(stream_of(settings), Stage.EXTRACT))
            warehouse.require_number(settings, settings.target, sessions)

    def _half(self, stream: StreamName) -> Extracted | None:
        state = self.journal.read(stream.stem)
        return state.extracted if state else None

    def _server(self, name: str) -> "Server":
        with self._guard:
            if name not in self._sources:
                settings = next(source for source in self._settings.sources if source.name == name)
                self._sources[name] = self._stack.enter_context(Server(settings, self, alone=self._one_shot))
            return self._sources[name]

    def reader_of(self, server: "Server", under_way: UnderWay) -> "Reader":
        return PassReader(lambda: server.spark_reader, under_way)

    def spark_reader(self, server: "Server") -> "SparkReader":
        from syncd.spark.jdbc import driver_of  # noqa: PLC0415  # only those who read need it
        from syncd.spark.reader import SparkReader  # noqa: PLC0415  # as above

        return SparkReader(
            self.session,
            server.settings,
            self.lake,
            driver=driver_of(server.settings, self._settings.spark.driver),
            proxy=server.way.proxy,
            places=server.places,
            end=server.end_reading,
        )

    def _seen_of(self, stream: StreamName) -> StoredSeen:
        """What was seen of a growing table: asked of the lake once."""
        with self._guard:
            return self._seen.setdefault(stream, StoredSeen(self.store, stream))

    def _owner(self) -> Process:
        """This process as an owner, its lease renewed from now on."""
        with self._guard:
            process = self._this()
            if not self._alive:
                self._stack.enter_context(Heartbeat(process, ttl=self._ttl, lost=self._give_up))
                self._alive = True
            return process

    def _this(self) -> Process:
        """This process, by name; nothing is written before it owns something."""
        if self._process is None:
            store = LeaseStore(quick=self._make_store(self.lease_lake), patient=self.store)
            self._process = Process(store, clock=self._clock, ttl=self._ttl)
        return self._process

    def _give_up(self, why: str) -> None:
        """Our lease was ended: whatever is under way would be dropped, so it does not go on."""
        with self._guard:
            lanes = tuple(self._lanes.values())
        for lane in lanes:
            lane.end(f"this process was silent for too long, and another has ended its lease{why and f' ({why})'}")
        self._lost()

    def rest(self) -> None:
        """Let go of what nobody has used for long: a JVM that is idle."""
        if "session" in self.__dict__:
            self.session.stop_if_idle()


def _run_id(now: datetime) -> str:
    return f"{now:%Y%m%dT%H%M%SZ}-{nonce()}"
