"""Planner of one stream: asks the source where rows stand, and proposes the stream's next batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.datatypes.mysql_quoting import decode_text
from syncd.datatypes.source_table import SourceTable
from syncd.errors import HorizonNotKnown, ServerChanged, SourceUnfit
from syncd.extract.ahead_of_horizon import AheadPlanner
from syncd.extract.horizon_reader import HorizonReader
from syncd.extract.index_probes import Prober
from syncd.extract.key_planner import KeyPlanner
from syncd.extract.order_continuity import OrderChecker
from syncd.extract.plan_body import build_queries, has_needed_index, make_order_fields
from syncd.extract.plan_rules import (
    ExtractRequest,
    IdleState,
    PlanContext,
    PlanMode,
    Proposal,
    ProposalContext,
    choose_plan_mode,
    describe_long_hold,
    require_no_bounds,
    rows_left,
)
from syncd.extract.reread_after_clock_break import RereadPlanner
from syncd.extract.snapshot_and_increment_planner import IncrementPlanner, SnapshotPlanner, WholeTablePlanner
from syncd.extract.table_replacement import RemadeTableDetector
from syncd.horizon.key_gaps import InMemorySeenKeys, SeenKeyStore
from syncd.lake.read_requests import OrderField, WindowQuery
from syncd.mysql.sql import new_rows_check_sql
from syncd.ports.source import Horizon, HorizonProvider, SourceBound, SourceDatabase, TableName
from syncd.settings import FirstRun, StreamSettings
from syncd.tables.order_clock import OrderClock, parse_zone
from syncd.tables.sort_order import StreamOrder, must_check_nulls, resolve_order
from watermarks.batch import BatchDraft, BatchId, Plan
from watermarks.cursor import START_CURSOR, Cursor, format_instant
from watermarks.document import Watermark
from watermarks.extraction import BatchChain
from watermarks.progress import ExtractProgress

IDLE_HORIZON_MAX_AGE_SECONDS: Final = 1.0
"""Greatest age of the horizon of a stream at rest: many such streams share one poll."""


@dataclass(kw_only=True)
class Planner:
    """Plans the batches of one stream, for one run."""

    source: SourceDatabase
    horizons: HorizonProvider
    settings: StreamSettings
    history: BatchChain
    read_snapshot_horizon: Callable[[TableName], Horizon] | None = None
    """Returns what any snapshot that is opened afterwards shows of a table; None: all that is committed by then."""
    zone: str | None = None
    """The session time zone of writers."""
    windows: int = 4
    """Windows that can be read at once."""
    request: ExtractRequest = field(default_factory=ExtractRequest)
    max_horizon_wait: timedelta = timedelta(0)
    """Longest wait of a stream without a mark, for transactions of which nothing is known."""
    reread_margin: timedelta = timedelta(minutes=10)
    """Time before the mark that is read again after a break in the server's time."""
    default_start: Callable[[], datetime | None] = lambda: None
    """Returns where a stream begins that has no start of its own; called only before a first run."""
    notes: SeenKeyStore = field(default_factory=InMemorySeenKeys)
    wait_reason: str = field(default="", init=False)
    """The obstacle, where the last proposal had no draft."""
    complete_before: datetime | None = field(default=None, init=False)
    """The bound below which a proposal found nothing left to read; None where none has."""
    idle_state: IdleState | None = field(default=None, init=False)
    """Facts of the last proposal, where a short check can tell whether there is still nothing to read."""

    def __post_init__(self) -> None:
        self._prober = Prober(source=self.source, windows=self.windows)
        self._horizon_reader = HorizonReader(
            source=self.source,
            prober=self._prober,
            horizons=self.horizons,
            read_snapshot_horizon=self.read_snapshot_horizon,
            zone=self.zone,
            max_wait=self.max_horizon_wait,
        )
        self._remade_detector = RemadeTableDetector(source=self.source, history=self.history)
        self._order_checker = OrderChecker(history=self.history, on_plan=self._remade_detector.remember_plan)
        self._rereads = RereadPlanner(prober=self._prober, history=self.history, margin=self.reread_margin)
        self._snapshots = SnapshotPlanner(prober=self._prober, history=self.history)
        self._whole_tables = WholeTablePlanner(horizons=self._horizon_reader, history=self.history)
        self._increments = IncrementPlanner(
            prober=self._prober,
            history=self.history,
            ahead=AheadPlanner(prober=self._prober, history=self.history),
        )
        self._keys = KeyPlanner(
            source=self.source,
            prober=self._prober,
            horizons=self._horizon_reader,
            rereads=self._rereads,
            history=self.history,
            notes=self.notes,
            zone=self.zone,
        )
        self._run_start: tuple[BatchId, int] | None = None

    def propose(self, watermark: Watermark) -> BatchDraft | None:
        """Propose the next batch; None when there is nothing to do now.

        Raises:
            SourceUnfit: a table, key, index or right is missing.
            SchemaDrift: the table was made anew, or its key changed.
            ValueRefused: a row has no place in the order, and no policy allows that.
        """
        progress = watermark.required_extract_progress
        self.wait_reason, self.idle_state = "", None
        self._run_start = self._run_start or (progress.last_batch, progress.counts.rows)
        run_start, rows_before = self._run_start
        rows = rows_left(self.settings, self.request, done=progress.counts.rows - rows_before)
        if rows <= 0:
            return None
        try:
            if reason := self.source.find_overload():
                self.wait_reason = reason
                return None
            table = self.source.describe_table(self.settings.database, self.settings.table)
            mode = choose_plan_mode(progress, self.settings)
            if mode is PlanMode.WHOLE:
                proposal = self._plan_whole_table(progress, table, run_start=run_start)
            else:
                context = self._read_context(progress, table, mode, max_rows=rows, run_start=run_start)
                clock = context.order.clock
                proposal = self._keys.plan(context) if clock is None else self._plan_by_time(context, clock)
        except ServerChanged as error:
            proposal = Proposal(wait_reason=error.message)
        self.wait_reason, self.idle_state = proposal.wait_reason, proposal.idle_state
        self.complete_before = proposal.complete_before or self.complete_before
        return proposal.draft

    def _plan_whole_table(self, progress: ExtractProgress, table: SourceTable, *, run_start: BatchId) -> Proposal:
        facts = self._read_facts(table, progress.cursor)
        require_no_bounds(self.request, self.settings)
        return self._whole_tables.plan(progress, facts, table, run_start=run_start)

    def _read_context(
        self, progress: ExtractProgress, table: SourceTable, mode: PlanMode, *, max_rows: int, run_start: BatchId
    ) -> ProposalContext:
        """Return the facts of a proposal, once the order of the stream has been checked."""
        facts = self._read_facts(table, progress.cursor)
        order = self._resolve_order(table)
        self._order_checker.require_same_order(order, progress, mode)
        if must_check_nulls(order, self.settings):
            self._prober.require_no_nulls(order)
        if mode is PlanMode.BEGIN:
            self._apply_default_start()
        return ProposalContext(
            progress=progress,
            table=table,
            facts=facts,
            order=order,
            settings=self.settings,
            request=self.request,
            mode=mode,
            max_rows=max_rows,
            run_start=run_start,
        )

    def _plan_by_time(self, context: ProposalContext, clock: OrderClock) -> Proposal:
        horizon = self._horizon_reader.read_horizon(context, clock)
        incarnation = self._remade_detector.detect(context, now=horizon.t0)
        context = replace(context, facts=replace(context.facts, horizon=horizon, incarnation=incarnation))
        if (proposal := self._rereads.plan_by_time(context, clock)) is not None:
            return proposal
        if context.mode is PlanMode.CHUNKS and self.request.since is None:
            # The first chunk has fixed the horizon of this pass, whatever holds the present one.
            return Proposal(draft=self._snapshots.plan_next(context))
        if horizon.bound is None:
            return Proposal(wait_reason=horizon.reason)
        if self.request.since is not None:
            return self._increments.plan_range(context, clock, horizon.bound)
        bound = self.request.limit_bound(horizon.bound)
        if context.mode is PlanMode.BEGIN:
            return Proposal(draft=self._snapshots.plan_first(context, clock, bound))
        return self._increments.plan(context, clock, bound)

    def is_still_idle(self, idle_state: IdleState) -> bool:
        """Return whether there is still nothing to read, provided that the stream's document has not changed.

        The check asks far less than a proposal. What it leaves out, such as the table's columns, makes no difference
        before there is a row to read.
        """
        context = idle_state.context
        horizon = self._horizon_reader.read_horizon(
            context, idle_state.clock, max_age_seconds=IDLE_HORIZON_MAX_AGE_SECONDS
        )
        if horizon.bound is None or horizon.breaks != idle_state.breaks:
            return False
        identity = context.facts.identity
        [(server, created, has_rows)] = self.source.fetch_rows(
            new_rows_check_sql(context.order, context.mark, identity=identity)
        )
        created_at = created.replace(tzinfo=UTC) if isinstance(created, datetime) else None
        if has_rows or created_at != context.facts.created or decode_text(server) != identity:
            return False
        bound = self.request.limit_bound(horizon.bound)
        self.complete_before = idle_state.clock.to_instant(idle_state.clock.floor_value(bound))
        self.wait_reason = describe_long_hold(horizon, self.settings, self.request)
        return True

    def find_closed_position(self) -> SourceBound:
        """Return the position below which the table is complete now: no row can still come to stand there.

        A snapshot that is to hold all those rows is opened after this returns.

        Raises:
            HorizonNotKnown: transactions that may write there have been open since before the first poll.
            ServerChanged: two servers answered.
        """
        table = self.source.describe_table(self.settings.database, self.settings.table)
        progress = ExtractProgress()
        context = ProposalContext(
            progress=progress,
            table=table,
            facts=self._read_facts(table, START_CURSOR),
            order=self._resolve_order(table),
            settings=self.settings,
            request=self.request,
            mode=PlanMode.BEGIN,
            max_rows=1,
            run_start=progress.last_batch,
        )
        if (clock := context.order.clock) is None:
            context, top = self._keys.find_top_key(context, self._keys.find_last_key(context))
        else:
            context = context.with_horizon(self._horizon_reader.read_horizon(context, clock))
            bound = context.horizon.bound
            top = Cursor((clock.floor_value(bound),)) if bound is not None else None
        horizon = context.horizon
        if top is None:
            held = f": {horizon.reason}" if horizon.reason else ""
            raise HorizonNotKnown(
                f"it is not known yet up to which position {table} is complete{held}",
                hint="Try again later, or begin with a first pass: syncd run.",
            )
        identity = context.facts.identity
        return SourceBound(cursor=top, proven=horizon.proven, reason=horizon.reason, source_identity=identity)

    def is_plan_current(self, plan: Plan) -> bool:
        """Return whether the server, the table, its columns and the plan's index are those of the plan."""
        basis, body = plan.draft.basis, plan.draft.body
        try:
            table = self.source.describe_table(body["database"], body["table"])
        except SourceUnfit:
            return False
        created = format_instant(table.created) if table.created else None
        is_same_table = basis.schema == table.fingerprint and body["created"] == created
        if not (is_same_table and has_needed_index(body, table)):
            return False
        return basis.source_identity == self.source.get_server_info().identity

    def queries(self, plan: Plan, mappings: Sequence[ColumnMapping]) -> tuple[WindowQuery, ...]:
        """Return the statements that read the plan, one a window."""
        return build_queries(plan, mappings, custom_query=self.settings.query)

    def order_fields(self, plan: Plan, mappings: Sequence[ColumnMapping]) -> tuple[OrderField, ...]:
        """Return the fields of those statements that hold a row's position."""
        return make_order_fields(plan, mappings)

    def _apply_default_start(self) -> None:
        if not self.settings.is_first_run_configured and (start := self.default_start()) is not None:
            self.settings = replace(self.settings, first_run=FirstRun.FROM, start=start)

    def _resolve_order(self, table: SourceTable) -> StreamOrder:
        return resolve_order(table, self.settings, zone=parse_zone(self.zone or self._prober.read_zone()))

    def _read_facts(self, table: SourceTable, mark: Cursor) -> PlanContext:
        identity = self.source.get_server_info().identity
        return PlanContext(mark=mark, identity=identity, fingerprint=table.fingerprint, created=table.created)
