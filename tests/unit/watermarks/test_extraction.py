from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.builders import NOON, ORDERS, RUN, Script, a_chunk, at, extract, hold, make_plan, make_process, upto
from watermarks.batch import BatchId, ChainBroken, Draft, Filled, Kind, Link, Plan, World
from watermarks.batch_states import State
from watermarks.cursor import START, Cursor
from watermarks.document import Failure, Stage, Watermark
from watermarks.errors import OutcomeUnknown
from watermarks.extraction import IDLE, Chain, Extraction
from watermarks.history import Change, Fenced, Journal, StateMissing
from watermarks.lease import Held, Process
from watermarks.names import link_key, plan_key
from watermarks.operator import Operator
from watermarks.progress import Run
from watermarks.store import Store
from watermarks.stores.memory import MemoryStore
from watermarks.testing import Fault, FaultyStore, ManualClock, Verb, on

FIRST = BatchId(1, 1)
Propose = Callable[[Watermark], Draft]


@dataclass
class Lake:
    """A store with one process that holds the extract stage."""

    store: Store = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.journal = Journal(self.store, Watermark, clock=self.clock)
        self.process = make_process(self.store, clock=self.clock)
        self.held = hold(self.process, self.journal)
        self.chain = Chain(self.journal, ORDERS)

    def extraction(self, script: Script, held: Held | None = None) -> Extraction:
        return Extraction(self.journal, held or self.held, script)

    def state(self) -> Watermark:
        state = self.journal.newest(ORDERS.stem)
        assert state
        return state

    def taken_over(self) -> tuple[Process, Held]:
        self.process.release(self.held)
        other = make_process(self.store, "p2", clock=self.clock)
        return other, hold(other, self.journal)


def test_a_turn_leaves_plan_link_entry_and_mark() -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 7))])

    turn = lake.extraction(script).turn(RUN)

    plan, link = lake.chain.plan(FIRST), lake.chain.link(FIRST)
    assert plan
    assert link
    assert (turn.state, turn.link) == (State.DONE, link)
    assert (link.plan, link.previous, link.rows, link.epoch) == (plan.digest, None, 3, 1)
    assert (lake.state().chain.cursor, lake.state().chain.last) == (at(1, 7), FIRST)
    assert lake.state().chain.chain == link.digest
    entry = lake.journal.entry(ORDERS.stem, 2)
    assert entry
    assert (entry.note.change, entry.note.who, entry.note.epoch) == (Change.EXTRACT, "p1", 1)


def test_links_name_the_link_before_them() -> None:
    lake = Lake()

    extract(lake.journal, lake.held, at(1, 1), at(2, 2), at(3, 3))

    links = [lake.chain.required(BatchId(1, seq)) for seq in (1, 2, 3)]
    assert [link.previous for link in links] == [None, links[0].digest, links[1].digest]


def test_nothing_to_propose_writes_nothing() -> None:
    lake = Lake()
    before = list(lake.store.list(""))

    assert lake.extraction(Script()).turn(RUN) is IDLE
    assert list(lake.store.list("")) == before


def test_a_window_without_rows_is_a_link_without_files() -> None:
    lake = Lake()

    turn = lake.extraction(Script(drafts=[upto(at(1, 1))], rows=0)).turn(RUN)

    assert turn.state is State.NOOP
    assert lake.state().chain.cursor == at(1, 1)


def kill_at(verb: Verb, key: str) -> Callable[[Lake], Store]:
    return lambda lake: FaultyStore(lake.store, on(verb, key, Fault.LOST_REQUEST, *[Fault.LOST_REQUEST] * 9))


@pytest.mark.parametrize(
    ("verb", "key", "plans"),
    [
        (Verb.CREATE, plan_key(ORDERS, FIRST), 2),
        (Verb.CREATE, link_key(ORDERS, FIRST), 1),
        (Verb.CREATE, f"history/{ORDERS.stem}/2.json", 1),
    ],
)
def test_a_turn_killed_anywhere_is_finished_by_the_next(verb: Verb, key: str, plans: int) -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 1)), upto(at(2, 2))])
    line = kill_at(verb, key)(lake)
    with pytest.raises(OutcomeUnknown):
        Extraction(Journal(line, Watermark), lake.held, script).turn(RUN)
    assert lake.state().chain.seq == 0

    turn = lake.extraction(script).turn(RUN)

    assert turn.state is State.DONE
    assert script.proposed == plans
    assert lake.state().chain.seq == 1
    assert lake.state().chain.tally.rows == 3


def test_a_plan_that_is_there_is_carried_out_and_not_made_again() -> None:
    lake = Lake()
    lake.chain.seal(make_plan(draft=upto(at(5, 5))(lake.state())))
    script = Script(drafts=[upto(at(1, 1))])

    lake.extraction(script).turn(RUN)

    assert script.proposed == 0
    assert lake.state().chain.cursor == at(5, 5)


def test_a_link_that_is_there_is_adopted_without_reading_the_source() -> None:
    lake = Lake()
    plan = lake.chain.seal(make_plan(draft=upto(at(5, 5))(lake.state())))
    filled = Filled(rows=8, files=("data/x.parquet",))
    link = lake.chain.close(Link.done(plan, filled, previous=None, nonce="other", epoch=1, at=NOON))
    script = Script(drafts=[upto(at(1, 1))])

    turn = lake.extraction(script).turn(RUN)

    assert turn.link == link
    assert script.filled == []
    assert lake.state().chain.tally.rows == 8


def test_who_comes_second_at_a_link_drops_its_own_files_only() -> None:
    lake = Lake()
    theirs = ("data/theirs.parquet", "data/1-1/0-1.parquet")

    @dataclass
    class Overtaken(Script):
        def fill(self, plan: Plan) -> Filled:
            filled = super().fill(plan)
            other = Filled(rows=8, files=theirs)
            lake.chain.close(Link.done(plan, other, previous=None, nonce="other", epoch=1, at=NOON))
            return replace(filled, files=(*filled.files, "data/mine.parquet"))

    script = Overtaken(drafts=[upto(at(1, 1))])

    turn = lake.extraction(script).turn(RUN)

    assert turn.link is not None
    assert turn.link.files == theirs
    assert script.dropped == ["data/mine.parquet"]


def test_a_plan_whose_world_is_gone_is_abandoned_and_planned_anew() -> None:
    lake = Lake()
    lake.chain.seal(make_plan(draft=upto(at(5, 5))(lake.state())))
    script = Script(drafts=[lambda state: _at_home(state, "server-2")], identity="server-2")
    extraction = lake.extraction(script)

    abandoned, done = extraction.turn(RUN), extraction.turn(RUN)

    assert (abandoned.state, done.state) == (State.ABANDONED, State.DONE)
    link = lake.chain.required(FIRST)
    assert (link.kind, link.files, link.high) == (Kind.ABANDONED, (), START)
    assert lake.chain.required(BatchId(1, 2)).previous == link.digest
    entries = [lake.journal.entry(ORDERS.stem, revision) for revision in (2, 3)]
    assert [entry.note.change for entry in entries if entry] == [Change.ABANDON, Change.EXTRACT]
    assert (lake.state().chain.seq, lake.state().chain.cursor) == (2, at(1, 1))


def _at_home(state: Watermark, identity: str) -> Draft:
    draft = upto(at(1, 1))(state)
    return replace(draft, world=replace(draft.world, source_identity=identity))


def test_a_plan_made_for_another_mark_is_abandoned() -> None:
    lake = Lake()
    world = World(mark=at(9), source_identity="server-1", schema="s1")
    lake.chain.seal(make_plan(draft=Draft(kind=Kind.REPAIR, world=world, high=at(9))))

    turn = lake.extraction(Script()).turn(RUN)

    assert turn.state is State.ABANDONED
    assert lake.state().chain.cursor == START


def test_abandonment_and_link_exclude_each_other() -> None:
    lake = Lake()
    plan = lake.chain.seal(make_plan(draft=upto(at(5, 5))(lake.state())))
    common = {"previous": None, "epoch": 1, "at": NOON}

    abandoned = lake.chain.close(Link.abandoned(plan, "gone", mark=START, nonce="a", **common))  # type: ignore[arg-type]
    late = lake.chain.close(Link.done(plan, Filled(rows=1, files=("x",)), nonce="b", **common))  # type: ignore[arg-type]

    assert late == abandoned


def test_the_first_pass_moves_the_cursor_with_its_last_chunk_only() -> None:
    lake = Lake()
    horizon = Cursor.of(NOON)
    script = Script(drafts=[a_chunk(10, horizon=horizon), a_chunk(20, horizon=horizon, done=True)])
    extraction = lake.extraction(script)

    extraction.turn(RUN)
    halfway = lake.state().chain
    extraction.turn(RUN)

    assert (halfway.cursor, halfway.seq) == (START, 1)
    assert halfway.snapshot is not None
    assert halfway.snapshot.reached == Cursor.of(10)
    assert lake.state().chain.cursor == horizon


def test_the_horizon_of_the_first_pass_is_fixed_once() -> None:
    lake = Lake()
    script = Script(drafts=[a_chunk(10, horizon=at(0)), a_chunk(20, horizon=at(1), done=True)])
    extraction = lake.extraction(script)
    extraction.turn(RUN)

    with pytest.raises(Exception, match="its first pass began with"):
        extraction.turn(RUN)

    assert lake.state().chain.seq == 1


def test_a_stage_that_was_taken_over_writes_nothing_more() -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 1)), upto(at(1, 1))])
    zombie = lake.extraction(script)
    lake.taken_over()

    with pytest.raises(Fenced):
        zombie.turn(RUN)

    assert lake.state().chain.seq == 0


def test_a_zombie_that_wakes_before_its_entry_moves_nothing() -> None:
    lake = Lake()
    taken: list[Held] = []

    @dataclass
    class Slow(Script):
        def fill(self, plan: Plan) -> Filled:
            taken.append(lake.taken_over()[1])
            return super().fill(plan)

    with pytest.raises(Fenced):
        lake.extraction(Slow(drafts=[upto(at(1, 1))])).turn(RUN)
    assert lake.state().chain.seq == 0

    turn = lake.extraction(Script(), taken[0]).turn(RUN)

    assert turn.state is State.DONE
    assert lake.state().chain.seq == 1


def test_a_reset_during_a_turn_wins_and_the_batch_is_left_behind() -> None:
    lake = Lake()

    @dataclass
    class Interrupted(Script):
        def fill(self, plan: Plan) -> Filled:
            Operator(journal=lake.journal, who="ann", why="again").reset_extracted(ORDERS)
            return super().fill(plan)

    lake.extraction(Interrupted(drafts=[upto(at(1, 1))])).turn(RUN)

    half = lake.state().chain
    assert (half.generation, half.seq, half.cursor, half.closed) == (2, 0, START, {1: 0})
    assert not half.holds(FIRST)


def test_a_link_that_does_not_follow_is_refused() -> None:
    lake = Lake()
    plan = lake.chain.seal(make_plan(draft=upto(at(5, 5))(lake.state())))
    lake.chain.close(Link.done(plan, Filled(rows=0, files=()), previous="sha256:other", nonce="x", epoch=1, at=NOON))

    with pytest.raises(ChainBroken):
        lake.extraction(Script()).turn(RUN)

    assert lake.state().chain.seq == 0


def test_a_failure_is_an_entry_and_counts_attempts() -> None:
    lake = Lake()
    extraction = lake.extraction(Script(drafts=[upto(at(1, 1))]))

    for _ in range(3):
        extraction.fail("source is down", retry_in=lambda n: Failure(message="down", attempt=n, at=NOON, next_try=None))

    state = lake.state()
    assert state.failures[Stage.EXTRACT].attempt == 3
    assert state.chain.cursor == START
    extraction.turn(RUN)
    assert Stage.EXTRACT not in lake.state().failures


def test_counts_of_a_run_begin_anew_and_those_of_the_life_go_on() -> None:
    lake = Lake()
    script = Script(drafts=[upto(at(1, 1)), upto(at(2, 2)), upto(at(3, 3))])
    extraction = lake.extraction(script)
    for run in ("r1", "r1", "r2"):
        extraction.turn(Run(id=run, seconds=0.5))

    tally = lake.state().chain.tally
    assert (tally.run, tally.run_rows, tally.rows, tally.batches, tally.milliseconds) == ("r2", 3, 9, 3, 1500)


def test_the_time_that_a_turn_takes_is_counted() -> None:
    lake = Lake()

    class Slow(Script):
        def fill(self, plan: Plan) -> Filled:
            lake.clock.advance(2.0)
            return super().fill(plan)

    lake.extraction(Slow(drafts=[upto(at(1, 1))])).turn(Run(id="r1", seconds=0.5))

    assert lake.state().chain.tally.milliseconds == 2500


def test_a_link_that_is_gone_is_named() -> None:
    lake = Lake()
    extract(lake.journal, lake.held, at(1, 1))

    with pytest.raises(StateMissing, match="is a link of the chain"):
        lake.chain.required(BatchId(1, 2))


def test_a_replay_of_a_replay_ranks_by_the_first_reading() -> None:
    lake = Lake()
    extract(lake.journal, lake.held, at(1, 1))

    def replay(of: BatchId) -> Callable[[Watermark], Draft]:
        def draft(state: Watermark) -> Draft:
            world = World(mark=state.chain.cursor, source_identity="server-1", schema="s1")
            return Draft(kind=Kind.REPLAY, world=world, high=world.mark, origin=lake.chain.origin_of(of))

        return draft

    extraction = lake.extraction(Script(drafts=[replay(BatchId(1, 1)), replay(BatchId(1, 2))]))
    extraction.turn(RUN)
    extraction.turn(RUN)

    assert lake.chain.required(BatchId(1, 3)).rank == FIRST


def test_a_stage_held_without_a_watermark_is_named() -> None:
    lake = Lake()
    held = replace(lake.held, stream=type(ORDERS)(source="shop", database="shop", table="other"))

    with pytest.raises(StateMissing, match="has no watermark"):
        lake.extraction(Script(), held).turn(RUN)


def proven(high: Cursor, *, so: bool) -> Callable[[Watermark], Draft]:
    return lambda state: replace(upto(high)(state), proven=so)


def still(kind: Kind) -> Callable[[Watermark], Draft]:
    def draft(state: Watermark) -> Draft:
        world = World(mark=state.chain.cursor, source_identity="server-1", schema="s1")
        return Draft(kind=kind, world=world, high=world.mark)

    return draft


@pytest.mark.parametrize(
    ("drafts", "expected"),
    [
        ([proven(at(1, 1), so=True)], [True]),
        ([proven(at(1, 1), so=True), proven(at(2, 2), so=False), proven(at(3, 3), so=True)], [True, False, False]),
        ([proven(at(1, 1), so=True), still(Kind.AHEAD), still(Kind.REPAIR)], [True, True, True]),
        ([still(Kind.REPAIR), proven(at(1, 1), so=True)], [False, True]),
    ],
)
def test_a_mark_is_proven_when_all_below_it_is(
    drafts: list[Callable[[Watermark], Draft]], expected: list[bool]
) -> None:
    lake = Lake()
    extraction = lake.extraction(Script(drafts=list(drafts)))

    found: list[bool] = []
    for _ in drafts:
        extraction.turn(RUN)
        found.append(lake.state().chain.proven)

    assert found == expected


def test_an_abandoned_plan_does_not_say_which_server_was_read() -> None:
    lake = Lake()
    extract(lake.journal, lake.held, at(1, 1))
    draft = _at_home(lake.state(), "server-2")
    lake.chain.seal(
        make_plan("1-2", replace(draft, world=replace(draft.world, mark=at(1, 1)), windows=(), kind=Kind.REPAIR))
    )

    lake.extraction(Script(identity="server-3")).turn(RUN)

    assert lake.state().chain.source_identity == "server-1"
