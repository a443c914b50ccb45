"""Planning: asks the source where rows stand, and makes of the answers the draft of a stream's next batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from syncd.datatypes.columns import Passage
from syncd.datatypes.source_table import Column, Table
from syncd.errors import AnotherServer, NotKnownYet, SourceReplaced, SourceUnfit
from syncd.extract import plan_rules
from syncd.extract.index_probes import Path, Prober
from syncd.extract.key_witness import (
    MADE_WITHIN,
    begins_anew,
    id_of,
    require_same_numbers,
    require_same_rows,
    witness_of,
)
from syncd.extract.order_continuity import require_positions, require_same_order, tells_key, tells_order
from syncd.extract.plan_rules import Bounds, Ground, Request, Way
from syncd.extract.read_ahead import Look, Past, begun_at, last_look
from syncd.extract.reread import Due, due, is_again
from syncd.extract.start_position import start_of
from syncd.extract.table_replacement import Remaking
from syncd.horizon import Stamp, bypassed, stamp_of, triggers_of, unstamped, zone_of
from syncd.horizon.key_gaps import Notes, Remembered, Seen, complete, noted
from syncd.lake.window_reads import OrderField, WindowQuery
from syncd.mysql.sql import MARIADB, after, anything_new, as_identity, triggers_before, within
from syncd.operations.adoption_rules import Closed
from syncd.ports.source import Asked, Break, Horizon, Horizons, Source, TableName
from syncd.settings import FirstRun, Mode, NullCursor, StreamSettings
from syncd.tables.order_clock import Clock
from syncd.tables.sort_order import Order, order_of, require_no_nulls
from syncd.tables.table_identity import Made
from watermarks.batch import BatchId, Draft, Kind, Link, Plan
from watermarks.cursor import START, Cursor, instant_text
from watermarks.document import Watermark
from watermarks.names import StreamName
from watermarks.progress import Extracted
from watermarks.window import Window

if TYPE_CHECKING:
    from syncd.horizon import Trigger

AGED: Final = 1.0
"""Seconds by which the horizon of a stream at rest may be behind: for many such streams, one poll."""
NO_ZONE: Final = "the zone of those who write is not said (source: zone)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """The source and the stream as they are for one proposal."""

    watermark: Watermark
    table: Table
    ground: Ground
    order: Order
    rows: int
    """How many may be planned."""
    made: datetime | None = None
    """Of a table that is read by its key: since when what is known of its numbers is known of it."""

    @property
    def mark(self) -> Cursor:
        return self.ground.mark

    @property
    def reached(self) -> Cursor:
        """The mark; in the midst of a first pass what it will be."""
        snapshot = self.watermark.chain.snapshot
        return self.mark if snapshot is None or snapshot.done else snapshot.horizon

    @property
    def begins_again(self) -> bool:
        """Whether a person has set its marks, and nothing was read since: often because the table is another one."""
        return self.watermark.chain.generation > 1 and not self.watermark.chain.seq

    def under(self, horizon: Horizon) -> "_Scene":
        return replace(self, ground=replace(self.ground, horizon=horizon))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What was asked of where a proposal found that everything is read."""

    scene: _Scene
    clock: Clock
    breaks: tuple[Break, ...]
    """All that were known of."""


@dataclass(kw_only=True)
class Planner:
    """Plans the batches of one stream, for one run."""

    source: Source
    horizons: Horizons
    settings: StreamSettings
    past: Past
    current: Callable[[TableName], Horizon] | None = None
    """What any snapshot that is opened afterwards shows of a table; None: all that is committed by then."""
    zone: str | None = None
    """The session zone of those who write."""
    windows: int = 4
    """How many windows can be read at once."""
    request: Request = field(default_factory=Request)
    wait: timedelta = timedelta(0)
    """How long a stream without a mark waits for transactions of which nothing is known."""
    reread: timedelta = timedelta(minutes=10)
    """How far before the mark to read again, where a server's time has a break."""
    default_start: Callable[[], datetime | None] = lambda: None
    """Where streams begin that are told no other; asked only before a first run."""
    notes: Notes = field(default_factory=Remembered)
    waiting: str = ""
    """What is in the way, where the last proposal was none."""
    complete: datetime | None = None
    """Below which bound a proposal found nothing left to read; None where none has."""
    rest: Rest | None = None
    """Where that was so, and a few questions can tell whether it still is."""

    def __post_init__(self) -> None:
        self._prober = Prober(source=self.source, windows=self.windows)
        self._remaking = Remaking(source=self.source, links=self.past)
        self._began: tuple[BatchId, int] | None = None
        self._looked_ahead: datetime | None = None
        self._goal: datetime | None = None
        self._triggers: Sequence[Trigger] | None = None
        self._kept: Order | None = None
        """The order in which the stream goes on, once that is certain: plans of one run are made in one order."""

    def propose(self, watermark: Watermark) -> Draft | None:
        """What the next batch should move; None when there is nothing to do now.

        Raises:
            SourceUnfit: a table, key, index or right is missing.
            SchemaDrift: the table was made anew, or its key changed.
            ValueRefused: a row has no place in the order, and no policy lets it be.
        """
        self.waiting, self.rest = "", None
        try:
            return self._proposed(watermark)
        except AnotherServer as error:
            self.waiting = error.message
            return None

    def _proposed(self, watermark: Watermark) -> Draft | None:
        chain = watermark.chain
        self._began = self._began or (chain.last, chain.tally.rows)
        rows = plan_rules.rows_left(self.settings, self.request, done=chain.tally.rows - self._began[1])
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
        if plan_rules.way_of(chain, self.settings) is Way.WHOLE:
            return self._whole(watermark, ground, table)
        order = order_of(table, self.settings, zone=zone_of(self.zone or self._prober.zone()))
        self._require_same_order(order, chain)
        return self._next(_Scene(watermark=watermark, table=table, ground=ground, order=order, rows=rows))

    def rests(self, rest: Rest) -> bool:
        """Whether there is nothing to read still, as long as the stream itself stands where it stood.

        That is asked for far less than a proposal. What it does not look at, the table's columns among it, makes no
        difference before there is a row to read.
        """
        scene = rest.scene
        horizon = self._horizon(scene, rest.clock, aged=AGED)
        if horizon.bound is None or horizon.breaks != rest.breaks:
            return False
        identity = scene.ground.identity
        [(server, created, anything)] = self.source.rows(anything_new(scene.order, scene.mark, identity=identity))
        made = created.replace(tzinfo=UTC) if isinstance(created, datetime) else None
        if anything or made != scene.ground.created or as_identity(server) != identity:
            return False
        self.complete = rest.clock.instant(rest.clock.floor(self._until(horizon.bound)))
        self.waiting = plan_rules.held_by(horizon, self.settings, self.request)
        return True

    def closed(self) -> Closed:
        """The position below which the table is complete now: no row can come to stand there any more.

        A snapshot that is to hold all of that is opened after this returns.

        Raises:
            NotKnownYet: transactions that may write there are open since before anybody watched.
            AnotherServer: two answered.
        """
        table = self.source.table(self.settings.database, self.settings.table)
        order = order_of(table, self.settings, zone=zone_of(self.zone or self._prober.zone()))
        identity = self.source.server().identity
        ground = Ground(mark=START, identity=identity, fingerprint=table.fingerprint, created=table.created)
        new = Watermark.new(
            StreamName(source=self.settings.source, database=table.database, table=table.name), at=datetime.now(UTC)
        )
        scene = _Scene(watermark=new, table=table, ground=ground, order=order, rows=1)
        if (clock := order.clock) is None:
            scene, top = self._grown_top(scene, self._prober.last(Path.of_order(order), "TRUE"))
        else:
            scene = scene.under(self._horizon(scene, clock))
            bound = scene.ground.horizon.bound if scene.ground.horizon else None
            top = Cursor((clock.floor(bound),)) if bound is not None else None
        horizon = scene.ground.horizon
        assert horizon
        if top is None:
            raise NotKnownYet(
                f"it is not known yet up to where {table} is complete{f': {horizon.reason}' if horizon.reason else ''}",
                hint="Try again once that is over; or begin with a first pass: syncd run.",
            )
        return Closed(cursor=top, proven=horizon.proven, reason=horizon.reason, source_identity=identity)

    def holds(self, plan: Plan) -> bool:
        """Whether the server, the table, its columns and the plan's index are those that the plan was made for."""
        world, body = plan.draft.world, plan.draft.body
        try:
            table = self.source.table(body["database"], body["table"])
        except SourceUnfit:
            return False
        created = instant_text(table.created) if table.created else None
        same = world.schema == table.fingerprint and body["created"] == created and plan_rules.is_served(body, table)
        return same and world.source_identity == self.source.server().identity

    def queries(self, plan: Plan, passages: Sequence[Passage]) -> tuple[WindowQuery, ...]:
        """The statements that read the plan, one a window."""
        return plan_rules.queries_of(plan, passages, own=self.settings.query)

    def order(self, plan: Plan, passages: Sequence[Passage]) -> tuple[OrderField, ...]:
        """The fields of those statements that hold a row's position."""
        return plan_rules.order_fields(plan, passages)

    def _require_same_order(self, order: Order, chain: Extracted) -> None:
        """Positions are gone on from only in the order in which they were made.

        Raises:
            SchemaDrift: it is another one.
        """
        require_positions(order, chain.cursor, chain.snapshot.reached if chain.snapshot else START)
        if order == self._kept or plan_rules.way_of(chain, self.settings) is Way.BEGIN:
            return
        in_first_pass = chain.snapshot is not None and not chain.snapshot.done
        plans = (self.past.plan(batch) for batch in chain.ids_back(upto=chain.last, after=BatchId(chain.generation, 0)))
        # Whoever set a mark by hand said so of the table as it was then; an abandoned plan tells as much as another.
        told = (plan for plan in plans if plan is None or (tells_key if in_first_pass else tells_order)(plan))
        if (before := next(told, None)) is not None:
            require_same_order(order, before)
            self._remaking.told(before)
        self._kept = order

    def _next(self, scene: _Scene) -> Draft | None:
        if require_no_nulls(scene.order, self.settings):
            self._prober.refuse_nulls(scene.order)
        way = plan_rules.way_of(scene.watermark.chain, self.settings)
        if way is Way.BEGIN and not self.settings.first_run_told and (start := self.default_start()) is not None:
            self.settings = replace(self.settings, first_run=FirstRun.FROM, start=start)
        clock = scene.order.clock
        if clock is None:
            return self._grown(scene, way)
        horizon = self._horizon(scene, clock)
        scene = self._of_table(scene.under(horizon), horizon)
        if (due := self._due(scene, way, horizon)) is not None and self._lies_behind(scene, clock, due):
            return self._reread(scene, clock, due, horizon)
        if way is Way.CHUNKS and self.request.since is None:
            # Its horizon is fixed already, whatever holds the one of now.
            return self._chunk(scene)
        if horizon.bound is None:
            self.waiting = horizon.reason
            return None
        return self._onward(scene, way, clock, horizon, horizon.bound)

    def _of_table(self, scene: _Scene, horizon: Horizon) -> _Scene:
        """The scene, with what is known of the table that stands in it, and of those that stood there before."""
        ground = scene.ground
        seen = Made(identity=ground.identity, created=instant_text(ground.created) if ground.created else None)
        made = self._remaking.look(scene.order, scene.table, seen, scene.watermark.chain, now=horizon.t0)
        return replace(scene, ground=replace(ground, made=made))

    def _onward(self, scene: _Scene, way: Way, clock: Clock, horizon: Horizon, bound: datetime) -> Draft | None:
        if self.request.since is not None:
            return self._repair(scene, clock, bound)
        if way is Way.BEGIN:
            return self._begin(scene, clock, self._until(bound))
        return self._follow(scene, clock, horizon, self._until(bound))

    # Reading again, after a break in the server's time.

    def _due(self, scene: _Scene, way: Way, horizon: Horizon) -> Due | None:
        if way is Way.BEGIN or not scene.reached:
            return None
        chain = scene.watermark.chain
        return due(chain, horizon, identity=scene.ground.identity, newest=partial(self._newest, scene.watermark))

    def _newest(self, watermark: Watermark) -> Plan | None:
        """The plan of the newest link that was read from the source."""
        chain = watermark.chain
        for batch in chain.ids_back(upto=chain.last, after=BatchId(chain.generation, 0)):
            link = self.past.link(batch)
            if link is not None and link.kind is not Kind.ABANDONED:
                plan = self.past.plan(batch)
                if plan is None or plan_rules.reads(plan):
                    return plan
        return None

    def _since(self, scene: _Scene, clock: Clock, due: Due) -> Cursor:
        return Cursor((clock.ceil(due.since(clock.instant(scene.reached.values[0]), allowance=self.reread)),))

    def _lies_behind(self, scene: _Scene, clock: Clock, due: Due) -> bool:
        """Whether any of that time has been read.

        Raises:
            SourceReplaced: nobody knows.
        """
        if due.unknown:
            raise SourceReplaced(
                "the server's clock went back, perhaps this machine's with it: nobody knows how far, and what was"
                f" stamped since may lie below the mark of {scene.table}, {scene.mark}",
                hint="Take the earliest time that the server showed since, less its longest transaction, and read from"
                f" there on: syncd watermark set -t {scene.table} --mysql-only --timestamp INSTANT"
                " --reason 'the clocks went back'",
            )
        return plan_rules.reaches(scene.reached, self._since(scene, clock, due))

    def _reread(self, scene: _Scene, clock: Clock, due: Due, horizon: Horizon) -> Draft | None:
        top, low = scene.reached, self._since(scene, clock, due)
        if horizon.bound is None or plan_rules.reaches(top, Cursor((clock.floor(horizon.bound),))):
            self._wait_for_its_clock(scene, clock, due, horizon, low)
            return None
        path = Path.of_order(scene.order)
        where = partial(self._within, path, top)
        found = self._prober.every(path, low, where, rows=self.settings.batch_rows)
        return plan_rules.again(scene.ground, scene.order, found, due.fields())

    def _wait_for_its_clock(self, scene: _Scene, clock: Clock, due: Due, horizon: Horizon, low: Cursor) -> None:
        """What is below the mark can still change: it is read again once it cannot.

        Raises:
            SourceReplaced: a clock went back, which a person should know.
        """
        shown = f"{horizon.t0:%Y-%m-%d %H:%M:%S} UTC"
        if due.clock:
            since = clock.instant(low.values[0])
            raise SourceReplaced(
                f"the server's clock went back: it shows {shown}, and {scene.table} is read up to {scene.reached}",
                hint=f"Once it has passed that, everything from {low} on is read again. To go on now: "
                f"syncd watermark set -t {scene.table} --mysql-only --timestamp '{since:%Y-%m-%d %H:%M:%S.%f}'"
                " --reason 'the clock went back'",
            )
        held = f": {horizon.reason}" if horizon.reason else ""
        self.waiting = f"another server answers; what was read from {low} on is read again once it is complete{held}"

    def _reread_keys(self, scene: _Scene, due: Due, top: Cursor | None) -> Draft | None:
        """The last keys before the mark: what numbers another server gave again, nobody knows."""
        if top is None or plan_rules.reaches(scene.mark, top):
            self.waiting = "another server answers; its last rows are read again once they are complete"
            return None
        path = Path.of_order(scene.order)
        rows = self.settings.batch_rows
        low = self._prober.last(path, self._within(path, scene.mark, START), before=rows) or START
        found = self._prober.every(path, low, partial(self._within, path, scene.mark), rows=rows)
        return plan_rules.again(scene.ground, scene.order, found, due.fields())

    @staticmethod
    def _within(path: Path, top: Cursor, low: Cursor) -> str:
        return within(path.columns, Window(low, top))

    # The ways on.

    def _whole(self, watermark: Watermark, ground: Ground, table: Table) -> Draft | None:
        plan_rules.require_no_bounds(self.request, self.settings)
        if next(self._read_in_this_run(watermark, Kind.SNAPSHOT), None) is not None:
            self.complete = self._goal
            return None
        found = self._current(ground, table)  # before its snapshot is opened
        self._goal = found.bound
        return plan_rules.whole(replace(ground, horizon=found), table.database, table.name, proven=found.proven)

    def _current(self, ground: Ground, table: Table) -> Horizon:
        """What is to be seen of a table that is read whole."""
        if self.current is None:
            now = self._prober.clock()
            return Horizon(bound=now, proven=True, t0=now, identity=ground.identity)
        found = self.current(TableName(database=table.database, table=table.name))
        return self._of_its_server(found, table, identity=ground.identity)

    def _read_in_this_run(self, watermark: Watermark, kind: Kind) -> Iterator[Link]:
        """The links of a kind that came of this run, the newest first; an abandoned plan is none of them."""
        chain = watermark.chain
        began = self._began[0] if self._began else chain.last
        links = (self.past.link(batch) for batch in chain.ids_back(upto=chain.last, after=began))
        return (link for link in links if link is not None and link.kind is kind)

    def _begin(self, scene: _Scene, clock: Clock, bound: datetime) -> Draft | None:
        if self.settings.first_run is FirstRun.FROM:
            start = Cursor((clock.ceil(plan_rules.required_start(self.settings)),))
            return plan_rules.beginning(scene.ground, scene.order, start)
        horizon = Cursor((clock.floor(bound),))
        if self.settings.first_run is FirstRun.NOW:
            return plan_rules.beginning(scene.ground, scene.order, horizon)
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
        return plan_rules.chunk(scene.ground, scene.order, bounds, horizon, proven=proven, nulls=nulls)

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
            return plan_rules.increment(scene.ground, scene.order, found)
        if self._has_news_of_table(scene) and plan_rules.reaches(top, scene.mark):
            return plan_rules.increment(scene.ground, scene.order, replace(found, ends=(top,)))
        self.complete = clock.instant(top.values[0])
        self.waiting = plan_rules.held_by(horizon, self.settings, self.request)
        if not require_no_nulls(scene.order, self.settings):
            self.rest = Rest(scene=scene, clock=clock, breaks=horizon.breaks)
        if plan_rules.ahead_is_due(horizon, self.settings, looked=self._looked_ahead) and self.request.until is None:
            return self._ahead(scene, clock, horizon, top)
        return None

    @staticmethod
    def _has_news_of_table(scene: _Scene) -> bool:
        """Whether a batch is to say that the table is another one, though no row is due: without one, nobody would."""
        chain, made = scene.watermark.chain, scene.ground.made
        return made is not None and made.remade is not None and (chain.proven or made.remade == chain.next)

    def _between(self, scene: _Scene, low: Cursor, top: Cursor) -> Bounds:
        path = Path.of_order(scene.order)
        if not plan_rules.reaches(top, low):
            return Bounds(low=low)
        return self._prober.bounds(path, low, partial(self._within, path, top), rows=scene.rows)

    def _ahead(self, scene: _Scene, clock: Clock, horizon: Horizon, top: Cursor) -> Draft | None:
        look = self._last_look(scene, clock, horizon, top)
        if look is not None and look.left is None and horizon.t0 - look.ended < self.settings.ahead_after:
            return None
        path = Path.of_order(scene.order)
        low = self._begin_of_ahead(look, clock, top)
        found = self._prober.bounds(path, low, lambda begin: after(path.columns, begin), rows=scene.rows, windows=1)
        if not found.more:
            # The top is reached. Rows that go on changing wait as long again, or this would never end.
            self._looked_ahead = horizon.t0
            end = Cursor((clock.last,))
            if found.ends and found.high < end:
                # Open at its end: a row that changes again before it is read has moved up by then, and would be missed.
                # Where rows stand at the end of time, the last of them is as far as any can move.
                found = replace(found, ends=(end,))
        if not found.ends:
            return None
        draft = plan_rules.beside(Kind.AHEAD, scene.ground, scene.order, found)
        return begun_at(draft, look.began if look is not None and look.left is not None else horizon.t0)

    def _last_look(self, scene: _Scene, clock: Clock, horizon: Horizon, top: Cursor) -> Look | None:
        chain, identity = scene.watermark.chain, scene.ground.identity
        # A look from before then would have the next one begin at the top.
        since = clock.instant(top.values[0]) + self.settings.settle
        return last_look(chain, self.past, identity=identity, now=horizon.t0, since=since)

    def _begin_of_ahead(self, look: Look | None, clock: Clock, top: Cursor) -> Cursor:
        """Where the batch before left rows ahead unread, or the last look began; at least the horizon."""
        if look is None:
            return top
        low = look.left or Cursor((clock.floor(look.began - self.settings.settle),))
        return low if plan_rules.reaches(low, top) else top

    def _grown(self, scene: _Scene, way: Way) -> Draft | None:
        plan_rules.require_keys_only(self.request, self.settings)
        last = self._prober.last(Path.of_order(scene.order), "TRUE")
        if scene.order.counted:
            require_same_numbers(self.source, scene.table, scene.mark, last)
        self._require_same_rows(scene)
        scene, top = self._grown_top(scene, last)
        draft = self._grown_upto(scene, way, top)
        if draft is None:
            held = plan_rules.hold_of(scene.ground.horizon) if scene.ground.horizon else ""
            waits = last is not None and plan_rules.reaches(last, scene.mark)
            self.waiting = self.waiting or (held if waits else "")
            return None
        witness = witness_of(self.source, scene.order, scene.table, draft.high)
        return replace(draft, body={**draft.body, "witness": witness})

    def _grown_top(self, scene: _Scene, last: Cursor | None) -> tuple[_Scene, Cursor | None]:
        """The highest key below which none can still come, and the scene under the horizon that says so."""
        # The clock is read after the key, and here: a poll may be shared, and older than the key.
        seen = None if last is None else Seen(high=last, before=self._prober.clock(), server=self._whose(scene))
        horizon = self._horizon(self._known_since(scene, seen), None)
        top = self._complete(scene, horizon, seen)
        if top is not None and scene.order.counted and begins_anew(self.source, scene.table, top, last):
            top = None  # it was known of a table that stood here before
        return scene.under(replace(horizon, proven=horizon.proven and scene.order.counted)), top

    def _known_since(self, scene: _Scene, seen: Seen | None) -> _Scene:
        """The scene, with the instant since when what polls noted is known of this very table.

        What they noted before may be of the table that was read until then, whose numbers are given again.
        """
        made = scene.table.created + MADE_WITHIN if scene.table.created else None
        if scene.begins_again and seen is not None:
            noted(self.notes, seen)
            first = self.notes.read()[0].before
            made = first if made is None else max(made, first)
        return replace(scene, made=made)

    def _whose(self, scene: _Scene) -> str:
        """Of whom it is known what was seen: of this server, and of the table that it calls by this number."""
        identity = scene.ground.identity
        return f"{identity}, table {id_of(self.source, scene.table)}" if scene.begins_again else identity

    def _complete(self, scene: _Scene, horizon: Horizon, seen: Seen | None) -> Cursor | None:
        """The highest key below which none can still come."""
        if scene.order.counted and (horizon.proven or horizon.ids is not None):
            return None if horizon.ids is None else Cursor.of(horizon.ids)
        if seen is not None:
            noted(self.notes, seen)
        return complete(self.notes, horizon, made=scene.table.created)

    def _grown_upto(self, scene: _Scene, way: Way, top: Cursor | None) -> Draft | None:
        horizon = scene.ground.horizon
        assert horizon
        if (due := self._due(scene, way, horizon)) is not None and due.other_server:
            return self._reread_keys(scene, due, top)
        if top is None:
            return None
        if way is Way.BEGIN and self.settings.first_run is FirstRun.NOW:
            return plan_rules.beginning(scene.ground, scene.order, top)
        if way is Way.BEGIN and self.settings.first_run is FirstRun.FROM:
            return self._begun_at(scene, plan_rules.required_start(self.settings), top)
        found = self._between(scene, scene.mark, top)
        return plan_rules.increment(scene.ground, scene.order, found) if found.ends else None

    def _begun_at(self, scene: _Scene, instant: datetime, top: Cursor) -> Draft | None:
        zone = zone_of(self.zone or self._prober.zone())
        start = start_of(self.source, scene.order, scene.table, self.settings, instant=instant, zone=zone)
        before = start.before(top)
        if before is None:
            self.waiting = f"no row of {scene.table} is of {instant:%Y-%m-%d %H:%M:%S} UTC or later yet"
            return None
        return plan_rules.beginning(scene.ground, scene.order, before)

    def _require_same_rows(self, scene: _Scene) -> None:
        chain = scene.watermark.chain
        plan = self.past.plan(chain.last) if chain.seq and scene.mark else None
        if plan is not None and not plan_rules.reads(plan):
            plan = self._newest(scene.watermark)
        if plan is not None and plan.draft.body.get("witness"):
            require_same_rows(self.source, scene.order, scene.table, plan, identity=scene.ground.identity)

    def _repair(self, scene: _Scene, clock: Clock, bound: datetime) -> Draft | None:
        since, until = plan_rules.required_range(self.request)
        plans = (self.past.plan(link.id) for link in self._read_in_this_run(scene.watermark, Kind.REPAIR))
        read = (plan for plan in plans if plan is not None and plan_rules.reads(plan) and not is_again(plan))
        last = next(read, None)
        low = last.draft.windows[-1].high if last else Cursor((clock.ceil(since),))
        end, complete_to = Cursor((clock.end(until),)), Cursor((clock.floor(bound),))
        top = min(end, complete_to)
        found = self._between(scene, low, top)
        if self.settings.mode is Mode.APPEND and complete_to >= end:
            found = plan_rules.upto_end(found, end)
        if not found.ends and complete_to < end:
            held = scene.ground.horizon.reason if scene.ground.horizon else ""
            self.waiting = f"the range is read up to {bound:%Y-%m-%d %H:%M:%S} UTC; what is later can still change" + (
                f": {held}" if held else ""
            )
        proven = scene.ground.horizon is not None and scene.ground.horizon.proven
        return plan_rules.beside(Kind.REPAIR, scene.ground, scene.order, found, proven=proven) if found.ends else None

    def _horizon(self, scene: _Scene, clock: Clock | None, *, aged: float = 0.0) -> Horizon:
        """The horizon of the stream's table, of the very server whose rows are read.

        Raises:
            AnotherServer: it is of another one, of whose open transactions the one that is read knows nothing.
        """
        horizon = self._horizon_of_table(scene, clock, aged=aged)
        return self._of_its_server(horizon, scene.table, identity=scene.ground.identity)

    def _of_its_server(self, horizon: Horizon, table: Table, *, identity: str) -> Horizon:
        if horizon.identity == identity:
            return horizon
        self.source.forget()
        raise AnotherServer(
            f"two servers answer: {table} would be read from {identity},"
            f" and what is open is known of {horizon.identity}",
            hint="Both are asked anew. Does the source's address lead to several servers?",
        )

    def _horizon_of_table(self, scene: _Scene, clock: Clock | None, *, aged: float) -> Horizon:
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
            made=scene.made,
        )
        column = scene.table.column(order.columns[0].name)
        stamp = stamp_of(column) if clock and column else None
        if clock and stamp is None:
            return self._settled(self.horizons.of([asked], aged=aged)[name], order)
        # A stream without a mark knows nothing of transactions older than the first poll: it waits for their end.
        if scene.mark:
            horizon = self.horizons.of([asked], aged=aged)[name]
        else:
            horizon = self.horizons.known([asked], within=self.wait)[name]
        doubt = NO_ZONE if stamp is Stamp.WALL and self.zone is None else ""
        if stamp and column and horizon.proven and not doubt:
            doubt = unstamped(self.source.created_by(scene.table.database, scene.table.name))
            if not doubt and not aged:  # of a stream at rest the bound is all that counts
                doubt = self._bypassed(scene, column)
        return replace(horizon, proven=False, reason=horizon.reason or doubt) if doubt else horizon

    def _bypassed(self, scene: _Scene, column: Column) -> str:
        """What triggers do past the server's stamp, asked once; of an account that may not see them, nothing."""
        if self._triggers is None:
            self._triggers = triggers_of(self.source.rows(triggers_before(scene.table.database, scene.table.name)))
        return bypassed(self._triggers, column, mariadb=scene.ground.identity.startswith(MARIADB))

    def _settled(self, horizon: Horizon, order: Order) -> Horizon:
        """A delay behind now, for stamps that someone else makes: when they are made, the server cannot tell."""
        delayed = horizon.t0 - self.settings.settle
        bound = delayed if horizon.bound is None else min(delayed, horizon.bound)
        reason = horizon.reason or f"{order.columns[0].name} is not stamped by the server at every insert and update"
        holder = horizon.holder if bound == horizon.bound else ""
        return replace(horizon, bound=bound, proven=False, reason=reason, holder=holder)

    def _until(self, bound: datetime) -> datetime:
        return bound if self.request.until is None else min(bound, self.request.until)
