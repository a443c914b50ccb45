"""Planning: asks the source where rows stand, and makes of the answers the draft of a stream's next batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from syncd.core import planner
from syncd.core.clocks import Clock
from syncd.core.columns import Passage
from syncd.core.errors import SourceUnfit
from syncd.core.horizon import Stamp, stamp_of, zone_of
from syncd.core.mysql_sql import after, within
from syncd.core.order import Order, order_of, require_no_nulls
from syncd.core.planner import Bounds, Ground, Request, Way
from syncd.core.ports import Asked, Horizon, Horizons, Source, TableName
from syncd.core.reading import OrderField, WindowQuery
from syncd.core.schema import Table
from syncd.core.settings import FirstRun, NullCursor, StreamSettings
from syncd.stages.growing import Notes, Remembered, Seen, complete, noted, require_same_numbers
from syncd.stages.probing import Path, Prober
from watermarks.batch import BatchId, Draft, Kind, Link, Plan
from watermarks.cursor import START, Cursor, instant_text
from watermarks.document import Watermark
from watermarks.window import Window

NO_ZONE: Final = "the zone of those who write is not said (source: zone)"


class Past(Protocol):
    """The chain as it stands; `watermarks.Chain` is one."""

    def plan(self, batch: BatchId) -> Plan | None: ...

    def link(self, batch: BatchId) -> Link | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """The source and the stream as they are for one proposal."""

    watermark: Watermark
    table: Table
    ground: Ground
    order: Order
    rows: int
    """How many may be planned."""

    @property
    def mark(self) -> Cursor:
        return self.ground.mark

    def under(self, horizon: Horizon) -> "_Scene":
        return replace(self, ground=replace(self.ground, horizon=horizon))


@dataclass(kw_only=True)
class Planner:
    """Plans the batches of one stream, for one run."""

    source: Source
    horizons: Horizons
    settings: StreamSettings
    past: Past
    zone: str | None = None
    """The session zone of those who write."""
    windows: int = 4
    """How many windows can be read at once."""
    request: Request = field(default_factory=Request)
    wait: timedelta = timedelta(0)
    """How long a stream without a mark waits for transactions of which nothing is known."""
    notes: Notes = field(default_factory=Remembered)
    waiting: str = ""
    """What is in the way, where the last proposal was none."""

    def __post_init__(self) -> None:
        self._prober = Prober(source=self.source, windows=self.windows)
        self._began: tuple[BatchId, int] | None = None
        self._looked_ahead: datetime | None = None
        self._goal: datetime | None = None

    def propose(self, watermark: Watermark) -> Draft | None:
        """What the next batch should move; None when there is nothing to do now.

        Raises:
            SourceUnfit: a table, key, index or right is missing.
            SchemaDrift: the table was made anew, or its key changed.
            ValueRefused: a row has no place in the order, and no policy lets it be.
        """
        self.waiting = ""
        chain = watermark.chain
        self._began = self._began or (chain.last, chain.tally.rows)
        rows = planner.rows_left(self.settings, self.request, done=chain.tally.rows - self._began[1])
        if rows <= 0:
            return None
        if reason := self.source.busy():
            self.waiting = reason
            return None
        table = self.source.table(self.settings.database, self.settings.table)
        ground = Ground(
            mark=chain.cursor,
            identity=self.source.server().identity,
            fingerprint=table.fingerprint,
            created=table.created,
        )
        if planner.way_of(chain, self.settings) is Way.WHOLE:
            return self._whole(watermark, ground, table)
        order = order_of(table, self.settings, zone=zone_of(self.zone or self._prober.zone()))
        order.require_positions(chain.cursor, chain.snapshot.reached if chain.snapshot else START)
        return self._next(_Scene(watermark=watermark, table=table, ground=ground, order=order, rows=rows))

    def holds(self, plan: Plan) -> bool:
        """Whether the server, the table and its columns are those that the plan was made for."""
        world, body = plan.draft.world, plan.draft.body
        try:
            table = self.source.table(body["database"], body["table"])
        except SourceUnfit:
            return False
        created = instant_text(table.created) if table.created else None
        same = world.schema == table.fingerprint and body["created"] == created
        return same and world.source_identity == self.source.server().identity

    def queries(self, plan: Plan, passages: Sequence[Passage]) -> tuple[WindowQuery, ...]:
        """The statements that read the plan, one a window."""
        return planner.queries_of(plan, passages, own=self.settings.query)

    def order(self, plan: Plan, passages: Sequence[Passage]) -> tuple[OrderField, ...]:
        """The fields of those statements that hold a row's position."""
        return planner.order_fields(plan, passages)

    def _next(self, scene: _Scene) -> Draft | None:
        if require_no_nulls(scene.order, self.settings):
            self._prober.refuse_nulls(scene.order)
        way = planner.way_of(scene.watermark.chain, self.settings)
        clock = scene.order.clock
        if clock is None:
            return self._grown(scene, way)
        horizon = self._horizon(scene, clock)
        scene = scene.under(horizon)
        if way is Way.CHUNKS and self.request.since is None:
            # Its horizon is fixed already, whatever holds the one of now.
            return self._chunk(scene)
        if horizon.bound is None:
            self.waiting = horizon.reason
            return None
        if self.request.since is not None:
            return self._repair(scene, clock, horizon.bound)
        if way is Way.BEGIN:
            return self._begin(scene, clock, self._until(horizon.bound))
        return self._follow(scene, clock, horizon, self._until(horizon.bound))

    def _whole(self, watermark: Watermark, ground: Ground, table: Table) -> Draft | None:
        planner.require_no_bounds(self.request, self.settings)
        if self._read_in_this_run(watermark, Kind.SNAPSHOT):
            return None
        return planner.whole(ground, table.database, table.name)

    def _read_in_this_run(self, watermark: Watermark, kind: Kind) -> list[Link]:
        """The links of a kind that came of this run; an abandoned plan is none of them."""
        chain = watermark.chain
        began = self._began[0] if self._began else chain.last
        links = (self.past.link(batch) for batch in chain.ids(after=began))
        return [link for link in links if link is not None and link.kind is kind]

    def _begin(self, scene: _Scene, clock: Clock, bound: datetime) -> Draft | None:
        if self.settings.first_run is FirstRun.FROM:
            start = Cursor((clock.ceil(planner.required_start(self.settings)),))
            return planner.beginning(scene.ground, scene.order, start)
        horizon = Cursor((clock.floor(bound),))
        if self.settings.first_run is FirstRun.NOW:
            return planner.beginning(scene.ground, scene.order, horizon)
        proven = scene.ground.horizon is not None and scene.ground.horizon.proven
        return self._chunk_after(scene, START, horizon, proven=proven)

    def _chunk(self, scene: _Scene) -> Draft | None:
        snapshot = scene.watermark.chain.snapshot
        assert snapshot
        proven = self._first_pass_is_proven(scene.watermark)
        return self._chunk_after(scene, snapshot.reached, snapshot.horizon, proven=proven)

    def _chunk_after(self, scene: _Scene, reached: Cursor, horizon: Cursor, *, proven: bool) -> Draft:
        path = Path.of_key(scene.order)
        bounds = self._prober.bounds(path, reached, lambda low: after(path.columns, low), rows=scene.rows)
        nulls = self.settings.null_cursor is NullCursor.SNAPSHOT_ONLY
        return planner.chunk(scene.ground, scene.order, bounds, horizon, proven=proven, nulls=nulls)

    def _first_pass_is_proven(self, watermark: Watermark) -> bool:
        """Whether the horizon of the first pass was proven when its first chunk fixed it: each chunk hands it on."""
        chain = watermark.chain
        for batch in chain.ids_back(upto=chain.last, after=BatchId(chain.generation, 0)):
            link = self.past.link(batch)
            if link is not None and link.kind is Kind.SNAPSHOT:
                return link.proven
        return False

    def _follow(self, scene: _Scene, clock: Clock, horizon: Horizon, bound: datetime) -> Draft | None:
        # One pass reads up to the horizon of its beginning: a table that is always written to would never end it.
        self._goal = self._goal or bound
        top = Cursor((clock.floor(min(bound, self._goal)),))
        found = self._between(scene, scene.mark, top)
        if found.ends:
            return planner.increment(scene.ground, scene.order, found)
        if planner.ahead_is_due(horizon, self.settings, looked=self._looked_ahead) and self.request.until is None:
            return self._ahead(scene, clock, horizon, top)
        return None

    def _between(self, scene: _Scene, low: Cursor, top: Cursor) -> Bounds:
        path = Path.of_order(scene.order)
        if not planner.reaches(top, low):
            return Bounds(low=low)
        return self._prober.bounds(path, low, lambda begin: within(path.columns, Window(begin, top)), rows=scene.rows)

    def _ahead(self, scene: _Scene, clock: Clock, horizon: Horizon, top: Cursor) -> Draft | None:
        path = Path.of_order(scene.order)
        low = self._end_of_ahead(scene.watermark, top)
        found = self._prober.bounds(path, low, lambda begin: after(path.columns, begin), rows=scene.rows, windows=1)
        if not found.more:
            # The top is reached. Rows that go on changing wait as long again, or this would never end.
            self._looked_ahead = horizon.t0
            if found.ends:
                # Open at its end: a row that changes again before it is read has moved up by then, and would be missed.
                found = replace(found, ends=(Cursor((clock.last,)),))
        return planner.beside(Kind.AHEAD, scene.ground, scene.order, found) if found.ends else None

    def _end_of_ahead(self, watermark: Watermark, top: Cursor) -> Cursor:
        """Where the batch before left rows ahead unread; else the horizon."""
        last = watermark.chain.last
        plan = self.past.plan(last) if last.seq else None
        if plan is None or plan.draft.kind is not Kind.AHEAD or not plan.draft.body["more"]:
            return top
        high = plan.draft.windows[-1].high
        return high if planner.reaches(high, top) else top

    def _grown(self, scene: _Scene, way: Way) -> Draft | None:
        planner.require_keys_only(self.request, self.settings)
        path = Path.of_order(scene.order)
        last = self._prober.last(path, "TRUE")
        if scene.order.counted:
            require_same_numbers(self.source, scene.table, scene.mark, last)
        elif last is not None:
            # The clock is read after the key, and here: a poll may be shared, and older than the key.
            noted(self.notes, Seen(high=last, before=self._prober.clock()))
        horizon = self._horizon(scene, None)
        scene = scene.under(replace(horizon, proven=horizon.proven and scene.order.counted))
        top = _complete_ids(horizon) if scene.order.counted else complete(self.notes, horizon)
        if top is None:
            self.waiting = horizon.reason if last is not None else ""
            return None
        if way is Way.BEGIN and self.settings.first_run is FirstRun.NOW:
            return planner.beginning(scene.ground, scene.order, top)
        found = self._between(scene, scene.mark, top)
        return planner.increment(scene.ground, scene.order, found) if found.ends else None

    def _repair(self, scene: _Scene, clock: Clock, bound: datetime) -> Draft | None:
        since, until = planner.required_range(self.request)
        done = self._read_in_this_run(scene.watermark, Kind.REPAIR)
        low = self._end_of(done[-1].id) if done else Cursor((clock.ceil(since),))
        top = min(Cursor((clock.ceil(until),)), Cursor((clock.floor(bound),)))
        found = self._between(scene, low, top)
        proven = scene.ground.horizon is not None and scene.ground.horizon.proven
        return planner.beside(Kind.REPAIR, scene.ground, scene.order, found, proven=proven) if found.ends else None

    def _end_of(self, batch: BatchId) -> Cursor:
        plan = self.past.plan(batch)
        assert plan
        return plan.draft.windows[-1].high

    def _horizon(self, scene: _Scene, clock: Clock | None) -> Horizon:
        """The horizon of the stream's table; of stamps that others make it is a guess, and says so."""
        chain, order = scene.watermark.chain, scene.order
        mark = clock.instant(scene.mark.values[0]) if clock and scene.mark and chain.proven else None
        name = TableName(database=scene.table.database, table=scene.table.name)
        asked = Asked(
            table=name,
            mark=mark,
            settle=self.settings.settle,
            transactional=(scene.table.engine or "").lower() == "innodb",
            id_column=order.key[0].name if clock is None and order.counted else None,
        )
        column = scene.table.column(order.columns[0].name)
        stamp = stamp_of(column) if clock and column else None
        if clock and stamp is None:
            return self._settled(self.horizons.of([asked])[name], order)
        # A stream without a mark knows nothing of transactions older than the first poll: it waits for their end.
        horizon = (self.horizons.of([asked]) if scene.mark else self.horizons.known([asked], within=self.wait))[name]
        guessed = stamp is Stamp.WALL and self.zone is None
        return replace(horizon, proven=False, reason=horizon.reason or NO_ZONE) if guessed else horizon

    def _settled(self, horizon: Horizon, order: Order) -> Horizon:
        """A delay behind now, for stamps that someone else makes: when they are made, the server cannot tell."""
        delayed = horizon.t0 - self.settings.settle
        bound = delayed if horizon.bound is None else min(delayed, horizon.bound)
        reason = horizon.reason or f"{order.columns[0].name} is not stamped by the server at every insert and update"
        return replace(horizon, bound=bound, proven=False, reason=reason)

    def _until(self, bound: datetime) -> datetime:
        return bound if self.request.until is None else min(bound, self.request.until)


def _complete_ids(horizon: Horizon) -> Cursor | None:
    return None if horizon.ids is None else Cursor.of(horizon.ids)
