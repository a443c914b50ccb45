"""Planning: asks the source where rows stand, and makes of the answers the draft of a stream's next batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.mysql_quoting import decode_text
from syncd.datatypes.source_table import SourceColumn, SourceTable
from syncd.errors import HorizonNotKnown, ServerChanged, SourceReplaced, SourceUnfit
from syncd.extract import plan_rules
from syncd.extract.index_probes import IndexPath, Prober
from syncd.extract.key_witness import (
    CREATION_TIME_RESOLUTION,
    build_witness,
    find_restarted_number,
    read_table_id,
    require_same_numbers,
    require_same_rows,
)
from syncd.extract.order_continuity import is_by_key, records_order, require_same_order, require_valid_positions
from syncd.extract.plan_rules import ExtractRequest, PlanContext, PlanMode, WindowBounds
from syncd.extract.read_ahead import AheadScan, ChainHistory, find_last_scan, with_scan_start
from syncd.extract.reread import RereadReason, find_reread_reason, is_automatic_reread
from syncd.extract.start_position import build_start_search
from syncd.extract.table_replacement import RemadeTableDetector
from syncd.horizon import (
    StampKind,
    find_bypassing_trigger,
    find_stamp_kind,
    find_unstamped_change,
    parse_triggers,
)
from syncd.horizon.key_gaps import InMemorySeenKeys, SeenKey, SeenKeyStore, add_seen_key, find_complete_key
from syncd.lake.window_reads import OrderField, WindowQuery
from syncd.mysql.sql import (
    MARIADB_IDENTITY_PREFIX,
    after_condition,
    before_triggers_sql,
    new_rows_check_sql,
    window_condition,
)
from syncd.ports.source import (
    Horizon,
    HorizonProvider,
    HorizonRequest,
    ServerTimeBreak,
    SourceBound,
    SourceDatabase,
    TableName,
)
from syncd.settings import FirstRun, Mode, NullCursor, StreamSettings
from syncd.tables.order_clock import OrderClock
from syncd.tables.sort_order import StreamOrder, must_check_nulls, resolve_order
from syncd.tables.table_identity import TableIncarnation
from syncd.tables.wall_clock import parse_zone
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, Plan
from watermarks.cursor import START_CURSOR, Cursor, format_instant
from watermarks.document import Watermark
from watermarks.names import StreamName
from watermarks.progress import ExtractProgress
from watermarks.window import Window

if TYPE_CHECKING:
    from syncd.horizon import BeforeTrigger

IDLE_HORIZON_MAX_AGE_SECONDS: Final = 1.0
"""Seconds by which the horizon of a stream at rest may be behind: for many such streams, one poll."""
UNKNOWN_ZONE_REASON: Final = "the zone of those who write is not said (source: zone)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanningContext:
    """The source and the stream as they are for one proposal."""

    watermark: Watermark
    table: SourceTable
    ground: PlanContext
    order: StreamOrder
    max_rows: int
    """How many may be planned."""
    numbers_known_since: datetime | None = None
    """Of a table that is read by its key: since when what is known of its numbers is known of it."""

    @property
    def mark(self) -> Cursor:
        return self.ground.mark

    @property
    def final_mark(self) -> Cursor:
        """The mark; in the midst of a first pass what it will be."""
        snapshot = self.watermark.required_extract_progress.snapshot
        return self.mark if snapshot is None or snapshot.done else snapshot.horizon

    @property
    def is_restarted(self) -> bool:
        """Whether a person has set its marks, and nothing was read since: often because the table is another one."""
        return (
            self.watermark.required_extract_progress.generation > 1 and not self.watermark.required_extract_progress.seq
        )

    def with_horizon(self, horizon: Horizon) -> "_PlanningContext":
        return replace(self, ground=replace(self.ground, horizon=horizon))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleState:
    """What was asked of where a proposal found that everything is read."""

    context: _PlanningContext
    clock: OrderClock
    breaks: tuple[ServerTimeBreak, ...]
    """All that were known of."""


@dataclass(kw_only=True)
class Planner:
    """Plans the batches of one stream, for one run."""

    source: SourceDatabase
    horizons: HorizonProvider
    settings: StreamSettings
    history: ChainHistory
    read_snapshot_horizon: Callable[[TableName], Horizon] | None = None
    """What any snapshot that is opened afterwards shows of a table; None: all that is committed by then."""
    zone: str | None = None
    """The session zone of those who write."""
    windows: int = 4
    """How many windows can be read at once."""
    request: ExtractRequest = field(default_factory=ExtractRequest)
    max_horizon_wait: timedelta = timedelta(0)
    """How long a stream without a mark waits for transactions of which nothing is known."""
    reread_margin: timedelta = timedelta(minutes=10)
    """How far before the mark to read again, where a server's time has a break."""
    default_start: Callable[[], datetime | None] = lambda: None
    """Where streams begin that are told no other; asked only before a first run."""
    notes: SeenKeyStore = field(default_factory=InMemorySeenKeys)
    wait_reason: str = ""
    """What is in the way, where the last proposal was none."""
    complete_before: datetime | None = None
    """Below which bound a proposal found nothing left to read; None where none has."""
    idle_state: IdleState | None = None
    """Where that was so, and a few questions can tell whether it still is."""

    def __post_init__(self) -> None:
        self._prober = Prober(source=self.source, windows=self.windows)
        self._remade_detector = RemadeTableDetector(source=self.source, links=self.history)
        self._run_start: tuple[BatchId, int] | None = None
        self._last_ahead_at: datetime | None = None
        self._run_goal: datetime | None = None
        self._triggers: Sequence[BeforeTrigger] | None = None
        self._known_order: StreamOrder | None = None
        """The order in which the stream goes on, once that is certain: plans of one run are made in one order."""

    def propose(self, watermark: Watermark) -> BatchDraft | None:
        """What the next batch should move; None when there is nothing to do now.

        Raises:
            SourceUnfit: a table, key, index or right is missing.
            SchemaDrift: the table was made anew, or its key changed.
            ValueRefused: a row has no place in the order, and no policy lets it be.
        """
        self.wait_reason, self.idle_state = "", None
        try:
            return self._propose(watermark)
        except ServerChanged as error:
            self.wait_reason = error.message
            return None

    def _propose(self, watermark: Watermark) -> BatchDraft | None:
        chain = watermark.required_extract_progress
        self._run_start = self._run_start or (chain.last_batch, chain.counts.rows)
        rows = plan_rules.rows_left(self.settings, self.request, done=chain.counts.rows - self._run_start[1])
        if rows <= 0:
            return None
        if reason := self.source.find_overload():
            self.wait_reason = reason
            return None
        table = self.source.describe_table(self.settings.database, self.settings.table)
        ground = PlanContext(
            mark=chain.cursor,
            identity=self.source.get_server_info().identity,
            fingerprint=table.fingerprint,
            created=table.created,
        )
        if plan_rules.choose_plan_mode(chain, self.settings) is PlanMode.WHOLE:
            return self._plan_whole_table(watermark, ground, table)
        order = resolve_order(table, self.settings, zone=parse_zone(self.zone or self._prober.read_zone()))
        self._require_same_order(order, chain)
        return self._plan_next(
            _PlanningContext(watermark=watermark, table=table, ground=ground, order=order, max_rows=rows)
        )

    def is_still_idle(self, idle_state: IdleState) -> bool:
        """Whether there is nothing to read still, as long as the stream itself stands where it stood.

        That is asked for far less than a proposal. What it does not look at, the table's columns among it, makes no
        difference before there is a row to read.
        """
        scene = idle_state.context
        horizon = self._read_horizon(scene, idle_state.clock, aged=IDLE_HORIZON_MAX_AGE_SECONDS)
        if horizon.bound is None or horizon.breaks != idle_state.breaks:
            return False
        identity = scene.ground.identity
        [(server, created, anything)] = self.source.fetch_rows(
            new_rows_check_sql(scene.order, scene.mark, identity=identity)
        )
        made = created.replace(tzinfo=UTC) if isinstance(created, datetime) else None
        if anything or made != scene.ground.created or decode_text(server) != identity:
            return False
        self.complete_before = idle_state.clock.to_instant(
            idle_state.clock.floor_value(self._limit_bound(horizon.bound))
        )
        self.wait_reason = plan_rules.describe_long_hold(horizon, self.settings, self.request)
        return True

    def find_closed_position(self) -> SourceBound:
        """The position below which the table is complete now: no row can come to stand there any more.

        A snapshot that is to hold all of that is opened after this returns.

        Raises:
            NotKnownYet: transactions that may write there are open since before anybody watched.
            AnotherServer: two answered.
        """
        table = self.source.describe_table(self.settings.database, self.settings.table)
        order = resolve_order(table, self.settings, zone=parse_zone(self.zone or self._prober.read_zone()))
        identity = self.source.get_server_info().identity
        ground = PlanContext(mark=START_CURSOR, identity=identity, fingerprint=table.fingerprint, created=table.created)
        new = Watermark.new(
            StreamName(source=self.settings.source, database=table.database, table=table.name),
            created_at=datetime.now(UTC),
        )
        scene = _PlanningContext(watermark=new, table=table, ground=ground, order=order, max_rows=1)
        if (clock := order.clock) is None:
            scene, top = self._find_top_key(scene, self._prober.find_last(IndexPath.from_order(order), "TRUE"))
        else:
            scene = scene.with_horizon(self._read_horizon(scene, clock))
            bound = scene.ground.horizon.bound if scene.ground.horizon else None
            top = Cursor((clock.floor_value(bound),)) if bound is not None else None
        horizon = scene.ground.horizon
        assert horizon
        if top is None:
            raise HorizonNotKnown(
                f"it is not known yet up to where {table} is complete{f': {horizon.reason}' if horizon.reason else ''}",
                hint="Try again once that is over; or begin with a first pass: syncd run.",
            )
        return SourceBound(cursor=top, proven=horizon.proven, reason=horizon.reason, source_identity=identity)

    def is_plan_current(self, plan: Plan) -> bool:
        """Whether the server, the table, its columns and the plan's index are those that the plan was made for."""
        world, body = plan.draft.basis, plan.draft.body
        try:
            table = self.source.describe_table(body["database"], body["table"])
        except SourceUnfit:
            return False
        created = format_instant(table.created) if table.created else None
        same = (
            world.schema == table.fingerprint
            and body["created"] == created
            and plan_rules.has_needed_index(body, table)
        )
        return same and world.source_identity == self.source.get_server_info().identity

    def queries(self, plan: Plan, passages: Sequence[ColumnMapping]) -> tuple[WindowQuery, ...]:
        """The statements that read the plan, one a window."""
        return plan_rules.build_queries(plan, passages, custom_query=self.settings.query)

    def order_fields(self, plan: Plan, passages: Sequence[ColumnMapping]) -> tuple[OrderField, ...]:
        """The fields of those statements that hold a row's position."""
        return plan_rules.make_order_fields(plan, passages)

    def _require_same_order(self, order: StreamOrder, chain: ExtractProgress) -> None:
        """Positions are gone on from only in the order in which they were made.

        Raises:
            SchemaDrift: it is another one.
        """
        require_valid_positions(order, chain.cursor, chain.snapshot.reached_key if chain.snapshot else START_CURSOR)
        if order == self._known_order or plan_rules.choose_plan_mode(chain, self.settings) is PlanMode.BEGIN:
            return
        in_first_pass = chain.snapshot is not None and not chain.snapshot.done
        plans = (
            self.history.read_plan(batch)
            for batch in chain.batch_ids_newest_first(up_to=chain.last_batch, after=BatchId(chain.generation, 0))
        )
        # Whoever set a mark by hand said so of the table as it was then; an abandoned plan tells as much as another.
        told = (plan for plan in plans if plan is None or (is_by_key if in_first_pass else records_order)(plan))
        if (before := next(told, None)) is not None:
            require_same_order(order, before)
            self._remade_detector.remember_plan(before)
        self._known_order = order

    def _plan_next(self, scene: _PlanningContext) -> BatchDraft | None:
        if must_check_nulls(scene.order, self.settings):
            self._prober.require_no_nulls(scene.order)
        way = plan_rules.choose_plan_mode(scene.watermark.required_extract_progress, self.settings)
        if (
            way is PlanMode.BEGIN
            and not self.settings.is_first_run_configured
            and (start := self.default_start()) is not None
        ):
            self.settings = replace(self.settings, first_run=FirstRun.FROM, start=start)
        clock = scene.order.clock
        if clock is None:
            return self._plan_by_key(scene, way)
        horizon = self._read_horizon(scene, clock)
        scene = self._with_table_identity(scene.with_horizon(horizon), horizon)
        if (due := self._find_reread_reason(scene, way, horizon)) is not None and self._was_read_since(
            scene, clock, due
        ):
            return self._plan_reread(scene, clock, due, horizon)
        if way is PlanMode.CHUNKS and self.request.since is None:
            # Its horizon is fixed already, whatever holds the one of now.
            return self._plan_chunk(scene)
        if horizon.bound is None:
            self.wait_reason = horizon.reason
            return None
        return self._plan_onward(scene, way, clock, horizon, horizon.bound)

    def _with_table_identity(self, scene: _PlanningContext, horizon: Horizon) -> _PlanningContext:
        """The scene, with what is known of the table that stands in it, and of those that stood there before."""
        ground = scene.ground
        seen = TableIncarnation(
            identity=ground.identity, created_at=format_instant(ground.created) if ground.created else None
        )
        made = self._remade_detector.detect(
            scene.order, scene.table, seen, scene.watermark.required_extract_progress, now=horizon.t0
        )
        return replace(scene, ground=replace(ground, incarnation=made))

    def _plan_onward(
        self, scene: _PlanningContext, way: PlanMode, clock: OrderClock, horizon: Horizon, bound: datetime
    ) -> BatchDraft | None:
        if self.request.since is not None:
            return self._plan_repair(scene, clock, bound)
        if way is PlanMode.BEGIN:
            return self._plan_first_batch(scene, clock, self._limit_bound(bound))
        return self._plan_increment(scene, clock, horizon, self._limit_bound(bound))

    # Reading again, after a break in the server's time.

    def _find_reread_reason(self, scene: _PlanningContext, way: PlanMode, horizon: Horizon) -> RereadReason | None:
        if way is PlanMode.BEGIN or not scene.final_mark:
            return None
        chain = scene.watermark.required_extract_progress
        return find_reread_reason(
            chain, horizon, identity=scene.ground.identity, newest=partial(self._find_newest_plan, scene.watermark)
        )

    def _find_newest_plan(self, watermark: Watermark) -> Plan | None:
        """The plan of the newest link that was read from the source."""
        chain = watermark.required_extract_progress
        for batch in chain.batch_ids_newest_first(up_to=chain.last_batch, after=BatchId(chain.generation, 0)):
            link = self.history.read_link(batch)
            if link is not None and link.kind is not BatchKind.ABANDONED:
                plan = self.history.read_plan(batch)
                if plan is None or plan_rules.reads_in_order(plan):
                    return plan
        return None

    def _reread_start(self, scene: _PlanningContext, clock: OrderClock, due: RereadReason) -> Cursor:
        return Cursor(
            (
                clock.ceil_value(
                    due.reread_since(clock.to_instant(scene.final_mark.values[0]), allowance=self.reread_margin)
                ),
            )
        )

    def _was_read_since(self, scene: _PlanningContext, clock: OrderClock, due: RereadReason) -> bool:
        """Whether any of that time has been read.

        Raises:
            SourceReplaced: nobody knows.
        """
        if due.clock_offset_unknown:
            raise SourceReplaced(
                "the server's clock went back, perhaps this machine's with it: nobody knows how far, and what was"
                f" stamped since may lie below the mark of {scene.table}, {scene.mark}",
                hint="Take the earliest time that the server showed since, less its longest transaction, and read from"
                f" there on: syncd watermark set -t {scene.table} --mysql-only --timestamp INSTANT"
                " --reason 'the clocks went back'",
            )
        return plan_rules.may_hold_rows(scene.final_mark, self._reread_start(scene, clock, due))

    def _plan_reread(
        self, scene: _PlanningContext, clock: OrderClock, due: RereadReason, horizon: Horizon
    ) -> BatchDraft | None:
        top, low = scene.final_mark, self._reread_start(scene, clock, due)
        if horizon.bound is None or plan_rules.may_hold_rows(top, Cursor((clock.floor_value(horizon.bound),))):
            self._wait_for_server_clock(scene, clock, due, horizon, low)
            return None
        path = IndexPath.from_order(scene.order)
        where = partial(self._window_condition, path, top)
        found = self._prober.find_all_bounds(path, low, where, rows=self.settings.batch_rows)
        return plan_rules.plan_reread(scene.ground, scene.order, found, due.fields())

    def _wait_for_server_clock(
        self, scene: _PlanningContext, clock: OrderClock, due: RereadReason, horizon: Horizon, low: Cursor
    ) -> None:
        """What is below the mark can still change: it is read again once it cannot.

        Raises:
            SourceReplaced: a clock went back, which a person should know.
        """
        shown = f"{horizon.t0:%Y-%m-%d %H:%M:%S} UTC"
        if due.clock_went_back:
            since = clock.to_instant(low.values[0])
            raise SourceReplaced(
                f"the server's clock went back: it shows {shown}, and {scene.table} is read up to {scene.final_mark}",
                hint=f"Once it has passed that, everything from {low} on is read again. To go on now: "
                f"syncd watermark set -t {scene.table} --mysql-only --timestamp '{since:%Y-%m-%d %H:%M:%S.%f}'"
                " --reason 'the clock went back'",
            )
        held = f": {horizon.reason}" if horizon.reason else ""
        self.wait_reason = (
            f"another server answers; what was read from {low} on is read again once it is complete{held}"
        )

    def _plan_key_reread(self, scene: _PlanningContext, due: RereadReason, top: Cursor | None) -> BatchDraft | None:
        """The last keys before the mark: what numbers another server gave again, nobody knows."""
        if top is None or plan_rules.may_hold_rows(scene.mark, top):
            self.wait_reason = "another server answers; its last rows are read again once they are complete"
            return None
        path = IndexPath.from_order(scene.order)
        rows = self.settings.batch_rows
        low = (
            self._prober.find_last(path, self._window_condition(path, scene.mark, START_CURSOR), before=rows)
            or START_CURSOR
        )
        found = self._prober.find_all_bounds(path, low, partial(self._window_condition, path, scene.mark), rows=rows)
        return plan_rules.plan_reread(scene.ground, scene.order, found, due.fields())

    @staticmethod
    def _window_condition(path: IndexPath, top: Cursor, low: Cursor) -> str:
        return window_condition(path.columns, Window(low, top))

    # The ways on.

    def _plan_whole_table(self, watermark: Watermark, ground: PlanContext, table: SourceTable) -> BatchDraft | None:
        plan_rules.require_no_bounds(self.request, self.settings)
        if next(self._links_of_this_run(watermark, BatchKind.SNAPSHOT), None) is not None:
            self.complete_before = self._run_goal
            return None
        found = self._read_whole_table_horizon(ground, table)  # before its snapshot is opened
        self._run_goal = found.bound
        return plan_rules.plan_whole_table(
            replace(ground, horizon=found), table.database, table.name, proven=found.proven
        )

    def _read_whole_table_horizon(self, ground: PlanContext, table: SourceTable) -> Horizon:
        """What is to be seen of a table that is read whole."""
        if self.read_snapshot_horizon is None:
            now = self._prober.read_clock()
            return Horizon(bound=now, proven=True, t0=now, identity=ground.identity)
        found = self.read_snapshot_horizon(TableName(database=table.database, table=table.name))
        return self._require_same_server(found, table, identity=ground.identity)

    def _links_of_this_run(self, watermark: Watermark, kind: BatchKind) -> Iterator[BatchLink]:
        """The links of a kind that came of this run, the newest first; an abandoned plan is none of them."""
        chain = watermark.required_extract_progress
        began = self._run_start[0] if self._run_start else chain.last_batch
        links = (
            self.history.read_link(batch) for batch in chain.batch_ids_newest_first(up_to=chain.last_batch, after=began)
        )
        return (link for link in links if link is not None and link.kind is kind)

    def _plan_first_batch(self, scene: _PlanningContext, clock: OrderClock, bound: datetime) -> BatchDraft | None:
        if self.settings.first_run is FirstRun.FROM:
            start = Cursor((clock.ceil_value(plan_rules.require_start(self.settings)),))
            return plan_rules.plan_start(scene.ground, scene.order, start)
        horizon = Cursor((clock.floor_value(bound),))
        if self.settings.first_run is FirstRun.NOW:
            return plan_rules.plan_start(scene.ground, scene.order, horizon)
        proven = scene.ground.horizon is not None and scene.ground.horizon.proven
        return self._plan_chunk_after(scene, START_CURSOR, horizon, proven=proven)

    def _plan_chunk(self, scene: _PlanningContext) -> BatchDraft | None:
        snapshot = scene.watermark.required_extract_progress.snapshot
        assert snapshot
        proven = self._first_pass_is_proven(scene.watermark)
        return self._plan_chunk_after(scene, snapshot.reached_key, snapshot.horizon, proven=proven)

    def _plan_chunk_after(
        self, scene: _PlanningContext, reached: Cursor, horizon: Cursor, *, proven: bool
    ) -> BatchDraft:
        path = IndexPath.from_key(scene.order)
        bounds = self._prober.find_bounds(
            path, reached, lambda low: after_condition(path.columns, low), rows=scene.max_rows
        )
        nulls = self.settings.null_cursor is NullCursor.SNAPSHOT_ONLY
        return plan_rules.plan_chunk(scene.ground, scene.order, bounds, horizon, proven=proven, include_nulls=nulls)

    def _first_pass_is_proven(self, watermark: Watermark) -> bool:
        """Whether the horizon of the first pass was proven when its first chunk fixed it: each chunk hands it on."""
        chain = watermark.required_extract_progress
        for batch in chain.batch_ids_newest_first(up_to=chain.last_batch, after=BatchId(chain.generation, 0)):
            link = self.history.read_link(batch)
            if link is not None and link.kind is BatchKind.SNAPSHOT:
                return link.proven
        return False

    def _plan_increment(
        self, scene: _PlanningContext, clock: OrderClock, horizon: Horizon, bound: datetime
    ) -> BatchDraft | None:
        # One pass reads up to the horizon of its beginning: a table that is always written to would never end it.
        self._run_goal = self._run_goal or bound
        top = Cursor((clock.floor_value(min(bound, self._run_goal)),))
        found = self._find_bounds(scene, scene.mark, top)
        if found.ends:
            return plan_rules.plan_increment(scene.ground, scene.order, found)
        if self._has_news_of_table(scene) and plan_rules.may_hold_rows(top, scene.mark):
            return plan_rules.plan_increment(scene.ground, scene.order, replace(found, ends=(top,)))
        self.complete_before = clock.to_instant(top.values[0])
        self.wait_reason = plan_rules.describe_long_hold(horizon, self.settings, self.request)
        if not must_check_nulls(scene.order, self.settings):
            self.idle_state = IdleState(context=scene, clock=clock, breaks=horizon.breaks)
        if (
            plan_rules.is_ahead_due(horizon, self.settings, checked_at=self._last_ahead_at)
            and self.request.until is None
        ):
            return self._plan_ahead(scene, clock, horizon, top)
        return None

    @staticmethod
    def _has_news_of_table(scene: _PlanningContext) -> bool:
        """Whether a batch is to say that the table is another one, though no row is due: without one, nobody would."""
        chain, made = scene.watermark.required_extract_progress, scene.ground.incarnation
        return (
            made is not None and made.replaced_in is not None and (chain.proven or made.replaced_in == chain.next_batch)
        )

    def _find_bounds(self, scene: _PlanningContext, low: Cursor, top: Cursor) -> WindowBounds:
        path = IndexPath.from_order(scene.order)
        if not plan_rules.may_hold_rows(top, low):
            return WindowBounds(low=low)
        return self._prober.find_bounds(path, low, partial(self._window_condition, path, top), rows=scene.max_rows)

    def _plan_ahead(
        self, scene: _PlanningContext, clock: OrderClock, horizon: Horizon, top: Cursor
    ) -> BatchDraft | None:
        look = self._find_last_scan(scene, clock, horizon, top)
        if (
            look is not None
            and look.unread_from is None
            and horizon.t0 - look.last_batch_at < self.settings.ahead_after
        ):
            return None
        path = IndexPath.from_order(scene.order)
        low = self._ahead_start(look, clock, top)
        found = self._prober.find_bounds(
            path, low, lambda begin: after_condition(path.columns, begin), rows=scene.max_rows, windows=1
        )
        if not found.has_more:
            # The top is reached. Rows that go on changing wait as long again, or this would never end.
            self._last_ahead_at = horizon.t0
            end = Cursor((clock.last_value,))
            if found.ends and found.high < end:
                # Open at its end: a row that changes again before it is read has moved up by then, and would be missed.
                # Where rows stand at the end of time, the last of them is as far as any can move.
                found = replace(found, ends=(end,))
        if not found.ends:
            return None
        draft = plan_rules.plan_beside_mark(BatchKind.AHEAD, scene.ground, scene.order, found)
        return with_scan_start(
            draft, look.started_at if look is not None and look.unread_from is not None else horizon.t0
        )

    def _find_last_scan(
        self, scene: _PlanningContext, clock: OrderClock, horizon: Horizon, top: Cursor
    ) -> AheadScan | None:
        chain, identity = scene.watermark.required_extract_progress, scene.ground.identity
        # A look from before then would have the next one begin at the top.
        since = clock.to_instant(top.values[0]) + self.settings.settle
        return find_last_scan(chain, self.history, identity=identity, now=horizon.t0, since=since)

    def _ahead_start(self, scan: AheadScan | None, clock: OrderClock, top: Cursor) -> Cursor:
        """Where the batch before left rows ahead unread, or the last look began; at least the horizon."""
        if scan is None:
            return top
        low = scan.unread_from or Cursor((clock.floor_value(scan.started_at - self.settings.settle),))
        return low if plan_rules.may_hold_rows(low, top) else top

    def _plan_by_key(self, scene: _PlanningContext, way: PlanMode) -> BatchDraft | None:
        plan_rules.require_no_time_range(self.request, self.settings)
        last = self._prober.find_last(IndexPath.from_order(scene.order), "TRUE")
        if scene.order.is_auto_increment:
            require_same_numbers(self.source, scene.table, scene.mark, last)
        self._require_same_rows(scene)
        scene, top = self._find_top_key(scene, last)
        draft = self._plan_keys_upto(scene, way, top)
        if draft is None:
            held = plan_rules.describe_hold(scene.ground.horizon) if scene.ground.horizon else ""
            waits = last is not None and plan_rules.may_hold_rows(last, scene.mark)
            self.wait_reason = self.wait_reason or (held if waits else "")
            return None
        witness = build_witness(self.source, scene.order, scene.table, draft.high)
        return replace(draft, body={**draft.body, "witness": witness})

    def _find_top_key(self, scene: _PlanningContext, last: Cursor | None) -> tuple[_PlanningContext, Cursor | None]:
        """The highest key below which none can still come, and the scene under the horizon that says so."""
        # The clock is read after the key, and here: a poll may be shared, and older than the key.
        seen = (
            None
            if last is None
            else SeenKey(key=last, before=self._prober.read_clock(), server=self._observation_scope(scene))
        )
        horizon = self._read_horizon(self._with_numbers_known_since(scene, seen), None)
        top = self._find_complete_key(scene, horizon, seen)
        if (
            top is not None
            and scene.order.is_auto_increment
            and find_restarted_number(self.source, scene.table, top, last)
        ):
            top = None  # it was known of a table that stood here before
        return scene.with_horizon(replace(horizon, proven=horizon.proven and scene.order.is_auto_increment)), top

    def _with_numbers_known_since(self, scene: _PlanningContext, seen: SeenKey | None) -> _PlanningContext:
        """The scene, with the instant since when what polls noted is known of this very table.

        What they noted before may be of the table that was read until then, whose numbers are given again.
        """
        made = scene.table.created + CREATION_TIME_RESOLUTION if scene.table.created else None
        if scene.is_restarted and seen is not None:
            add_seen_key(self.notes, seen)
            first = self.notes.read()[0].before
            made = first if made is None else max(made, first)
        return replace(scene, numbers_known_since=made)

    def _observation_scope(self, scene: _PlanningContext) -> str:
        """Of whom it is known what was seen: of this server, and of the table that it calls by this number."""
        identity = scene.ground.identity
        return f"{identity}, table {read_table_id(self.source, scene.table)}" if scene.is_restarted else identity

    def _find_complete_key(self, scene: _PlanningContext, horizon: Horizon, seen: SeenKey | None) -> Cursor | None:
        """The highest key below which none can still come."""
        if scene.order.is_auto_increment and (horizon.proven or horizon.max_complete_id is not None):
            return None if horizon.max_complete_id is None else Cursor.from_values(horizon.max_complete_id)
        if seen is not None:
            add_seen_key(self.notes, seen)
        return find_complete_key(self.notes, horizon, table_created_at=scene.table.created)

    def _plan_keys_upto(self, scene: _PlanningContext, way: PlanMode, top: Cursor | None) -> BatchDraft | None:
        horizon = scene.ground.horizon
        assert horizon
        if (due := self._find_reread_reason(scene, way, horizon)) is not None and due.is_other_server:
            return self._plan_key_reread(scene, due, top)
        if top is None:
            return None
        if way is PlanMode.BEGIN and self.settings.first_run is FirstRun.NOW:
            return plan_rules.plan_start(scene.ground, scene.order, top)
        if way is PlanMode.BEGIN and self.settings.first_run is FirstRun.FROM:
            return self._plan_start_at(scene, plan_rules.require_start(self.settings), top)
        found = self._find_bounds(scene, scene.mark, top)
        return plan_rules.plan_increment(scene.ground, scene.order, found) if found.ends else None

    def _plan_start_at(self, scene: _PlanningContext, instant: datetime, top: Cursor) -> BatchDraft | None:
        zone = parse_zone(self.zone or self._prober.read_zone())
        start = build_start_search(self.source, scene.order, scene.table, self.settings, instant=instant, zone=zone)
        before = start.find_position_before(top)
        if before is None:
            self.wait_reason = f"no row of {scene.table} is of {instant:%Y-%m-%d %H:%M:%S} UTC or later yet"
            return None
        return plan_rules.plan_start(scene.ground, scene.order, before)

    def _require_same_rows(self, scene: _PlanningContext) -> None:
        chain = scene.watermark.required_extract_progress
        plan = self.history.read_plan(chain.last_batch) if chain.seq and scene.mark else None
        if plan is not None and not plan_rules.reads_in_order(plan):
            plan = self._find_newest_plan(scene.watermark)
        if plan is not None and plan.draft.body.get("witness"):
            require_same_rows(self.source, scene.order, scene.table, plan, identity=scene.ground.identity)

    def _plan_repair(self, scene: _PlanningContext, clock: OrderClock, bound: datetime) -> BatchDraft | None:
        since, until = plan_rules.require_range(self.request)
        plans = (self.history.read_plan(link.id) for link in self._links_of_this_run(scene.watermark, BatchKind.REPAIR))
        read = (
            plan
            for plan in plans
            if plan is not None and plan_rules.reads_in_order(plan) and not is_automatic_reread(plan)
        )
        last = next(read, None)
        low = last.draft.windows[-1].high if last else Cursor((clock.ceil_value(since),))
        end, complete_to = Cursor((clock.end_value(until),)), Cursor((clock.floor_value(bound),))
        top = min(end, complete_to)
        found = self._find_bounds(scene, low, top)
        if self.settings.mode is Mode.APPEND and complete_to >= end:
            found = plan_rules.extend_to_end(found, end)
        if not found.ends and complete_to < end:
            held = scene.ground.horizon.reason if scene.ground.horizon else ""
            self.wait_reason = (
                f"the range is read up to {bound:%Y-%m-%d %H:%M:%S} UTC; what is later can still change"
                + (f": {held}" if held else "")
            )
        proven = scene.ground.horizon is not None and scene.ground.horizon.proven
        return (
            plan_rules.plan_beside_mark(BatchKind.REPAIR, scene.ground, scene.order, found, proven=proven)
            if found.ends
            else None
        )

    def _read_horizon(self, scene: _PlanningContext, clock: OrderClock | None, *, aged: float = 0.0) -> Horizon:
        """The horizon of the stream's table, of the very server whose rows are read.

        Raises:
            AnotherServer: it is of another one, of whose open transactions the one that is read knows nothing.
        """
        horizon = self._read_table_horizon(scene, clock, aged=aged)
        return self._require_same_server(horizon, scene.table, identity=scene.ground.identity)

    def _require_same_server(self, horizon: Horizon, table: SourceTable, *, identity: str) -> Horizon:
        if horizon.identity == identity:
            return horizon
        self.source.discard_connections()
        raise ServerChanged(
            f"two servers answer: {table} would be read from {identity},"
            f" and what is open is known of {horizon.identity}",
            hint="Both are asked anew. Does the source's address lead to several servers?",
        )

    def _read_table_horizon(self, scene: _PlanningContext, clock: OrderClock | None, *, aged: float) -> Horizon:
        """The horizon of the stream's table; of stamps that others make it is a guess, and says so."""
        chain, order = scene.watermark.required_extract_progress, scene.order
        mark = clock.to_instant(scene.mark.values[0]) if clock and scene.mark and chain.proven else None
        name = TableName(database=scene.table.database, table=scene.table.name)
        asked = HorizonRequest(
            table=name,
            mark=mark,
            settle=self.settings.settle,
            transactional=(scene.table.engine or "").lower() == "innodb",
            id_column=order.key[0].name if clock is None and order.is_auto_increment else None,
            table_created_at=scene.numbers_known_since,
        )
        column = scene.table.find_column(order.columns[0].name)
        stamp = find_stamp_kind(column) if clock and column else None
        if clock and stamp is None:
            return self._delayed_horizon(self.horizons.get_horizons([asked], aged=aged)[name], order)
        # A stream without a mark knows nothing of transactions older than the first poll: it waits for their end.
        if scene.mark:
            horizon = self.horizons.get_horizons([asked], aged=aged)[name]
        else:
            horizon = self.horizons.wait_for_horizons([asked], within=self.max_horizon_wait)[name]
        doubt = UNKNOWN_ZONE_REASON if stamp is StampKind.WALL and self.zone is None else ""
        if stamp and column and horizon.proven and not doubt:
            doubt = find_unstamped_change(self.source.show_create_table(scene.table.database, scene.table.name))
            if not doubt and not aged:  # of a stream at rest the bound is all that counts
                doubt = self._find_stamp_bypass(scene, column)
        return replace(horizon, proven=False, reason=horizon.reason or doubt) if doubt else horizon

    def _find_stamp_bypass(self, scene: _PlanningContext, column: SourceColumn) -> str:
        """What triggers do past the server's stamp, asked once; of an account that may not see them, nothing."""
        if self._triggers is None:
            self._triggers = parse_triggers(
                self.source.fetch_rows(before_triggers_sql(scene.table.database, scene.table.name))
            )
        return find_bypassing_trigger(
            self._triggers, column, mariadb=scene.ground.identity.startswith(MARIADB_IDENTITY_PREFIX)
        )

    def _delayed_horizon(self, horizon: Horizon, order: StreamOrder) -> Horizon:
        """A delay behind now, for stamps that someone else makes: when they are made, the server cannot tell."""
        delayed = horizon.t0 - self.settings.settle
        bound = delayed if horizon.bound is None else min(delayed, horizon.bound)
        reason = horizon.reason or f"{order.columns[0].name} is not stamped by the server at every insert and update"
        holder = horizon.holder if bound == horizon.bound else ""
        return replace(horizon, bound=bound, proven=False, reason=reason, holder=holder)

    def _limit_bound(self, bound: datetime) -> datetime:
        return bound if self.request.until is None else min(bound, self.request.until)
