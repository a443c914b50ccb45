"""Plans of first passes, chunk by chunk along the key, and of tables that are read whole each time."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from syncd.datatypes.source_table import SourceTable
from syncd.extract.horizon_reader import HorizonReader
from syncd.extract.index_probes import IndexPath, Prober
from syncd.extract.plan_drafts import plan_chunk, plan_start, plan_whole_table
from syncd.extract.plan_rules import PlanContext, Proposal, ProposalContext, require_start
from syncd.settings import FirstRun, NullCursor
from syncd.tables.order_clock import OrderClock
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.extraction import BatchChain
from watermarks.progress import ExtractProgress


def links_since(progress: ExtractProgress, history: BatchChain, batch: BatchId, kind: BatchKind) -> Iterator[BatchLink]:
    """Return the links of a kind after a batch, the newest first; an abandoned plan has another kind."""
    links = map(history.read_link, progress.batch_ids_newest_first(up_to=progress.last_batch, after=batch))
    return (link for link in links if link is not None and link.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlanner:
    """Plans the first pass over a table that is read by its stamps."""

    prober: Prober
    history: BatchChain

    def plan_first(self, context: ProposalContext, clock: OrderClock, bound: datetime) -> BatchDraft:
        """Plan the first batch: the first chunk, or the mark at which the stream begins without one."""
        if context.settings.first_run is FirstRun.FROM:
            start = Cursor((clock.ceil_value(require_start(context.settings)),))
            return plan_start(context.facts, context.order, start)
        horizon = Cursor((clock.floor_value(bound),))
        if context.settings.first_run is FirstRun.NOW:
            return plan_start(context.facts, context.order, horizon)
        return self._plan_chunk(context, START_CURSOR, horizon, proven=context.horizon.proven)

    def plan_next(self, context: ProposalContext) -> BatchDraft:
        """Plan the next chunk, up to the horizon that the first one fixed."""
        snapshot = context.progress.snapshot
        assert snapshot
        # The first chunk recorded whether that horizon was proven; each chunk carries it on.
        chunks = links_since(
            context.progress, self.history, BatchId(context.progress.generation, 0), BatchKind.SNAPSHOT
        )
        newest = next(chunks, None)
        proven = newest is not None and newest.proven
        return self._plan_chunk(context, snapshot.reached_key, snapshot.horizon, proven=proven)

    def _plan_chunk(self, context: ProposalContext, reached: Cursor, horizon: Cursor, *, proven: bool) -> BatchDraft:
        path = IndexPath.from_key(context.order)
        bounds = self.prober.find_bounds(path, reached, path.rows_after, rows=context.max_rows)
        nulls = context.settings.null_cursor is NullCursor.SNAPSHOT_ONLY
        return plan_chunk(context.facts, context.order, bounds, horizon, proven=proven, include_nulls=nulls)


@dataclass(kw_only=True)
class WholeTablePlanner:
    """Plans to read a table whole, once a run."""

    horizons: HorizonReader
    history: BatchChain
    _complete_before: datetime | None = field(default=None, init=False)

    def plan(
        self, progress: ExtractProgress, facts: PlanContext, table: SourceTable, *, run_start: BatchId
    ) -> Proposal:
        if next(links_since(progress, self.history, run_start, BatchKind.SNAPSHOT), None) is not None:
            return Proposal(complete_before=self._complete_before)
        horizon = self.horizons.read_whole_table_horizon(facts, table)  # before its snapshot is opened
        self._complete_before = horizon.bound
        draft = plan_whole_table(replace(facts, horizon=horizon), table.database, table.name, proven=horizon.proven)
        return Proposal(draft=draft)
